"""Memory and time of building large data sets, each in a process of its own.

Targets: an MM-Graph data set of 500,000 nodes x 768 float32 and 5 million edges under 4 GB; a MAGB
data set of 20,000 pictures of 100 kB in a .tar.gz under 1.5 GB. Peak memory is the largest resident
set of the building process (what it maps of the raw files included) and of its workers.
Run: python -m tests.benchmarks.bench_builders [scale], scale 0.01 for a try.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.benchmarks._timing import fresh, show

NODES, EDGES, WIDTH, PICTURES, PICTURE_BYTES = 500_000, 5_000_000, 768, 20_000, 100_000
GRAPH_TARGET, PICTURES_TARGET = 4.0, 1.5

WRITE_GRAPH = """
import json, sys
from pathlib import Path
import numpy as np, torch
root, nodes, edges, width = Path(sys.argv[1]), *map(int, sys.argv[2:])
rng = np.random.default_rng(0)
folder, raw = root / "ele-fashion", root / "raw-data"
folder.mkdir(parents=True), raw.mkdir()
ids = [f"B{node:09d}" for node in range(nodes)]
torch.save(dict(zip(ids, range(nodes))), folder / "node_mapping.pt")
torch.save(rng.integers(0, 12, nodes).tolist(), folder / "labels-w-missing.pt")
order = rng.permutation(nodes).tolist()
cut = nodes // 2
split = {"train_idx": order[:cut], "val_idx": order[cut:cut + 9], "test_idx": order[cut + 9:]}
torch.save(split, folder / "split.pt")
matrix = rng.standard_normal((nodes, width), dtype=np.float32)
torch.save(torch.from_numpy(matrix), folder / "clip_feat.pt")
del matrix, order, split
torch.save(rng.integers(0, nodes, (edges, 2)).tolist(), folder / "nc_edges-nodeid.pt")
with (raw / "ele-fashion-raw-text.jsonl").open("w") as file:
    for item in ids:
        record = {"asin": item, "raw_text": [item] + ["words of a text"] * 10}
        file.write(json.dumps(record) + "\\n")
print("{}")
"""

WRITE_PICTURES = """
import gzip, io, sys, tarfile
from pathlib import Path
import numpy as np
from PIL import Image
sys.path.insert(0, "tests/fixtures")
from dgl_writer import write_dgl
root, nodes, size = Path(sys.argv[1]), *map(int, sys.argv[2:])
root.mkdir()
rng = np.random.default_rng(0)
src = rng.integers(0, nodes, 5 * nodes)
label = np.arange(nodes) % 20
write_dgl(root / "ToysGraph.pt", nodes, src, (src + 1) % nodes, node_tensors={"label": label})
rows = [f"{node},text {node},class {node % 20},{node % 20}" for node in range(nodes)]
(root / "Toys.csv").write_text("\\n".join(["id,text,second_category,label", *rows]) + "\\n")
out = io.BytesIO()
pixels = rng.integers(0, 256, (256, 256, 3), dtype=np.uint8)
Image.fromarray(pixels).save(out, "JPEG", quality=75)
start, rest = out.getvalue()[:2], out.getvalue()[2:]
with gzip.open(root / "ToysImages.tar.gz", "wb", 1) as packed:
    with tarfile.open(fileobj=packed, mode="w|") as tar:
        for node in range(nodes):  # a comment segment makes each picture its own, and fills it up
            fill = rng.bytes(min(65_000, max(0, size - len(rest) - 14))) + node.to_bytes(4, "big")
            data = start + b"\\xff\\xfe" + (len(fill) + 2).to_bytes(2, "big") + fill + rest
            info = tarfile.TarInfo(f"ToysImages/{node}.jpg")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
print("{}")
"""

BUILD = """
import json, resource, sys, time
import maghub
name, out, raw, workers, options = sys.argv[1:]
begin = time.perf_counter()
spec = maghub.build(name, out, raw, workers=int(workers), **json.loads(options))
took = time.perf_counter() - begin
own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
size = sum(file.bytes for config in spec.configs for file in config.files) / 1e9
print(json.dumps({"seconds": took, "own": own, "worker": worker, "size": size}))
"""


def measure(name: str, folder: Path, workers: int, options: str, target: float) -> list[str]:
    """Build once in a fresh process; a row of the table."""
    out = folder / f"out-{workers}"
    found = fresh(BUILD, name, out, folder / "raw", workers, options)
    return [
        name,
        str(workers),
        f"{found['seconds']:.0f}",
        f"{found['own']:.2f}",
        f"{found['worker']:.2f}" if workers > 1 else "-",
        f"{target:g}",
        f"{found['size']:.2f}",
    ]


def main(scale: float = 1.0) -> None:
    """Write both raw folders, build from them, print."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="maghub-bench-") as name:
        graph = Path(name) / "graph"
        fresh(WRITE_GRAPH, graph / "raw", int(scale * NODES), int(scale * EDGES), WIDTH)
        rows.append(measure("ele-fashion", graph, 1, '{"images": false}', GRAPH_TARGET))
    with tempfile.TemporaryDirectory(prefix="maghub-bench-") as name:
        pictures = Path(name) / "pictures"
        pictures.mkdir()
        fresh(WRITE_PICTURES, pictures / "raw", int(scale * PICTURES), PICTURE_BYTES)
        rows += [measure("toys", pictures, workers, "{}", PICTURES_TARGET) for workers in (1, 2)]
    header = ["data set", "workers", "seconds", "GB", "GB per worker", "target GB", "written GB"]
    show(f"building at {scale:g} of full size", header, rows)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
