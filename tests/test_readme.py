"""Every command and snippet of the README runs, in order, in one folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.integration
@pytest.mark.timeout(1200)
def test_readme_runs_from_top_to_bottom(tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    assert {language for language, _ in blocks} == {"", "python", "bash"}
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    program = []
    for language, code in blocks:
        if language == "python":
            program.append(code)
        elif language == "bash":
            for line in filter(None, map(str.strip, code.splitlines())):
                assert line.startswith("maghub "), line
                command = shlex.split(line, comments=True)
                program.append(f"import subprocess; subprocess.run({command}, check=True)")
    script = tmp_path / "readme.py"
    script.write_text("\n".join(program), "utf-8")
    done = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "emoji" / "maghub.json").is_file()


def test_readme_starts_with_the_two_commands_and_make_knows_them() -> None:
    first = BLOCK.search((ROOT / "README.md").read_text("utf-8"))
    assert first is not None
    commands = [line.split("#")[0].strip() for line in first[2].splitlines()]
    assert commands == ["make demo", "make test"]
    for command in commands:
        subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, check=True, capture_output=True)
