"""builders/TUTORIAL.md runs from top to bottom, and what it pushes is what it built."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from maghub.spec import read_spec
from tests.hub.folders import assert_equal
from tests.hub.server import HubServer

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CARD = "from pathlib import Path; Path('shop/card.md').write_text({!r}, 'utf-8')"
COMMAND = "import subprocess; subprocess.run({!r}, check=True)"


def program() -> str:
    """The blocks as one Python program: commands are run, the card is written."""
    parts = []
    text = (ROOT / "builders" / "TUTORIAL.md").read_text("utf-8").replace("ORG/", "writer/")
    for language, code in BLOCK.findall(text):
        if language == "markdown":
            parts.append(CARD.format(code))
        elif language == "bash":
            maghub = str(Path(sys.executable).with_name("maghub"))
            lines = [shlex.split(line) for line in code.splitlines()]
            assert {line[0] for line in lines} == {"maghub"}
            parts += [COMMAND.format([maghub, *line[1:]]) for line in lines]
        else:
            assert language == "python"
            parts.append(code)
    return "\n".join(parts)


@pytest.mark.integration
def test_the_tutorial_runs_and_pushes_what_it_built(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with HubServer() as hub:
        done = subprocess.run(
            [sys.executable, "-c", program()],
            cwd=place,
            env=hub.env(tmp_path / "home"),
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert hub.repo("writer/shop").private
        assert_equal(hub, "writer/shop", place / "shop-built")
    built, too = (read_spec(place / name) for name in ("shop-built", "shop-too"))
    assert built == too
    assert built.graph is not None
    assert (built.graph.num_nodes, built.graph.num_edges) == (24, 48)
    assert built.notes["columns left out"] == ["supplier"]
    assert "secret" not in done.stdout
    assert "(2, 48) ['chair', 'lamp', 'mug', 'shirt']" in done.stdout
