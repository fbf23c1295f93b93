"""What a card says: numbers, tables, the sentence, the picture, the page."""

import math
import re
from dataclasses import replace

import pytest
from cards_made import rows_of, solved_between
from shown import rendered
from stores_made import make_store

from recollect.reports.page.gather import gather, write_page
from recollect.reports.page.rendering import render
from recollect.reports.score import score_mixer, score_tables, verdict
from recollect.reports.score.baselines import Baselines
from recollect.reports.score.request import ScoreRequest
from recollect.rows import Evaluation
from recollect.running.results import RunSet


def test_a_card_by_hand():
    rows = rows_of(score=solved_between(9e-4, 1.1e-2))
    curves = {
        row.run_id: [Evaluation(80, 1, 1, 0.1, 0), Evaluation(160, 1, 1, 0.95, 0)] for row in rows
    }
    score = score_mixer("mine", rows, curves)
    headline, easier = score.cells.values()
    assert list(score.cells) == [(2, 64, 12), (2, 64, 8)]
    # From 1e-3 to 1e-2, and a sixth of the way to the next rate on either side.
    edges = 1 + (math.log10(1e-3 / 4.642e-4) + math.log10(3)) / 6
    assert headline.window.decades == pytest.approx(edges, abs=1e-3)
    assert headline.steps_to_solve == 160
    assert easier.window is None
    assert (score.parameters, score.state_size, score.run_steps_per_s) == (64_000, 7, 200)
    assert (score.planned, score.missing) == (54, 0)


def test_a_card_that_has_only_begun():
    rows = [
        replace(row, status="todo", accuracy=None, steps=None, wall_s=None) for row in rows_of()
    ]
    score = score_mixer("mine", rows, {})
    assert (score.missing, score.run_steps_per_s) == (54, None)
    assert "mine: 54 of 54 runs have no result yet" in rendered(
        score_tables([score], []), width=200
    )
    assert verdict(score, []) == "mine has no result on 3 pairs at width 64 yet."
    half = score_mixer("mine", rows_of()[:27], {}, planned=54)
    assert (half.planned, half.missing) == (54, 27)


def test_the_tables_rank_everybody_and_run_nothing():
    score = score_mixer(
        "[red]mine[/red]", rows_of(score=lambda run: 0.9 + 1e-4 * (run.seed % 3)), {}
    )
    others = [
        score_mixer("worse", rows_of("hyena", score=lambda run: 0.2), {}),
        score_mixer("better", rows_of("gru", score=lambda run: 1.0), {}),
    ]
    text = rendered(score_tables([score], others, ["a note"]), width=200)
    assert "3 pairs in 12 tokens, width 64, 2 layers; chance 0.333" in text
    assert ">= 3.5 [" in text  # the whole grid
    assert "0.200+-0.000" in text
    assert text.index("better") < text.index("[red]mine[/red]") < text.index("worse")
    assert text.index("12 tokens") < text.index("8 tokens") < text.index("a note")


BETTER, EQUAL, WORSE, FLAT = (
    ("delta_net", solved_between(4e-4, 2e-2)),
    ("mamba", solved_between(9e-4, 5e-3)),
    ("gru", solved_between(2e-3, 3e-3)),
    ("hyena", lambda run: 0.5),
)


@pytest.mark.parametrize(
    ("mine", "others", "sentence"),
    [
        (
            solved_between(9e-4, 5e-3),
            [BETTER, WORSE, FLAT],
            "recalls 3 pairs at width 64 over 0.8 decades, centre 2.15e-3; rank 2 of 4; narrower "
            "than DeltaNet by 0.7.",
        ),
        (
            solved_between(9e-4, 5e-3),
            [WORSE, FLAT],
            "recalls 3 pairs at width 64 over 0.8 decades, centre 2.15e-3; rank 1 of 3; wider than "
            "GRU by 0.7.",
        ),
        (
            solved_between(9e-4, 5e-3),
            [EQUAL],
            "recalls 3 pairs at width 64 over 0.8 decades, centre 2.15e-3; rank 1 of 2; as wide as "
            "Mamba.",
        ),
        (
            solved_between(9e-4, 5e-3),
            [FLAT],
            "recalls 3 pairs at width 64 over 0.8 decades, centre 2.15e-3; rank 1 of 2, the only "
            "one with a window.",
        ),
        (
            lambda run: 0.45,
            [BETTER, FLAT],
            "does not recall 3 pairs at width 64: best 0.450 at 4.64e-3, chance 0.333; rank 3 of "
            "3; DeltaNet has 1.5 decades.",
        ),
        (
            lambda run: 1.0 if run.task.pairs == 2 and 9e-4 < run.train.lr < 2e-3 else 0.6,
            [FLAT],
            "does not recall 3 pairs at width 64: best 0.600 at 4.64e-3, chance 0.333; recalls 2 "
            "pairs at width 64 over 0.2 decades, centre 1e-3; rank 1 of 2.",
        ),
        (
            lambda run: 1.0,
            [],
            "recalls 3 pairs at width 64 over at least 3.5 decades, centre 5.48e-3.",
        ),
    ],
)
def test_a_card_in_one_sentence(mine, others, sentence):
    score = score_mixer("mine", rows_of(score=mine), {})
    known = [score_mixer(name, rows_of(name, score=made), {}) for name, made in others]
    assert verdict(score, known) == f"mine {sentence}"


def test_the_page_of_a_card_begins_with_its_verdict(tmp_path, monkeypatch):
    """Found again from the rows, so that `recollect report` has it too."""
    rows = rows_of("gru", score=solved_between(9e-4, 5e-3))
    known = Baselines("", {}, {"delta_net": rows_of("delta_net", score=BETTER[1])}, {})
    monkeypatch.setattr("recollect.reports.score.folder_cards.stored_baselines", lambda card: known)
    make_store(tmp_path / "card", rows, name="score:cpu:headline")
    said = "gru recalls 3 pairs at width 64 over 0.8 decades, centre 2.15e-3; rank 2 of 2; narrower"
    [sentence] = gather([tmp_path / "card"]).context.verdicts
    assert sentence == f"{said} than DeltaNet by 0.7."
    page = write_page([tmp_path / "card"]).read_text()
    assert page.index("The card in a sentence") < page.index(said) < page.index('id="rates"')
    make_store(tmp_path / "other", rows, name="mine")
    assert gather([tmp_path / "other"]).context.verdicts == []
    changed = rows_of("gru", overrides=["train.steps=10", "train.evaluations=5"])
    make_store(tmp_path / "changed", changed, name="score:cpu:headline")
    assert gather([tmp_path / "changed"]).context.verdicts == [], "no card: another recipe"


def test_the_page_of_a_card_shows_the_baselines_beside_its_own_runs(tmp_path, monkeypatch):
    rows = rows_of("gru", score=solved_between(9e-4, 5e-3))
    others = {name: rows_of(name, score=BETTER[1]) for name in ("delta_net", "gru")}
    known = Baselines("", {"on": "a laptop"}, others, {})
    monkeypatch.setattr("recollect.reports.score.folder_cards.stored_baselines", lambda card: known)
    make_store(tmp_path, rows, name="score:cpu:headline")
    found = gather([tmp_path])
    assert found.rows == RunSet.load(tmp_path).rows
    assert found.context.beside == others["delta_net"]  # not the mixer that was scored itself
    page = render(found.rows, found.curves, found.context)
    runs = len(rows)
    assert f"{runs} runs, 2 cells" in page
    assert f"Drawn beside them: {runs} runs of 1 baseline (on a laptop)." in page
    assert f"{runs} planned = {runs} done" in page
    assert "The widest window is that of delta_net" in page
    assert re.search(r'"labels":\[\{"name":"gru".*?"name":"delta_net"', page)


def test_the_verdict_of_an_unfinished_card_says_so(tmp_path):
    rows = rows_of("gru", score=solved_between(9e-4, 5e-3))
    late = [replace(row, status="todo", accuracy=None) for row in rows[:1]]
    make_store(tmp_path, [*late, *rows[1:]], name="score:cpu:headline")
    [sentence] = gather([tmp_path]).context.verdicts
    assert sentence.endswith("; so far, 1 of 27 runs are missing.")


def test_a_sentence_says_what_is_still_missing():
    rows = rows_of(score=solved_between(9e-4, 5e-3))
    rows[0] = replace(rows[0], status="todo", accuracy=None)
    score = score_mixer("mine", rows, {})
    assert verdict(score, []).endswith("; so far, 1 of 27 runs are missing.")


def test_what_is_not_finished_has_not_recalled_yet():
    rows = rows_of(score=lambda *_: 0.2)
    score = score_mixer("mine", rows, {})
    assert verdict(score, []).startswith("mine does not recall 3 pairs at width 64: best 0.200")
    rows[0] = replace(rows[0], status="todo", accuracy=None)
    score = score_mixer("mine", rows, {})
    assert verdict(score, []).startswith("mine has not recalled 3 pairs at width 64: best 0.200")


def test_the_picture_has_all_windows_with_ours_in_bold():
    asked = ScoreRequest.read("gpu", ["mamba"])
    results = RunSet(asked.baselines.rows["mamba"], asked.baselines.curves)
    (ax,) = asked.picture(results).axes
    names = {label.get_text(): label.get_fontweight() for label in ax.get_yticklabels()}
    assert len(names) == len(asked.baselines.rows) == 9
    assert [name for name, weight in names.items() if weight == "bold"] == ["Mamba"]
    others = ScoreRequest.read("cpu", ["mamba"])
    alone = others.picture(RunSet([], {}))
    titles = [ax.get_title(loc="left") for ax in alone.axes]
    assert titles == ["mqar, length 12, pairs 3", "mqar, length 8, pairs 2"], "headline first"
    assert replace(others, baselines=None).picture(RunSet([], {})) is None
