"""Commands of maghub as a user types them, run in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from maghub.cli import main
from maghub.cli.app import app
from maghub.errors import MaghubError


class Done(NamedTuple):
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def line(self) -> str:
        """The one line on standard error."""
        assert "Traceback" not in self.out + self.err
        (line,) = self.err.strip().splitlines()
        return line


Run = Callable[..., Done]


def runner(group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``maghub GROUP ...`` through ``main``, errors and exit codes included."""

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["maghub", group, *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Done(code, *capsys.readouterr())

    return call


def invoke(*arguments: object) -> str:
    """What a command that succeeds prints."""
    result = CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def fails(*arguments: object) -> str:
    """The line of the error that a command raises."""
    with pytest.raises(MaghubError) as caught:
        CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)
    return caught.value.line()
