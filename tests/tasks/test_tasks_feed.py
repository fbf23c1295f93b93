"""The contract of every task: batches are a pure function of (specification,
data seed, split, step).
"""

import hashlib

import pytest
import torch

from recollect.errors import SpecError
from recollect.tasks.base import TRAIN_SAMPLE, Batch, Task
from recollect.tasks.build import SOURCES, build_task
from recollect.tasks.options import TASKS, CopyingSpec, MqarSpec, RecallSpec, TaskSpec

SMALL = {"train_rows": 100, "test_rows": 30}
SPECS = [cls.parse({"name": name, **SMALL}) for name, cls in TASKS.items()] + [
    MqarSpec(data="fixed", **SMALL),
    MqarSpec(data="fresh", **SMALL),
    RecallSpec(data="fresh", vocabulary=4, pairs=1, length=3, **SMALL),
]


def make(spec: TaskSpec, seed: int = 0, batch: int = 16) -> Task:
    return build_task(spec, seed, batch, "cpu")


def same(one: Batch, other: Batch) -> bool:
    return all(
        torch.equal(a, b)
        for a, b in zip(
            (one.tokens_BL, one.where_BK, one.labels_BK, one.scored_BK),
            (other.tokens_BL, other.where_BK, other.labels_BK, other.scored_BK),
            strict=True,
        )
    )


# Of rows as stored results were trained with: a run's id names its rows, so they may not change.
DIGESTS = {
    "mqar": "ffe1d25861adf691",
    "recall": "0975d335029b20ec",
    "copying": "11e523fb4ff2edf0",
    "ngram_lookup": "bfcb5a6e513b2d3b",
}


@pytest.mark.parametrize("name", TASKS)
def test_the_rows_of_a_specification_never_change(name):
    plain = {"name": name, **SMALL}
    kinds = [plain]
    if name in ("mqar", "recall"):
        other = {"vocabulary_split": "halves", "filler": "random", "data": "fixed"}
        kinds += [plain | other, plain | {"data": "fresh"}]
    digest = hashlib.sha256()
    for kind in kinds:
        task = make(TASKS[name].parse(kind), seed=3)
        own = task.batch("train", 7, (5,)) if task.has_training_set else task.batch("train", 8)
        for batch in (task.batch("train", 7), own, task.batch(task.test_splits[0], 1)):
            for tensor in batch.tensors():
                digest.update(tensor.numpy().tobytes())
    assert digest.hexdigest()[:16] == DIGESTS[name]


def test_every_task_has_a_source_and_the_right_name():
    assert set(SOURCES) == set(TASKS)
    assert all(cls().name == name for name, cls in TASKS.items())


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_batches_have_the_promised_shapes(spec):
    task = make(spec)
    batch = task.batch("train", 3)
    assert batch.tokens_BL.shape == (16, task.train_length)
    assert (
        batch.where_BK.shape
        == batch.labels_BK.shape
        == batch.scored_BK.shape
        == (16, task.labels_per_row)
    )
    for tensor in (batch.tokens_BL, batch.where_BK, batch.labels_BK):
        assert tensor.dtype == torch.int64
    assert batch.scored_BK.dtype == torch.bool
    assert batch.tokens_BL.min() >= 0
    assert batch.tokens_BL.max() < task.vocabulary == spec.label_vocabulary
    for split in task.test_splits:
        rows = [task.batch(split, piece).rows for piece in range(task.pieces(split))]
        assert rows == [16, 14]
        assert task.batch(split, 0).tokens_BL.shape[1] <= task.length


@pytest.mark.parametrize("spec", [*SPECS, MqarSpec(train_rows=16, test_rows=60)], ids=repr)
def test_what_an_evaluation_looks_at_is_counted_without_drawing_it(spec):
    task = make(spec)
    splits = [*task.test_splits, *[TRAIN_SAMPLE] * task.has_training_set]
    tokens = [
        task.batch(split, piece).tokens_BL.numel()
        for split in splits
        for piece in range(task.pieces(split))
    ]
    assert sum(tokens) == spec.evaluated_tokens


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_any_order_of_asking_gives_the_same_batches(spec):
    forward, backward = make(spec), make(spec)
    asked = [
        (split, step)
        for split in ("train", *forward.test_splits)
        for step in (range(40) if split == "train" else range(2))
    ]
    expected = {question: forward.batch(*question) for question in asked}
    for question in [*reversed(asked), ("train", 7), ("train", 31), ("train", 7)]:
        assert same(backward.batch(*question), expected[question]), question


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_no_global_random_state_is_read_or_moved(spec):
    torch.manual_seed(1)
    expected = make(spec).batch("train", 2)
    torch.manual_seed(2)
    torch.randn(17)
    before = torch.get_rng_state()
    assert same(make(spec).batch("train", 2), expected)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("spec", SPECS[:-1], ids=repr)
def test_data_seeds_differ(spec):
    for split in ("train", spec.test_splits[0]):
        assert not torch.equal(
            make(spec, 0).batch(split, 0).tokens_BL, make(spec, 1).batch(split, 0).tokens_BL
        )


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_test_rows_do_not_depend_on_the_batch_size(spec):
    def whole(batch: int) -> torch.Tensor:
        task = make(spec, batch=batch)
        return torch.cat(
            [
                task.batch(task.test_splits[-1], piece).tokens_BL
                for piece in range(task.pieces(task.test_splits[-1]))
            ]
        )

    assert torch.equal(whole(16), whole(7))
    assert torch.equal(whole(16), whole(100))


@pytest.mark.parametrize("spec", [MqarSpec(data="fresh", **SMALL), CopyingSpec(**SMALL)], ids=repr)
def test_fresh_rows_are_one_endless_table(spec, monkeypatch):
    monkeypatch.setattr(
        "recollect.tasks.feed._BLOCK_STEPS", 2
    )  # several blocks, so that their seams would show

    def head(batch: int) -> torch.Tensor:
        task = make(spec, batch=batch)
        return torch.cat([task.batch("train", step).tokens_BL for step in range(60 // batch)])

    rows = head(12)
    assert torch.equal(rows, head(5))
    assert len(torch.unique(rows, dim=0)) == 60


def rows_of_epoch(task: Task, epoch: int) -> torch.Tensor:
    return torch.cat([task.batch("train", epoch * 5 + step).tokens_BL for step in range(5)])


def test_reshuffled_epochs_hold_the_same_rows_in_new_orders():
    task = make(MqarSpec(**SMALL), batch=20)
    first, second = rows_of_epoch(task, 0), rows_of_epoch(task, 1)
    assert not torch.equal(first, second)
    assert torch.equal(torch.unique(first, dim=0), torch.unique(second, dim=0))
    assert len(torch.unique(first, dim=0)) == 100


def test_the_order_of_an_epoch_is_drawn_from_the_data_seed():
    orders = []
    for seed in (0, 1):
        fixed = make(MqarSpec(data="fixed", **SMALL), seed, batch=20)
        place = {tuple(row): at for at, row in enumerate(rows_of_epoch(fixed, 0).tolist())}
        rows = rows_of_epoch(make(MqarSpec(**SMALL), seed, batch=20), 0)
        orders.append([place[tuple(row)] for row in rows.tolist()])
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(100))
    assert sum(a == b for a, b in zip(*orders, strict=True)) < 10


def test_the_sample_of_training_rows_is_the_first_of_them():
    task = make(MqarSpec(data="fixed", **SMALL), batch=10)
    assert same(task.batch(TRAIN_SAMPLE, 0), task.batch("train", 0))


def test_fixed_epochs_are_identical():
    task = make(MqarSpec(data="fixed", **SMALL), batch=20)
    first = rows_of_epoch(task, 0)
    assert torch.equal(first, rows_of_epoch(task, 3))
    reshuffled = rows_of_epoch(make(MqarSpec(**SMALL), batch=20), 0)
    assert torch.equal(torch.unique(first, dim=0), torch.unique(reshuffled, dim=0))


def test_rows_over_at_the_end_of_an_epoch_are_left_out():
    task = make(MqarSpec(**SMALL), batch=40)
    left_out = [
        100
        - len(
            torch.unique(
                torch.cat([task.batch("train", 2 * epoch + step).tokens_BL for step in range(2)]),
                dim=0,
            )
        )
        for epoch in range(3)
    ]
    assert left_out == [20, 20, 20]


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_a_sample_of_training_rows_is_evaluated_where_they_come_again(spec):
    task = make(spec, batch=7)
    assert task.has_training_set == (spec.data != "fresh")
    if spec.data == "fresh":
        with pytest.raises(SpecError, match="split = 'train sample': must be train or one of"):
            task.pieces(TRAIN_SAMPLE)
        return
    pieces = [task.batch(TRAIN_SAMPLE, piece) for piece in range(task.pieces(TRAIN_SAMPLE))]
    assert [piece.rows for piece in pieces] == [7, 3]  # a third of 30 test rows
    trained = {tuple(row) for row in rows_of_epoch(make(spec, batch=20), 0).tolist()}
    assert {tuple(row) for piece in pieces for row in piece.tokens_BL.tolist()} <= trained
    few = make(spec.model_copy(update={"train_rows": 4}), batch=4)
    assert few.batch(TRAIN_SAMPLE, 0).rows == 4


def test_large_sets_are_drawn_in_blocks_that_do_not_show(monkeypatch):
    expected = make(MqarSpec(**SMALL)).batch("train", 0)
    monkeypatch.setattr("recollect.tasks.feed._BLOCK_TOKENS", 64 * 7)
    assert same(make(MqarSpec(**SMALL)).batch("train", 0), expected)


@pytest.mark.parametrize(
    ("change", "split", "step", "text"),
    [
        ({}, "valid", 0, "split = 'valid': must be train or one of the test splits; known: test"),
        (
            {},
            "test",
            2,
            "step = 2: must be at least 0 and, for a test split, less than its 2 pieces",
        ),
        ({}, "train", -1, "step = -1: must be at least 0"),
        (
            {"train_rows": 15},
            "train",
            0,
            "batch = 16: must be between 1 and train_rows = 15; use a smaller batch",
        ),
    ],
)
def test_bad_requests_are_refused(change, split, step, text):
    with pytest.raises(SpecError) as caught:
        make(MqarSpec(**SMALL | change)).batch(split, step)
    assert str(caught.value).startswith(text)
