"""Where weights come from, and the one line for each way in which they cannot be had.

Everything about the Hub uses the real client against a server on loopback, a dead port, or
nothing at all, in a process of its own, because the client reads its settings when imported.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from maghub import registry
from maghub.encoding.weights import wanted_files
from maghub.errors import MaghubError
from tests.helpers.tiny_encoders import tiny


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
