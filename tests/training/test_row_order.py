"""Rows in the order of a member's own seed, and the rows at the end of an epoch that fill no batch:
both equal the plain case in which they can be written down.
"""

import pytest
import torch
from populations_made import advance, assert_same_bits, member
from zoo import table

from recollect.errors import SpecError
from recollect.mixers.registry import MIXERS
from recollect.tasks.base import IGNORE, Batch
from recollect.tasks.build import task_of

OWN = {"train.order": "seed"}


def row_of(batch: Batch, p: int) -> Batch:
    return batch.map(lambda field: field[p])


def distinct(batches: list[Batch]) -> set[tuple[int, ...]]:
    """The rows that carry labels."""
    return {
        tuple(tokens)
        for batch in batches
        for tokens, labels in zip(batch.tokens_BL.tolist(), batch.labels_BK.tolist(), strict=True)
        if labels[0] != IGNORE
    }


# ---- the order of a seed ----


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_member_sees_its_own_rows_in_any_company(make_run, make_population, mixer):
    def run(seed: int, **more: object):
        return make_run({**OWN, "model.mixer": table(mixer, 16), "seed": seed, **more})

    a, b, c = run(1), run(2), run(1, **{"train.lr": 0.01})
    companies = [[a, b], [c, b, a], [a]]
    trained = [advance(make_population(company), 5) for company in companies]
    for population in trained[1:]:
        assert_same_bits(member(trained[0], a), member(population, a))
    found = [population.evaluate()[population.members.index(a)] for population in trained]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("data", ["reshuffled", "fixed"])
@pytest.mark.parametrize("mixer", ["attention", "mamba", "rwkv4"])
def test_own_rows_are_the_rows_of_a_run_alone(make_run, make_population, mixer, data):
    """A member that is given the rows of its seed as if all members shared them learns the same;
    sums differ in their order.
    """
    changes = {"model.mixer": mixer, "task.data": data, "model.dropout": 0.1, "train.batch": 21}
    runs = [make_run({**OWN, **changes, "seed": seed}) for seed in (5, 6, 7)]
    together, alone = make_population(runs), make_population([make_run({**changes, "seed": 6})])
    for _ in range(6):
        rows = together.next_rows()
        assert rows.tokens_BL.shape == (3, 21, 16)
        together.train_step(rows)
        alone.train_step(row_of(rows, 1))
    for name, value in member(together, runs[1]).items():
        torch.testing.assert_close(
            value, alone.state().tensors[name], rtol=1e-3, atol=1e-5, msg=name
        )


def test_the_seed_alone_decides_the_order_and_every_epoch_has_all_rows(make_run):
    run = make_run(OWN)
    task = task_of(run, "cpu")
    epochs = [
        [task.batch("train", 4 * epoch + step, (3, 4, 3)) for step in range(4)]
        for epoch in range(2)
    ]
    shared = distinct([task.batch("train", step) for step in range(4)])
    for epoch in epochs:
        for p in range(3):
            assert distinct([row_of(batch, p) for batch in epoch]) == shared
        for batch in epoch:
            assert torch.equal(batch.tokens_BL[0], batch.tokens_BL[2])
            assert not torch.equal(batch.tokens_BL[0], batch.tokens_BL[1])
    assert not torch.equal(epochs[0][0].tokens_BL, epochs[1][0].tokens_BL)
    again = task_of(run, "cpu").batch("train", 5, (4,))
    assert torch.equal(again.tokens_BL[0], epochs[1][1].tokens_BL[1])


def test_fixed_rows_come_in_one_order_of_each_seed(make_run):
    task = task_of(make_run({**OWN, "task.data": "fixed"}), "cpu")
    first, later = task.batch("train", 1, (3, 4)), task.batch("train", 9, (3, 4))
    assert torch.equal(first.tokens_BL, later.tokens_BL)
    assert not torch.equal(first.tokens_BL[0], first.tokens_BL[1])


def test_a_restored_population_goes_on_in_its_orders(make_run, make_population):
    runs = [make_run({**OWN, "seed": seed}) for seed in range(3)]
    whole, before, after = (make_population(runs) for _ in range(3))
    after.restore(advance(before, 3).state())
    assert_same_bits(advance(whole, 6).state().tensors, advance(after, 3).state().tensors)
    thinned = advance(make_population(runs), 3)
    thinned.compact([runs[2].run_id])
    assert_same_bits(member(whole, runs[2]), member(advance(thinned, 3), runs[2]))


def test_orders_are_part_of_the_shape(make_run, make_population):
    with pytest.raises(ValueError, match="must have one shape"):
        make_population([make_run(), make_run(OWN)])


@pytest.mark.parametrize(("option", "value"), [("order", "seed"), ("last_batch", "keep")])
def test_without_epochs_there_is_no_order_and_no_last_batch(make_run, option, value):
    with pytest.raises(SpecError) as caught:
        make_run({"task.data": "fresh", f"train.{option}": value})
    assert str(caught.value) == (
        f'train.{option} = "{value}": with data = "fresh" every row is new and there are no '
        f"epochs; leave {option} out"
    )


# ---- the last batch of an epoch ----


def test_the_rows_that_fill_no_batch_are_a_step_of_their_own(make_run):
    run = make_run({"train.batch": 48, "train.last_batch": "keep"})
    task = task_of(run, "cpu")
    assert run.steps_per_epoch == 3
    batches = [task.batch("train", step) for step in range(3)]
    assert [batch.rows for batch in batches] == [48, 48, 48]  # a recorded step has one shape
    real = [int((batch.labels_BK[:, 0] != IGNORE).sum()) for batch in batches]
    assert real == [48, 48, 32]
    assert len(distinct(batches)) == 128
    assert not batches[2].scored_BK[32:].any()


def test_epochs_of_the_study_have_196_steps(make_run):
    changes = {"task.train_rows": 100_000, "train.batch": 512}
    raw = make_run(changes).model_dump(mode="json")
    del raw["train"]["steps"], raw["train"]["evaluations"]
    for last_batch, steps in (("drop", 195), ("keep", 196)):
        train = raw["train"] | {"epochs": 50, "last_batch": last_batch}
        assert type(make_run()).parse(raw | {"train": train}).train.steps == 50 * steps


@pytest.mark.parametrize("order", ["shared", "seed"])
def test_a_smaller_batch_is_the_mean_over_its_rows(make_run, make_population, order):
    changes = {"train.batch": 48, "train.last_batch": "keep", "train.order": order}
    changes["model.dropout"] = 0.1  # masks go by the row
    runs = [make_run({**changes, "seed": seed}) for seed in (1, 2)]
    filled, cut = advance(make_population(runs), 2), advance(make_population(runs), 2)
    filled.train_step(filled.next_rows())
    cut.train_step(cut.next_rows().map(lambda field: field[..., :32, :]))
    for name, value in filled.state().tensors.items():
        torch.testing.assert_close(value, cut.state().tensors[name], rtol=1e-4, atol=1e-6, msg=name)
    assert [found.train_loss for found in filled.evaluate()] == pytest.approx(
        [found.train_loss for found in cut.evaluate()], rel=1e-6
    )
