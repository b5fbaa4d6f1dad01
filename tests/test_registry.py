"""Names are found through entry points, and importing maghub stays light."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import maghub
from maghub import registry
from maghub.building import build
from maghub.errors import MaghubError, nearest
from maghub.loading import load, resolve, sample_path

GROUPS: tuple[registry.Group, ...] = (
    "builders",
    "importers",
    "encoders",
    "models",
    "tasks",
    "retrievers",
)
HEAVY = (
    "torch",
    "transformers",
    "ray",
    "torch_geometric",
    "timm",
    "sklearn",
    "networkx",
    "datasets",
)


def imported_by(code: str) -> set[str]:
    """Which of the heavy packages a fresh interpreter holds after running ``code``."""
    script = f"import sys; {code}; print(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


@pytest.mark.integration
def test_importing_maghub_pulls_in_nothing_heavy() -> None:
    assert imported_by("import maghub") == set()
    assert imported_by("import torch") >= {"torch"}  # the probe itself works


@pytest.mark.integration
def test_loading_and_building_need_no_torch() -> None:
    code = "import maghub; maghub.load('emoji').edge_index; maghub.build; maghub.validate"
    assert not imported_by(code) & {"torch", "transformers", "ray", "torch_geometric", "timm"}


@pytest.mark.parametrize("name", [name for name in maghub.__all__ if name != "__version__"])
def test_every_public_name_is_there_and_shadows_no_module(name: str) -> None:
    value = getattr(maghub, name)
    assert callable(value)
    assert importlib.util.find_spec(f"maghub.{name}") is None or name == "MAG"
    assert name in dir(maghub)


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = maghub.lod


def test_version_is_the_installed_one() -> None:
    assert maghub.__version__ == importlib.metadata.version("maghub")


@pytest.mark.parametrize("group", GROUPS)
def test_registered_names_load_and_unknown_ones_get_the_nearest(group: registry.Group) -> None:
    names = registry.names(group)
    assert names == sorted(names)
    for name in names:
        assert callable(registry.get(group, name))
        with pytest.raises(MaghubError, match=name) as caught:
            registry.get(group, name + "x")
        assert str(caught.value).startswith(f"unknown {group[:-1]} '{name}x'. Did you mean ")


def test_what_the_core_ships_is_registered() -> None:
    assert "emoji" in registry.names("builders")
    assert {"all-minilm-l6-v2", "efficientnet-lite0"} <= set(registry.names("encoders"))
    assert {"mlp", "gcn"} <= set(registry.names("models"))


@pytest.mark.parametrize("name", registry.names("builders"))
def test_every_dataset_has_a_valid_card_and_a_consistent_source(name: str) -> None:
    card = registry.card(name)
    source = registry.get("builders", name).SOURCE
    assert card.spec.name == name == source.name
    assert card.spec.version == source.version
    assert card.body.strip()


def test_a_missing_card_and_an_import_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = importlib.metadata.EntryPoint("broken", "no_such_package:Thing", "maghub.models")
    bare = importlib.metadata.EntryPoint("bare", "builtins:dict", "maghub.builders")
    monkeypatch.setattr(registry, "_entries", lambda group: {"broken": entry, "bare": bare})
    with pytest.raises(MaghubError, match="model 'broken' cannot be imported") as caught:
        registry.get("models", "broken")
    assert "no_such_package" in str(caught.value)
    wrong = importlib.metadata.EntryPoint("wrong", "json:Thing", "maghub.models")
    monkeypatch.setattr(registry, "_entries", lambda group: {"wrong": wrong, "bare": bare})
    with pytest.raises(MaghubError, match="model 'wrong' cannot be imported"):
        registry.get("models", "wrong")
    with pytest.raises(MaghubError, match="bare: dataset has no card"):
        registry.card("bare")


def test_a_builder_may_bring_its_own_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.md"
    theirs.write_text(registry.card_path("emoji").read_text("utf-8"), "utf-8")
    builder = type("Theirs", (), {"card_path": str(theirs)})
    monkeypatch.setattr(registry, "_entries", lambda group: {"theirs": object()})
    monkeypatch.setattr(registry, "get", lambda group, name: builder)
    assert registry.card_path("theirs") == theirs
    assert registry.card("theirs").spec.name == "emoji"


@pytest.mark.parametrize(
    ("name", "known", "line"),
    [
        ("emojy", ["emoji", "toys"], "unknown thing 'emojy'. Did you mean emoji?"),
        ("EMOJI", ["emoji"], "unknown thing 'EMOJI'. Did you mean emoji?"),
        ("zzz", ["emoji", "toys"], "unknown thing 'zzz'. Known: emoji, toys"),
        ("zzz", [], "unknown thing 'zzz'. No thing is registered"),
    ],
)
def test_nearest_names(name: str, known: list[str], line: str) -> None:
    assert str(nearest(name, known, kind="thing")) == line


def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(MaghubError, match="emoji") as caught:
        load("emojo")
    assert "Did you mean emoji?" in str(caught.value)
    with pytest.raises(MaghubError, match="emoji"):
        registry.card("emojo")
    with pytest.raises(MaghubError, match="emoji"):
        build("emojo", tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(MaghubError, match="is not a folder"):
        load(tmp_path / "file")
    with pytest.raises(MaghubError, match=r"holds no maghub\.json"):
        load(tmp_path)


def test_a_sample_by_name_and_a_folder_by_path() -> None:
    sample = sample_path("emoji")
    assert sample is not None
    assert resolve("emoji") == resolve(sample) == sample
    assert sample_path("none") is None
    assert load("emoji").spec == load(str(sample)).spec
