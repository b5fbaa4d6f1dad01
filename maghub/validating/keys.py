"""Which check compares the rows of an embedding config with its target, by kind of config."""

from __future__ import annotations

from collections.abc import Callable

from maghub.spec import Kind
from maghub.validating.elements import check_elements
from maghub.validating.opened import Opened
from maghub.validating.pictures import check_pictures
from maghub.validating.vectors import check_rows

KEY_CHECKS: dict[Kind, Callable[[Opened, Opened | None], None]] = {
    "embeddings": check_rows,
    "element_embeddings": check_elements,
    "picture_embeddings": check_pictures,
}
