"""Reference models, one file each; found by name through the entry points ``maghub.models``."""
