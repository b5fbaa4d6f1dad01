"""The registry of encoders: what it holds, how names are found, and what cannot be loaded.

Everything about the Hub uses the real client against a server on loopback, a dead port, or
nothing at all, in a process of its own, because the client reads its settings when imported.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from maghub import layout, registry
from maghub.encoding import specs
from maghub.encoding.factory import EncoderFactory
from maghub.encoding.weights import wanted_files
from maghub.errors import MaghubError
from tests.helpers.tiny_encoders import tiny

SIXTEEN = {  # appendix B of the OpenMAG paper, with the widths that it states or implies
    "convnextv2-base-22k-224": 1024,
    "swinv2-large-22k": 1536,
    "dinov2-large": 1024,
    "vit-base-patch16-224": 768,
    "vig": 640,
    "pyramid-tnt": 1024,
    "xlm-roberta-base": 768,
    "llama-3.2-1b-instruct": 2048,
    "opt-125m": 768,
    "t5-large": 1024,
    "bert-base-nli-mean-tokens": 768,
    "qwen2-7b-instruct": 3584,
    "qwen2.5-3b-instruct": 2048,
    "clip-vit-large-patch14": 768,
    "llama-3.2-11b-vision-instruct": 4096,
    "imagebind-huge": 1024,
}


def test_all_sixteen_of_openmag_are_there_with_their_widths() -> None:
    found = {f.spec.name: set(f.spec.dim.values()) for f in specs.OPENMAG}
    assert found == {name: {width} for name, width in SIXTEEN.items()}
    assert len(specs.OPENMAG) == 16
    kinds = [{tuple(f.spec.dim) for f in group} for group in (specs.VISUAL, specs.TEXTUAL)]
    assert kinds == [{(layout.IMAGE,)}, {(layout.TEXT,)}]


def test_each_is_registered_under_its_name_without_torch() -> None:
    shipped = set(specs.all_specs())
    assert shipped == {*SIXTEEN, "bert-base-uncased", "clip-vit-base-patch32"} | {
        "all-minilm-l6-v2",
        "efficientnet-lite0",
    }
    assert shipped <= set(registry.names("encoders"))
    for name in shipped:
        assert registry.get("encoders", name).spec == specs.all_specs()[name]
    code = "import sys, maghub.encoding.specs, maghub.encoding.offline; print(sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "timm"} & set(re.findall(r"'([^']+)'", out.stdout))


@pytest.mark.parametrize("name", specs.all_specs())
def test_a_spec_states_all_that_provenance_needs(name: str) -> None:
    spec = specs.all_specs()[name]
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", spec.name)
    assert spec.licence
    assert spec.dtype == "float16"
    assert (spec.max_length is None) == (layout.TEXT not in spec.dim)
    assert (spec.image_size is None) == (layout.IMAGE not in spec.dim)
    hub = spec.weights_url is None and "==" not in spec.revision
    if hub:
        assert "/" in spec.model_id
        assert spec.revision == "main" or re.fullmatch(r"[0-9a-f]{40}", spec.revision)
    if spec.library == "maghub":
        assert "could not be checked" in spec.note
        assert spec.weights_url.startswith("https://")
        assert spec.pixels is not None
        assert spec.pixels.size == spec.image_size


def test_gated_and_trainable_ones() -> None:
    by = specs.all_specs().values()
    assert {s.name for s in by if s.gated} == {
        "llama-3.2-1b-instruct",
        "llama-3.2-11b-vision-instruct",
    }
    assert {s.name for s in by if s.trainable} == {
        "vit-base-patch16-224",
        "vig",
        "pyramid-tnt",
        "bert-base-nli-mean-tokens",
    }


def test_unpinned_revisions_are_few_and_known() -> None:
    """Their commits were found in no public source; a run records the commit it loaded."""
    unpinned = {s.name for s in specs.all_specs().values() if s.revision == "main"}
    assert unpinned == {
        "convnextv2-base-22k-224",
        "swinv2-large-22k",
        "bert-base-nli-mean-tokens",
    }


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("dinov3-large", "dinov2-large"),
        ("CLIP-ViT-Large-Patch14-336", "clip-vit-large-patch14"),
        ("llama-3.2-1b", "llama-3.2-1b-instruct"),
        ("pyramidtnt", "pyramid-tnt"),
    ],
)
def test_an_unknown_name_gets_the_nearest(name: str, close: str) -> None:
    with pytest.raises(MaghubError, match=re.escape(close)) as caught:
        registry.get("encoders", name)
    assert str(caught.value).startswith(f"unknown encoder '{name}'. Did you mean")


@pytest.mark.parametrize(
    ("name", "slug", "line"),
    [
        ("timm:resnet81", "timm-resnet81", "unknown timm model 'resnet81'. Did you mean resnet18"),
        ("timm:resnet18.x_in1k", "timm-resnet18.x_in1k", "choose one of .*resnet18.a1_in1k"),
        ("open_clip:ViT-B-32/laion2b", "open_clip-vit-b-32-laion2b", "several weights 'laion2b'"),
        ("open_clip:ViT-B-32/x", "open_clip-vit-b-32-x", "no weights 'x' of ViT-B-32. Choose one"),
        ("open_clip:ViTB", "open_clip-vitb", "unknown open_clip model 'ViTB'. Did you mean ViT-B"),
        ("st:all-mpnet-base-v2", "st-all-mpnet-base-v2", None),
    ],
)
def test_families_by_name(name: str, slug: str, line: str | None) -> None:
    pytest.importorskip("timm")
    pytest.importorskip("open_clip")
    factory = registry.get("encoders", name)
    assert isinstance(factory, EncoderFactory)
    assert factory.spec.name == slug
    if line is not None:
        with pytest.raises(MaghubError, match=f"(?i){line}"):
            factory()


def test_families_resolve_to_repositories_of_the_hub() -> None:
    timm_image = pytest.importorskip("maghub.encoding.timm_image")
    from maghub.encoding import open_clip
    from maghub.encoding.sentence_transformers import SentenceTransformers

    def resolved(name: str, adapter: Any) -> str:
        encoder = adapter.__new__(adapter)
        return encoder.resolve(registry.get("encoders", name).spec, None).model_id

    pytest.importorskip("timm")
    image = timm_image.TimmImage
    assert resolved("timm:resnet18.a1_in1k", image) == "timm/resnet18.a1_in1k"
    assert resolved("timm:resnet18", image) == "timm/resnet18.a1_in1k"
    assert resolved("timm:me/mine", image) == "me/mine"
    st = SentenceTransformers
    assert resolved("st:all-mpnet-base-v2", st) == "sentence-transformers/all-mpnet-base-v2"
    assert resolved("st:BAAI/bge-small-en", st) == "BAAI/bge-small-en"
    clip = open_clip.OpenClip
    laion = "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"
    assert resolved("open_clip:ViT-B-32/laion2b_s34b_b79k", clip) == laion
    assert resolved("open_clip:ViT-B-32/laion2b_s34b", clip) == laion
    assert resolved(f"open_clip:{laion}", clip) == laion


def test_an_unknown_family_gets_the_nearest() -> None:
    with pytest.raises(MaghubError, match=r"unknown encoder family 'tim'\. Did you mean timm"):
        registry.get("encoders", "tim:resnet18")


@pytest.mark.parametrize("name", ["vig", "pyramid-tnt", "imagebind-huge"])
def test_weights_that_are_not_on_the_hub_say_where_they_are(name: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(MaghubError, match=r"not on the Hub\. Download them from https://"):
        registry.get("encoders", name)()


class _Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


def _empty(folder: Path) -> None:
    folder.mkdir()


def _garbage(folder: Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_text("<html>404</html>")


def _no_weights(folder: Path) -> None:
    tiny("bert-base-uncased", folder)
    (folder / "model.safetensors").unlink()


def _cut(folder: Path) -> None:
    tiny("bert-base-uncased", folder)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


def _fewer_layers(folder: Path) -> None:
    tiny("bert-base-uncased", folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "num_hidden_layers": 3}))


def _narrow(folder: Path) -> None:
    tiny("bert-base-uncased", folder, width=24)


def _pickled(folder: Path) -> None:
    tiny("bert-base-uncased", folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"x": _Runs()}))


def _with_code(folder: Path) -> None:
    tiny("bert-base-uncased", folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModel": "own.M"}}
    path.write_text(json.dumps(config))
    (folder / "own.py").write_text("open('executed', 'w').close()")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda folder: None, "no such folder"),
        (_empty, "is not a model that transformers can load as bert-base-uncased"),
        (_garbage, "is not a model that transformers can load as bert-base-uncased"),
        (_no_weights, "is not a model that transformers can load as bert-base-uncased"),
        (_cut, "is not a model that transformers can load as bert-base-uncased"),
        (_fewer_layers, "16 weights are missing or have another shape, e.g. encoder.layer.2"),
        (_narrow, r"vectors are 24 \(text\) wide, those of bert-base-uncased are 768"),
        (_pickled, "is not a model that transformers can load as bert-base-uncased"),
        (_with_code, "is not a model that transformers can load as bert-base-uncased"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_folder_that_is_not_the_model_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any, line: str
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "model")
    with pytest.raises(MaghubError, match=line) as caught:
        registry.get("encoders", "bert-base-uncased")(model_path=tmp_path / "model")
    message = caught.value.line()
    assert message.startswith(str(tmp_path / "model"))
    assert "Give the folder" in message
    assert "\n" not in message
    assert not (tmp_path / "executed").exists()


@pytest.mark.integration
@pytest.mark.parametrize("name", ["vig", "timm:resnet18", "st:x", "open_clip:ViT-B-32/openai"])
def test_the_same_for_other_libraries(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(MaghubError) as caught:
        registry.get("encoders", name)(model_path=tmp_path)
    assert caught.value.line().startswith(str(tmp_path))


def test_an_unknown_precision_gets_the_nearest(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(MaghubError, match=r"unknown precision 'float61'\. Did you mean float16"):
        registry.get("encoders", "vig")(dtype="float61", model_path=tmp_path)


def test_one_format_of_weights_is_downloaded_and_no_code() -> None:
    files = [
        "config.json",
        "tokenizer.json",
        "vocab.txt",
        "modeling_own.py",
        "model.safetensors",
        "pytorch_model.bin",
        "tf_model.h5",
        "flax_model.msgpack",
        "1_Pooling/config.json",
        "2_Dense/pytorch_model.bin",
        "onnx/model.onnx",
        "onnx/config.json",
        "original/consolidated.00.pth",
        "README.md",
    ]
    assert wanted_files(files) == [
        "config.json",
        "tokenizer.json",
        "vocab.txt",
        "model.safetensors",
        "1_Pooling/config.json",
        "2_Dense/pytorch_model.bin",
    ]
    assert "pytorch_model.bin" in wanted_files([f for f in files if "safetensors" not in f])


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Hub(BaseHTTPRequestHandler):
    """Just enough of the Hub: one model, one gated, nothing else."""

    folder: Path

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if "gated" in self.path.lower() or "Llama" in self.path:
            return self._answer(403, b"{}", {"X-Error-Code": "GatedRepo"})
        if "/models/org/tiny" not in self.path and "/org/tiny/resolve" not in self.path:
            return self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        if "/tree/" in self.path:
            files = [
                {"type": "file", "path": p.name, "size": p.stat().st_size, "oid": p.name}
                for p in self.folder.iterdir()
            ]
            return self._answer(200, json.dumps(files).encode(), {})
        if self.path.startswith("/api/"):
            names = sorted(p.name for p in self.folder.iterdir())
            siblings = [{"rfilename": name} for name in [*names, "own.py", "tf_model.h5"]]
            body = {"id": "org/tiny", "sha": COMMIT, "siblings": siblings}
            return self._answer(200, json.dumps(body).encode(), {})
        path = self.folder / self.path.rpartition("/")[2]
        data = path.read_bytes()
        tag = {"ETag": f'"{len(data)}{path.name}"', "X-Repo-Commit": COMMIT}
        return self._answer(200, data, tag)

    def _answer(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("transformers")
    folder = tiny("bert-base-uncased", tmp_path_factory.mktemp("hub") / "model")
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Hub", (_Hub,), {"folder": folder}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


SCRIPT = """
import sys
from maghub import registry
from maghub.encoding.weights import located
from maghub.errors import MaghubError
name, model = sys.argv[1:3]
factory = registry.get("encoders", name)
try:
    if model:
        spec = factory.spec.model_copy(update={"model_id": model, "revision": sys.argv[3]})
        print(*located(spec, None))
    else:
        factory()
except MaghubError as error:
    print(error.line())
"""


def run(cache: Path, name: str, model: str = "", revision: str = "", **env: str) -> str:
    settings = {"HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT, name, model, revision],
        env={**os.environ, **settings, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert out.returncode == 0, out.stderr[-2000:]
    return out.stdout.strip()


@pytest.mark.integration
def test_a_model_comes_from_the_hub_once_and_then_works_offline(hub: str, tmp_path: Path) -> None:
    """Revision ``main`` becomes the commit that was loaded; the cache serves with no network."""
    first = run(tmp_path, "bert-base-uncased", "org/tiny", "main", HF_ENDPOINT=hub)
    (snapshot,) = (tmp_path / "hub" / "models--org--tiny" / "snapshots").iterdir()
    assert first == f"{snapshot} {COMMIT}"
    names = {path.name for path in snapshot.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not {"own.py", "tf_model.h5"} & names
    offline = run(tmp_path, "bert-base-uncased", "org/tiny", "main", HF_HUB_OFFLINE="1")
    assert offline == first
    dead = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    assert run(tmp_path, "bert-base-uncased", "org/tiny", COMMIT, **dead) == first
    encoder = registry.get("encoders", "bert-base-uncased")(model_path=snapshot)
    assert encoder.spec.revision == COMMIT
    assert encoder.encode_texts(["a dog"]).shape == (1, 768)


@pytest.mark.integration
@pytest.mark.parametrize("setting", ["HF_HUB_OFFLINE", "HF_ENDPOINT"])
def test_no_network_is_one_line(tmp_path: Path, setting: str) -> None:
    value = {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}[setting]
    line = run(tmp_path, "dinov2-large", **{setting: value})
    assert line == (
        "dinov2-large needs facebook/dinov2-large, which is not in the Hub's cache, and the Hub "
        "does not answer. Connect to the network, or give a local folder with the model as the "
        "model path"
    )


@pytest.mark.integration
def test_a_gated_model_without_a_token_and_an_unknown_one(hub: str, tmp_path: Path) -> None:
    gated = run(tmp_path, "llama-3.2-1b-instruct", HF_ENDPOINT=hub)
    assert gated == (
        "the Hub gives meta-llama/Llama-3.2-1B-Instruct only to accounts that accepted its "
        "licence. Accept it at https://huggingface.co/meta-llama/Llama-3.2-1B-Instruct and run: "
        "hf auth login"
    )
    unknown = run(tmp_path, "st:nobody/nothing", HF_ENDPOINT=hub)
    assert unknown.startswith("the Hub has no model nobody/nothing at revision main. Check the")
