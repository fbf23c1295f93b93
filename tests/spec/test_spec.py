"""Specifications: what is refused and in which words, what a default resolves to,
and what is one identity.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from recollect.errors import SpecError
from recollect.mixers.registry import MIXERS
from recollect.spec.base import toml_value
from recollect.spec.model import ModelSpec
from recollect.spec.run import RunSpec
from recollect.spec.train import TrainSpec

LR = "for example lr = 0.001 (learning rate at its peak)"
STEPS = "for example steps = 1000 (optimiser steps)"
HEADS = "for example heads = 1 (number of heads; must divide the width)"
MORE_MIXERS = (
    f"and {len(MIXERS) - 4} more; `recollect mixers` lists all (one of a plug-in needs --plugin "
    "FILE.py)"
)
EPOCHS = "must be a number greater than 0 and at most 1,000,000; for example epochs = 50"

REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"train": {"ler": 1e-3}}, "train.ler: unknown key; did you mean lr?"),
    ({"train": {"lr": "1e-3"}}, f"train.lr = '1e-3': must be a number; {LR}"),
    ({"train": {"lr": True}}, f"train.lr = True: must be a number; {LR}"),
    ({"train": {"lr": 0}}, f"train.lr = 0: must be greater than 0.0; {LR}"),
    ({"train": {"lr": 1e4}}, f"train.lr = 10000.0: must be at most 1000.0; {LR}"),
    ({"train": {"lr": float("nan")}}, f"train.lr = nan: must be a finite number; {LR}"),
    ({"train": {"lr": float("inf")}}, f"train.lr = inf: must be a finite number; {LR}"),
    ({"train": {"lr": [1e-3]}}, f"train.lr = [0.001]: must be a number; {LR}"),
    ({"train": {"steps": 1.0}}, f"train.steps = 1.0: must be a whole number; {STEPS}"),
    ({"train": {"steps": "64"}}, f"train.steps = '64': must be a whole number; {STEPS}"),
    ({"train": {"steps": True}}, f"train.steps = True: must be a whole number; {STEPS}"),
    ({"train": {"steps": 0}}, f"train.steps = 0: must be at least 1; {STEPS}"),
    (
        {"train": {"batch": 0}},
        "train.batch = 0: must be at least 1; for example batch = 512 (rows per step)",
    ),
    (
        {"train": {"batch": 200_000}},
        "train.batch = 200000: must be between 1 and train_rows = 100000; use a smaller batch",
    ),
    ({"train": {"epochs": 0}}, f"train.epochs = 0: {EPOCHS}"),
    ({"train": {"epochs": True}}, f"train.epochs = True: {EPOCHS}"),
    ({"train": {"epochs": float("nan")}}, f"train.epochs = nan: {EPOCHS}"),
    (
        {"train": {"epochs": 5, "steps": 4}},
        "train.epochs = 5 and train.steps = 4: give one of the two",
    ),
    (
        {"train": {"evaluations": 5, "steps": 4}},
        "train: evaluations = 5: must be at most steps = 4; give fewer, or leave it out for a "
        "fitting number",
    ),
    (
        {"train": {"decay": "cos"}},
        "train.decay = 'cos': must be one of 'cosine', 'linear', 'constant' or 'cosine-per-epoch'; "
        'for example decay = "cosine" (what the rate does after the warmup)',
    ),
    ({"train": 5}, "train = 5: must be a table of keys; give train"),
    ({"model": {"mixer": "mambo"}}, "model.mixer: 'mambo' is no mixer here; did you mean mamba?"),
    (
        {"model": {"mixer": "perceptron"}},
        "model.mixer: 'perceptron' is no mixer here; known: retnet, base_conv, linear_attention, "
        f"delta_net {MORE_MIXERS}",
    ),
    (
        {"model": {"mixer": 3}},
        "model.mixer: 3 must be the name of a mixer or a table with a name; see `recollect mixers`",
    ),
    (
        {"model": {"mixer": {"heads": 2}}},
        "model.mixer: None is no mixer here; known: retnet, delta_net, base_conv, attention "
        f"{MORE_MIXERS}",
    ),
    (
        {"model": {"mixer": {"name": "attention", "head": 2}}},
        "model.mixer.head: unknown key; did you mean heads?",
    ),
    (
        {"model": {"mixer": {"name": "attention", "heads": "2"}}},
        f"model.mixer.heads = '2': must be a whole number; {HEADS}",
    ),
    (
        {"model": {"mixer": {"name": "attention", "heads": 3}}},
        "model: mixer.heads = 3: must divide width = 64; for example heads = 1",
    ),
    (
        {"model": {"mixer": "mamba", "positions": "rope"}},
        'model: positions = "rope": mamba has no scores to put them '
        "on; use none, learned, sinusoidal or relative",
    ),
    (
        {"model": {"mixer": "attention", "width": 63, "positions": "rope"}},
        "model: width = 63: rope turns pairs of channels, but rope_share = 1.0 of a head's 63 is "
        "63; make it an even number",
    ),
    (
        {"model": {}},
        'model.mixer: missing; for example mixer = "attention" '
        "(the sequence mixer: a name, a table with its options, or a list of both by layer)",
    ),
    ({"task": "mqr"}, "task: 'mqr' is no task here; did you mean mqar?"),
    (
        {"task": {"pairs": 3}},
        "task: None is no task here; known: copying, mqar, ngram_lookup, recall",
    ),
    (
        {"task": {"name": "mqar", "pairs": 40}},
        "task.pairs = 40: 4 * pairs must be at most length = 64; use at most 16 pairs",
    ),
    ({"task": {"name": "mqar", "pears": 4}}, "task.pears: unknown key; did you mean pairs?"),
    (
        {"seed": -1},
        "seed = -1: must be at least 0; for example seed = 42 (draws the initial weights)",
    ),
    (
        {"seed": 1.0},
        "seed = 1.0: must be a whole number; for example seed = 42 (draws the initial weights)",
    ),
    ({"sead": 1}, "sead: unknown key; did you mean seed?"),
]


def plain(changes: dict[str, Any]) -> dict[str, Any]:
    return {"task": "mqar", "model": {"mixer": "attention"}, "train": {}} | changes


@pytest.mark.parametrize(
    ("changes", "message"), REFUSALS, ids=[str(changes)[:60] for changes, _ in REFUSALS]
)
def test_a_refusal_names_value_rule_and_remedy(changes, message):
    with pytest.raises(SpecError) as caught:
        RunSpec.parse(plain(changes))
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


def test_several_problems_come_together_in_three_lines_at_most():
    mixer = {"name": "mamba", "state": 0, "expnd": 1}
    with pytest.raises(SpecError) as caught:
        RunSpec.parse(plain({"model": {"mixer": mixer}}))
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "model.mixer.state = 0",
        "model.mixer.expnd",
    ]
    with pytest.raises(SpecError) as caught:
        RunSpec.parse(
            plain(
                {
                    "model": {"mixer": "mamba", "width": 0, "depth": 0},
                    "train": {"lr": 0, "warmup": 2},
                    "seed": -1,
                }
            )
        )
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "model.width = 0",
        "model.depth = 0",
        "and 3 more problems",
    ]


def test_a_long_value_does_not_flood_the_message():
    with pytest.raises(SpecError) as caught:
        RunSpec.parse(plain({"task": "x" * 10_000}))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("raw", [5, None, [], "mqar"])
def test_what_is_no_table_is_refused(raw):
    with pytest.raises(SpecError, match="must be a table of keys"):
        RunSpec.parse(raw)


def test_the_path_of_a_part_can_be_given():
    with pytest.raises(SpecError, match=r"^train\.steps = 0: must be at least 1"):
        TrainSpec.parse({"steps": 0, "batch": 1, "evaluations": 1}, at="train")


# ---- defaults ----


def test_defaults_are_those_of_the_study():
    run = RunSpec.parse(plain({}))
    task, train = run.task, run.train
    assert (run.seed, run.data_seed) == (42, 0)
    assert (task.vocabulary, task.length, task.pairs, task.train_rows, task.test_rows) == (
        8192,
        64,
        4,
        100_000,
        3_000,
    )
    assert (task.vocabulary_split, task.filler, task.placement, task.power) == (
        "shared",
        "zero",
        "power",
        0.01,
    )
    assert task.data == "reshuffled"
    assert (train.weight_decay, train.beta1, train.beta2, train.eps) == (0.1, 0.9, 0.999, 1e-8)
    assert (train.warmup, train.decay, train.clip, train.stop_solved) == (0.1, "cosine", 0.0, 0.0)
    assert (train.batch, train.steps, train.evaluations) == (512, 50 * (100_000 // 512), 20)
    assert (run.model.width, run.model.depth, run.model.mlp_ratio) == (64, 2, 4)


@pytest.mark.parametrize(
    ("mixer", "resolved"),
    [("attention", ("mixer+mlp", "layer", "learned")), ("mamba", ("mixer", "rms", "none"))],
)
def test_block_norm_and_positions_come_from_the_mixer_unless_given(mixer, resolved):
    model = ModelSpec.parse({"mixer": mixer})
    assert (model.block, model.norm, model.positions) == resolved
    other = ModelSpec.parse(
        {"mixer": mixer, "block": "mixer+identity", "norm": "rms", "positions": "sinusoidal"}
    )
    assert (other.block, other.norm, other.positions) == ("mixer+identity", "rms", "sinusoidal")


@pytest.mark.parametrize("mixer", MIXERS)
def test_what_a_default_resolved_to_is_recorded(mixer):
    run = RunSpec.parse(plain({"model": {"mixer": mixer}}))
    written = run.canonical_json()
    for key in ("block", "norm", "positions", "steps", "batch", "evaluations"):
        assert f'"{key}":' in written
    assert "epochs" not in written


@pytest.mark.parametrize(
    ("length", "batch"), [(64, 512), (128, 512), (256, 256), (512, 128), (1024, 64)]
)
def test_batch_follows_the_length_and_steps_follow_the_batch(length, batch):
    run = RunSpec.parse(plain({"task": {"name": "mqar", "length": length}, "train": {"epochs": 3}}))
    assert (run.train.batch, run.train.steps) == (batch, 3 * (100_000 // batch))
    assert run.steps_per_epoch == 100_000 // batch


def test_epochs_may_be_broken_and_never_give_zero_steps(make_run):
    table = {"name": "mqar", "train_rows": 100}
    assert (
        RunSpec.parse(plain({"task": table, "train": {"batch": 10, "epochs": 2.5}})).train.steps
        == 25
    )
    assert (
        RunSpec.parse(plain({"task": table, "train": {"batch": 10, "epochs": 1e-6}})).train.steps
        == 1
    )


def test_few_steps_have_few_evaluations():
    assert RunSpec.parse(plain({"train": {"steps": 7}})).train.evaluations == 7
    assert RunSpec.parse(plain({"train": {"steps": 700}})).train.evaluations == 20


@given(st.integers(1, 10_000), st.integers(1, 200))
def test_evaluations_are_evenly_spaced_and_the_last_step_is_one(steps, evaluations):
    evaluations = min(steps, evaluations)
    looks = TrainSpec(steps=steps, batch=1, evaluations=evaluations).evaluation_steps()
    assert len(looks) == len(set(looks)) == evaluations
    assert looks[-1] == steps
    gaps = [after - before for before, after in zip([0, *looks], looks, strict=False)]
    assert min(gaps) >= 1
    assert max(gaps) - min(gaps) <= 1


# ---- identity ----


def test_a_specification_is_frozen(make_run):
    run = make_run()
    with pytest.raises(ValidationError, match="frozen"):
        run.train.lr = 1.0
    with pytest.raises(ValidationError, match="frozen"):
        run.seed = 7


def test_equal_content_is_one_identity_however_it_is_spelt(make_run):
    run = make_run({"train.lr": 1.0, "train.weight_decay": 0.0})
    assert make_run({"train.lr": 1, "train.weight_decay": -0.0}).run_id == run.run_id
    named = RunSpec.parse(plain({"model": {"mixer": "attention"}}))
    assert named == RunSpec.parse(
        plain({"model": {"mixer": {"name": "attention", "heads": 1}, "depth": 2}})
    )
    assert RunSpec.from_json(run.canonical_json()) == run
    assert RunSpec.from_json(run.canonical_json()).run_id == run.run_id


def test_a_wish_that_came_later_leaves_stored_ids_alone():
    """The first row of results/precision/h200.csv, stored before train.stop_hopeless was there."""
    train = {"lr": 1e-4, "precision": "fp32", "steps": 2000, "evaluations": 4}
    run = RunSpec.parse({"task": "mqar", "model": {"mixer": "attention"}, "train": train})
    assert run.run_id == "425a642aaa6bd562"
    assert (
        RunSpec.parse({**plain({}), "train": {**train, "stop_hopeless": 0.0}}).run_id == run.run_id
    )
    wished = RunSpec.parse({**plain({}), "train": {**train, "stop_hopeless": 0.1}})
    assert wished.run_id != run.run_id
    assert RunSpec.from_json(wished.canonical_json()) == wished


def test_what_changes_no_shape_may_differ_inside_a_population(make_run):
    run = make_run()
    same = {
        "train.lr": 1.0,
        "train.weight_decay": 0.0,
        "train.warmup": 0.5,
        "train.decay": "linear",
        "train.clip": 1.0,
        "train.stop_solved": 0.9,
        "train.stop_hopeless": 0.1,
        "seed": 7,
    }
    for key, value in same.items():
        other = make_run({key: value})
        assert other.run_id != run.run_id
        assert other.shape_id == run.shape_id, key
    others = {
        "train.steps": 7,
        "train.batch": 16,
        "train.beta1": 0.8,
        "train.evaluations": 2,
        "data_seed": 1,
        "model.depth": 1,
        "task.pairs": 3,
        "model.width": 8,
        "model.norm": "rms",
        "model.mixer": "mamba",
        "model.mixer.heads": 2,
    }
    for key, value in others.items():
        assert make_run({key: value}).shape_id != run.shape_id, key


# ---- words ----


def test_values_are_written_as_toml_writes_them():
    assert [toml_value(value) for value in (True, "a", [1, "b"], (2.5,), 3)] == [
        "true",
        '"a"',
        '[1, "b"]',
        "[2.5]",
        "3",
    ]


TRAIN = {"steps": 1, "batch": 1, "evaluations": 1}


def test_a_name_of_other_programs_is_understood_where_it_belongs():
    with pytest.raises(SpecError, match=r"batch_size: unknown key; did you mean batch\?"):
        TrainSpec.parse(TRAIN | {"batch_size": 3})
    with pytest.raises(SpecError, match="d_model: unknown key; known: batch, "):
        TrainSpec.parse(TRAIN | {"d_model": 3})


@pytest.mark.parametrize("problems", [1, 2, 3, 4, 25])
def test_three_problems_are_told_in_full_and_of_more_the_first_two(problems):
    with pytest.raises(SpecError) as caught:
        TrainSpec.parse(TRAIN | {f"wrong{i}": 1 for i in range(problems)})
    lines = str(caught.value).splitlines()
    told = problems if problems <= 3 else 2
    assert [line.split(":")[0] for line in lines[:told]] == [f"wrong{i}" for i in range(told)]
    assert lines[told:] == ([f"and {problems - 2} more problems"] if problems > 3 else [])
