"""The checks behind ``maghub.validation.validate``, one module per part of a published folder."""
