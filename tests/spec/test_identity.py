"""Identity by content: any single changed field of a run is another run, any other spelling of the
same content is not.

The fields are found by walking the models, so a field that is added later is tested without a word
here.
"""

import itertools
import json
import math
import typing
from collections.abc import Iterator
from typing import Any, Literal

import annotated_types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from recollect.errors import SpecError
from recollect.mixers.registry import MIXERS
from recollect.spec.base import Later
from recollect.spec.cell import cell_id
from recollect.spec.run import RunSpec
from recollect.spec.sweep import parse_sweep
from recollect.tasks.options import TASKS

# Every task once and every mixer once, with numbers that leave room around them: more kinds of
# length, more heads, more rows.
TASK_BASES: dict[str, dict[str, Any]] = {
    "mqar": {"name": "mqar", "length": 32},
    "recall": {"name": "recall"},
    "copying": {"name": "copying"},
    "ngram_lookup": {"name": "ngram_lookup"},
}
TRAIN = {"steps": 100, "batch": 8, "evaluations": 4}


def bases() -> list[dict[str, Any]]:
    longest = itertools.zip_longest(TASKS, MIXERS, fillvalue=None)
    pairs = [(task or "mqar", mixer or "attention") for task, mixer in longest]
    return [
        RunSpec.parse(
            {"task": TASK_BASES[task], "model": {"mixer": mixer}, "train": TRAIN}
        ).model_dump(mode="json")
        for task, mixer in pairs
    ]


def fields(
    model: BaseModel, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldInfo, Any]]:
    """Every field that holds a value and not another model:
    its path, what it may hold, what it holds.
    """
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from fields(value, (*path, name))
        else:
            yield (*path, name), field, value


def cases() -> list[Any]:
    """Every field of every base.

    The first run with a field draws many values of it; most fields are those of all runs.
    """
    found, known = [], set()
    for base in bases():
        names = f"{base['task']['name']}-{base['model']['mixer']['name']}"
        for path, field, value in fields(RunSpec.parse(base)):
            examples = (
                20 if id(field) in known and path[-1] != "width" else 60
            )  # each mixer allows widths of its own
            known.add(id(field))
            found.append(
                pytest.param(base, path, field, value, examples, id=f"{names}-{'.'.join(path)}")
            )
    return found


CASES = cases()


def others(field: FieldInfo, value: Any) -> st.SearchStrategy[Any]:
    """Values of the field's type and range, near the one it has and far away from it."""
    bounds = {"ge": -math.inf, "gt": -math.inf, "le": math.inf, "lt": math.inf}
    for mark in field.metadata:
        bounds |= {name: getattr(mark, name) for name in bounds if isinstance(mark, _BOUNDS[name])}
    low, high = max(bounds["ge"], bounds["gt"]), min(bounds["le"], bounds["lt"])
    if typing.get_origin(field.annotation) is Literal:
        return st.sampled_from(
            [choice for choice in typing.get_args(field.annotation) if choice != value] or [None]
        )
    if isinstance(value, bool):
        return st.just(not value)
    if isinstance(value, int):
        near = st.integers(max(low, value - 8), min(high, value + 8))
        return near | st.integers(int(max(low, -(2**40))), int(min(high, 2**40)))
    if isinstance(value, float):
        neighbours = [
            math.nextafter(value, math.inf),
            math.nextafter(value, -math.inf),
            value * 2,
            value / 2,
        ]
        return st.sampled_from(neighbours) | st.floats(max(low, -1e6), min(high, 1e6))
    if isinstance(value, tuple):
        return st.lists(st.integers(1, 200), min_size=1, max_size=4, unique=True).map(tuple)
    raise AssertionError(f"no way to change {value!r}: teach this test the type of the new field")


_BOUNDS: dict[str, type] = {
    "ge": annotated_types.Ge,
    "gt": annotated_types.Gt,
    "le": annotated_types.Le,
    "lt": annotated_types.Lt,
}


def changed(base: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    head, *rest = path
    return base | {head: changed(base[head], tuple(rest), value) if rest else value}


# A name with one choice is fixed by its model, which differs from every other model by it.
CHANGEABLE = [
    case
    for case in CASES
    if len(typing.get_args(case.values[2].annotation)) != 1 or case.values[1][-1] != "name"
]
# What another value of a field needs beside it.
NEEDED: dict[str, dict[tuple[str, ...], Any]] = {
    "warmup_steps": {("train", "warmup"): 0.0},
    "residual": {("model", "block"): "mixer+mlp"},
}
FIXED = ("data", "order", "last_batch")  # of tasks whose rows are new at every step: one choice


@pytest.mark.parametrize(("base", "path", "field", "value", "examples"), CHANGEABLE)
def test_another_value_of_any_field_is_another_run(
    base: dict[str, Any], path: tuple[str, ...], field: FieldInfo, value: Any, examples: int
) -> None:
    for beside, needed in NEEDED.get(path[-1], {}).items():
        base = changed(base, beside, needed)
    before, accepted = RunSpec.parse(base).run_id, set()

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True)
    @given(others(field, value))
    def change(other: Any) -> None:
        try:
            run = RunSpec.parse(changed(base, path, other))
        except SpecError:
            return  # outside what the task or the mixer allows
        same = (
            other == value
        )  # -0.0 is 0.0, and a float may be drawn that equals the one it replaces
        assert (run.run_id == before) == same
        if not same:
            accepted.add(run.run_id)

    change()
    fixed = path[-1] in FIXED and base["task"]["data"] == "fresh"
    assert accepted or fixed, "no other value of this field was ever allowed: nothing was tested"


def test_every_model_is_walked() -> None:
    assert {base["task"]["name"] for base in bases()} == set(TASKS) == set(TASK_BASES)
    assert {base["model"]["mixer"]["name"] for base in bases()} >= {"attention", "mamba"}
    assert len(CHANGEABLE) > 80


def test_no_two_values_of_a_field_share_an_identity() -> None:
    """Floats that print alike at few digits are different runs."""
    rates = [0.001, math.nextafter(0.001, 1), 0.0010000001, 0.00100001, 1e-3 + 1e-18 * 1000]
    ids = {
        RunSpec.parse(
            {"task": "mqar", "model": {"mixer": "mamba"}, "train": TRAIN | {"lr": rate}}
        ).run_id
        for rate in rates
    }
    assert len(ids) == len(set(rates))


LATER = [case for case in CASES if any(isinstance(mark, Later) for mark in case.values[2].metadata)]


@pytest.mark.parametrize(("base", "path", "field", "value", "examples"), LATER)
def test_a_field_that_came_later_is_written_only_when_it_is_set(
    base: dict[str, Any], path: tuple[str, ...], field: FieldInfo, value: Any, examples: int
) -> None:
    assert value == field.default
    assert path[-1] not in inner(base, path[:-1])
    spelt = RunSpec.parse(changed(base, path, value))
    assert spelt.run_id == RunSpec.parse(base).run_id
    assert spelt.shape_id == RunSpec.parse(base).shape_id


def inner(table: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    for key in path:
        table = table[key]
    return table


def test_ids_of_shapes_are_those_of_stored_checkpoints():
    """As of commit 6d0e802; whatever was added since is off and not written."""
    pinned = {
        "attention": "a819922f85f6806f",
        "mamba": "a45b35c40d8e4d53",
        "delta_net": "72257b644a5ba9bb",
    }
    for mixer, shape_id in pinned.items():
        run = RunSpec.parse({"task": "mqar", "model": {"mixer": mixer}, "train": {"steps": 10}})
        assert run.shape_id == shape_id


SPELT = """
seed = 7
[task]
name = "mqar"
length = 32
[model]
mixer = "attention"
width = 64
[train]
lr = 1e-3
weight_decay = 0.0
steps = 50
batch = 512
"""
SPELLINGS = {
    "decimal": SPELT.replace("1e-3", "0.001"),
    "another exponent": SPELT.replace("1e-3", "10.0e-4"),
    "negative zero": SPELT.replace("0.0\n", "-0.0\n"),
    "whole number for a float": SPELT.replace("weight_decay = 0.0", "weight_decay = 0"),
    "underscore and hexadecimal": SPELT.replace("steps = 50", "steps = 0x32").replace(
        "512", "5_12"
    ),
    "mixer as a table": SPELT.replace('"attention"', '{ name = "attention" }'),
    "defaults written out": SPELT.replace('"attention"', '{ heads = 1, name = "attention" }')
    .replace(
        "[train]",
        'depth = 2\nblock = "mixer+mlp"\nnorm = '
        '"layer"\npositions = '
        '"learned"\nmlp_ratio = 4\n[train]',
    )
    .replace(
        "lr = 1e-3",
        'lr = 1e-3\nbeta1 = 0.9\nclip = 0\nwarmup = 0.1\ndecay = "cosine"\nevaluations = 20',
    ),
    "default batch left out": SPELT.replace("batch = 512\n", ""),
    "dotted keys": "task.length = 32\ntask.name = "
    '"mqar"\nmodel.width = '
    '64\nmodel.mixer.name = "attention"\nseed = 7\n'
    "train = { batch = 512, steps = 50, lr = 1e-3, weight_decay = 0.0 }",
    "sections in another order": "\n".join(
        ["seed = 7", *("[" + part for part in SPELT.split("[")[:0:-1])]
    ),
    "axis of one value": SPELT.replace("lr = 1e-3\n", "") + "[sweep]\ntrain.lr = [1e-3]",
    "grid of one point": SPELT.replace("lr = 1e-3\n", "")
    + "[sweep]\ntrain.lr = { from = 1e-3, to = 1, points = 1 }",
    "another name of the sweep": 'name = "something else"' + SPELT,
    "comments and blanks": SPELT.replace("\n", "   # a remark\n\n"),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_another_spelling_is_the_same_run(name: str) -> None:
    (plain,), (respelt,) = parse_sweep(SPELT).runs, parse_sweep(SPELLINGS[name]).runs
    assert respelt.run_id == plain.run_id
    assert respelt.canonical_json() == plain.canonical_json()
    assert RunSpec.from_json(respelt.canonical_json()).run_id == plain.run_id


@settings(max_examples=100, deadline=None, database=None)
@given(epochs=st.integers(1, 60), rows=st.integers(1, 4000), batch=st.integers(1, 4000))
def test_epochs_are_the_same_run_as_their_steps(epochs: int, rows: int, batch: int) -> None:
    base = {"task": {"name": "recall", "train_rows": rows}, "model": {"mixer": "mamba"}}
    batch = min(batch, rows)
    by_epochs = RunSpec.parse(base | {"train": {"epochs": epochs, "batch": batch}})
    by_steps = RunSpec.parse(base | {"train": {"steps": epochs * (rows // batch), "batch": batch}})
    assert by_epochs.run_id == by_steps.run_id


@settings(max_examples=100, deadline=None, database=None)
@given(order=st.randoms(use_true_random=False), which=st.integers(0, 3))
def test_the_order_of_keys_means_nothing(order: Any, which: int) -> None:
    def shuffled(table: dict[str, Any]) -> dict[str, Any]:
        keys = list(table)
        order.shuffle(keys)
        return {
            key: shuffled(table[key]) if isinstance(table[key], dict) else table[key]
            for key in keys
        }

    base = bases()[which]
    assert RunSpec.parse(shuffled(base)).run_id == RunSpec.parse(base).run_id


def test_the_id_of_a_cell_is_the_one_in_stored_weights():
    """As written into files of weights by commit be4d9e8; rate and seed do not matter."""
    table = {"task": "mqar", "model": {"mixer": "attention"}, "train": {"steps": 10}, "seed": 3}
    run = RunSpec.parse(table)
    assert cell_id(run.model_dump(mode="json")) == "c30b44b043bcd60a"
    assert cell_id(json.loads(run.canonical_json())) == "c30b44b043bcd60a"
    other = RunSpec.parse(table | {"seed": 4, "train": {"steps": 10, "lr": 0.1}})
    assert cell_id(other.model_dump(mode="json")) == "c30b44b043bcd60a"
    longer = RunSpec.parse(table | {"train": {"steps": 11}})
    assert cell_id(longer.model_dump(mode="json")) != "c30b44b043bcd60a"
