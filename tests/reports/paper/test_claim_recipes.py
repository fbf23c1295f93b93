"""Verdicts by recipe, at several taus, and how firm they are."""

import itertools
import json
import math
from dataclasses import replace

import pytest
from claims_made import (
    BY_NAME,
    NARROW,
    WIDE,
    changed,
    made_rows,
    mixer,
    noisy,
    study_score,
    verdict_of,
    within,
)

from recollect.analysis.seeds.prediction import neighbour_weight
from recollect.reports.paper.claims import check, recipes_of
from recollect.reports.paper.study import RATES
from recollect.rows import RunRow
from recollect.spec.recipes import RECIPES, recipe_of
from recollect.spec.run import RunSpec


def under(recipe: str, rows: list[RunRow]) -> list[RunRow]:
    """The same results with everything else as a recipe has it."""
    made = []
    for row in rows:
        task, model, train = (row.spec[section] for section in ("task", "model", "train"))
        bare = {
            "task": {key: task[key] for key in ("name", "length", "pairs")},
            "model": {key: model[key] for key in ("mixer", "width", "depth")},
            "train": {"lr": train["lr"]},
            "seed": row.spec["seed"],
        }
        run = RunSpec.parse(RECIPES[recipe].fill(bare))
        made.append(replace(row, run_id=run.run_id, spec=json.loads(run.canonical_json())))
    return made


def test_recipes_are_judged_apart():
    """Attention is wide as the study trained it, and narrow as Zoology did."""
    claim = BY_NAME["C2"]
    rows = under("study", made_rows(claim, study_score))
    rows += under("zoology", made_rows(claim, lambda run: within(run, NARROW, 0.995, 0.02)))
    assert {recipe_of(row.spec) for row in rows} == {"study", "zoology"}
    assert recipes_of(rows) == ["study", "zoology"]
    found = {
        name: check(rows, {}, name, [claim])[0].outcome for name in ("study", "zoology", "plain")
    }
    assert found == {
        "study": "reproduced",
        "zoology": "contradicted",
        "plain": "not enough data",
    }


def test_a_run_that_differs_in_one_thing_is_not_of_the_recipe():
    claim = BY_NAME["C2"]
    rows = under("study", made_rows(claim, study_score))
    for row in rows:
        row.spec["model"]["dropout"] = 0.0
    assert check(rows, {}, "study", [claim])[0].outcome == "not enough data"
    assert recipes_of(rows) == ["study", "study but dropout=0"]
    (verdict,) = check(rows, {}, "study but dropout=0", [claim])
    assert (verdict.outcome, verdict.recipe) == ("reproduced", "study but dropout=0")


def test_what_a_claim_varies_is_not_held_against_its_rows():
    """Table 4 gives positions to models that have none in any recipe."""
    rows = under("study", made_rows(BY_NAME["C23"], study_score))
    named = made_rows(BY_NAME["C23"], study_score)
    for row, original in zip(rows, named, strict=True):
        row.spec["model"]["positions"] = original.spec["model"]["positions"]
    assert len({recipe_of(row.spec) for row in rows}) > 1
    assert check(rows, {}, "study", [BY_NAME["C23"]])[0].outcome == "reproduced"


def test_a_task_that_a_recipe_does_not_cover():
    (verdict,) = check([], {}, "zoology", [BY_NAME["C16"]])
    assert verdict.numbers == "this recipe says nothing about the task"
    assert verdict.wants == ()


def test_verdicts_that_hang_on_tau_say_so():
    """At .9 attention is wide, at .98 it is narrow."""
    claim = BY_NAME["C2"]

    def plateau(run: RunSpec) -> float:
        return within(run, NARROW, 0.995, within(run, WIDE, 0.95, 0.02))

    verdict = verdict_of(claim, made_rows(claim, plateau))
    assert [tau for tau, _ in verdict.by_tau] == [0.9, 0.95, 0.98]
    assert dict(verdict.by_tau)[0.9].outcome == verdict.outcome == "reproduced"
    assert dict(verdict.by_tau)[0.98].outcome == "contradicted"
    assert verdict.disagreement.startswith("depends on tau: reproduced at 0.9, ")
    assert "contradicted at 0.98" in verdict.disagreement
    agreeing = verdict_of(claim, made_rows(claim, study_score))
    assert agreeing.disagreement == ""
    assert verdict_of(BY_NAME["C7"], made_rows(BY_NAME["C7"], study_score)).by_tau == ()


def test_seeds_that_agree_are_firm_and_seeds_that_do_not_are_not():
    claim = BY_NAME["C7"]
    firm = verdict_of(claim, made_rows(claim, noisy(study_score, 3)), resamples=40)
    assert (firm.outcome, firm.firmness) == ("reproduced", 1.0)

    def split(run: RunSpec) -> float:
        """Hyena a tenth below attention in the mean, and its seeds far apart."""
        if mixer(run) == "hyena":
            return {42: 0.78, 123: 0.88, 777: 0.98}[run.seed] if run.train.lr == 3e-3 else 0.5
        return study_score(run)

    loose = verdict_of(claim, made_rows(claim, split), resamples=100)
    assert loose.outcome == "reproduced"
    # The best mean of a cell must be at most .88, in all three cells.
    apart, around = (0.78, 0.88, 0.98), sum(weights_beside(3e-3))
    shares = [*((score, 1 / (3 + around)) for score in apart), (0.5, around / (3 + around))]
    low_enough = sum(
        math.prod(share for _, share in drawn)
        for drawn in itertools.product(shares, repeat=3)
        if sum(score for score, _ in drawn) / 3 <= 0.88 + 1e-9
    )
    assert loose.firmness == pytest.approx(low_enough**3, abs=0.1)
    again = verdict_of(claim, made_rows(claim, split), resamples=100)
    assert again.firmness == loose.firmness
    assert verdict_of(claim, [], resamples=40).firmness is None


def weights_beside(lr: float) -> list[float]:
    """Of the next lower and the next higher rate."""
    place = sorted(RATES).index(lr)
    lower, higher = sorted(RATES)[place - 1], sorted(RATES)[place + 1]
    return [neighbour_weight(lr, lower, False), neighbour_weight(lr, higher, True)]


def test_bumps_are_resampled_with_their_runs():
    claim = BY_NAME["C19"]
    verdict = verdict_of(claim, made_rows(claim, study_score), resamples=5)
    assert (verdict.outcome, verdict.firmness) == ("reproduced", 1.0)


def test_beside_chance_a_diverged_run_counts_as_nothing():
    """Otherwise attention that always diverges would recall one pair."""
    claim = BY_NAME["C10"]
    rows = [replace(row, status="diverged") for row in made_rows(claim, study_score)]
    assert {row.score for row in rows} == {0.0}
    verdict = verdict_of(claim, rows)
    assert verdict.outcome == "contradicted"
    assert "chance 0.250, position alone 0.288" in verdict.numbers


def test_one_layer_of_attention_must_have_been_asked_about_its_training_rows():
    claim = BY_NAME["C27"]
    rows = [replace(row, train_score=None) for row in made_rows(claim, study_score)]
    verdict = verdict_of(claim, rows)
    assert verdict.outcome == "not enough data"
    assert "its score on training rows" in verdict.numbers
    memorised = [replace(row, train_score=0.9) for row in made_rows(claim, study_score)]
    assert verdict_of(claim, memorised).outcome == "contradicted"


def test_a_state_that_is_not_larger_helps_no_claim_about_larger_ones():
    claim = BY_NAME["C31"]
    rows = [replace(row, state_size=64) for row in made_rows(claim, study_score)]
    assert verdict_of(claim, rows).outcome == "contradicted"
    rows = [replace(row, state_size=None) for row in made_rows(claim, study_score)]
    assert verdict_of(claim, rows).outcome == "not enough data"


def test_equal_parameters_are_compared():
    """A wider layer with as many parameters as two narrow ones, and as good: not the depth."""
    claim = BY_NAME["C14"]
    assert verdict_of(claim, made_rows(claim, study_score)).outcome == "reproduced"
    rows = [
        replace(row, parameters=10**9)
        if row.spec["model"]["width"] == 2048 and row.spec["model"]["depth"] == 1
        else row
        for row in made_rows(
            claim,
            changed(
                lambda run: mixer(run) == "attention" and run.model.depth == 1,
                lambda run: within(run, NARROW, 0.05, 0.02),
            ),
        )
    ]
    assert verdict_of(claim, rows).outcome == "reproduced"
