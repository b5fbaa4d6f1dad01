"""The command line: ``maghub``. Exit codes: 0 ok, 1 failed check or error, 2 wrong usage."""

from maghub.cli.app import app, main

__all__ = ["app", "main"]
