"""A verdict says no more than its rows: what counts, what stays open, what is told."""

import re
from dataclasses import replace

import pytest
from claims_made import (
    BY_NAME,
    NARROW,
    WIDE,
    changed,
    made_rows,
    mixer,
    never,
    study_score,
    verdict_of,
    wide,
    within,
)

from recollect.reports.paper.claims.checks import (
    Measure,
    at_most,
    clearly_above,
    difference,
    not_above,
    not_below,
)
from recollect.reports.paper.claims.claim import Verdict
from recollect.reports.paper.claims.coverage import CellCheck, Tally, tally
from recollect.reports.paper.claims.roles import MAMBA2_1
from recollect.reports.paper.claims.verdicts import firm_text, percent_text, shares_text
from recollect.reports.paper.study import SIZES
from recollect.spec.run import RunSpec


def at(run: RunSpec, length: int, width: int) -> bool:
    return (run.task.length, run.model.width) == (length, width)


# ---- comparisons ----


def test_noise_excuses_a_shortfall_and_makes_none_look_safe():
    calm, noisy = (Measure(-0.02, -0.02, "", noise=noise) for noise in (0.01, 0.04))
    assert [not_below(measure, 0.0).holds for measure in (calm, noisy)] == [True, True]
    assert not_below(calm, 0.0).margin == not_below(noisy, 0.0).margin == pytest.approx(-0.02)
    risen = [replace(measure, low=0.02, high=0.02) for measure in (calm, noisy)]
    assert [not_above(measure, 0.0).margin for measure in risen] == [pytest.approx(-0.02)] * 2


@pytest.mark.parametrize(
    ("low", "high", "holds", "are_alike"),
    [
        (0.1, 0.1, True, False),
        (0.06, 0.06, None, True),
        (-0.05, 0.3, None, False),  # a searched window is an interval
        (0.0, 0.0, None, True),
        (-0.06, -0.06, None, True),
        (-0.4, 0.05, None, False),
        (-0.4, -0.2, False, False),
    ],
)
def test_an_order_within_its_slack_is_open(low, high, holds, are_alike):
    check = clearly_above(Measure(low, high, "a, b"), 0.1)
    assert check.holds is holds
    assert ("within 0.1 of each other" in check.text) is are_alike


def test_a_difference_that_lacks_runs_asks_for_them():
    unknown = Measure(0.0, 1.0, "", "more rates")
    check = clearly_above(difference(Measure(0.5, 0.5, "known"), unknown), 0.1)
    assert (check.holds, check.text, check.lacks) == (None, "known", "more rates")


# ---- counting ----


def test_a_condition_on_all_cells_is_no_cell():
    claim = BY_NAME["C5"]
    held = CellCheck("one", at_most(Measure(0, 0, ""), 1), SIZES[0])
    failed = CellCheck("mean", at_most(Measure(2, 2, ""), 1), is_counted=False)
    assert tally(claim.coverage, [held, failed]) == Tally("contradicted", 1, 0, 1, True)
    assert tally(claim.coverage, [held, failed]).fails
    assert not tally(claim.coverage, [held]).fails


def test_one_lost_seed_fails_a_cell():
    """Its loss is also the error of its own cell, which excused any loss."""

    def lost(run: RunSpec) -> float:
        if run.train.lr == 3e-3:
            return 0.0 if run.seed == 777 else 0.995
        return 0.9 if run.train.lr == 2.154e-3 else 0.02

    in_one = changed(lambda run: mixer(run) == "h3" and at(run, 64, 64), lost)
    verdict = verdict_of(BY_NAME["C5"], made_rows(BY_NAME["C5"], in_one))
    assert (verdict.outcome, verdict.tally.failing) == ("contradicted", 1)
    assert "2-layer h3 (64,4) width 64: gain -0." in verdict.numbers


# ---- windows ----


def test_a_model_that_solves_nothing_has_no_window_to_miss():
    score = changed(
        lambda run: True, lambda run: (wide if mixer(run) == "mamba" else never(0.5))(run)
    )
    verdict = verdict_of(BY_NAME["C4"], made_rows(BY_NAME["C4"], score))
    assert verdict.outcome == "fails in part"  # in Mamba's cells alone
    assert "no window in 2-layer hyena" in verdict.numbers
    assert re.match(
        r"of (\d+) cells 0 hold and \1 fail, too few to contradict it: ", verdict.numbers
    )


def both_at(mamba: tuple[float, float], attention: tuple[float, float]):
    """Mamba and attention with these windows, at every size, width and depth."""
    windows = {"mamba": mamba, "attention": attention}
    return lambda run: within(run, windows[mixer(run)], 0.995, 0.02)


@pytest.mark.parametrize("name", ["C15", "C17", "C22"])
def test_narrow_and_wide_are_more_than_a_difference(name):
    """1.5 decades are not narrow, however wide attention's window is, and 1 is not wide."""
    claim = BY_NAME[name]
    not_narrow = both_at((3e-4, 1e-2), (1e-5, 1e-1))
    assert verdict_of(claim, made_rows(claim, not_narrow)).outcome == "contradicted"
    if name != "C22":  # which says nothing about attention
        not_wide = both_at((3e-3, 3e-3), (1e-3, 1e-2))
        assert verdict_of(claim, made_rows(claim, not_wide)).outcome == "contradicted"


@pytest.mark.parametrize("name", ["C24", "C31"])
def test_windows_that_are_alike_neither_hold_nor_fail(name):
    claim = BY_NAME[name]
    alike = changed(
        lambda run: mixer(run) in ("mamba", "mamba2"),
        lambda run: within(run, NARROW, 0.995 - 0.01 * (mixer(run) == "mamba"), 0.02),
    )
    verdict = verdict_of(claim, made_rows(claim, alike))
    assert verdict.tally.failing == 0
    assert "within 0.1 of each other" in verdict.numbers
    own = [cell for cell in verdict.cells if name == "C24" or cell.role is MAMBA2_1]
    assert {cell.check.holds for cell in own} == {None}
    assert verdict.wants == ()


def test_taus_disagree_only_where_cells_turn():
    verdict = verdict_of(BY_NAME["C2"], made_rows(BY_NAME["C2"], study_score))
    fewer = Tally("holds in part", 3, 0, 3)
    alike = replace(verdict, by_tau=((0.9, verdict.tally), (0.98, fewer)))
    assert (alike.disagreement, alike.other_taus) == ("", "holds in 3 of 3 cells at 0.98")
    assert firm_text(alike).endswith("no cell turns with tau, holds in 3 of 3 cells at 0.98")
    none = replace(verdict, by_tau=((0.9, fewer), (0.98, Tally("not enough data", 0, 0, 3))))
    assert firm_text(none).endswith("no cell turns with tau, not enough data at 0.98")
    same = replace(verdict, by_tau=((0.9, fewer), (0.98, fewer)))
    assert (same.other_taus, firm_text(same)[-21:]) == ("", "the same at every tau")
    turned = Tally("holds in part", 2, 1, 3)
    assert replace(verdict, by_tau=((0.9, fewer), (0.98, turned))).disagreement == (
        "depends on tau: holds in 3 of 3 cells at 0.9, holds in 2 of 3 cells at 0.98"
    )
    assert replace(verdict, by_tau=((0.9, fewer), (0.98, turned))).other_taus == ""


# ---- scores ----


def split_scores(top: float, spread: float):
    """Half of the widths solve it; the other half score `top` with seeds `spread` apart."""

    def score(run: RunSpec) -> float:
        if not WIDE[0] <= run.train.lr <= WIDE[1]:
            return 0.02
        apart = {42: -spread, 123: 0.0, 777: spread}[run.seed]
        return 1.0 if run.task.length < 256 else top + apart

    return score


def test_a_line_for_solved_is_open_where_seeds_straddle_it():
    claim = BY_NAME["C26"]
    found = {
        spread: verdict_of(claim, made_rows(claim, split_scores(0.95, spread))).outcome
        for spread in (0.001, 0.04)
    }
    assert found == {0.001: "contradicted", 0.04: "not enough data"}
    short = [row for row in made_rows(claim, study_score) if row.spec["task"]["length"] == 64]
    wants = verdict_of(claim, short).wants
    assert {want.size for want in wants if want.depth == 1} == set(SIZES[1:])
    low = verdict_of(claim, made_rows(claim, split_scores(0.5, 0.001)))
    assert low.outcome == "reproduced"
    assert "by their means, 0 to 0 with the noise of seeds" in low.numbers


@pytest.mark.parametrize(("solved", "left"), [(256, 512), (512, 256)])
def test_one_high_length_does_not_speak_for_the_other(solved, left):
    claim = BY_NAME["C6"]
    rows = made_rows(claim, study_score)
    verdict = verdict_of(claim, [row for row in rows if row.spec["task"]["length"] == solved])
    assert verdict.words == "holds in 1 of 2 cells"
    assert {want.size[0] for want in verdict.wants} == {left}
    fails = changed(lambda run: run.task.length == left, never(0.5))
    assert verdict_of(claim, made_rows(claim, fails)).outcome == "contradicted"


def test_a_bound_from_above_asks_for_the_best_score():
    """Two likely rates cannot show that no rate scores more."""
    verdict = verdict_of(BY_NAME["C10"], [])
    assert {(want.search, want.likely) for want in verdict.wants} == {("best", ())}
    assert all(want.is_searched for want in verdict.wants)


def test_one_width_says_nothing_about_widths():
    claim = BY_NAME["C9"]
    rows = made_rows(claim, study_score)
    one = [row for row in rows if row.spec["model"]["width"] == 64]
    assert "missing: two widths at one size" in verdict_of(claim, one).numbers
    two = [row for row in rows if row.spec["model"]["width"] <= 128]
    assert "two widths" not in verdict_of(claim, two).numbers


def test_few_rates_do_not_show_that_a_training_set_cannot_be_fitted():
    claim = BY_NAME["C27"]
    rows = [row for row in made_rows(claim, study_score) if row.spec["train"]["lr"] == 1e-3]
    verdict = verdict_of(claim, rows)
    assert verdict.outcome == "not enough data"
    assert "at least 8 rates (1 so far)" in verdict.checks[0].lacks
    assert all(want.in_full for want in verdict.checks[0].wants)
    fitted = [replace(row, train_score=0.9) for row in rows]
    assert verdict_of(claim, fitted).checks[0].holds is False


def test_the_encoding_that_changes_most_is_told():
    claim = BY_NAME["C23"]
    lower = changed(
        lambda run: mixer(run) == "mamba" and run.model.positions == "relative",
        lambda run: study_score(run) - 0.02,
    )
    verdict = verdict_of(claim, made_rows(claim, lower))
    own = [cell.check.text for cell in verdict.cells if cell.cell.startswith("mamba")]
    assert all("positions relative" in text for text in own)


# ---- how firm ----


def test_another_verdict_of_resampled_seeds_is_named():
    verdict = verdict_of(BY_NAME["C2"], made_rows(BY_NAME["C2"], study_score))
    split = replace(verdict, resampled=(("reproduced", 0.51), ("contradicted", 0.49)))
    assert shares_text(split) == "51 %, contradicted in 49 %"
    assert firm_text(split).startswith(
        "the same verdict in 51 % of resampled seeds, contradicted in 49 %"
    )
    firm: Verdict = replace(verdict, resampled=(("reproduced", 0.95), ("contradicted", 0.05)))
    assert (firm.firmness, firm.rival) == (0.95, None)
    turned = replace(verdict, resampled=(("contradicted", 1.0),))
    assert (turned.firmness, turned.rival) == (0.0, ("contradicted", 1.0))
    assert [percent_text(share) for share in (1.0, 0.5, 0.0)] == [">99 %", "50 %", "<1 %"]
