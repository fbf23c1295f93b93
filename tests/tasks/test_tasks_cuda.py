"""The same integers on a GPU, and no waiting for it while training."""

import warnings
from collections.abc import Iterator

import pytest
import torch

from recollect.tasks.build import build_task
from recollect.tasks.options import TASKS, MqarSpec, RecallSpec, TaskSpec

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SPECS = [cls() for cls in TASKS.values()] + [
    MqarSpec(length=512, pairs=64, train_rows=4096),
    MqarSpec(data="fresh", vocabulary_split="halves", filler="random", placement="uniform"),
    RecallSpec(data="fixed", query="anywhere"),
]


@pytest.fixture
def refuse_to_wait() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # torch calls the mode a prototype whenever it is set
        torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_a_gpu_gives_the_same_batches(spec: TaskSpec):
    there, here = (build_task(spec, 3, 64, device) for device in ("cuda", "cpu"))
    for split, step in [("train", 0), ("train", 5), *((split, 0) for split in spec.test_splits)]:
        one, other = there.batch(split, step), here.batch(split, step)
        for name in ("tokens_BL", "where_BK", "labels_BK", "scored_BK"):
            assert torch.equal(getattr(one, name).cpu(), getattr(other, name)), (split, step, name)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@pytest.mark.usefixtures("refuse_to_wait")
def test_training_never_waits_for_the_gpu(spec: TaskSpec):
    task = build_task(spec, 3, 64, "cuda")
    for step in (0, 1, 5000):  # the first draws a set or a block, the last another epoch or block
        task.batch("train", step)
