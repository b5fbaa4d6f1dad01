"""Low-level readers of upstream file formats: safe on foreign bytes, streaming, one error type.

Nothing here knows a dataset. Every reader takes a path, checks every length it finds against the
size of the file before it allocates anything, never executes what it reads, and raises
:class:`maghub.errors.MaghubError` with file and byte, or file, column and row, for what is wrong.
"""
