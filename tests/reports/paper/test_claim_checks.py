"""Checks of measures that are known in part, and the bounds that rules compare with."""

import pytest
from claims_made import made_row
from rows_made import make_sweep

from recollect.reports.paper import zoology
from recollect.reports.paper.claims import Check
from recollect.reports.paper.claims.checks import (
    Measure,
    at_least,
    at_most,
    below,
    difference,
    every,
    some,
    spread,
)
from recollect.reports.paper.claims.floors import floor
from recollect.reports.paper.claims.groups import find_subjects
from recollect.reports.paper.claims.rules.search import held_out
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
    wide_range = spread([LOW, OPEN], "range")
    assert (wide_range.low, wide_range.high) == (pytest.approx(0.2), 0.8)
    assert spread([LOW, LOW], "same").high == 0


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
    assert held_out(subject.cell.rates) == pytest.approx(
        0.55
    )  # the best mean, 0.55, and not the best of each
    assert held_out(subject.cell.rates[1:]) == pytest.approx(0.1)
    assert held_out([]) is None
    (single,) = find_subjects(make_sweep({1e-3: [0.5]}))
    assert held_out(single.cell.rates) is None


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
