"""Dataset cards: one Markdown file per dataset, the source of truth for its facts."""
