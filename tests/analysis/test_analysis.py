"""Cells, seeds, curves and sentences against answers worked out by hand."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_made import make_curve, make_row, make_sweep

from recollect.analysis import (
    cautions,
    count_statuses,
    counts_text,
    describe,
    find_window,
    flatten,
    group_cells,
    rate_text,
    score_text,
    seed_spread,
    sentence,
    solve_step,
    steps_to_solve,
    summarise,
    thin,
)
from recollect.analysis.settings import name_cells, value_text


def only_cell(rows):
    (cell,) = group_cells(rows)
    return cell


# --- cells


def test_runs_that_differ_in_rate_and_seed_alone_are_one_cell():
    cell = only_cell(make_sweep({1e-2: [0.5, 0.7], 1e-3: [1.0, 0.9]}))
    assert [rate.lr for rate in cell.rates] == [1e-3, 1e-2]
    assert cell.rates[0].scores == {1: 1.0, 2: 0.9}
    assert cell.rates[1].mean == pytest.approx(0.6)
    assert cell.best is cell.rates[0]
    assert cell.name == "attention"


def test_diverged_counts_at_chance_and_the_unfinished_do_not_count():
    rows = [
        make_row(seed=1, score=1.0),
        make_row(seed=2, score=0.9, status="diverged", diverged_step=7),
        make_row(seed=3, score=0.8, status="running"),
        make_row(seed=4, score=None, status="failed", failure="oom: 1 GB"),
        make_row(seed=5, score=None, status="todo"),
    ]
    cell = only_cell(rows)
    assert cell.rates[0].scores == {1: 1.0, 2: 0.25}
    assert cell.scored_runs == 2
    assert len(cell.rows) == 5
    assert (
        counts_text(count_statuses(rows))
        == "5 planned = 1 done + 1 diverged + 1 failed + 1 running + 1 todo"
    )


def test_an_exact_task_is_judged_by_exact():
    assert only_cell([make_row(score=0.9, exact=0.3, score_name="exact")]).best.mean == 0.3


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([make_row("attention"), make_row("mamba")], ["attention", "mamba"]),
        (
            [make_row("mamba", model={"width": w}) for w in (64, 128)],
            ["mamba, width 64", "mamba, width 128"],
        ),
        (
            [make_row(m, model={"width": w}) for m in ("attention", "mine") for w in (64, 128)],
            ["attention, width 64", "attention, width 128", "mine, width 64", "mine, width 128"],
        ),
        # An option that only one mixer has follows from the mixer and goes unsaid.
        (
            [make_row("attention"), make_row(model={"mixer": {"name": "mamba", "state": 16}})],
            ["attention", "mamba"],
        ),
        (
            [make_row(model={"mixer": {"name": "m", "gate": g}}) for g in (True, False)],
            ["m, gate on", "m, gate off"],
        ),
        # Depth follows from width here, so one of them is enough.
        (
            [make_row(model={"width": w, "depth": w}) for w in (2, 4)],
            ["attention, width 2", "attention, width 4"],
        ),
        (
            [make_row(model={"mixer": {"name": "m", "width": w}, "width": 8}) for w in (1, 2)],
            ["m, width 1", "m, width 2"],
        ),
        ([make_row(model={"mixer": {}})], ["model"]),
    ],
)
def test_cells_are_named_by_what_differs(rows, names):
    assert [cell.name for cell in group_cells(rows)] == names


def test_values_that_look_alike_are_written_out():
    rows = [make_row(model={"dropout": dropout}) for dropout in (0.01234, 0.012341)]
    assert [cell.name for cell in group_cells(rows)] == [
        "attention, dropout 0.01234",
        "attention, dropout 0.012341",
    ]


def test_keys_that_end_alike_are_told_apart():
    rows = [
        make_row(model={"mixer": {"name": "m", "width": a}, "width": b})
        for a in (1, 2)
        for b in (8, 9)
    ]
    assert group_cells(rows)[0].name == "m, model width 8, model mixer width 1"


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.integers(1, 3)),
        min_size=1,
        unique=True,
    )
)
def test_names_of_cells_are_unique(triples):
    rows = [
        make_row(mixer, model={"width": width, "depth": depth}) for mixer, width, depth in triples
    ]
    names = [cell.name for cell in group_cells(rows)]
    assert len(set(names)) == len(names) == len(triples)


def test_flatten_keeps_lists_and_empty_tables():
    assert flatten({"a": {"b": {"c": [1, 2]}, "d": {}}, "e": None}) == {
        "a.b.c": [1, 2],
        "a.d": {},
        "e": None,
    }


def test_a_sweep_is_described_in_plain_words():
    mamba = {"mixer": {"name": "mamba", "state": 16}, "norm": "rms"}
    rows = [
        make_row(lr=lr, seed=seed, model={"norm": "layer"})
        for lr in (1e-3, 1e-2)
        for seed in (1, 2)
    ]
    rows.append(make_row(seed=1, model=mamba))
    facts = {fact.topic: fact.text for fact in describe([row.spec for row in rows])}
    assert facts == {
        "task": "mqar, length 64, pairs 4",
        "model": "width 64, depth 2",
        "recipe": "steps 1000, weight decay 0.1, data seed 0",
        "mixers": "attention, mamba",
        "attention": "norm layer",
        "mamba": "state 16; norm rms",
        "varied": "learning rate 1e-3, 1e-2; seed 1, 2",
    }
    assert describe([]) == []


def test_a_long_list_of_values_is_described_by_its_ends():
    facts = describe([make_row(lr=10**-step).spec for step in (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)])
    assert [fact.text for fact in facts if fact.topic == "varied"] == [
        "learning rate: 7 values from 1e-4 to 0.1"
    ]


# --- seeds and curves


def test_spread_over_seeds():
    rows = make_sweep({1e-4: [0.0, 0.0, 0.0], 1e-3: [1.0, 1.0, 0.5], 1e-2: [0.0, 0.8, 0.0]})
    spread = seed_spread(only_cell(rows), tau=0.8)
    # Seed 1: a fifth of a decade either side. Seed 2: a fifth below, one decade above, then the
    # grid ends. Seed 3: none.
    assert (spread.seeds, spread.low, spread.high) == (3, 0.0, pytest.approx(1.2))
    low, high = spread.interval
    assert low == 0.0
    assert high == pytest.approx(1.2)


def test_equal_seeds_have_no_spread_and_two_seeds_no_interval():
    scores = {1e-4: [0.0] * 4, 1e-3: [1.0] * 4, 1e-2: [0.0] * 4}
    spread = seed_spread(only_cell(make_sweep(scores)), tau=0.5)
    assert spread.interval == (pytest.approx(1.0), pytest.approx(1.0))
    assert seed_spread(only_cell(make_sweep({1e-3: [1.0, 1.0]}))).interval is None
    assert seed_spread(only_cell([make_row(score=None, status="todo")])) is None


def test_bootstrap_interval_agrees_with_all_resamples_of_three_seeds():
    rows = make_sweep({1e-4: [0.1, 0.6, 0.3], 1e-3: [1.0, 0.9, 1.0], 1e-2: [0.7, 0.2, 0.1]})
    cell = only_cell(rows)
    widths = []
    for chosen in [(a, b, c) for a in (1, 2, 3) for b in (1, 2, 3) for c in (1, 2, 3)]:
        means = [sum(rate.scores[seed] for seed in chosen) / 3 for rate in cell.rates]
        widths.append(find_window([rate.lr for rate in cell.rates], means, 0.5).decades)
    # 1/27 > 2.5 %: with three seeds the interval reaches the extremes, which a thousand draws find.
    assert seed_spread(cell, 0.5).interval == (
        pytest.approx(min(widths)),
        pytest.approx(max(widths)),
    )


def test_steps_to_solve():
    rows = make_sweep({1e-3: [1.0, 1.0, 0.2]})
    curves = dict(
        zip(
            [row.run_id for row in rows],
            map(make_curve, ([0.1, 0.9, 1], [0.1, 0.2, 0.95], [0.1, 0.2, 0.2])),
            strict=True,
        )
    )
    assert [solve_step(curves[row.run_id], "accuracy") for row in rows] == [200, 300, None]
    assert solve_step(make_curve([0.95]), "exact") is None
    rate = only_cell(rows).rates[0]
    assert steps_to_solve(rate, curves) == 300
    assert steps_to_solve(rate, {}) is None


@given(st.integers(0, 200), st.integers(2, 50))
def test_a_thinned_curve_keeps_its_ends_and_order(length, limit):
    curve = make_curve([0.5] * length)
    short = thin(curve, limit)
    assert len(short) == min(length, limit)
    assert [p.step for p in short] == sorted({p.step for p in short})
    assert not curve or (short[0], short[-1]) == (curve[0], curve[-1])


# --- words


@pytest.mark.parametrize(
    ("rate", "text"), [(3e-3, "3e-3"), (4.6416e-4, "4.64e-4"), (1.0, "1e0"), (9.999e-4, "1e-3")]
)
def test_rates_are_written_short(rate, text):
    assert rate_text(rate) == text


def test_only_a_perfect_score_reads_one():
    assert [score_text(score) for score in (1.0, 0.9999, 0.25, 0.0)] == [
        "1.000",
        "0.999",
        "0.250",
        "0.000",
    ]


def summary_of(rows):
    return summarise(group_cells(rows), {})[0]


@pytest.mark.parametrize(
    ("rows", "text", "doubts"),
    [
        (
            make_sweep({1e-4: [0.4], 1e-3: [1.0], 1e-2: [0.4]}),
            "attention solves it (best 1.000 at 1e-3) over 0.3 decades (6.81e-4 to 1.47e-3).",
            [],
        ),
        (
            make_sweep({1e-4: [1.0, 1.0], 1e-3: [1.0, 1.0]}),
            "attention solves it (best 1.000 at 1e-4) over at least 1.0 decades (1e-4 to 1e-3).",
            ["The window reaches the edge of the grid: try smaller and larger rates."],
        ),
        (
            make_sweep({1e-4: [0.3, 0.3], 1e-3: [0.95, 0.4]}),
            "attention does not solve it: best 0.675 at 1e-3, below 0.9 (chance 0.250).",
            [
                "The best rate is at the edge of the grid: try larger rates.",
                "Only 1 of 2 seeds solve it at the best rate.",
            ],
        ),
        (
            [make_row(status="diverged")],
            "attention diverged in every run (1 run), whatever the rate.",
            [],
        ),
        (
            [make_row(score=None, status="todo"), make_row(seed=1, score=None, status="failed")],
            "attention has no result yet (1 todo, 1 failed).",
            [],
        ),
        (
            [make_row()],
            "attention solves it (best 1.000 at 1e-3); with a single rate tried, "
            "nothing is known about the window.",
            [],
        ),
        (
            [
                *make_sweep({1e-4: [0.4], 1e-3: [0.6]}),
                make_row(lr=1e-2, seed=1, score=None, status="todo"),
            ],
            "attention has not solved it yet: best 0.600 at 1e-3, below 0.9 (chance 0.250).",
            [
                "The best rate is at the last rate with a result; larger ones have none yet.",
                "1 of 3 runs without a result.",
            ],
        ),
    ],
)
def test_sentences_say_what_was_found_and_what_to_doubt(rows, text, doubts):
    assert sentence(summary_of(rows)) == text
    assert cautions(summary_of(rows)) == doubts


def test_a_summary_holds_the_measures():
    rows = make_sweep({1e-4: [0.5, 0.5], 1e-3: [1.0, 1.0], 1e-2: [0.5, 0.5]})
    summary = summarise(
        group_cells(rows), {row.run_id: make_curve([0.2, 1.0]) for row in rows}, tau=0.75
    )[0]
    assert summary.window.decades == pytest.approx(1.0)
    assert summary.luck == 1.0
    assert (summary.solved_seeds, summary.steps_to_solve) == (2, 200)
    assert (summary.best.lr, summary.spread.high) == (1e-3, pytest.approx(1.0))


def test_analysis_and_export_need_no_torch():
    heavy = "{'torch', 'numpy', 'matplotlib'}"
    code = (
        "import sys, recollect.analysis, recollect.analysis.export; "
        f"sys.exit(bool({heavy} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_option_is_mentioned_only_for_the_mixer_it_tells_apart():
    cells = [
        {"model.mixer.name": name, "model.mixer.kernel": kernel}
        for name, kernel in (("mamba", 4), ("mamba", 0), ("h3", 4))
    ]
    assert name_cells(cells) == [("mamba", "kernel 4"), ("mamba", "kernel 0"), ("h3", "")]


def test_a_stack_of_mixers_reads_as_their_names():
    layers = [{"name": "base_conv", "kernel": 3}, {"name": "gru"}]
    assert value_text(layers) == "base_conv (kernel 3)/gru"
