"""Training on a large published folder: memory of 200 GraphSAGE mini-batches, on a CPU.

700,000 nodes, 7 million edges, float16 vectors of width 768 that stay on the disk. The folder is
written by the real writer, the run is ``maghub.run`` with defaults but for the settings shown.
Target: under 8 GB in the training process. Beside it: a process that does what a plain script
does, all vectors as float32 in memory and the same number of batches of the same sampler.
Run: python -m tests.benchmarks.bench_training [NODES EDGES]
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from maghub import layout, schema
from maghub.spec import BuilderInfo, SplitRule
from maghub.splits import split_counts
from maghub.tables import Facts, Table, in_memory
from maghub.writing import write_folder
from tests.benchmarks._timing import fresh, show
from tests.helpers.graphs import ENCODER, toy_card

WIDTH, CLASSES, BATCH, BATCHES, PART = 768, 20, 512, 200, 20_000
LIMIT = 8 * 10**9
SETTINGS = {"layers": 2, "fanout": 10, "epochs": 1, "batch_size": BATCH, "hidden": 256}

OURS = """
import json, sys
from maghub.running import run
(record,) = run("graphsage", sys.argv[1], seeds=1, settings=json.loads(sys.argv[2]), device="cpu")
print(json.dumps({"peak": record.peak_cpu_bytes, "train": record.train_seconds,
                  "whole": record.seconds, "accuracy": record.metrics["accuracy"]}))
"""

PLAIN = """
import json, sys, time
import numpy as np, torch
import maghub
from torch_geometric.nn.models import GraphSAGE
from maghub.baselines.sampling import NeighborSampler, node_batches
from maghub.baselines.training.measure import PeakMemory

settings = json.loads(sys.argv[2])
memory = PeakMemory(torch.device("cpu"))
mag = maghub.load(sys.argv[1])
x = torch.from_numpy(np.asarray(mag.features("toy-encoder", "text"), np.float32))
y, train = torch.from_numpy(mag.labels), torch.from_numpy(mag.splits()["train"])
edges = torch.from_numpy(mag.message_edges("node_classification"))
sampler = NeighborSampler(edges, mag.num_nodes, [settings["fanout"]] * settings["layers"], 0)
net = GraphSAGE(x.shape[1], settings["hidden"], settings["layers"], int(y.max()) + 1, dropout=0.02)
optimizer = torch.optim.Adam(net.parameters(), 5e-3)
begin = time.monotonic()
for batch in node_batches(sampler, train, settings["batch_size"], 0):
    optimizer.zero_grad()
    h = net(x[batch.n_id], batch.edge_index)[: batch.batch_size]
    loss = torch.nn.functional.cross_entropy(h, y[batch.n_id[: batch.batch_size]])
    loss.backward()
    optimizer.step()
seconds = time.monotonic() - begin
accuracy = "not asked for"
try:
    with torch.no_grad():
        net.eval()
        net(x, edges)
except RuntimeError:
    accuracy = "whole graph at once: out of memory"
print(json.dumps({"peak": memory.cpu(), "train": seconds, "whole": 0, "accuracy": accuracy}))
"""


class Vectors:
    """Rows of the matrix, each part from its own seed: noise plus the mark of the class."""

    def __call__(self, start: int, stop: int) -> pa.Table:
        rng = np.random.default_rng(start)
        values = rng.standard_normal((stop - start, WIDTH), dtype=np.float32)
        ids = np.arange(start, stop)
        values[np.arange(len(ids)), ids % CLASSES] += 2
        flat = pa.array(values.astype(np.float16).ravel())
        return pa.table(
            {
                layout.NODE_ID: ids,
                layout.TEXT: pa.FixedSizeListArray.from_arrays(flat, WIDTH),
                layout.has_column(layout.TEXT): np.ones(len(ids), bool),
            }
        )


def write(folder: Path, nodes: int, edges: int) -> None:
    """A random graph with labels, exactly ``BATCHES`` batches of training nodes, and vectors."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, nodes, (2, int(edges * 1.01)))
    keys = np.unique(np.minimum(src, dst)[src != dst] * nodes + np.maximum(src, dst)[src != dst])
    keys = np.sort(rng.permutation(keys)[:edges])
    codes = np.full(nodes, 3, np.int8)
    order = rng.permutation(nodes)
    train, held = min(BATCH * BATCHES, nodes // 2), min(10_000, nodes // 8)
    codes[order[:train]] = 0
    codes[order[train : train + held]] = 1
    codes[order[train + held : train + 2 * held]] = 2
    names = [f"class {i}" for i in range(CLASSES)]
    ids = np.arange(nodes)
    columns = {
        layout.NODE_ID: ids,
        layout.SOURCE_ID: pa.array(ids).cast(pa.string()),
        layout.TEXT: pa.array([""] * nodes),
        layout.LABEL: ids % CLASSES,
    }
    edge_columns = {"edge_id": np.arange(len(keys)), "src": keys // nodes, "dst": keys % nodes}
    splits = {layout.NODE_ID: ids, "rule": codes.astype(np.int64)}
    tables = [
        in_memory(
            layout.NODES,
            "nodes",
            schema.nodes_features(names, image=False),
            columns,
            split_names=layout.SPLITS,
            split_ids=codes,
        ),
        in_memory(layout.EDGES, "edges", schema.edges_features(), edge_columns),
        in_memory(
            layout.NODE_SPLITS,
            "node_splits",
            schema.splits_features(layout.NODE_ID, ["rule"]),
            splits,
            target=layout.NODES,
        ),
        Table(
            config=layout.embeddings_config(ENCODER),
            kind="embeddings",
            features=schema.embeddings_features({layout.TEXT: WIDTH}),
            num_rows=nodes,
            read=Vectors(),
            part_size=PART,
        ),
    ]
    rule = SplitRule(
        name="rule", of="nodes", origin="maghub", description="-", counts=split_counts(codes)
    )
    facts = Facts(default_split="rule", node_splits=(rule,))
    card = toy_card()
    spec = card.spec.model_copy(update={"splits": {"rule": "-"}})
    builder = BuilderInfo(name="toy", version="1.0.0", seed=0)
    write_folder(folder, tables, facts, builder, card.model_copy(update={"spec": spec}))


def main() -> None:
    """Write the folder, run both, print."""
    import json

    nodes, edges = map(int, sys.argv[1:3] or ("700000", "7000000"))
    with tempfile.TemporaryDirectory(prefix="maghub-bench-") as place:
        os.environ["MAGHUB_CACHE"] = os.path.join(place, "cache")
        folder = Path(place) / "large"
        write(folder, nodes, edges)
        rows = []
        for name, code in (("maghub run graphsage", OURS), ("plain script, float32", PLAIN)):
            found = fresh(code, folder, json.dumps(SETTINGS))
            peak, seconds = found["peak"], found["train"]
            rows.append([name, f"{peak / 1e9:.2f} GB", f"{seconds:.1f} s", found["accuracy"]])
            if code is OURS and peak > LIMIT:
                raise SystemExit(f"{peak / 1e9:.2f} GB, more than {LIMIT / 1e9:.0f}")
    title = f"{nodes:,} nodes, {edges:,} edges, {WIDTH} wide, {BATCHES} batches of {BATCH}"
    show(title, ["", "peak memory", "200 batches", "test accuracy"], rows)


if __name__ == "__main__":
    main()
