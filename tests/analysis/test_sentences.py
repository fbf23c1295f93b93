"""What a cell showed, in words."""

import pytest
from rows_made import make_curve, make_row, make_sweep

from recollect.analysis import (
    cautions,
    closing,
    group_cells,
    ranking,
    rate_text,
    score_text,
    sentence,
    summarise,
)
from recollect.analysis.sentences import several_rates
from recollect.analysis.wording import about_text, time_text


@pytest.mark.parametrize(
    ("rate", "text"), [(3e-3, "3e-3"), (4.6416e-4, "4.64e-4"), (1.0, "1e0"), (9.999e-4, "1e-3")]
)
def test_rates_are_written_short(rate, text):
    assert rate_text(rate) == text


@pytest.mark.parametrize(
    ("seconds", "text", "about"),
    [
        (0.0, "under a second", "under a second"),
        (0.99, "under a second", "under a second"),
        (1.0, "1 s", "about 1 s"),
        (59.6, "1 min 0 s", "about 1 min 0 s"),
        (200.0, "3 min 20 s", "about 3 min 20 s"),
        (3900.0, "1 h 5 min", "about 1 h 5 min"),
    ],
)
def test_times_are_written_as_people_say_them(seconds, text, about):
    assert (time_text(seconds), about_text(seconds)) == (text, about)


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
            "attention does not solve it, 2 of 3 runs done: best 0.600 at 1e-3, below 0.9 "
            "(chance 0.250).",
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


# --- cells side by side


WIDE = {1e-4: [0.3], 1e-3: [1.0], 1e-2: [0.95], 1e-1: [0.1]}
NARROW = {1e-4: [0.2], 1e-3: [0.92], 1e-2: [0.2], 1e-1: [0.0]}
NEVER = {1e-4: [0.2], 1e-3: [0.5], 1e-2: [0.4], 1e-1: [0.0]}


def ranked(steps, is_searched=several_rates, **scores):
    """The ranking of mixers with these scores by rate, each solved after so many evaluations."""
    rows = [row for name, found in scores.items() for row in make_sweep(found, name)]
    curves = {
        row.run_id: make_curve([0.0] * (steps[row.spec["model"]["mixer"]["name"]] - 1) + [1.0])
        for row in rows
    }
    summaries = summarise(group_cells(rows), curves)
    return ranking([(summary.cell.mixer, summary) for summary in summaries], is_searched)


def test_cells_are_ranked_by_window_and_told_apart_by_steps_and_luck():
    assert ranked({"a": 3, "b": 1, "c": 2}, b=NARROW, a=WIDE, c=NEVER) == [
        "The widest window is that of a, 1.2 decades (7.2e-4 to 1.15e-2); then b (0.1).",
        "c (best 0.500) stays below 0.9 at every rate tried.",
        "At its best rate b solves it first, after 100 steps, and a last, after 300.",
        "A grid of four rates, shifted at random, may miss the window of b (found with probability "
        "8%).",
    ]


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ({"a": 1, "b": 3, "c": 1}, "At their best rates a and c solve it first, after 100 steps,"),
        (
            {"a": 3, "b": 1, "c": 3},
            "At its best rate b solves it first, after 100 steps, and a and c last, after 300.",
        ),
        ({"a": 1, "b": 1, "c": 1, "d": 20}, "At their best rates a, b and c solve it first, after"),
    ],
)
def test_models_solve_the_task_alone_or_together(steps, text):
    [found] = [own for own in ranked(steps, **dict.fromkeys(steps, WIDE)) if "first" in own]
    assert found.startswith(text)
    assert " or " not in found


def test_a_ranking_leaves_out_what_does_not_differ():
    assert ranked({"a": 2, "b": 2}, a=NEVER, b={**NEVER, 1e-3: [0.6]}) == [
        "b (best 0.600) and a (best 0.500) stay below 0.9 at every rate tried."
    ]
    assert ranked({"a": 2}, a=WIDE) == []


def test_a_window_that_the_grid_cut_is_a_lower_bound_and_no_miss():
    texts = ranked({"a": 2, "b": 2}, a=WIDE, b={1e-3: [1.0], 2e-3: [1.0]})
    assert texts == [
        "The widest window is that of a, 1.2 decades (7.2e-4 to 1.15e-2); then b (at least 0.3)."
    ]


def test_of_a_cell_that_was_not_searched_only_its_window_goes_unsaid():
    found = ranked(
        {"a": 3, "b": 1, "c": 2},
        is_searched=lambda cell: cell.mixer == "a",
        a=WIDE,
        b=NARROW,
        c=NEVER,
    )
    assert found == [
        "The widest window is that of a, 1.2 decades (7.2e-4 to 1.15e-2).",
        "c (best 0.500) stays below 0.9 at every rate tried.",
        "At its best rate b solves it first, after 100 steps, and a last, after 300.",
    ]


@pytest.mark.parametrize(
    ("score", "text"), [(0.8996, "0.8996"), (0.89999, "0.8999"), (0.8, "0.800")]
)
def test_a_score_below_the_line_does_not_read_as_if_it_reached_it(score, text):
    found = sentence(summary_of(make_sweep({1e-3: [score], 1e-2: [0.1]})))
    assert f"best {text} at 1e-3, below 0.9 " in found


def many_cells(count):
    """Of them the first three with a result."""
    return [
        make_row(model={"width": width}, **({} if width < 3 else {"status": "todo", "score": None}))
        for width in range(count)
    ]


def test_few_cells_are_told_one_by_one_at_the_end():
    summaries = summarise(group_cells(many_cells(12)), {})
    assert closing(summaries, ()) == [sentence(summary) for summary in summaries]


def test_of_many_cells_those_that_were_trained_are_told_and_the_rest_counted():
    rows = many_cells(40)
    summaries = summarise(group_cells(rows), {})
    told = closing(summaries, {rows[1].run_id, rows[7].run_id})
    assert told == [
        sentence(summaries[1]),
        sentence(summaries[7]),
        "2 other cells with a result, 36 without.",
    ]
    assert closing(summaries, ()) == ["3 cells with a result, 37 without."]
    everything = closing(summaries, {row.run_id for row in rows})
    assert len(everything) == 12 + 1
    assert everything[-1] == "0 other cells with a result, 28 without."
