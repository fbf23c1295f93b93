"""How a claim is decided: by which rows, and what is told beside the verdict."""

import pytest
from claims_made import (
    BY_NAME,
    CONTRARY,
    changed,
    made_rows,
    mixer,
    narrow,
    never,
    recipe_label,
    study_score,
    verdict_of,
    wide,
)
from rows_made import make_row, make_sweep

from recollect.analysis.settings import flatten
from recollect.reports.paper.claims import check
from recollect.reports.paper.claims.judge import judge
from recollect.reports.paper.claims.verdicts import to_lines
from recollect.reports.paper.study import RATES, recipe
from recollect.spec.run import RunSpec


@pytest.mark.parametrize(
    ("table", "change", "told"),
    [
        ("task", {"vocabulary": 64}, "vocabulary 64"),
        ("task", {"train_rows": 50_000}, "50,000 training rows"),
        ("task", {"data": "fresh"}, "fresh training rows"),
        ("train", {"steps": 390}, "2 epochs"),
        ("train", {"batch": 64}, "batch 64"),
        ("train", {"weight_decay": 0.0}, "weight decay 0"),
        ("train", {"warmup": 0.3}, "warmup 0.3"),
    ],
)
def test_what_makes_a_smaller_scale(table, change, told):
    rows = [
        row for row in made_rows(BY_NAME["C7"], study_score) if row.spec["task"]["length"] == 128
    ]
    for row in rows:
        row.spec[table] |= change
    verdict = verdict_of(BY_NAME["C7"], rows)
    assert verdict.outcome == "not enough data"
    assert verdict.numbers == (
        "missing: any run of this recipe in its setting, width 64, lengths from 128, 2 layers"
    )
    assert told in verdict.reduced


def test_rows_of_another_task_are_not_asked():
    rows = made_rows(BY_NAME["C21"], study_score)
    for row in rows:
        row.spec["task"] = {"name": "recall", "length": 512, "pairs": 64}
    verdict = verdict_of(BY_NAME["C21"], rows)
    assert (verdict.outcome, verdict.reduced) == ("not enough data", "")


def test_a_counterexample_settles_a_claim_about_all_cells():
    rows = [
        row for row in made_rows(BY_NAME["C1"], CONTRARY["C1"]) if row.spec["task"]["length"] == 512
    ]
    verdict = verdict_of(BY_NAME["C1"], rows)
    assert (verdict.outcome, verdict.wants) == ("contradicted", ())
    assert verdict.numbers.startswith("of 24 cells 5 hold and 1 fails: ")
    # By which cell, and how it was searched.
    assert "(512,64) width 64: 0.800 (0.800-0.800, 3 seeds, best of 13 rates" in verdict.numbers
    rows = [
        row for row in made_rows(BY_NAME["C1"], study_score) if row.spec["task"]["length"] == 512
    ]
    verdict = verdict_of(BY_NAME["C1"], rows)
    assert verdict.words == "holds in 6 of 24 cells"
    assert len(verdict.wants) == 18
    assert verdict.wants[0].text.startswith("2-layer attention (64,4) width 64 at ")


def test_one_width_settles_a_claim_about_some_width():
    """Of the two at (512,64); at (256,16) there is one that is small enough."""
    rows = [
        row for row in made_rows(BY_NAME["C6"], study_score) if row.spec["model"]["width"] == 64
    ]
    assert verdict_of(BY_NAME["C6"], rows).outcome == "reproduced"
    fails_long = changed(lambda run: run.task.length == 512, never(0.5))
    rows = [row for row in made_rows(BY_NAME["C6"], fails_long) if row.spec["model"]["width"] == 64]
    verdict = verdict_of(BY_NAME["C6"], rows)
    assert verdict.words == "holds in 1 of 2 cells"
    assert [want.text.split(" at ")[0] for want in verdict.wants] == [
        "2-layer mamba (512,64) width 128"
    ]


def test_a_low_score_after_a_sparse_search_is_no_failure():
    rows = [
        row
        for row in made_rows(BY_NAME["C6"], CONTRARY["C6"])
        if 1e-3 <= row.spec["train"]["lr"] <= 1e-2
    ]
    verdict = verdict_of(BY_NAME["C6"], rows)
    assert verdict.outcome == "not enough data"
    assert {check.lacks.split(": ")[1] for check in verdict.checks} == {
        "at least 8 rates (5 so far)"
    }
    # Only what is missing is still to be trained, and of two widths one is enough.
    assert [want.runs for want in verdict.wants] == [(13 - 5) * 3] * 2


def test_a_window_that_leaves_the_grid_is_a_lower_bound():
    claim = BY_NAME["C2"]
    rows = made_rows(claim, study_score)
    assert verdict_of(claim, rows).outcome == "reproduced"
    cut = [
        row for row in rows if row.spec["train"]["lr"] <= 1e-3
    ]  # one decade and a half, and who knows how much more
    verdict = verdict_of(claim, cut)
    assert verdict.outcome == "not enough data"
    assert all(check.lacks.endswith("larger rates") for check in verdict.checks)
    assert all(want.rates == RATES and want.trained == 6 * 3 for want in verdict.wants)


def test_a_window_open_at_the_end_of_the_whole_grid_asks_for_rates_beyond():
    claim = BY_NAME["C3"]
    everywhere = changed(lambda run: mixer(run) == "attention", lambda run: 0.99)
    above = changed(
        lambda run: mixer(run) == "mamba", lambda run: 0.99 if run.train.lr >= 0.2 else 0.02
    )
    assert verdict_of(claim, made_rows(claim, everywhere)).outcome == "reproduced"
    rows = [row for row in made_rows(claim, above) if row.spec["model"]["mixer"]["name"] != "hyena"]
    found = {want.text: want for want in verdict_of(claim, rows).wants}
    want = found["2-layer mamba (64,4) width 64 at 1e0 and 3e0"]
    assert (want.rates, want.runs) == ((1.0, 3.0), 6)
    assert "--set 'sweep.train.lr=[1e0,3e0]'" in want.command()


def test_one_easy_cell_overturns_nothing():
    """Of a claim that names no cells; nor does it settle one."""
    for name in ("C2", "C3", "C22", "C24", "C31"):
        claim = BY_NAME[name]
        for score, words in ((study_score, "holds in"), (CONTRARY[name], "fails in")):
            rows = [
                row
                for row in made_rows(claim, score)
                if (row.spec["task"]["length"], row.spec["model"]["width"]) == (64, 64)
            ]
            verdict = verdict_of(claim, rows)
            assert verdict.words.startswith(words) or name == "C3", (name, verdict.numbers)
            assert verdict.outcome in ("holds in part", "fails in part")
            assert any(want.size[0] >= 256 for want in verdict.wants)


def test_cells_that_disagree_are_counted():
    claim = BY_NAME["C2"]
    rows = made_rows(
        claim, changed(lambda run: run.task.length == 256 and run.model.width == 64, narrow)
    )
    verdict = verdict_of(claim, rows)
    assert verdict.words == "holds in 8 of 9 cells"
    assert "(256,16) width 64" in verdict.numbers


def test_one_model_contradicts_a_claim_about_two():
    """Hyena solves nothing here, and Mamba is wide at both sizes."""
    claim = BY_NAME["C3"]
    rows = made_rows(
        claim,
        changed(
            lambda run: mixer(run) != "attention",
            lambda run: wide(run) if mixer(run) == "mamba" else never(0.5)(run),
        ),
    )
    assert verdict_of(claim, rows).outcome == "contradicted"


@pytest.mark.parametrize(
    ("name", "unsolved"), [("C24", "mamba2"), ("C15", "mamba"), ("C3", "hyena")]
)
def test_a_window_that_is_not_there_says_nothing(name, unsolved):
    """A size and width that a model never solves neither supports nor contradicts
    a claim about windows.
    """
    hard = changed(lambda run: mixer(run) == unsolved and run.task.length == 256, never(0.5))
    verdict = verdict_of(BY_NAME[name], made_rows(BY_NAME[name], hard))
    assert verdict.outcome in ("reproduced", "holds in part")
    assert verdict.tally.failing == 0
    never_solved = changed(lambda run: mixer(run) == unsolved, never(0.5))
    verdict = verdict_of(BY_NAME[name], made_rows(BY_NAME[name], never_solved))
    assert verdict.outcome in ("not enough data", "holds in part")
    assert verdict.tally.failing == 0


def test_what_is_known_so_far_is_told():
    rows = [
        row for row in made_rows(BY_NAME["C5"], study_score) if row.spec["task"]["length"] == 64
    ]
    verdict = verdict_of(BY_NAME["C5"], rows)
    assert verdict.words == "holds in 16 of 64 cells"
    mean = verdict.cells[0].check
    assert mean.text.startswith("mean gain +0.7")
    assert mean.text.endswith("over 16 cells")
    assert f"undecided: {mean.text}" in verdict.numbers
    assert verdict.wants[0].text == "2-layer hyena (128,8) width 64"


def test_not_to_be_worse_is_half_of_a_claim():
    """Until the mean over all cells is known, cells count only while the mean so far is better."""
    claim = BY_NAME["C5"]
    small = [row for row in made_rows(claim, wide) if row.spec["task"]["length"] == 64]
    verdict = verdict_of(claim, small)
    assert (verdict.outcome, verdict.tally.holding, verdict.tally.failing) == (
        "not enough data",
        0,
        0,
    )
    assert "mean gain +0.000 over 16 cells, wanted +0.01" in verdict.numbers
    assert verdict.wants
    assert verdict_of(claim, made_rows(claim, wide)).outcome == "contradicted"


def test_a_cell_that_is_worse_contradicts_whatever_the_mean():
    # By rate, the seed that is lost there; the two others would choose the rate for it.
    lost = {3e-3: 42, 5e-3: 123, 3e-2: 777}

    def misled(run: RunSpec) -> float:
        if run.train.lr in lost:
            return 0.02 if lost[run.train.lr] == run.seed else 0.99
        return 0.5 if run.train.lr == 2.154e-3 else 0.02

    claim = BY_NAME["C5"]
    at = ("h3", 64)
    one = changed(
        lambda run: True,
        lambda run: misled(run) if (mixer(run), run.model.width) == at else wide(run),
    )
    rows = [row for row in made_rows(claim, one) if row.spec["task"]["length"] == 64]
    verdict = verdict_of(claim, rows)
    assert (verdict.outcome, verdict.tally.failing) == ("contradicted", 1)


@pytest.mark.parametrize(
    ("models", "left"),
    [
        (("attention", "mamba"), "no cell decides on 2-layer hyena"),
        (("attention", "hyena"), "no cell decides on 2-layer mamba"),
        (("attention", "mamba", "hyena"), ""),
        (("attention",), ""),  # nothing is decided
    ],
)
def test_models_without_a_decided_cell_are_named(models, left):
    claim = BY_NAME["C3"]
    rows = [
        row for row in made_rows(claim, study_score) if row.spec["model"]["mixer"]["name"] in models
    ]
    numbers = verdict_of(claim, rows).numbers
    assert left in numbers
    assert ("no cell decides on" in numbers) is bool(left)


def test_another_model_is_not_the_studys():
    claim = BY_NAME["C6"]
    rows = made_rows(claim, study_score)
    for row in rows:
        row.spec["model"]["mixer"]["state"] = 256
    verdict = verdict_of(claim, rows)
    assert verdict.outcome == "not enough data"
    assert verdict.reduced.startswith("holds (")


def test_recipes_are_not_mixed():
    claim = BY_NAME["C7"]
    rows = made_rows(claim, study_score)
    for row in rows:
        if row.spec["model"]["mixer"]["name"] == "hyena":
            row.spec["task"]["vocabulary_split"] = "shared"
    assert verdict_of(claim, rows).outcome == "not enough data"


def test_how_often_a_run_was_looked_at_makes_no_other_cell():
    claim = BY_NAME["C7"]
    rows = made_rows(claim, study_score)
    for row in rows:
        if row.spec["model"]["mixer"]["name"] == "hyena":
            row.spec["train"] |= {"evaluations": 7, "stop_solved": 0.5}
    assert verdict_of(claim, rows).outcome == "reproduced"


def test_a_contradiction_is_told_with_the_measurement():
    for name, words in (
        ("C19", "caption of Fig. 6"),
        ("C20", "contradicts itself"),
        ("C10", "random guessing"),
        ("C16", "160 M"),
    ):
        verdict = verdict_of(BY_NAME[name], made_rows(BY_NAME[name], study_score))
        assert words in verdict.remark
        assert words in to_lines([verdict])
    ablation = verdict_of(BY_NAME["C20"], made_rows(BY_NAME["C20"], study_score))
    told = ablation.cells[-1].check.text
    assert "attention + conv on V (same) (512,64) width 256: 0.99" in told
    assert "attention + conv on V (causal) (512,64) width 256: 0.01" in told
    assert "mamba without convolution (512,64) width 256: 0.01" in told


def test_a_convolution_on_values_counts_with_either_padding():
    claim = BY_NAME["C20"]
    causal = changed(
        lambda run: getattr(run.model.mixer, "conv", "") == "v", lambda run: study_score(run)
    )
    rows = [
        row
        for row in made_rows(claim, causal)
        if row.spec["model"]["mixer"].get("conv_padding") != "same"
    ]
    assert verdict_of(claim, rows).outcome == "not enough data"
    neither = changed(lambda run: getattr(run.model.mixer, "conv", "") == "v", never(0.3))
    assert verdict_of(claim, made_rows(claim, neither)).outcome == "contradicted"


def test_a_convolution_after_the_projection_is_not_the_studys():
    """Section 7: "before the QKV matrix projections"."""
    claim = BY_NAME["C20"]
    rows = made_rows(claim, study_score)
    for row in rows:
        if row.spec["model"]["mixer"].get("conv", "none") != "none":
            row.spec["model"]["mixer"]["conv_place"] = "after"
    verdict = verdict_of(claim, rows)
    assert verdict.outcome == "not enough data"
    assert {want.role.options["model.mixer.conv"] for want in verdict.wants} == {
        "qkv",
        "k",
        "v",
        "q",
    }


def test_copying_tells_the_parameters_that_were_counted():
    assert (
        "150 M parameters"
        in verdict_of(BY_NAME["C16"], made_rows(BY_NAME["C16"], study_score)).numbers
    )


def test_bumps_need_curves():
    claim = BY_NAME["C18"]
    rows = made_rows(claim, study_score)
    (verdict,) = judge([claim], rows, {}, recipe_label(rows), resamples=0)
    assert verdict.outcome == "not enough data"
    assert "its curves" in verdict.numbers


def test_small_models_of_different_width_are_compared_as_they_are():
    """The demo matches inner widths, not widths."""
    grid = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
    rows = make_sweep(
        {lr: [1.0 if 3e-4 <= lr <= 3e-2 else 0.3] * 2 for lr in grid}, "attention", width=64
    )
    rows += make_sweep({lr: [1.0 if lr == 3e-3 else 0.3] * 2 for lr in grid}, "mamba", width=32)
    verdict = verdict_of(BY_NAME["C3"], rows)
    assert verdict.outcome == "not enough data"
    assert verdict.reduced.startswith("holds (")


def test_rows_of_no_task_of_the_study_are_left_aside():
    odd = make_row()
    odd.spec["task"] = {"name": "chess"}
    broken = make_row(seed=43)
    broken.spec["task"] |= {"length": 7}
    assert recipe({"task.name": "chess"}) is None
    assert {verdict.outcome for verdict in check([odd, broken], {})} == {"not enough data"}


@pytest.mark.parametrize(("last_batch", "steps"), [("drop", 9_750), ("keep", 9_800)])
def test_an_epoch_with_its_last_batch_is_an_epoch(last_batch, steps):
    train = {"epochs": 50, "last_batch": last_batch}
    run = RunSpec.parse({"task": "mqar", "model": {"mixer": "attention"}, "train": train})
    assert run.train.steps == steps
    made = recipe(flatten(run.model_dump(mode="json")))
    assert (made["epochs"], made["train.last_batch"]) == (50, last_batch)
