"""What the results page says of causes: their order, what is settled, and what to train for the
rest.
"""

import json
import shlex
from dataclasses import replace
from itertools import pairwise

import pytest
from claims_made import NARROW, WIDE, made_row, within

from recollect.reports.paper.causes import Gain, find_causes, is_thin
from recollect.reports.paper.presets import open_sweep
from recollect.spec.cell import cell_id

SEEDS = "sweep.seed=[42,123,777]"
FLOOR = 0.02
A_LITTLE_LESS, LESS = (1e-4, 5e-3), (2e-3, 1e-2)  # than WIDE


def trained(window, *words, size=(64, 4), mixer="attention", seeds=SEEDS, recipe="study"):
    """The runs of one cell; they solve the task at the rates of this window."""
    length, pairs = size
    place = [f"model.mixer={mixer}", f"task.length={length}", f"task.pairs={pairs}"]
    runs = open_sweep("paper:fig1", [*place, "model.width=64", seeds, *words], recipe).runs
    return [
        replace(
            made_row(run, within(run, window, 0.999, FLOOR)),
            run_id=run.run_id,
            spec=json.loads(run.canonical_json()),
        )
        for run in runs
    ]


def causes_of(*cells):
    return find_causes([row for cell in cells for row in cell], "study")


NO_DROPOUT = "model.dropout=0.0"
SHARED = 'task.vocabulary_split="shared"'


def test_the_largest_change_comes_first_and_ablations_stand_apart(docs):
    from result_causes import choices_among, largest_changes

    mamba = 'model.mixer={name="mamba",kernel=0}'
    causes = causes_of(
        trained(WIDE),
        trained(A_LITTLE_LESS, SHARED),
        trained(NARROW, NO_DROPOUT),
        trained(WIDE, mixer="mamba"),
        trained(NARROW, mamba),
    )
    found = choices_among(causes)
    assert [cause.text for cause in found] == [
        "dropout 0.1 to 0",
        "vocabulary split halves to shared",
    ]
    assert len(causes) == 3
    assert [cause.text for cause in causes if cause.is_ablation] == ["without convolution"]
    assert largest_changes(causes) == [
        "What narrows a window most so far: Attention, dropout 0.1 to 0, (64, 4), 2 layers: 2.1 to"
        " 0.3 decades (from `study`)."
    ]


def test_a_settled_change_is_told_before_a_larger_one_that_is_not(docs):
    from result_causes import answer, largest_changes

    causes = causes_of(
        trained(WIDE),
        trained(LESS, SHARED),
        trained(NARROW, NO_DROPOUT, seeds="sweep.seed=[42]"),
    )
    [line] = largest_changes(causes)
    settled, larger = line.split("; larger, but not settled: ")
    assert "vocabulary split halves to shared" in settled
    assert "dropout 0.1 to 0" in larger
    told = answer(causes)
    assert told[0] == (
        "2 changes of one choice measured so far; 1 of them is more than other seeds may do. Of 1"
        " interval, 0.05 would leave out 0 by chance alone, if no change did anything."
    )
    assert told[1].startswith("Attention, vocabulary split halves to shared, (64, 4), 2 layers: ")
    assert told[2].startswith("The largest is not settled. Attention, dropout 0.1 to 0, ")
    assert told[2].endswith("3 seeds a rate before the change, 1 seed after, too few to say.")
    assert told[3] == (
        "Attention, (64, 4), 2 layers: 2 changes from `study` move W(0.9) by -1.8 to -1.4 decades;"
        " 1 of them is beyond seeds."
    )
    assert told[4].startswith("2 of the 68 changes that `paper:why` tries ")


def test_all_changes_stand_beside_each_other_by_model_and_size(docs):
    from result_causes import choices_among, glance

    causes = causes_of(
        trained(WIDE),
        trained(LESS, SHARED),
        trained(NARROW, NO_DROPOUT, seeds="sweep.seed=[42]"),
        trained(WIDE, size=(256, 16)),
        trained(WIDE, NO_DROPOUT, size=(256, 16)),
    )
    head, table = glance(choices_among(causes)).strip().split("\n\n")
    assert head.startswith("Decades of W(0.9) gained or lost by one change from `study`, width 64,")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert rows[0] == ["change", "Attention (64, 4)", "Attention (256, 16)"]
    assert rows[2:] == [
        ["W(0.9) under `study`", "2.10", "2.10"],
        ["dropout 0.1 to 0", "-1.8", "0.0"],
        ["vocabulary split halves to shared", "**-1.4**", "–"],
    ]
    assert glance([]) == ""


def test_what_two_changes_of_a_cell_say_of_each_other_is_not_told(docs):
    from result_causes import all_causes, choices_among

    none, long = "train.warmup=0.0", "train.warmup=0.3"
    changes = [row for words in (none, long) for row in trained(NARROW, words)]
    found = all_causes(changes)
    assert [cause.text for cause in choices_among(found)] == ["warmup 0 to 0.3"]
    found = all_causes([*trained(WIDE), *changes])
    assert sorted(cause.text for cause in choices_among(found)) == [
        "warmup 0.1 to 0",
        "warmup 0.1 to 0.3",
    ]
    assert len(found) == 3


def test_small_changes_that_are_not_settled_are_counted(docs):
    from result_causes import choices_among, unsettled_section

    [cause] = choices_among(causes_of(trained(WIDE), trained(WIDE, SHARED)))
    assert unsettled_section([cause]) == "1 smaller change is not settled.\n"
    large = causes_of(trained(WIDE), trained(NARROW, NO_DROPOUT, seeds="sweep.seed=[42]"))
    told = unsettled_section([*large, cause, cause])
    assert told.startswith("Not settled, of 0.5 decades or more:\n\n- Attention, dropout")
    assert told.endswith("\n\n2 smaller changes are not settled either.\n")


def test_opposite_effects_at_two_sizes_are_told(docs):
    from result_causes import answer

    sizes = (64, 4), (256, 16)
    bases = [trained(A_LITTLE_LESS, size=size) for size in sizes]
    changes = [
        trained(window, NO_DROPOUT, size=size)
        for window, size in zip((WIDE, NARROW), sizes, strict=True)
    ]
    [line] = [
        text for text in answer(causes_of(*bases, *changes)) if text.startswith("One change may")
    ]
    assert "Attention, dropout 0.1 to 0 gives " in line
    assert " at (64, 4)" in line
    assert " at (256, 16)" in line


def test_the_remedy_trains_what_is_left_of_both_cells(docs):
    from result_remedies import find_remedy, remedy_text

    before, after = trained(WIDE), trained(NARROW, NO_DROPOUT, seeds="sweep.seed=[42]")
    [cause] = causes_of(before, after)
    found = find_remedy(cause)
    assert (found.seeds, found.runs, found.left) == (3, 78, 26)
    words = shlex.split(found.command)
    assert words[:3] == ["recollect", "run", "paper:fig1"]
    options = dict(pairwise(words))
    settings = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    runs = open_sweep(words[2], settings, options["--recipe"]).runs
    planned = {run.run_id for run in runs}
    assert {row.run_id for row in (*before, *after)} <= planned
    assert {cell_id(json.loads(run.canonical_json())) for run in runs} == {
        cell_id(rows[0].spec) for rows in (before, after)
    }
    assert remedy_text(cause) == (
        f"26 more runs would give both sides 3 seeds a rate: `{found.command}`."
    )


def test_with_three_seeds_the_remedy_asks_for_five_and_then_for_none(docs):
    from result_remedies import find_remedy, remedy_text

    [cause] = causes_of(trained(WIDE), trained(NARROW, NO_DROPOUT))
    assert (find_remedy(cause).seeds, find_remedy(cause).left) == (5, 52)
    five = "sweep.seed=[42,123,777,456,789]"
    [whole] = causes_of(trained(WIDE, seeds=five), trained(NARROW, NO_DROPOUT, seeds=five))
    assert remedy_text(whole) == "All 130 runs with 5 seeds at every rate are trained."


def test_a_deviation_from_a_recipe_is_part_of_the_remedy(docs):
    """A pair of cells may begin with a change of a recipe."""
    from result_remedies import find_remedy

    before = trained(WIDE, NO_DROPOUT)
    after = trained(NARROW, NO_DROPOUT, 'train.precision="tf32"')
    rows = [*before, *after]
    [cause] = find_causes(rows, "study but dropout=0")
    command = find_remedy(cause).command
    assert "--recipe study " in command
    assert "--set model.dropout=0.0" in command
    assert """--set 'sweep.train.precision=["bf16","tf32"]'""" in command


@pytest.mark.parametrize(
    ("opened", "told"),
    [
        ((False, False), "+1.00"),
        ((False, True), "+1.00 (≥)"),
        ((True, False), "+1.00 (≤)"),
        ((True, True), "+1.00 (?)"),
    ],
)
def test_a_window_that_is_wider_than_its_grid_bounds_the_gain_from_its_side(docs, opened, told):
    from result_causes import gain_text

    assert gain_text(Gain(0.9, 1.0, 2.0, None, *opened)) == told


@pytest.mark.parametrize(("single", "thin"), [(2, False), (3, True)])
def test_a_window_is_thin_if_most_of_its_rates_have_one_seed(single, thin):
    from recollect.analysis import group_cells

    rows = trained((1e-3, 1e-2))
    inside = sorted({row.spec["train"]["lr"] for row in rows if row.spec["train"]["lr"] >= 1e-3})
    few = inside[:single]
    kept = [row for row in rows if row.spec["train"]["lr"] not in few or row.spec["seed"] == 42]
    [cell] = group_cells(kept)
    assert is_thin(cell) is thin
