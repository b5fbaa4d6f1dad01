"""Pictures of an archive that are found by a key made from their names, in any process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from maghub.builders._formats.archives import Archive, Index


@dataclass
class KeyedPictures:
    """Upstream bytes of each row's picture; each process opens the archive for itself.

    Attributes:
        open: Opens the archive (picklable).
        key: Makes the key from a name.
        suffixes: Of the files that are pictures.
        keys: The key of each row's picture.
    """

    open: Callable[[], Archive]
    key: Callable[[str], str]
    suffixes: Sequence[str]
    keys: Sequence[str] = ()

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("open", "key", "suffixes", "keys")}

    @cached_property
    def index(self) -> Index:
        """The pictures by key; a damaged archive shows here."""
        return self.open().index(self.key, self.suffixes)

    def __call__(self, row: int) -> bytes | None:
        """The bytes of a row's picture (the first by name), or None where there is none."""
        return self.index.read(self.keys[row])
