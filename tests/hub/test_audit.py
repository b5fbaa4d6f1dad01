"""``maghub audit`` of a repo on the Hub says what it says of the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from maghub.audit import run, write_html
from tests.hub.server import HubServer

pytestmark = pytest.mark.integration


def test_a_repo_is_audited_like_a_folder(client: HubServer, toy: Path, tmp_path: Path) -> None:
    client.put_folder("maghub/toy", toy)
    report = run("maghub/toy")
    assert report == run(toy)
    write_html(report, "maghub/toy", tmp_path / "hub.html")
    write_html(report, toy, tmp_path / "local.html")
    page = (tmp_path / "hub.html").read_text("utf-8")
    assert page == (tmp_path / "local.html").read_text("utf-8")
    assert "data:image/png" in page
