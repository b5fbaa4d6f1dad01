"""The retrievers that maghub ships, one file each."""
