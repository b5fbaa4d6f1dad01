"""Everything that can go wrong with the Hub, as errors of one line that hold no token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import get_token
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    RevisionResolutionError,
)

from maghub.errors import MaghubError
from maghub.files import os_errors

TOKEN = "run: hf auth login, or set HF_TOKEN, with a token that may write there"
_NETWORK = "check the network (and HF_ENDPOINT, HF_HUB_OFFLINE) and run it again"
_BUSY = "it was tried several times: wait a while and run it again"
_XET = "run it again; if Xet is at fault, set HF_HUB_DISABLE_XET=1"
_CACHE = "; HF_HOME says where the cache is"


class HubError(MaghubError):
    """A refusal of the Hub, or no answer.

    Attributes:
        status: The HTTP status; None where there was no answer.
        missing: Whether the repo does not exist (or may not be seen).
    """

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        fix: str | None = None,
        status: int | None = None,
        missing: bool = False,
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.status, self.missing = status, missing

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status is None or self.status in (408, 429) or self.status >= 500

    @property
    def unreachable(self) -> bool:
        """Whether there was no answer at all."""
        return self.status is None


def _clean(text: str) -> str:
    """One short line without anything secret."""
    if token := get_token():
        text = text.replace(token, "***")
    return re.sub(r"\bhf_\w+", "***", " ".join(text.split()))[:300].rstrip(".")


def _said(error: HfHubHTTPError) -> str:
    """What the server gave as a reason."""
    return _clean(error.server_message or f"HTTP {error.response.status_code}")


def _http_error(error: HfHubHTTPError, where: str) -> HubError:
    """The one line for an answer with an error status."""
    status = error.response.status_code
    if isinstance(error, GatedRepoError):
        fix = "ask for access on the page of the dataset, then run: hf auth login"
        return HubError("is gated and you have no access", where=where, fix=fix, status=status)
    if isinstance(error, RevisionNotFoundError):
        fix = "give a branch, a tag or a commit that exists"
        return HubError("has no such revision", where=where, fix=fix, status=status)
    if isinstance(error, RemoteEntryNotFoundError):
        path = str(error.response.url).partition("/resolve/")[2].partition("/")[2]
        return HubError(f"has no file {path or ''}".rstrip(), where=where, status=status)
    if isinstance(error, RepositoryNotFoundError) or (status == 401 and get_token() is None):
        what = "there is no such dataset, or it is private"
        what += " (you have no token)" if get_token() is None else " and your token may not see it"
        fix = f"check the name; if it is private, {TOKEN}"
        return HubError(what, where=where, fix=fix, status=status, missing=True)
    if status in (401, 403):
        what = f"your token may not do this ({_said(error)})"
        return HubError(what, where=where, fix=TOKEN, status=status)
    if status == 412:
        what = "somebody else committed at the same time"
        return HubError(what, where=where, fix="run it again", status=status)
    what = f"the Hub answered: {_said(error)}"
    busy = status == 429 or status >= 500
    return HubError(what, where=where, fix=_BUSY if busy else None, status=status)


def _translated(error: BaseException, where: str) -> MaghubError | None:
    """The one-line error for whatever the client raised; None where it is none of its own."""
    if isinstance(error, HfHubHTTPError):
        return _http_error(error, where)
    if isinstance(error, HFValidationError):
        return MaghubError("is no name of a Hub repo", where=where, fix="give ORG/NAME")
    offline = (OfflineModeIsEnabled, RevisionResolutionError, LocalEntryNotFoundError)
    if isinstance(error, offline):
        what = "is not in the cache and the Hub cannot be reached"
        return HubError(what, where=where, fix=_NETWORK)
    if isinstance(error, HTTPError):
        what = f"the Hub cannot be reached ({type(error).__name__})"
        return HubError(what, where=where, fix=_NETWORK)
    if isinstance(error, ConnectionError):  # what the Xet client raises
        what = f"the connection failed ({_clean(str(error))})"
        return HubError(what, where=where, fix=_XET)
    if isinstance(error, RuntimeError) and error.__cause__ is not None:
        return _translated(error.__cause__, where)
    if isinstance(error, ValueError) and "metadata in README.md" in str(error):
        what = f"the Hub refuses the card ({_clean(str(error))})"
        return MaghubError(what, where=where, fix="correct card.md and render it again")
    if isinstance(error, ValueError) and "LFS batch" in str(error):
        return HubError("the Hub refuses the upload of a file", where=where, status=422)
    return None


@contextmanager
def hub_errors(where: str) -> Iterator[None]:
    """Turn what the client raises inside the block into a one-line error.

    Nothing behind it is shown: what the client raises may repeat what the Hub said.
    """
    found: MaghubError | None = None
    try:
        with os_errors(where):
            try:
                yield
            except MaghubError:
                raise
            except Exception as error:
                found = _translated(error, where)
                if found is None:
                    raise
    except MaghubError as error:
        if isinstance(error.__cause__, OSError):
            fix = (error.fix or "check the disk") + _CACHE
            raise MaghubError(error.what, where=error.where, fix=fix) from None
        raise
    if found is not None:
        raise found from None
