"""Builders: one module per upstream family, raw files in, tables out."""
