"""Parts that must not leave this machine do not, whoever asks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import maghub
from maghub import layout
from maghub.building import build
from maghub.cards import PARTS, read_card
from maghub.errors import MaghubError
from maghub.hub.policy import Cleared, clear, decide
from maghub.hub.push import push
from maghub.hub.stripping import columns_of, strip
from maghub.spec import FolderSpec, Policy, read_spec
from maghub.validation import validate
from tests.helpers.folders import EMBEDDINGS
from tests.helpers.reports import lines, one_line
from tests.hub.faults import COMMIT, UPLOAD
from tests.hub.folders import assert_equal, contents, set_policy
from tests.hub.server import HubServer

REPO = "maghub/toy"
pytestmark = pytest.mark.integration


def uploaded(hub: HubServer, tmp_path: Path) -> Path:
    """What readers of the repo get, as a folder."""
    out = tmp_path / "uploaded"
    for path, data in hub.repo(REPO).files().items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_bytes(data or b"")
    return out


def everything(hub: HubServer) -> bytes:
    """All bytes that ever reached the Hub."""
    repos = hub.repos.values()
    return b"".join(data for r in repos for data in (*r.objects.values(), *r.blobs.values()))


def test_what_is_decided_about_a_part() -> None:
    public = dict.fromkeys(PARTS, "public")
    for visibility in ("public", "gated", "private"):
        assert decide(Policy(**public), visibility) == ([], [])
        for part in PARTS:
            local = decide(Policy(**public | {part: "local"}), visibility)
            assert local == (([part], []) if part == "graph" else ([], [part]))
            gated = decide(Policy(**public | {part: "gated"}), visibility)
            assert gated == (([part], []) if visibility == "public" else ([], []))


def test_local_images_are_stripped_and_the_rest_is_valid(
    client: HubServer, toy: Path, tmp_path: Path
) -> None:
    set_policy(toy, images="local")
    before = contents(toy)
    found = push(toy, REPO)
    assert found.stripped == ("images",)
    assert contents(toy) == before, "the folder itself stays as it is"
    assert b"\x89PNG" in b"".join(before.values())
    assert b"\x89PNG" not in everything(client)
    there = uploaded(client, tmp_path)
    assert lines(validate(there)) == []
    spec = read_spec(there)
    assert spec.statistics is not None
    assert (spec.statistics.with_image, spec.images) == (0, {})
    assert "leaves out the images" in (there / layout.CARD_FILE).read_text("utf-8")
    mine, theirs = maghub.load(toy).nodes, maghub.load(there).nodes
    assert theirs["text"][:] == mine["text"][:]
    assert set(theirs["image"][:]) == {None}
    assert mine.features == theirs.features
    client.log.clear()
    assert push(toy, REPO).plan.empty, "the same bytes each time"


def test_local_text_is_stripped_with_every_other_column_of_words(
    client: HubServer, toy: Path, tmp_path: Path
) -> None:
    set_policy(toy, text="local")
    assert push(toy, REPO).stripped == ("text",)
    there = uploaded(client, tmp_path)
    assert lines(validate(there)) == []
    nodes = maghub.load(there).nodes
    assert set(nodes["text"][:]) == {""}
    assert nodes["source_id"][:] == maghub.load(toy).nodes["source_id"][:]
    assert b"firefighter" not in everything(client)


def test_local_embeddings_go_with_their_provenance(
    client: HubServer, toy: Path, tmp_path: Path
) -> None:
    push(toy, REPO)
    assert maghub.load(REPO).spec.has(EMBEDDINGS)
    set_policy(toy, embeddings="local")
    found = push(toy, REPO)
    assert found.stripped == ("embeddings",)
    assert [path.split("/")[0] for path in found.plan.deletes] == [EMBEDDINGS]
    there = uploaded(client, tmp_path)
    assert lines(validate(there)) == []
    assert read_spec(there).encoders == ()
    assert read_card(there / layout.CARD_SOURCE_FILE).spec.policy.embeddings == "local"


def test_all_parts_but_the_graph_can_stay(client: HubServer, toy: Path, tmp_path: Path) -> None:
    set_policy(toy, images="local", text="local", embeddings="local")
    assert push(toy, REPO, private=True).stripped == ("text", "images", "embeddings")
    assert lines(validate(uploaded(client, tmp_path))) == []


@pytest.mark.parametrize("part", ["text", "images", "embeddings", "graph"])
def test_gated_parts_need_a_gated_or_private_repo(
    client: HubServer, toy: Path, tmp_path: Path, part: str
) -> None:
    set_policy(toy, **{part: "gated"})  # type: ignore[arg-type]
    with pytest.raises(MaghubError) as caught:
        push(toy, REPO)
    one_line(caught.value, f"the policy of its {part} is gated", "--private")
    assert not client.repos
    client.add_repo(REPO).gated = "auto"
    assert push(toy, REPO).visibility == "gated"
    assert_equal(client, REPO, toy)
    push(toy, "maghub/private", private=True)
    assert client.repo("maghub/private").private
    assert_equal(client, "maghub/private", toy)


def test_a_local_graph_is_refused_everywhere(client: HubServer, toy: Path) -> None:
    set_policy(toy, graph="local")
    for private in (False, True):
        with pytest.raises(MaghubError, match="the policy of its graph is local"):
            push(toy, REPO, private=private)
    assert not client.repos


def test_a_policy_about_what_is_not_there_forbids_nothing(client: HubServer, toy: Path) -> None:
    shutil.rmtree(toy / EMBEDDINGS)
    spec = read_spec(toy)
    left = tuple(config for config in spec.configs if config.name != EMBEDDINGS)
    spec = spec.model_copy(update={"configs": left, "encoders": ()})
    (toy / layout.SPEC_FILE).write_text(spec.to_json(), "utf-8")
    set_policy(toy, embeddings="gated")
    assert push(toy, REPO).visibility == "public"


def test_a_repo_that_opens_while_uploading_gets_no_commit(client: HubServer, toy: Path) -> None:
    set_policy(toy, images="gated")
    repo = client.add_repo(REPO, private=True)
    client.fault("call", "PUT", UPLOAD, call=lambda: setattr(repo, "private", False))
    with pytest.raises(MaghubError, match="became public while pushing"):
        push(toy, REPO)
    assert repo.files() == {}


def test_a_repo_that_opens_while_pushing_gets_nothing(client: HubServer, toy: Path) -> None:
    set_policy(toy, images="gated")
    repo = client.add_repo(REPO, private=True)

    def open_up() -> None:
        repo.private = False
        client.put(REPO, {"LICENSE": b"MIT"})

    client.fault("call", "POST", COMMIT, call=open_up)
    with pytest.raises(MaghubError, match="became public while pushing"):
        push(toy, REPO)
    assert repo.files() == {"LICENSE": b"MIT"}


def test_nothing_but_the_policy_makes_what_a_push_takes(toy: Path) -> None:
    spec = read_spec(toy)
    with pytest.raises(TypeError, match="only"):
        Cleared(object(), toy, spec, "public", (), spec)
    with clear(toy, spec, "public") as cleared, pytest.raises(TypeError):
        cleared.files["more"] = cleared.files[layout.SPEC_FILE]  # type: ignore[index]


def test_a_folder_that_is_cleared_must_be_what_its_spec_says(toy: Path) -> None:
    path = toy / "edges" / "full-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    with (
        pytest.raises(MaghubError, match="does not match its checksum"),
        clear(toy, read_spec(toy), "public"),
    ):
        pass


def test_text_of_question_sets_leaves_nothing(tmp_path: Path) -> None:
    spec = build("clegr", tmp_path / "set", graphs=2, domain="subway", question_set="facts")
    policy = spec.policy.model_copy(update={"text": "local"})
    spec = spec.model_copy(update={"policy": policy})
    with (
        pytest.raises(MaghubError, match="nothing would be left without its text"),
        clear(tmp_path / "set", spec, "public"),
    ):
        pass


def test_columns_of_a_part(toy: Path) -> None:
    spec: FolderSpec = read_spec(toy)
    nodes, vectors = spec.config(layout.NODES), spec.config(EMBEDDINGS)
    assert columns_of(nodes, "images") == ["image"]
    assert columns_of(nodes, "text") == ["text"]
    assert columns_of(vectors, "embeddings") == ["text", "image"]
    assert columns_of(vectors, "text") == columns_of(vectors, "images") == []


def test_stripping_links_what_does_not_change(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    left = strip(toy, read_spec(toy), ["images"], out)
    linked = {e.path for c in left.configs for e in c.files if (out / e.path).is_symlink()}
    rewritten = {e.path for e in left.config(layout.NODES).files}
    assert linked == {e.path for c in left.configs for e in c.files} - rewritten
    table = pq.read_table(out / left.config(layout.NODES).files[0].path)
    assert table["image"].null_count == table.num_rows
