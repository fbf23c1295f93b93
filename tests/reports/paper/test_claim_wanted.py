"""What is still to be trained: commands that train it, and what they cost."""

import shlex
import tomllib
from dataclasses import replace
from itertools import pairwise

import pytest
from claims_made import (
    BY_NAME,
    NAMES,
    made_rows,
    search_of,
    study_score,
    trained_as_asked,
    verdict_of,
)

from recollect.analysis import group_cells
from recollect.reports.paper import presets
from recollect.reports.paper.claims import CLAIMS, HEADLINE, check
from recollect.reports.paper.claims.roles import ATTENTION_2, HYENA_2, MAMBA_2
from recollect.reports.paper.claims.wanted import Want, first_of_each, next_cells
from recollect.reports.paper.study import RATES, SEEDS
from recollect.rows import RunRow
from recollect.spec.recipes import RECIPES, recipe_of
from recollect.spec.run import RunSpec


def runs_of(command: str) -> tuple[RunSpec, ...]:
    recollect, run, preset, *options = shlex.split(command)
    assert (recollect, run, options[-2:]) == ("recollect", "run", ["--out", "out"])
    sets = [value for key, value in pairwise(options) if key == "--set"]
    recipe = next((value for key, value in pairwise(options) if key == "--recipe"), None)
    return presets.read_preset(preset.removeprefix("paper:"), overrides=sets, recipe=recipe).runs


def distinct_wants() -> list[Want]:
    """One of each model, depth, preset and task that a claim may ask for."""
    found: dict[tuple[object, ...], Want] = {}
    for verdict in check([], {}, "plain", CLAIMS):
        for want in verdict.wants:
            found.setdefault((want.role, want.preset, want.depth, want.positions), want)
    return list(found.values())


WANTS = distinct_wants()


def test_there_is_something_to_ask_for():
    assert len(WANTS) > 40
    assert {want.task for want in WANTS} == {"mqar", "copying"}


@pytest.mark.parametrize("want", WANTS, ids=lambda want: want.text)
def test_a_command_trains_that_cell_and_no_other(want):
    runs = runs_of(want.command())
    rows = [RunRow(run.run_id, run.model_dump(mode="json"), "todo", "accuracy", 0) for run in runs]
    assert len(group_cells(rows)) == 1
    (run, *_) = runs
    assert want.role.fits(
        {"model.mixer.name": run.model.mixer.name, "model.depth": run.model.depth}
        | {f"model.mixer.{key}": value for key, value in run.model.mixer.model_dump().items()}
        | {"model.positions": run.model.positions}
    )
    assert (run.model.width, run.model.depth) == (want.width, want.depth)
    if want.task == "mqar":
        assert (run.task.length, run.task.pairs) == want.size
    assert {run.train.lr for run in runs} == set(RATES)
    assert {run.seed for run in runs} == set(SEEDS[:3])
    # The cost is what the command trains.
    assert want.run_steps("plain") == sum(run.train.steps for run in runs)


@pytest.mark.parametrize("name", presets.NAMES)
def test_rates_and_seeds_are_those_of_the_presets(name):
    axes = tomllib.loads(presets.preset_text(name))["sweep"]
    assert (tuple(axes["train"]["lr"]), tuple(axes["seed"])) == (RATES, SEEDS)


def test_another_recipe_is_named_and_costs_its_own_epochs():
    want = Want(MAMBA_2, (64, 4), 64, 2)
    assert "--recipe" not in want.command(HEADLINE)
    for recipe in RECIPES:
        runs = runs_of(want.command(recipe))
        assert {recipe_of(run.model_dump(mode="json")) for run in runs} == {recipe}
        assert want.run_steps(recipe) == sum(run.train.steps for run in runs)


def test_what_is_trained_is_not_asked_for_again():
    claim = BY_NAME["C1"]
    rows = [
        row
        for row in made_rows(claim, study_score)
        if (row.spec["task"]["length"], row.spec["model"]["width"]) == (64, 64)
    ]
    verdict = verdict_of(claim, rows)
    assert len(verdict.wants) == 23


def test_of_a_search_that_has_begun_only_the_rest_is_asked_for():
    rows = made_rows(BY_NAME["C7"], study_score)
    missing = [
        row
        for row in rows
        if (row.spec["model"]["mixer"]["name"], row.spec["task"]["length"]) == ("hyena", 128)
        and row.spec["train"]["lr"] >= 1e-3
        and row.spec["seed"] == 777
    ]
    verdict = verdict_of(BY_NAME["C7"], [row for row in rows if row not in missing])
    assert verdict.words == "holds in 2 of 3 cells"
    assert [(want.text, want.runs) for want in verdict.wants] == [
        ("2-layer hyena (128,8) width 64", len(missing))
    ]


def test_the_cell_that_serves_most_comes_first():
    shared, lone, dear = (
        Want(ATTENTION_2, (64, 4), 64, 2),
        Want(MAMBA_2, (64, 4), 64, 2),
        Want(HYENA_2, (512, 64), 2048, 2),
    )
    order = next_cells({"C1": [dear, shared], "C2": [shared, lone], "C3": [shared]})
    assert [cell.want for cell in order] == [shared, lone, dear]
    assert order[0].claims == ("C1", "C2", "C3")
    assert next_cells({}) == []


def test_a_cell_whose_curves_are_wanted_is_trained_once():
    plain = Want(MAMBA_2, (256, 16), 64, 1)
    curves = Want(MAMBA_2, (256, 16), 64, 1, preset="fig6")
    (only,) = next_cells({"C11": [plain], "C18": [curves]})
    assert (only.want, only.claims) == (curves, ("C11", "C18"))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "C32"])
def test_training_what_is_wanted_settles_it(name):
    """From no row at all, cell by cell as it is asked for, by its search alone where one is named,
    until nothing more is.
    """
    rows: dict[str, RunRow] = {}
    verdict = verdict_of(BY_NAME[name], [])
    for _ in range(8):
        if not verdict.wants:
            break
        for want in verdict.wants:
            for row in trained_as_asked(want.command(), study_score):
                if row.has_result or row.run_id not in rows:
                    rows[row.run_id] = row
        verdict = verdict_of(BY_NAME[name], list(rows.values()))
    assert verdict.outcome == "reproduced", verdict.numbers


def test_a_cell_that_should_be_solved_is_asked_for_at_its_likely_rates_first():
    """Those that are best in the nearest cell; the whole search only after they have failed."""
    claim = BY_NAME["C12"]
    rows = made_rows(claim, study_score)
    near = [row for row in rows if row.spec["task"]["length"] == 256]
    [want] = verdict_of(claim, near).wants
    best = {row.spec["train"]["lr"] for row in near if row.score >= 0.99}
    assert want.size == (512, 64)
    assert set(want.rates) <= best
    assert want.runs == 6
    assert {run.train.lr for run in runs_of(want.command())} == set(want.rates)
    assert want.run_steps() == 6 * runs_of(want.command())[0].train.steps

    place = (want.size[0], want.width)
    tried = [
        replace(row, accuracy=0.3, exact=0.0)
        for row in rows
        if (row.spec["task"]["length"], row.spec["model"]["width"]) == place
        and row.spec["train"]["lr"] in want.rates
    ]
    [again] = [
        other
        for other in verdict_of(claim, near + tried).wants
        if (other.size, other.width) == (want.size, want.width)
    ]
    assert again.rates == RATES
    assert again.runs == want.runs * 13 // 2 - len(tried)


def test_that_a_model_fails_is_asked_for_by_a_search_of_all_rates():
    claim = BY_NAME["C9"]
    rows = [row for row in made_rows(claim, study_score) if row.spec["model"]["width"] == 64]
    wants = verdict_of(claim, rows).wants
    assert {(want.rates, search_of(want.command())) for want in wants} == {(RATES, "best")}


def test_a_few_rates_are_not_searched():
    want = Want(MAMBA_2, (64, 4), 64, 2, search="best")
    assert search_of(want.command()) == "best"
    assert search_of(replace(want, rates=RATES[3:5]).command()) == ""


def test_of_several_searches_of_a_cell_the_broadest_is_asked_for():
    best, edges, every = (
        Want(MAMBA_2, (64, 4), 64, 2, search=search) for search in ("best", "edges", "")
    )
    for asked, due in (([best, edges], edges), ([every, best], every), ([edges, every], every)):
        assert first_of_each(asked) == first_of_each(reversed(asked)) == [due]


def test_whether_a_model_solves_it_is_asked_before_its_window_and_what_lies_outside_of_that():
    """C3: a search for edges tries the rates beside the window, the claim is about the others."""
    rows: dict[str, RunRow] = {}
    asked = []
    while wants := verdict_of(BY_NAME["C3"], list(rows.values())).wants:
        mamba = [want for want in wants if want.role is MAMBA_2]
        asked += [{search_of(want.command()) for want in mamba}] if mamba else []
        for want in wants:
            for row in trained_as_asked(want.command(), study_score):
                if row.has_result or row.run_id not in rows:
                    rows[row.run_id] = row
    assert asked == [{"best"}, {""}]


def test_a_command_has_the_very_rates():
    want = Want(MAMBA_2, (64, 4), 64, 2, rates=(4.642e-4, 2.154e-3, 1e-2))
    assert {run.train.lr for run in runs_of(want.command())} == set(want.rates)
