"""Encoders and the run that turns a published folder's text and images into embedding configs."""

from maghub.encoding.run import encode

__all__ = ["encode"]
