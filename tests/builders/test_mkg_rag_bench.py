"""MKG-RAG-Bench from the released files: every quirk of theirs, pictures, bad input."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import PIL.Image
import pyarrow.parquet as pq
import pytest
from upstream_mkg_rag import (
    GENERAL,
    MEDICAL,
    Graph,
    Released,
    medical_graph,
    small_graph,
    write_mkg_rag,
)

import maghub
from maghub import registry
from maghub.builders.mkg_rag_bench import MkgRagBenchG, MkgRagBenchM
from maghub.mkg.augment import OPERATIONS, plan
from maghub.mkg.benchmark import KGRag
from maghub.spec import FolderSpec
from tests.helpers.built import check_builder_route, check_valid, check_workers, columns, refusal
from tests.helpers.graphs import png
from tests.helpers.real import real
from tests.helpers.stand_in import StandIn

NAME = {GENERAL: "mkg-rag-bench-g", MEDICAL: "mkg-rag-bench-m"}
GRAPHS = {GENERAL: small_graph, MEDICAL: medical_graph}
SPLITS = ("train", "validation", "test")


class Built:
    """A build and what went into it."""

    def __init__(self, half: str, tmp: Path, pictures: bool = False) -> None:
        self.half, self.raw, self.graph = half, tmp / "raw", GRAPHS[half]()
        self.made: Released = write_mkg_rag(self.raw, self.graph, half)
        if pictures:
            write_pictures(self.raw, self.graph, half)
        self.folder = tmp / "out"
        self.spec: FolderSpec = maghub.build(NAME[half], self.folder, self.raw)

    def rows(self, config: str) -> dict[str, list]:
        return columns(self.folder, config)


def write_pictures(raw: Path, graph: Graph, half: str) -> None:
    """The user's folder of pictures: MARS/images/Qid/name, or PhysioNet's tree."""
    number = 0
    for key, names in graph.pictures.items():
        for name in names:
            path = raw / name if half == MEDICAL else raw / "MARS/images" / key / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(number))
            number += 1


@pytest.fixture(scope="module", params=[GENERAL, MEDICAL])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(request.param, tmp_path_factory.mktemp("mkg-rag"))


@pytest.fixture(scope="module", params=[GENERAL, MEDICAL])
def pictured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(request.param, tmp_path_factory.mktemp("mkg-rag-pictures"), pictures=True)


# -- what comes out --------------------------------------------------------------------------


def test_split_folders_valid_or_val_become_splits(built: Built) -> None:
    check_valid(built.folder)
    for split in SPLITS:
        path = built.folder / f"queries/{split}-00000-of-00001.parquet"
        assert pq.read_table(path)["id"].to_pylist() == built.made.splits[split]
    rules = {rule.name: rule.origin for rule in built.spec.query_splits}
    assert rules == {"released": "upstream", "group_split": "maghub"}
    agree = built.spec.notes["split rule"]["queries"]
    assert agree["in another"] == {"count": 0}
    assert agree["in the split that sha1 gives"] == {"count": len(built.made.forms)}


def test_ids_of_both_modalities_overlap_upstream_and_not_here(built: Built) -> None:
    numbers = [key.split("-")[1] for key in built.made.forms]
    assert len(set(numbers)) < len(numbers)
    assert len(set(built.rows("queries")["id"])) == len(numbers)
    corpus = built.rows("corpus")
    assert dict(zip(corpus["id"], corpus["text"], strict=True)) == built.made.texts
    shown = [key.startswith("mm-") for key in corpus["id"]]
    assert corpus["is_multimodal"] == shown
    assert [path is not None for path in corpus["image_path"]] == shown


def test_qrels_and_answers(built: Built) -> None:
    qrels = built.rows("qrels")
    found: dict[str, list[str]] = {}
    for query, document in zip(qrels["query-id"], qrels["corpus-id"], strict=True):
        found.setdefault(query, []).append(document)
    assert found == built.made.qrels
    assert set(qrels["score"]) == {1}
    qa = built.rows("qa")
    for key, answers in zip(qa["query-id"], qa["answers"], strict=True):
        assert answers == list(dict.fromkeys(built.made.answers[key]))


def test_masked_parts_are_null(built: Built) -> None:
    queries = built.rows("queries")
    for key, head, rel, tail, masked in zip(
        *(queries[c] for c in ("id", "head_id", "rel_id", "tail_id", "masked")), strict=True
    ):
        assert (head, rel, tail) == built.made.forms[key]
        assert masked == (0 if tail is None else 1)
    kinds = (
        {"mask_tail", "mask_relation"} if built.half == GENERAL else {"head_relation", "head_tail"}
    )
    assert set(queries["group_kind"]) == kinds
    assert set(queries["writer"]) == {"upstream"}
    counted = built.spec.notes["relevant triplets"]["queries"]
    assert counted["as many as the query says"] == {"count": len(queries["id"])}


def test_leaks_are_in_the_card(built: Built) -> None:
    """Counted here from the released splits alone."""
    made = built.made
    train = {made.forms[key] for key in made.splits["train"]}
    leaked = sum(made.forms[key] in train for key in made.splits["test"])
    assert leaked > 0
    count = built.spec.notes["leaks"]["released"]["test"]
    assert count["masked form in train"] == leaked
    assert count["queries"] == len(made.splits["test"])
    assert built.spec.notes["leaks"]["group_split"]["test"]["masked form in train"] == 0
    readme = (built.folder / "README.md").read_text()
    assert f"Under `released` {leaked} of {count['queries']} test questions" in readme
    assert "under `group_split` 0 of" in readme


def test_group_split_tears_no_masked_form(built: Built) -> None:
    sides: dict[object, set[str]] = {}
    for split in SPLITS:
        path = built.folder / f"group-queries/{split}-00000-of-00001.parquet"
        for key in pq.read_table(path)["id"].to_pylist() if path.exists() else ():
            sides.setdefault(built.made.forms[key], set()).add(split)
    assert len(sides) == len(set(built.made.forms.values()))
    assert all(len(found) == 1 for found in sides.values())


def test_missing_corpus_copies_are_counted(built: Built) -> None:
    missing = 2 if built.half == GENERAL else 0
    assert built.spec.notes["met in the released files"]["files"]["corpus copies missing"] == {
        "count": missing
    }


def test_an_entity_may_be_called_null(tmp_path: Path) -> None:
    out = Built(GENERAL, tmp_path)
    entities = out.rows("entities")
    assert dict(zip(entities["id"], entities["name"], strict=True))["Q3"] == "null"


def test_picture_paths_lose_their_leading_slash(built: Built) -> None:
    paths = [path for path in built.rows("corpus")["image_path"] if path]
    assert not [path for path in paths if path.startswith("/")]
    met = built.spec.notes["met in the released files"]["files"]
    slashes = met.get("picture paths with a leading slash", {"count": 0})["count"]
    assert slashes == (len(paths) if built.half == MEDICAL else 0)
    if built.half == GENERAL:
        assert "Q4/0.Caf%C3%A9%204.jpg.png" in paths  # as upstream has it: no picture to look for


# -- pictures --------------------------------------------------------------------------------


def test_pictures_are_found_however_they_are_escaped(pictured: Built) -> None:
    check_valid(pictured.folder)
    corpus = pictured.rows("corpus")
    for path, image in zip(corpus["image_path"], corpus["image"], strict=True):
        assert (image is not None) == (path is not None)
        if path is not None:
            place = "" if pictured.half == MEDICAL else "MARS/images/"
            assert image["bytes"] == (pictured.raw / f"{place}{path}").read_bytes()
            assert unquote(path) == path  # the name on disk
    entities = pictured.rows("entities")
    for key, paths, images in zip(
        entities["id"], entities["image_paths"], entities["images"], strict=True
    ):
        assert len(paths) == len(images) == len(pictured.graph.pictures.get(key, ()))


def test_question_pictures_are_augmented(pictured: Built) -> None:
    """None of them is the picture in the corpus; a swap starts from another one of the head."""
    queries = pictured.rows("queries")
    shown = {image["bytes"] for image in pictured.rows("corpus")["image"] if image}
    asked = [
        (key, path, image)
        for key, path, image in zip(
            queries["id"], queries["image_path"], queries["image"], strict=True
        )
        if image
    ]
    assert [key for key, _, _ in asked] == [k for k in queries["id"] if k.startswith("mm-")]
    for key, path, image in asked:
        assert image["bytes"] not in shown
        assert PIL.Image.open(io.BytesIO(image["bytes"])).format == "JPEG"
        split = next(name for name in SPLITS if key in pictured.made.splits[name])
        assert path == f"questions/{split}/{key}"
    several = 2 if pictured.half == GENERAL else 1
    drawn = {
        plan(several, seed=0, setting="benchmark", split=path.split("/")[1], qid=key).operation
        for key, path, _ in asked
    }
    assert drawn == set(OPERATIONS[0 if several > 1 else 1 :])


def test_pictures_that_are_not_there_are_null_and_counted(tmp_path: Path) -> None:
    raw, graph = tmp_path / "raw", small_graph()
    write_mkg_rag(raw, graph)
    write_pictures(raw, graph, GENERAL)
    for name in graph.pictures["Q5"]:
        (raw / "MARS/images/Q5" / name).unlink()
    spec = maghub.build("mkg-rag-bench-g", tmp_path / "out", raw)
    check_valid(tmp_path / "out")
    assert spec.images["missing"] > 0
    corpus = columns(tmp_path / "out", "corpus")
    lost = [
        path
        for path, image in zip(corpus["image_path"], corpus["image"], strict=True)
        if path and not image
    ]
    assert set(lost) == {"Q5/00.jpg"}


def test_workers_do_not_change_a_byte(tmp_path: Path) -> None:
    write_mkg_rag(tmp_path / "raw", small_graph())
    write_pictures(tmp_path / "raw", small_graph(), GENERAL)
    check_workers("mkg-rag-bench-g", tmp_path / "raw", tmp_path / "out")


# -- other ways in ---------------------------------------------------------------------------


@pytest.mark.parametrize(("half", "builder"), [(GENERAL, MkgRagBenchG), (MEDICAL, MkgRagBenchM)])
def test_the_datasets_route_gives_the_same_rows(half: str, builder: type, tmp_path: Path) -> None:
    out = Built(half, tmp_path)
    configs = ("queries", "qrels", "qa", "group-queries")
    check_builder_route(builder, out.folder, tmp_path, out.raw, configs)
    assert builder.SOURCE.configs == tuple(config.name for config in out.spec.configs)


def test_the_folder_itself_may_be_given(tmp_path: Path) -> None:
    made = write_mkg_rag(tmp_path / "raw", small_graph())
    one = maghub.build("mkg-rag-bench-g", tmp_path / "one", tmp_path / "raw")
    two = maghub.build("mkg-rag-bench-g", tmp_path / "two", made.folder)
    assert one == two


def test_descriptions_come_from_markg(tmp_path: Path) -> None:
    write_mkg_rag(tmp_path / "raw", small_graph())
    (tmp_path / "raw/MarKG").mkdir()
    (tmp_path / "raw/MarKG/entity2textlong.txt").write_text("Q1\tthe first thing\nQ99\tother\n")
    (tmp_path / "raw/MarKG/relation2textlong.txt").write_text("P1\tholds it\n")
    maghub.build("mkg-rag-bench-g", tmp_path / "out", tmp_path / "raw")
    entities, relations = (columns(tmp_path / "out", name) for name in ("entities", "relations"))
    assert (
        dict(zip(entities["id"], entities["description"], strict=True))["Q1"] == "the first thing"
    )
    assert relations["description"] == ["holds it", "", ""]
    (tmp_path / "raw/MarKG/entity2textlong.txt").write_text("Q1 the first thing\n")
    line = refusal("mkg-rag-bench-g", tmp_path / "raw", tmp_path / "other")
    assert "entity2textlong.txt, row 1: is not an id, a tab and a text" in line


def test_nothing_of_it_may_be_pushed() -> None:
    for name in NAME.values():
        card = registry.card(name).spec
        assert set(card.policy.model_dump().values()) == {"local"}
        assert card.status == "local-copy-needed"


def test_the_real_markg_in_the_released_format(tmp_path: Path) -> None:
    """4,000 of the 33,301 real triplets, some with pictures' names, through files and back."""
    raw = real("markg_mars") / "MarKG"
    names = {
        kind: dict(line.split("\t") for line in (raw / f"{kind}2text.txt").read_text().splitlines())
        for kind in ("entity", "relation")
    }
    rows = (raw / "wiki_tuple_ids.txt").read_text().splitlines()
    triplets = [tuple(row.split("\t")) for row in dict.fromkeys(rows)]
    pictures = {head: ["0.jpg"] for head, _, _ in triplets[:500]}
    graph = Graph(names["entity"], names["relation"], triplets[:4_000], pictures)  # type: ignore[arg-type]
    made = write_mkg_rag(tmp_path / "raw", graph)
    spec = maghub.build("mkg-rag-bench-g", tmp_path / "out", tmp_path / "raw")
    check_valid(tmp_path / "out")
    rag = maghub.load(tmp_path / "out")
    assert isinstance(rag, KGRag)
    assert len(rag.corpus) == 4_000
    assert len(rag.queries()) == len(made.forms)
    qa = rag.qa()
    for key, answers in zip(qa["query-id"].to_pylist(), qa["answers"].to_pylist(), strict=True):
        assert set(answers) == set(made.answers[key])
    assert spec.notes["leaks"]["group_split"]["test"]["masked form in train"] == 0
    assert spec.notes["leaks"]["released"]["test"]["masked form in train"] > 500


def test_snippets_of_the_card_run(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are in the README, with the path of the folder for its name."""
    pytest.importorskip("mteb")
    encoder = "clip-vit-base-patch32"
    folder = Path(shutil.copytree(built.folder, tmp_path / "copy"))

    class Named(StandIn):
        spec = StandIn.spec.model_copy(update={"name": encoder})

    monkeypatch.setattr(registry, "get", lambda group, name: Named)
    maghub.encode(folder, encoder)
    text = (folder / "README.md").read_text()
    found: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(re.sub(rf'"(maghub/)?{built.spec.name}"', repr(str(folder)), snippet), found)
    test = len(built.made.splits["test"])
    assert len(found["data"]["queries"]) == len(found["rows"]["test"]) == test  # type: ignore[index]
    assert len(found["safe"]["relevant_docs"]) == built.spec.config("group-queries").splits["test"]  # type: ignore[index]
    assert set(found["nearest"].to_pylist()) <= set(built.made.texts.values())  # type: ignore[attr-defined]
    info = maghub.info(str(folder))
    assert [rule["name"] for rule in info["query_splits"]] == ["released", "group_split"]
