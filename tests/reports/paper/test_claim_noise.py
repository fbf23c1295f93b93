"""The noise of seeds excuses a shortfall, and shows nothing: scores near a line, falls, gains along
bumps and gaps in windows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from claims_made import (
    BY_NAME,
    NARROW,
    WIDE,
    changed,
    made_curves,
    made_rows,
    mixer,
    recipe_label,
    study_score,
    verdict_of,
    within,
)
from rows_made import make_row, only_cell

from recollect.analysis import Cell
from recollect.analysis.seeds.other_seeds import Draw
from recollect.reports.paper.claims import Verdict, roles
from recollect.reports.paper.claims.checks import Check, Measure, misses, reaches, some
from recollect.reports.paper.claims.judge import judge
from recollect.reports.paper.claims.measures import up_to_gaps, window
from recollect.reports.paper.claims.wanted import Want
from recollect.reports.paper.study import RATES
from recollect.spec.run import RunSpec

Condition = Callable[[RunSpec], bool]


def spread(run: RunSpec, top: float, apart: float) -> float:
    """`top` over a wide range of rates in the mean of three seeds, which lie `apart`."""
    off = {42: -apart, 123: 0.0, 777: apart}[run.seed]
    return top + off if WIDE[0] <= run.train.lr <= WIDE[1] else 0.02


# ---- a line for "solved" ----


@pytest.mark.parametrize(
    ("low", "high", "noise", "holds"),
    [
        (0.95, 0.95, 0.1, True),
        (0.94, 0.94, 0.0, False),
        (0.94, 0.94, 0.01, None),
        (0.90, 0.90, 0.01, False),
        (0.80, 0.80, 0.1, None),
        (0.66, 0.66, 0.33, False),  # a lost seed of three
        (0.90, 1.0, 0.0, None),  # not searched yet
    ],
)
def test_a_line_is_reached_missed_or_in_doubt(low, high, noise, holds):
    score = Measure(low, high, "mamba", noise=noise)
    check, against = reaches(score, 0.95), misses(score, 0.95)
    assert (check.holds, against.holds) == (holds, None if holds is None else not holds)
    in_doubt = holds is None and low == high
    assert check.lacks == against.lacks == ("more seeds than in mamba" if in_doubt else "")


def test_of_several_ways_the_first_that_can_be_trained_is_asked_for():
    want = Want(roles.MAMBA_2, (64, 4), 64, 2)
    in_doubt, untrained = Check(None, "", "more seeds"), Check(None, "", "rows", wants=(want,))
    assert some([in_doubt, untrained]).wants == (want,)
    assert some([in_doubt]).wants == ()


NEAR_THE_LINE: list[tuple[str, Condition]] = [
    ("C1", lambda run: True),
    ("C6", lambda run: True),
    ("C12", lambda run: True),
    ("C13", lambda run: run.model.width <= 256),
    ("C14", lambda run: mixer(run) == "mamba" and run.model.depth == 1),
    ("C16", lambda run: run.model.width == 1408),
    ("C20", lambda run: mixer(run) == "mamba" and not run.model.mixer.gate),
    ("C21", lambda run: True),
    ("C23", lambda run: mixer(run) == "mamba"),
    ("C25", lambda run: True),
    ("C28", lambda run: run.model.depth == 2),
    ("C28", lambda run: run.model.depth == 1),
    ("C30", lambda run: mixer(run) == "h3"),
    ("C11", lambda run: mixer(run) == "mamba"),
    ("C29", lambda run: mixer(run) == "h3"),
]


@pytest.mark.parametrize(
    ("name", "condition"),
    NEAR_THE_LINE,
    ids=[f"{name}-{i}" for i, (name, _) in enumerate(NEAR_THE_LINE)],
)
def test_a_score_just_below_solved_settles_nothing_while_its_seeds_differ(name, condition):
    claim = BY_NAME[name]

    def scored(apart: float) -> Verdict:
        near = changed(condition, lambda run: spread(run, 0.9, apart))
        return verdict_of(claim, made_rows(claim, near))

    doubtful = scored(0.05)
    assert doubtful.outcome in ("holds in part", "not enough data"), doubtful.numbers
    assert any(check.lacks.startswith("more seeds than in") for check in doubtful.checks)
    sure = scored(0.001)
    below_is_right = name == "C13" or condition is NEAR_THE_LINE[11][1]
    assert sure.outcome == ("reproduced" if below_is_right else "contradicted"), sure.numbers


# ---- falls ----


@pytest.mark.parametrize("name", ["C11", "C29"])
@pytest.mark.parametrize(
    ("top", "apart", "outcome"),
    [
        (0.955, 0.001, "reproduced"),  # it falls from .995, and still solves the task
        (0.93, 0.001, "contradicted"),
        (0.93, 0.05, "reproduced"),  # a fall that noise explains
        (0.80, 0.05, "contradicted"),
    ],
)
def test_a_fall_among_models_that_solve_the_task_is_none(name, top, apart, outcome):
    fallen = changed(
        lambda run: mixer(run) == "mamba" and run.model.width == 2048,
        lambda run: spread(run, top, apart),
    )
    verdict = verdict_of(BY_NAME[name], made_rows(BY_NAME[name], fallen))
    assert verdict.outcome == outcome, verdict.numbers


@pytest.mark.parametrize("name", ["C11", "C29"])
def test_one_rate_shows_that_models_which_solve_the_task_do_not_fall(name):
    """Before a search their scores are lower bounds, and so is a fall."""
    claim = BY_NAME[name]
    rows = [
        row
        for row in made_rows(claim, lambda run: spread(run, 0.96, 0.001))
        if row.spec["train"]["lr"] == GAP
    ]
    assert verdict_of(claim, rows).outcome == "reproduced"


# ---- gains along bumps ----


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ((0.07, 0.07, 0.07), "reproduced"),
        ((0.50, 0.07, 0.07), "reproduced"),  # the seed in the middle decides
        ((0.50, 0.50, 0.07), "contradicted"),
        ((0.30, 0.30, 0.30), "contradicted"),
        ((0.18, 0.18, 0.18), "contradicted"),
        ((0.14, 0.18, 0.22), "holds in part"),  # a gain of .12 with a standard error of .02
    ],
)
def test_a_gain_is_more_than_the_noise_of_seeds(scores, outcome):
    """Of attention, whose loss falls at once; chance is .06."""
    by_seed = dict(zip((42, 123, 777), scores, strict=True))
    gained = changed(
        lambda run: mixer(run) == "attention" and WIDE[0] <= run.train.lr <= WIDE[1],
        lambda run: by_seed[run.seed],
    )
    verdict = verdict_of(BY_NAME["C18"], made_rows(BY_NAME["C18"], gained))
    assert verdict.outcome == outcome, verdict.numbers
    if outcome == "holds in part":
        assert "more seeds, since a gain of 0.12 may be noise" in verdict.numbers


def test_in_most_seeds_of_an_even_number_is_in_more_than_half():
    claim = BY_NAME["C18"]
    rows = made_rows(claim, study_score)
    rows += [
        replace(row, run_id=f"{row.run_id}-4", spec=row.spec | {"seed": 4})
        for row in rows
        if row.spec["seed"] == 42
    ]

    def with_flat(name: str, seeds: Sequence[int]) -> str:
        """The curves of these seeds of a model bump without a gain; its others bump with one."""
        curves = made_curves(rows)
        for row in rows:
            if row.spec["model"]["mixer"]["name"] == name:
                low, high = (row.chance, row.chance) if row.spec["seed"] in seeds else (0.1, 0.9)
                middle = curves[row.run_id][20].test_loss
                curves[row.run_id] = [
                    replace(point, accuracy=low if point.test_loss > middle else high)
                    for point in curves[row.run_id]
                ]
        (verdict,) = judge([claim], rows, curves, recipe_label(rows), resamples=0)
        return verdict.outcome

    found = [with_flat("mamba", seeds) for seeds in ((), (4,), (4, 42))]
    assert found == ["reproduced", "reproduced", "contradicted"]
    found = [with_flat("attention", seeds) for seeds in ((4, 42, 123), (4, 42))]
    assert found == ["reproduced", "contradicted"]


# ---- gaps ----

PLATEAU = [lr for lr in RATES if WIDE[0] <= lr <= WIDE[1]]
GAP = 1e-3


def cell(
    lows: dict[float, Sequence[float]], apart: float = 0.04, todo: Sequence[float] = ()
) -> Cell:
    """A plateau of .95, three seeds `apart`; `lows` are other scores, by rate."""
    rows = []
    for lr in RATES:
        top = 0.95 if lr in PLATEAU else 0.1
        scores = lows.get(lr, (top - apart, top, top + apart))
        status = "todo" if lr in todo else "done"
        rows += [
            make_row("mamba", lr, seed, None if lr in todo else score, status)
            for seed, score in enumerate(scores)
        ]
    return only_cell(rows)


def widened(cell: Cell, tau: float = 0.9, draw: Draw | None = None) -> tuple[Measure, Measure]:
    found = window(cell, "mamba", True, tau)
    return found, up_to_gaps(found, cell, "mamba", tau, draw)


LOW = (0.84, 0.88, 0.92)


def test_a_gap_that_noise_explains_makes_a_window_an_interval():
    whole = window(cell({}), "mamba", True, 0.9)
    found, wider = widened(cell({GAP: LOW}))
    assert found.low == found.high < 1.1
    assert (wider.low, wider.high) == (found.low, pytest.approx(whole.low))
    assert wider.text == f"{found.text}, 2.1 if the gap at 1e-3 is noise"
    assert wider.lacks == "mamba: more seeds at 1e-3"


@pytest.mark.parametrize(
    "unlike",
    [
        cell({}),
        cell({GAP: LOW}, apart=0.0),  # there is no noise
        cell({GAP: (0.7, 0.7, 0.7)}),  # more than noise
        cell({GAP: (0.99, 0.99, 0.0)}),  # a lost seed
        cell({lr: (0.99, 0.99, 0.0) if lr == GAP else (1.0, 1.0, 0.72) for lr in PLATEAU}),
        cell({4.642e-4: LOW, GAP: LOW}),  # two rates
        cell({PLATEAU[0]: LOW, PLATEAU[-1]: LOW}),  # edges
        cell({GAP: LOW}, todo=[3e-5]),  # an untried rate
    ],
)
def test_other_gaps_stay(unlike):
    found, wider = widened(unlike)
    assert wider == found


def test_several_single_gaps_are_closed_together():
    _, wider = widened(cell({3e-4: LOW, GAP: LOW}))
    assert wider.high == pytest.approx(window(cell({}), "mamba", True, 0.9).low)
    assert "if the gap at 3e-4 and 1e-3 is noise" in wider.text


def test_a_gap_beside_an_open_end_leaves_it_open():
    tops = {lr: (0.9, 0.95, 1.0) for lr in RATES if lr > WIDE[1]}
    found, wider = widened(cell({GAP: LOW, **tops}))
    assert (found.high, wider) == (math.inf, found)  # it may be as wide already
    lower = {lr: (0.9, 0.95, 1.0) for lr in RATES if lr < WIDE[0]}
    found, wider = widened(cell({GAP: LOW, 1e-2: (0.1, 0.1, 0.1), **lower}))
    assert wider.high == math.inf


def test_other_seeds_may_have_a_gap_too():
    drawn = [0.95 if lr in PLATEAU else 0.1 for lr in RATES]
    whole = Draw(RATES, drawn, [True] * len(RATES), True)
    gap = replace(
        whole, means=[0.88 if lr == GAP else s for lr, s in zip(RATES, drawn, strict=True)]
    )
    found = Measure(1.0, 1.0, "mamba")
    assert up_to_gaps(found, cell({GAP: LOW}), "mamba", 0.9, gap).high == pytest.approx(
        2.02, abs=0.05
    )
    lost = replace(
        whole, means=[0.66 if lr == GAP else s for lr, s in zip(RATES, drawn, strict=True)]
    )
    assert up_to_gaps(found, cell({GAP: LOW}), "mamba", 0.9, lost) == found
    assert up_to_gaps(found, cell({}), "mamba", 0.9, whole) == found


def gapped(run: RunSpec) -> float:
    """A plateau of .95, with a gap that the noise of its seeds explains."""
    return spread(run, 0.88 if run.train.lr == GAP else 0.95, 0.04)


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("C2", gapped),  # attention's window: half of it is not wide
        ("C22", lambda run: gapped(run) if mixer(run) == "mamba" else 0.99),  # and not narrow
        (
            "C22",
            lambda run: gapped(run) if mixer(run) == "attention" else within(run, NARROW, 1, 0),
        ),
        ("C17", lambda run: gapped(run) if mixer(run) == "attention" else study_score(run)),
    ],
)
def test_a_gap_shows_neither_a_wide_window_nor_a_narrow_one(name, score):
    claim = BY_NAME[name]
    verdict = verdict_of(claim, made_rows(claim, score))
    assert verdict.outcome == "not enough data", verdict.numbers
    assert "if the gap at 1e-3 is noise" in verdict.numbers
    assert "more seeds at 1e-3" in verdict.numbers
    assert verdict.wants == ()


def test_gaps_of_other_seeds_are_no_contradiction():
    """Without a doubt about gaps, three of eight draws would contradict the claim."""
    claim = BY_NAME["C2"]
    rows = [
        row
        for row in made_rows(claim, lambda run: spread(run, 0.93, 0.05))
        if row.spec["model"]["width"] == 64 and row.spec["task"]["length"] in (64, 256)
    ]
    verdict = verdict_of(claim, rows, resamples=40)
    assert verdict.outcome == "reproduced"
    assert dict(verdict.resampled)["contradicted"] < 0.2
