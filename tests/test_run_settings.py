"""``maghub settings``: what a run can be told, against the configurations themselves."""

import itertools
import json
from functools import cache

import pytest

pytest.importorskip("torch_geometric")

from maghub import registry
from maghub.baselines.presets import PRESETS, preset_settings
from maghub.cli.run import parse_settings
from maghub.errors import MaghubError
from maghub.run_settings import RunSettings, Setting, run_settings
from tests.helpers.cli import fails, invoke

UNLIMITED = {"eps"}  # GIN's may have either sign


@cache
def every_pair() -> dict[tuple[str, str], RunSettings]:
    """(model, task) -> its settings, of all that go together."""
    found = {}
    models = [*registry.names("models"), *registry.names("retrievers")]
    for model, task in itertools.product(models, registry.names("tasks")):
        try:
            found[model, task] = run_settings(model, task)
        except MaghubError as error:
            wrong = ("is no retriever", "is a retriever", "is no encoder", "generates nothing")
            if not any(words in error.what for words in wrong):
                raise
    return found


def test_every_model_goes_with_a_task_and_every_task_with_a_model() -> None:
    models, tasks = (set(names) for names in zip(*every_pair(), strict=True))
    assert models == {*registry.names("models"), *registry.names("retrievers")}
    assert tasks == set(registry.names("tasks"))


def test_every_setting_says_what_it_means_and_a_number_has_a_limit() -> None:
    for pair, found in every_pair().items():
        for setting in found.settings:
            assert setting.about, (pair, setting.name)
            unlimited = setting.fits in ("int", "float")
            assert not unlimited or setting.name in UNLIMITED, (pair, setting.name, setting.fits)


def test_what_is_shown_can_be_typed() -> None:
    for (model, task), found in every_pair().items():
        shown = invoke("settings", model, "--task", task, "--json")
        typed = [
            f"{one['name']}={json.dumps(one['value'])}" for one in json.loads(shown)["settings"]
        ]
        again = run_settings(model, task, settings=parse_settings(typed))
        assert again == found


def test_the_presets_shown_are_those_that_a_run_takes() -> None:
    def taken(preset: str, model: str, task: str) -> bool:
        try:
            preset_settings(preset, model, task)
        except MaghubError:
            return False
        return True

    for (model, task), found in every_pair().items():
        if model in registry.names("retrievers"):
            assert found.presets == {}
            continue
        assert set(found.presets) == {name for name in PRESETS if taken(name, model, task)}


def test_a_preset_is_shown_beside_the_defaults() -> None:
    found = {one.name: one for one in run_settings("gat", preset="planetoid").settings}
    assert (found["hidden"].value, found["heads"].value, found["lr"].value) == (8, 8, 0.005)
    assert found["hidden"].default == 256
    assert found["patience"].fits == "int >= 1, or null"
    assert found["activation"].fits == "relu | elu"
    text = invoke("settings", "gat", "--preset", "planetoid")
    assert "gat on node-classification" in text
    assert "clegr-cora" in text
    assert "Number of layers." in text
    assert "None" not in text  # null is what --set reads


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["graphsag"], "unknown model 'graphsag'. Did you mean graphsage"),
        (["gcn", "--task", "node-clasification"], "unknown task 'node-clasification'. Did you"),
        (["gcn", "--preset", "planetoyd"], "unknown preset 'planetoyd'. Did you mean planetoid"),
        (["gcn", "--task", "kg-retrieval"], "gcn is no retriever, which kg-retrieval needs"),
        (["rag-text", "--preset", "openmag"], "kg-retrieval knows no preset"),
    ],
)
def test_unknown_names_are_one_line(given: list[str], line: str) -> None:
    assert line in fails("settings", *given)


@pytest.mark.parametrize("model", registry.names("models"))
def test_no_model_loses_the_limits_of_its_settings(model: str) -> None:
    """A subclass that only changes a default keeps what its base class refuses."""
    task = next(task for name, task in every_pair() if name == model)
    wrong = {"hidden": 0, "layers": 0, "dropout": 1.5, "heads": 0, "lr": 0, "alpha": -1}
    names = {one.name for one in every_pair()[model, task].settings}
    for name in names & set(wrong):
        with pytest.raises(MaghubError, match=f"setting {name}={wrong[name]}"):
            run_settings(model, task, settings={name: wrong[name]})


def test_a_setting_is_one_thing() -> None:
    """Names are unique, so that ``--set`` can mean one only."""
    for found in every_pair().values():
        names = [one.name for one in found.settings]
        assert len(set(names)) == len(names)
        assert all(isinstance(one, Setting) for one in found.settings)
