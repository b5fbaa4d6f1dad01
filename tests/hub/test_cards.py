"""Rendered cards pass ``DatasetCard.validate`` against the test Hub, which refuses what the Hub's
documentation forbids."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from huggingface_hub import DatasetCard

from maghub import registry
from maghub.errors import MaghubError
from maghub.hub.push import push
from maghub.layout import CARD_FILE
from maghub.loading import sample_path
from maghub.rendering import render_readme
from maghub.spec import read_spec
from tests.hub.cards import findings
from tests.hub.server import HubServer

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("name", registry.names("builders"))
def test_the_card_of_every_registered_dataset_passes_the_hubs_validation(
    client: HubServer, toy: Path, name: str
) -> None:
    spec = read_spec(toy).model_copy(update={"name": name})
    card = DatasetCard(render_readme(registry.card(name), spec), ignore_metadata_errors=False)
    asked: list[str] = []
    client.hook = asked.append
    card.validate()
    assert "POST /api/validate-yaml done" in asked
    assert findings(str(card)) == ([], [])


def test_the_sample_passes_the_hubs_validation(client: HubServer) -> None:
    emoji = sample_path("emoji")
    assert emoji is not None
    DatasetCard.load(emoji / CARD_FILE).validate()
    assert findings((emoji / CARD_FILE).read_text("utf-8")) == ([], [])


BAD = {
    "license: mit": "license: my-own",
    "- en": "- English",
    "split: full": "split: my split",
    "config_name: edges": "config_name: nodes",
    "- 'n<1K'": "- tiny",
    "pretty_name: ": "pretty_name: 7 #",
    "default: true": "default: often",
    "num_examples: 120": "num_examples: many",
}


@pytest.mark.parametrize("good", BAD)
def test_what_the_hub_refuses_is_refused(client: HubServer, toy: Path, good: str) -> None:
    text = (toy / CARD_FILE).read_text("utf-8")
    quoted = good if good in text else good.replace("'", "")
    assert quoted in text, text[:3000]
    broken = text.replace(quoted, BAD[good], 1)
    card = DatasetCard.load(toy / CARD_FILE)
    card.content = broken
    with pytest.raises(ValueError, match="message"):
        card.validate()


def test_a_push_of_a_refused_card_is_one_line(
    client: HubServer, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maghub.rendering.size_category", lambda rows: "tiny")
    from maghub.cards import read_card
    from maghub.writing import write_metadata

    write_metadata(toy, read_card(toy / "card.md"), read_spec(toy))
    with warnings.catch_warnings(), pytest.raises(MaghubError) as caught:
        push(toy, "maghub/toy")
    line = caught.value.line()
    assert "\n" not in line
    assert "size category" in line
