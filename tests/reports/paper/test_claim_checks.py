"""Checks of measures that are known in part, and the bounds that rules compare with."""

from dataclasses import replace

import pytest
from claims_made import made_row
from rows_made import make_sweep

from recollect.reports.paper import zoology
from recollect.reports.paper.claims import Check, roles
from recollect.reports.paper.claims.checks import (
    Measure,
    at_least,
    at_most,
    below,
    difference,
    every,
    not_above,
    not_below,
    some,
)
from recollect.reports.paper.claims.floors import floor
from recollect.reports.paper.claims.groups import find_subjects
from recollect.reports.paper.claims.rules.search import held_out
from recollect.reports.paper.claims.wanted import Want
from recollect.spec.run import RunSpec

LOW, HIGH, OPEN = (
    Measure(0.2, 0.2, "low"),
    Measure(0.9, 0.9, "high"),
    Measure(0.4, 1.0, "open", "more rates"),
)


def test_comparisons_of_intervals():
    assert [at_least(measure, 0.5).holds for measure in (LOW, HIGH, OPEN)] == [False, True, None]
    assert [at_most(measure, 0.5).holds for measure in (LOW, HIGH, OPEN)] == [True, False, None]
    assert [below(measure, 0.9).holds for measure in (LOW, HIGH, OPEN)] == [True, False, None]
    assert (at_least(HIGH, 0.9).holds, at_most(HIGH, 0.9).holds, at_least(OPEN, 0.4).holds) == (
        True,
        True,
        True,
    )
    gap = difference(HIGH, OPEN)
    assert (gap.low, gap.high, gap.lacks) == (pytest.approx(-0.1), 0.5, "more rates")
    assert difference(LOW, Measure(0, 1, "")).text == "low"


def test_noise_is_no_contradiction():
    """A fall of a tenth: clear with a standard error of a fiftieth, not with one of a tenth."""
    clear, unclear = (replace(LOW, low=-0.1, high=-0.1, noise=noise) for noise in (0.02, 0.1))
    assert [not_below(measure, 0.0).holds for measure in (clear, unclear)] == [False, True]
    assert at_least(unclear, 0.0).holds is False
    rise = [replace(measure, low=0.1, high=0.1) for measure in (clear, unclear)]
    assert [not_above(measure, 0.0).holds for measure in rise] == [False, True]
    both = difference(replace(HIGH, noise=0.3), replace(HIGH, noise=0.4))
    assert both.noise == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("low", "high", "noise", "holds"),
    [
        (-0.1, -0.1, 0.0, False),
        (-0.1, -0.1, 0.025, True),  # what seeds explain
        (-0.19, -0.19, 0.25, True),
        (-0.5, -0.5, 0.25, None),  # one seed of three is lost: that would explain anything
        (-0.5, -0.5, 0.1, False),
        (0.1, 0.1, 0.25, True),
        (-1.0, 1.0, 0.25, None),  # not known yet, however noisy the seeds
        (-1.0, 1.0, 0.0, None),
    ],
)
def test_noise_without_end_confirms_nothing(low, high, noise, holds):
    fall = Measure(low, high, "hyena", noise=noise)
    rise = Measure(-high, -low, "hyena", noise=noise)
    assert (not_below(fall, 0.0).holds, not_above(rise, 0.0).holds) == (holds, holds)
    if holds is None and low == high:
        assert not_below(fall, 0.0).lacks == "more seeds than in hyena"


def test_what_must_be_trained_goes_with_what_is_open():
    mamba, hyena = (Want(role, (64, 4), 64, 2) for role in (roles.MAMBA_2, roles.HYENA_2))
    checks = [at_least(replace(OPEN, wants=(want,)), 0.5) for want in (mamba, hyena)]
    assert every(checks).wants == (mamba, hyena)
    assert some(checks).wants == (mamba,)  # one is enough
    assert every([*checks, Check(False, "no")]).wants == ()
    assert some([*checks, Check(True, "yes")]).wants == ()


def test_all_and_some_know_what_settles_them():
    yes, no, maybe = Check(True, "yes"), Check(False, "no"), Check(None, "", "rows")
    lists = [yes, yes], [yes, no], [yes, maybe], [no, maybe], []
    assert [every(parts).holds for parts in lists] == [True, False, None, False, None]
    lists = [no, no], [yes, no], [no, maybe], [yes, maybe], []
    assert [some(parts).holds for parts in lists] == [False, True, None, True, None]
    assert every([yes, maybe, maybe]).lacks == "rows"
    assert every([], lacks="all of it").lacks == "all of it"
    assert every([no, no, yes]).told == "no (2 of 3 comparisons fail)"
    assert len(every([every([yes, no]), yes]).leaves) == 3


def test_held_out_scores_do_not_profit_from_luck():
    sweep = make_sweep({1e-3: [0.55, 0.55, 0.55], 1e-2: [0.9, 0.1, 0.1], 1e-1: [0.1, 0.9, 0.1]})
    (subject,) = find_subjects(sweep)
    # The best mean, 0.55, and not the best of each.
    assert list(held_out(subject.cell.rates).values()) == pytest.approx([0.55] * 3)
    assert list(held_out(subject.cell.rates[1:]).values()) == pytest.approx([0.1] * 3)
    assert held_out([]) == {}
    (single,) = find_subjects(make_sweep({1e-3: [0.5]}))
    assert held_out(single.cell.rates) == {}


@pytest.mark.parametrize(
    ("length", "pairs", "bound"),
    [(64, 4, 0.2882), (128, 8, 0.1548), (256, 16, 0.0826), (512, 64, 0.0249), (256, 64, 0.0349)],
)
def test_the_bound_on_one_pair_is_worked_out(length, pairs, bound):
    run = RunSpec.parse(
        {
            "task": {"name": "mqar", "length": length, "pairs": pairs},
            "model": {"mixer": "attention"},
        }
    )
    (subject,) = find_subjects([made_row(run, 0.1)])
    assert floor(subject) == pytest.approx(bound, abs=1e-4)


def test_official_values():
    assert len(zoology.STARS) == 5 * 4 * 4
    assert zoology.star("hyena", 128, 8, 128) == (0.65, True)
    assert zoology.star("h3", 128, 8, 512) == (0.76, False)
    assert {zoology.star("attention", *size, 64) for size in zoology.SIZES} == {(1.0, False)}
    assert zoology.star("mamba", 64, 4, 64) is None
    assert all(0 < star.accuracy <= 1 for star in zoology.STARS.values())
