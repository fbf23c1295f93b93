"""A population: a member's numbers do not depend on its company, and its state can be taken out,
put back and thinned.
"""

import dataclasses
import gc
import weakref

import pytest
import torch
from populations_made import advance, assert_same_bits, member
from zoo import table

from recollect.mixers.registry import MIXERS
from recollect.spec.run import RunSpec
from recollect.tasks.base import IGNORE, TRAIN_SAMPLE, Batch
from recollect.training.population import Population, _copy_batch
from recollect.training.state import PopulationState

# Shapes that a kernel likes, and shapes that it does not: odd widths, lengths, batches and
# vocabularies.
EVEN = {"task.length": 32, "model.width": 32, "train.batch": 32}
ODD = {
    "task": {
        "name": "recall",
        "vocabulary": 37,
        "length": 19,
        "pairs": 3,
        "train_rows": 90,
        "test_rows": 35,
    },
    "model.width": 17,
    "model.depth": 1,
    "train.batch": 21,
}
EXPLODING = {
    "train.lr": 1e3,
    "train.weight_decay": 1e3,
    "train.decay": "constant",
    "train.warmup": 0.0,
}


def family(make_run, shape: dict, mixer: str | dict, count: int) -> list[RunSpec]:
    recipes = [
        {"train.lr": 10.0 ** -(1 + i % 3), "train.clip": 0.01 * (i % 2), "seed": i}
        for i in range(count)
    ]
    return [make_run({"model.mixer": mixer, **shape, **recipe}) for recipe in recipes]


def shaped(shape: dict, name: str) -> tuple[dict, dict]:
    """The shape and the mixer's table that go together:
    some mixers need an even width, or a stack of two.
    """
    depth = len(MIXERS[name].model_validate({"name": name}).kinds())
    for width in (shape["model.width"], shape["model.width"] + 1):
        try:
            MIXERS[name].model_validate(table(name, width)).check(width, depth, "none")
        except ValueError:
            continue
        return {
            **shape,
            "model.width": width,
            "model.depth": max(depth, shape.get("model.depth", 1)),
        }, table(name, width)
    raise AssertionError(f"{name} fits neither width")


# ---- company makes no difference ----


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [EVEN, ODD], ids=["even", "odd"])
@pytest.mark.parametrize("mixer", MIXERS)
def test_a_member_is_bit_for_bit_the_same_in_any_company(
    make_run, make_population, mixer, shape, threads
):
    torch.set_num_threads(threads)
    a, b, c, d, e = family(make_run, *shaped(shape, mixer), 5)
    companies = [[a, b], [b, a], [e, d, c, b, a], [a]]
    trained = [advance(make_population(company), 2) for company in companies]
    found = [
        population.evaluate()[company.index(a)]
        for population, company in zip(trained, companies, strict=True)
    ]
    for population, evaluation in zip(trained[1:], found[1:], strict=True):
        assert_same_bits(member(trained[0], a), member(population, a))
        assert evaluation == found[0]
    assert_same_bits(member(trained[0], b), member(trained[2], b))


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_run_that_explodes_is_marked_and_not_noticed(make_run, make_population, mixer):
    steps = {"model.mixer": table(mixer, 16), "train.steps": 12, "train.evaluations": 1}
    a, b = make_run(steps), make_run({**steps, "seed": 7})
    wild = make_run({**steps, **EXPLODING})
    beside, apart = make_population([a, wild, b]), make_population([a, b])
    first_bad = 0
    for step in range(12):
        batch = beside.task.batch("train", step)
        losses = beside.model.loss(beside._pad_rows(batch))
        if not first_bad and not losses[1].isfinite():
            first_bad = step + 1
        beside.train_step(batch)
        apart.train_step(batch)
    assert 1 < first_bad <= 12
    assert beside.diverged() == [0, first_bad, 0]
    assert apart.diverged() == [0, 0]
    for run in (a, b):
        assert_same_bits(member(beside, run), member(apart, run))
    assert beside.evaluate()[0] == apart.evaluate()[0]


def test_only_one_shape_trains_together(make_run, make_population):
    with pytest.raises(ValueError, match="the members of a population must have one shape"):
        make_population([make_run(), make_run({"model.width": 8})])


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_fill_up_a_batch_change_nothing(make_run, make_population, threads):
    torch.set_num_threads(threads)
    population = make_population(
        [make_run({"train.batch": 21}), make_run({"train.batch": 21, "seed": 1})]
    )
    batch = population.task.batch("train", 0)
    filled = population._pad_rows(batch)
    assert (batch.rows, filled.rows) == (21, 32 * threads)
    assert (filled.labels_BK[21:] == IGNORE).all()
    assert not filled.scored_BK[21:].any()
    torch.testing.assert_close(population.model.loss(filled), population.model.loss(batch))


# ---- evaluation ----


def counted(population: Population, split: str, p: int) -> tuple[float, float, float]:
    """Loss, accuracy and exactness by counting label after label."""
    loss = labels = right = scored = exact = rows = 0.0
    for piece in range(population.task.pieces(split)):
        batch: Batch = population.task.batch(split, piece)
        logits_BKV = (
            population.model(batch.tokens_BL, batch.where_BK)[p]
            .view(*batch.labels_BK.shape, -1)
            .double()
        )
        for b in range(batch.rows):
            all_right = True
            for k, label in enumerate(batch.labels_BK[b].tolist()):
                if label != IGNORE:
                    loss += (logits_BKV[b, k].logsumexp(0) - logits_BKV[b, k, label]).item()
                    labels += 1
                if batch.scored_BK[b, k]:
                    hit = int(logits_BKV[b, k].argmax()) == label
                    right, scored, all_right = right + hit, scored + 1, all_right and hit
            exact, rows = exact + all_right, rows + 1
    return loss / labels, right / scored, exact / rows


COPYING = {
    "name": "copying",
    "alphabet": 2,
    "min_length": 1,
    "max_length": 3,
    "context": 16,
    "eval_lengths": [1, 3],
    "train_rows": 64,
    "test_rows": 40,
}


@pytest.mark.parametrize("task", [None, COPYING], ids=["mqar", "copying"])
def test_evaluation_counts_what_a_person_would_count(make_run, make_population, task):
    changes = {
        "train.lr": 0.03,
        "train.steps": 40,
        "train.evaluations": 1,
        **({"task": task} if task else {}),
    }
    runs = [make_run(changes), make_run({**changes, "seed": 1})]
    population = advance(make_population(runs), 30)
    with torch.no_grad():
        for p, found in enumerate(population.evaluate()):
            assert found.step == 30
            per_split = [counted(population, split, p) for split in population.task.test_splits]
            if task:
                assert list(found.slices) == ["length 1", "length 3"]
                for numbers, (loss, accuracy, exact) in zip(
                    found.slices.values(), per_split, strict=True
                ):
                    assert numbers == {
                        "test_loss": pytest.approx(loss, rel=1e-5),
                        "accuracy": accuracy,
                        "exact": exact,
                    }
                assert found.train_score is None  # every row is new: there is no training set
            else:
                assert found.slices == {}
                assert found.train_score == counted(population, TRAIN_SAMPLE, p)[1]
                assert 0 < found.train_score < 1
                loss, accuracy, exact = per_split[0]
                assert (found.test_loss, found.accuracy, found.exact) == (
                    pytest.approx(loss, rel=1e-5),
                    accuracy,
                    exact,
                )
            assert 0 < found.accuracy < 1


def test_a_row_is_right_if_its_scored_labels_are(make_run, make_population):
    """Whatever is said in empty slots and of the end sign, which nobody has to get right."""
    lookup = COPYING | {"name": "ngram_lookup", "ngram": 1, "min_length": 2, "eval_lengths": [3]}
    population = make_population([make_run({"task": lookup})])

    def verdict(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(2), batch.scored_BK.flatten().expand(2, -1)

    population.model.verdict = verdict
    (found,) = population.evaluate()
    assert (found.accuracy, found.exact) == (1.0, 1.0)


def test_the_training_loss_is_the_mean_since_the_last_evaluation(make_run, make_population):
    runs = [make_run(), make_run(seed=1)]
    population = make_population(runs)
    for _ in range(2):
        losses = []
        for _ in range(3):
            batch = population.task.batch("train", population.step)
            losses.append(population.model.loss(batch).detach() / batch.labels_BK.numel())
            population.train_step(batch)
        expected = torch.stack(losses).mean(0).tolist()
        assert [found.train_loss for found in population.evaluate()] == pytest.approx(
            expected, rel=1e-5
        )


def test_rows_learnt_by_heart_show_in_the_training_score_alone(make_run, make_population):
    """A model of 16 channels learns 32 rows that do not tell it how to answer others."""
    changes = {
        "task.train_rows": 32,
        "train.lr": 0.03,
        "train.weight_decay": 0.0,
        "train.steps": 150,
        "train.evaluations": 1,
    }
    (found,) = advance(make_population([make_run(changes)]), 150).evaluate()
    assert found.train_score > 0.9
    assert found.accuracy < 0.6


# ---- state ----


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_restored_population_goes_on_as_if_nothing_had_happened(make_run, make_population, mixer):
    runs = family(make_run, {}, table(mixer, 16), 3)
    whole, before = advance(make_population(runs), 6), make_population(runs)
    states = {steps: advance(before, steps - before.step).state() for steps in (0, 1, 4)}
    advance(before, 1)  # a state is a copy: what happens later does not reach it
    wanted, evaluated = whole.state().tensors, whole.evaluate()
    for steps, state in states.items():
        after = make_population(runs)
        after.restore(state)
        advance(after, 6 - steps)
        assert_same_bits(wanted, after.state().tensors)
        assert evaluated == after.evaluate()


def test_a_state_is_data_with_the_member_first(make_run, make_population):
    runs = family(make_run, {}, "mamba", 3)
    state = advance(make_population(runs), 2).state()
    assert (state.run_ids, state.step, state.steps_since_evaluation) == (
        tuple(run.run_id for run in runs),
        2,
        2,
    )
    assert {tensor.shape[0] for tensor in state.tensors.values()} == {3}
    assert {name.partition("/")[0] for name in state.tensors} == {
        "weight",
        "first",
        "second",
        "loss_sum",
        "diverged",
    }


def test_the_state_of_one_member_has_no_padding(make_run, make_population):
    state = advance(make_population([make_run()]), 1).state()
    assert {tensor.shape[0] for tensor in state.tensors.values()} == {1}


def test_a_state_of_others_is_refused(make_run, make_population):
    a, b = make_run(), make_run(seed=1)
    state: PopulationState = make_population([a, b]).state()
    with pytest.raises(ValueError, match="it belongs to other members"):
        make_population([b, a]).restore(state)
    with pytest.raises(ValueError, match="it belongs to other members"):
        make_population([a, b]).restore(dataclasses.replace(state, run_ids=(a.run_id,)))


@pytest.mark.parametrize("mixer", MIXERS)
def test_thinning_out_changes_no_number(make_run, make_population, mixer):
    runs = family(make_run, {}, table(mixer, 16), 5)
    whole, thinned = advance(make_population(runs), 6), advance(make_population(runs), 2)
    for survivors in ([runs[3], runs[1], runs[4]], [runs[4]]):
        thinned.compact([run.run_id for run in survivors])
        assert thinned.members == survivors
        advance(thinned, 2)
    assert_same_bits(member(whole, runs[4]), member(thinned, runs[4]))
    assert thinned.evaluate() == [whole.evaluate()[4]]


def test_a_population_is_freed_with_its_last_reference(make_run, make_population):
    """Without waiting for the garbage collector:
    after a lack of memory the next, smaller one needs what it held.
    """
    population = advance(make_population([make_run(), make_run(seed=1)]), 2)
    watched = weakref.ref(population)
    gc.disable()
    try:
        del population
        assert watched() is None
    finally:
        gc.enable()


def test_the_clock_is_read_and_restarted_and_never_set(make_run, make_population):
    population = advance(make_population([make_run()]), 3)
    before = population.state()
    population.restart_clock()
    assert population.step == 0
    assert_same_bits(before.tensors, population.state().tensors)
    with pytest.raises(AttributeError):
        population.step = 1


def test_rows_are_copied_where_they_stay(make_run, make_population):
    """What a recorded step reads is overwritten by the next rows; a task's own rows never are."""
    task = make_population([make_run()]).task
    first, second = task.batch("train", 0), task.batch("train", 1)
    before = first.tokens_BL.clone()
    kept = _copy_batch(first, None)
    assert _copy_batch(second, kept) is kept
    assert torch.equal(kept.tokens_BL, second.tokens_BL)
    assert torch.equal(kept.labels_BK, second.labels_BK)
    assert torch.equal(first.tokens_BL, before)
