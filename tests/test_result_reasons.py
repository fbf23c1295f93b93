"""What the results page says of claims that fail: what was tried out, and what it turned."""

import json
from dataclasses import replace

import pytest
from claims_made import (
    BY_NAME,
    NARROW,
    WIDE,
    changed,
    made_row,
    made_rows,
    mixer,
    study_score,
    within,
)

from recollect.reports.paper.causes import find_causes
from recollect.reports.paper.claims.judge import judge
from recollect.reports.paper.presets import open_sweep

MIDDLE = 1e-3  # a rate inside of the wide window
FLOOR = 0.02


def narrow(run):
    return within(run, NARROW, 0.999, FLOOR)


def wide(run):
    return within(run, WIDE, 0.995, FLOOR)


def rows_of(name, score=study_score):
    return made_rows(BY_NAME[name], score)


def without_dropout(rows, window):
    """The same runs with one setting changed, and this window."""
    low, high = window
    changed_rows = []
    for row in rows:
        score = 0.999 if low <= row.spec["train"]["lr"] <= high else FLOOR
        spec = row.spec | {"model": row.spec["model"] | {"dropout": 0.0}}
        run_id = f"{row.run_id}-no-dropout"
        changed_rows.append(replace(row, run_id=run_id, spec=spec, accuracy=score, exact=score))
    return changed_rows


def lose(rows, *rates, seed=42):
    """One seed learns nothing at these rates."""
    return [
        replace(row, accuracy=FLOOR, exact=FLOOR)
        if row.spec["train"]["lr"] in rates and row.spec["seed"] == seed
        else row
        for row in rows
    ]


def explained(name, rows, others=()):
    """The sentences about a claim; `others` are rows of other recipes, or of a changed setting."""
    from result_reasons import explanation
    from result_trials import Evidence

    all_rows = [*rows, *others]
    found = {
        recipe: judge([BY_NAME[name]], all_rows, {}, recipe, resamples=0)
        for recipe in ("study", "plain")
    }
    evidence = Evidence(all_rows, {}, found, find_causes(all_rows, "study"))
    [verdict] = found["study"]
    return verdict, explanation(verdict, evidence)


def only(rows, length, width=64):
    return [
        row
        for row in rows
        if (row.spec["task"]["length"], row.spec["model"]["width"]) == (length, width)
    ]


def test_a_failure_without_a_reason_says_so(docs):
    from result_reasons import NO_REASON

    verdict, told = explained("C2", only(rows_of("C2", narrow), 64))
    assert verdict.words == "fails in 1 of 1 cell"
    assert told == [NO_REASON]


def test_lost_seeds_that_turn_a_failing_cell_may_explain_it(docs):
    whole = only(rows_of("C2"), 64)
    verdict, told = explained("C2", lose(whole, MIDDLE))
    assert verdict.words == "fails in 1 of 1 cell"
    [lost] = told
    assert lost.startswith(
        "May explain it: lost seeds; at 1e-3, 1 of 3 runs of 2-layer attention (64,4) width 64"
    )
    assert "W(0.9) would be 2.1 instead of 0.8 decades" in lost
    assert "no higher rate" not in lost
    assert lost.endswith("and 2-layer attention (64,4) width 64 would hold.")


def test_lost_seeds_that_turn_a_holding_cell_are_a_doubt(docs):
    """Lost seeds may make a window narrow."""
    most = changed(
        lambda run: mixer(run) == "mamba", lambda run: within(run, (2e-3, 1e-1), 0.995, FLOOR)
    )
    rows = only(rows_of("C3", most), 64)
    mambas = [row for row in rows if row.spec["model"]["mixer"]["name"] == "mamba"]
    lost = {row.run_id: row for row in lose(mambas, 1e-2, 3e-2, 1e-1)}
    verdict, told = explained("C3", [lost.get(row.run_id, row) for row in rows])
    [cell] = [cell for cell in verdict.cells if cell.cell == "2-layer mamba (64,4) width 64"]
    assert cell.check.holds
    [doubt] = [text for text in told if "lost seeds" in text]
    assert doubt.startswith(
        "In doubt: lost seeds; at 1e-2, 3e-2 and 1e-1, 3 of 9 runs of 2-layer mamba (64,4) width 64"
    )
    assert "3 of them learn at no higher rate either, so that the rate may be too large" in doubt
    assert doubt.endswith("and 2-layer mamba (64,4) width 64 would fail.")


@pytest.mark.parametrize(
    ("score", "status", "count"),
    [(FLOOR, "done", 1), (FLOOR, "diverged", 0), (0.6, "done", 0), (0.95, "done", 0)],
)
def test_a_lost_seed_is_one_that_learns_nothing_where_most_solve(docs, score, status, count):
    """One that diverged had too large a rate; one that learns a part is not lost."""
    from result_trials import lost_runs

    from recollect.analysis import group_cells

    rows = [
        replace(row, accuracy=score, exact=score, status=status)
        if row.spec["seed"] == 42 and row.spec["train"]["lr"] == MIDDLE
        else row
        for row in only(rows_of("C2"), 64)
    ]
    [cell] = group_cells(rows)
    assert len(lost_runs(cell)) == count
    [alone] = group_cells([row for row in rows if row.spec["seed"] == 42])
    assert not lost_runs(alone), "there are no other seeds that solve it"
    [most] = group_cells(lose(lose(rows, MIDDLE), MIDDLE, seed=123))
    assert not lost_runs(most), "most seeds do not solve it"


def test_a_choice_of_the_recipe_may_explain_it_or_does_not_turn_it(docs):
    own = only(rows_of("C2", narrow), 64)
    _, told = explained("C2", own, without_dropout(own, WIDE))
    [reason] = told
    assert reason == (
        "May explain it: [a choice](#what-makes-a-window-wide) of the recipe; with dropout 0.1 to 0"
        " (Attention), 2-layer attention (64,4) width 64 would hold."
    )
    _, told = explained("C2", own, without_dropout(own, NARROW))
    assert told[1:] == [
        "Does not turn it: [a choice](#what-makes-a-window-wide) of the recipe; with dropout 0.1 to"
        " 0 (Attention), 2-layer attention (64,4) width 64 fails, too."
    ]


def test_choices_that_do_the_same_are_told_together(docs):
    own = only(rows_of("C2", narrow), 64)
    others = [
        replace(row, run_id=f"{row.run_id}-clip", spec=row.spec | {"train": clipped(row)})
        for row in own
    ]
    _, told = explained("C2", own, [*without_dropout(own, NARROW), *others])
    [line] = told[1:]
    assert line.startswith("Does not turn it: [a choice](#what-makes-a-window-wide) of the recipe;")
    assert "dropout 0.1 to 0 (Attention)" in line
    assert " or " in line
    assert "clip 0 to 1 (Attention)" in line
    assert line.endswith(", 2-layer attention (64,4) width 64 fails, too.")


def clipped(row):
    return row.spec["train"] | {"clip": 1.0}


def test_a_choice_that_turns_a_holding_cell_is_a_doubt(docs):
    own = rows_of("C2")
    verdict, told = explained("C2", own, without_dropout(only(own, 256), NARROW))
    assert verdict.words == "reproduced"
    assert told[1:] == [
        "In doubt: [a choice](#what-makes-a-window-wide) of the recipe; with dropout 0.1 to 0"
        " (Attention), 2-layer attention (256,16) width 64 would fail."
    ]


def under_plain(score):
    """Rows of attention at (64,4) under another recipe."""
    words = ["model.mixer=attention", "task.length=64", "task.pairs=4", "model.width=64"]
    seeds = "sweep.seed=[42,123,777]"
    runs = open_sweep("paper:fig1", [*words, seeds], "plain").runs
    return [
        replace(made_row(run, score(run)), spec=json.loads(run.canonical_json())) for run in runs
    ]


def test_another_recipe_under_which_it_holds_may_explain_it(docs):
    own = only(rows_of("C2", narrow), 64)
    _, told = explained("C2", own, under_plain(study_score))
    [reason] = told
    assert reason.startswith(
        "May explain it: the recipe; 2-layer attention (64,4) width 64 holds under `plain`. From "
        "`plain` it differs in "
    )
    assert "dropout" in reason
    assert "vocabulary split" in reason


def test_another_recipe_under_which_it_fails_does_not_turn_it(docs):
    own = only(rows_of("C2", narrow), 64)
    _, told = explained("C2", own, under_plain(narrow))
    assert told[1:] == [
        "Does not turn it: the recipe; 2-layer attention (64,4) width 64 fails under `plain`, too."
    ]


def test_a_cell_that_only_another_recipe_decides_is_told(docs):
    fails = changed(lambda run: run.task.length == 256, narrow)
    own = only(rows_of("C2", fails), 256)
    _, told = explained("C2", own, under_plain(study_score))
    assert told == [
        "May explain it: the length and pairs; under `plain` it holds in 2-layer attention (64,4)"
        " width 64, which `study` does not decide yet."
    ]


def test_what_tells_failing_cells_from_others_may_explain_it(docs):
    fails = changed(lambda run: run.task.length == 256, narrow)
    rows = rows_of("C2", fails)
    _, told = explained("C2", [*only(rows, 64), *only(rows, 256)])
    assert told == [
        "May explain it: the length and pairs; it fails in 2-layer attention (256,16) width 64 and"
        " holds in 2-layer attention (64,4) width 64."
    ]
    _, told = explained("C2", [*only(rows, 64, 128), *only(rows, 256)])
    assert told == ["No explanation in the rows so far."], "size and width differ both"


def test_levels_that_disagree_may_explain_it(docs):
    """The window is wide at .9 alone: beside its best rates the score is .93."""

    def shoulders(run):
        return max(narrow(run), within(run, WIDE, 0.93, FLOOR))

    verdict, told = explained("C2", only(rows_of("C2", shoulders), 64))
    assert verdict.disagreement
    assert told[0] == (
        "May explain it: the level τ; it holds in 1 of 1 cell at 0.9, and it fails in 1 of 1 cell"
        " at 0.95 and 0.98."
    )


def test_levels_are_told_in_whole_sentences(docs):
    """At .9 every cell that the claim names holds, at higher levels none."""

    def shoulders(run):
        return max(narrow(run), within(run, WIDE, 0.93, FLOOR))

    verdict, told = explained("C2", rows_of("C2", shoulders))
    assert verdict.words == "reproduced"
    assert told[0].startswith("May explain it: the level τ; it is reproduced at 0.9, and it ")


def test_thin_windows_are_in_doubt(docs):
    """A search leaves one seed at most rates, and none fails among them."""
    rows = [
        row
        for row in only(rows_of("C2", narrow), 64)
        if row.spec["seed"] == 42 or not NARROW[0] <= row.spec["train"]["lr"] <= NARROW[1]
    ]
    _, told = explained("C2", rows)
    doubts = [text for text in told if text.startswith("In doubt: the window of 2-layer attention")]
    assert len(doubts) == 1


def test_thin_windows_that_hold_are_in_doubt_if_none_fails(docs):
    from result_claims import unlike_section
    from result_trials import Evidence

    rows = [
        replace(row, status="todo", accuracy=None, exact=None)
        if row.spec["seed"] != 42 and WIDE[0] < row.spec["train"]["lr"] < WIDE[1]
        else row
        for row in only(rows_of("C2", wide), 64)
    ]
    found = judge([BY_NAME["C2"]], rows, {}, "study", resamples=0)
    assert found[0].words == "holds in 1 of 1 cell"
    section = unlike_section({"study": found}, Evidence(rows, {}, {"study": found}, []))
    doubt = "In doubt: the window of 2-layer attention (64,4) width 64; most rates inside have one"
    assert section.count(doubt) == 1


def test_a_grid_misses_what_is_narrower_than_its_step(docs):
    verdict, told = explained("C4", rows_of("C4", wide))
    assert verdict.words in ("contradicted", "fails in 3 of 3 cells")
    [reason] = [text for text in told if "the four rates are 0.67 decades apart" in text]
    assert "which no such grid can miss" in reason


def test_claims_that_fail_by_one_comparison_are_told_together(docs):
    from result_reasons import shared_failures
    from result_trials import Evidence

    rows = rows_of("C31", changed(lambda run: mixer(run) == "mamba", wide))
    rows += rows_of("C24", changed(lambda run: mixer(run) == "mamba", wide))
    rows = list({row.run_id: row for row in rows}.values())
    claims = [BY_NAME["C24"], BY_NAME["C31"], BY_NAME["C2"]]
    found = judge(claims, rows, {}, "study", resamples=0)
    evidence = Evidence(rows, {}, {"study": found}, [])
    assert shared_failures(found[0], evidence) == ["C31 fails by the same comparison."]
    assert shared_failures(found[2], evidence) == []


def test_a_number_in_common_is_not_the_same_comparison(docs):
    """Attention's narrow window is against two claims, but Mamba's wide one is against one."""
    from result_reasons import shared_failures
    from result_trials import Evidence

    score = changed(
        lambda run: True, lambda run: wide(run) if mixer(run) == "mamba" else narrow(run)
    )
    rows = only(
        list({row.run_id: row for row in rows_of("C2", score) + rows_of("C3", score)}.values()), 64
    )
    found = judge([BY_NAME["C2"], BY_NAME["C3"]], rows, {}, "study", resamples=0)
    assert all(verdict.tally.fails for verdict in found)
    evidence = Evidence(rows, {}, {"study": found}, [])
    assert [shared_failures(verdict, evidence) for verdict in found] == [[], []]
