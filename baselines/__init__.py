"""Reference models and tasks that read published folders only."""
