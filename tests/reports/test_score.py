"""The card: its sweep, its numbers on constructed rows, what may stand beside it,
and one real card of a plugin.
"""

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from stores_made import make_store

from recollect.analysis import is_sparse_rate
from recollect.cli.score import _LiveCard
from recollect.errors import SpecError
from recollect.reports.page.gather import gather, write_page
from recollect.reports.score import (
    CARDS,
    card_sweep,
    read_baselines,
    read_mixer,
    save_baselines,
    score_mixer,
    score_tables,
    verdict,
)
from recollect.reports.score.baselines import Baselines, folder_baselines
from recollect.reports.score.recipe import card_cell, refuse_other_recipe
from recollect.reports.score.request import ScoreRequest
from recollect.rows import Evaluation, RunRow
from recollect.running import engine
from recollect.running.results import RunSet
from recollect.store import Store
from recollect.store.records import Result

CAMPAIGN = Path(__file__).parents[2] / "results" / "h200" / "study-mqar64"

BASELINES = ["attention", "based", "h3", "hyena", "rwkv4", "mamba", "mamba2", "delta_net"]
TINY = [
    "train.steps=2",
    "train.evaluations=2",
    "train.batch=8",
    "task.test_rows=8",
    "sweep.seed=[42]",
    "sweep.train.lr=[1e-2]",
]


def rows_of(mixer="mamba", card="cpu", score=lambda run: 1.0, overrides=()):
    return [
        RunRow(
            *(run.run_id, run.model_dump(mode="json"), "done", "accuracy", run.task.chance),
            accuracy=score(run),
            steps=400,
            wall_s=2.0,
            parameters=1000 * run.model.width,
            state_size=7,
        )
        for run in card_sweep(card, read_mixer(mixer), overrides).runs
    ]


def specs(**changes):
    return [row.spec for row in rows_of(**changes)]


def text_of(renderable):
    console = Console(width=200, file=io.StringIO())
    console.print(renderable)
    return console.file.getvalue()


# --- what is trained


@pytest.mark.parametrize(
    ("text", "label", "overrides"),
    [
        ("mamba", "mamba", ('model.mixer="mamba"',)),
        (
            ' {name = "mamba", state = 32}',
            "mamba (state 32)",
            ('model.mixer={"name" = "mamba", "state" = 32}',),
        ),
        (
            '{name="attention", positions="rope", conv="k"}',
            "attention (positions rope, conv k)",
            ('model.mixer={"name" = "attention", "conv" = "k"}', 'model.positions="rope"'),
        ),
        (
            '["base_conv", {name="gru"}]',
            "base_conv/gru",
            ('model.mixer=["base_conv", {"name" = "gru"}]',),
        ),
    ],
)
def test_a_mixer_may_be_a_name_a_table_or_a_list(text, label, overrides):
    entry = read_mixer(text)
    assert (entry.label, entry.overrides) == (label, overrides)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "must be a name"),
        ("a\nb", "must be a name"),
        ("{name=", "not TOML"),
        ("[" * 9999, "not TOML"),
    ],
)
def test_what_is_no_mixer_is_refused(text, rule):
    with pytest.raises(SpecError, match=rule):
        read_mixer(text)


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("mixer", [*BASELINES, '{name="attention", positions="rope"}'])
def test_every_cell_of_a_card_has_zoologys_rates_and_three_seeds(card, mixer):
    found = {}
    for run in card_sweep(card, read_mixer(mixer)).runs:
        found.setdefault(card_cell(run.model_dump(mode="json")), []).append(
            (run.train.lr, run.seed)
        )
    for pairs in found.values():
        rates, seeds = {lr for lr, _ in pairs}, {seed for _, seed in pairs}
        assert len(pairs) == len(rates) * len(seeds)
        assert sum(map(is_sparse_rate, rates)) == 4
        assert len(seeds) == 3
        assert max(rates) == 0.3  # beyond every window that was ever seen


def test_what_is_no_mixer_or_no_card_is_refused():
    with pytest.raises(SpecError, match="'nothing' is no mixer here"):
        card_sweep("cpu", read_mixer("nothing"))
    with pytest.raises(SpecError, match="must be a multiple of the 3 mixers in the list"):
        card_sweep("cpu", read_mixer('["gru", "gru", "attention"]'))
    with pytest.raises(SpecError, match="--card 'tpu': did you mean gpu"):
        card_sweep("tpu", read_mixer("mamba"))


def test_the_headline_is_trained_first():
    asked = ScoreRequest.read("cpu", ["mamba", "gru"])
    headline, rest = asked.stages()
    assert (headline.name, rest.name) == ("score:cpu:headline", "score:cpu:rest")
    assert {(run.model.mixer.name, run.task.pairs) for run in headline.runs} == {
        ("mamba", 3),
        ("gru", 3),
    }
    assert {run.task.pairs for run in rest.runs} == {2}
    assert len(ScoreRequest.read("gpu", ["mamba"]).stages()) == 1


def test_the_gpus_card_is_the_campaigns_first_queue():
    """Run for run: rows of the campaign are baselines, and would not be trained again."""
    known = {row.run_id for row in RunSet.load(CAMPAIGN).rows}
    for mixer in ("attention", "mamba", "based_hybrid", "gated_delta_net"):
        assert {run.run_id for run in card_sweep("gpu", read_mixer(mixer)).runs} <= known


# --- what is measured


def solved_between(low, high, best=1.0):
    """Scores of a mixer whose headline is solved at these rates, the easier cell nowhere."""
    return lambda run: best if run.task.pairs == 3 and low <= run.train.lr <= high else 0.4


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
    assert "mine: 54 of 54 runs have no result yet" in text_of(score_tables([score], []))
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
    text = text_of(score_tables([score], others, ["a note"]))
    assert "3 pairs in 12 tokens, width 64, 2 layers; chance 0.333" in text
    assert ">= 3.5 [3.5, 3.5]" in text  # the whole grid
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
    monkeypatch.setattr(
        "recollect.reports.score.folder_verdicts.stored_baselines", lambda card: known
    )
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


# --- what it is set beside


def test_baselines_survive_being_stored(tmp_path):
    rows = {"mamba": rows_of(score=lambda run: 1 / 3), "two": rows_of('{name="mamba", state=32}')}
    rows["two"][0] = replace(
        rows["two"][0], status="diverged", train_loss=float("nan"), diverged_step=7
    )
    curves = {rows["two"][1].run_id: [Evaluation(5, float("inf"), 0.123456789, 0.5, 0.25)]}
    save_baselines(tmp_path / "b.json", rows, curves)
    back = read_baselines(tmp_path / "b.json")
    assert list(back.rows) == ["mamba", "two"]
    assert [row.spec for own in back.rows.values() for row in own] == [
        row.spec for own in rows.values() for row in own
    ]
    assert back.rows["mamba"][3].accuracy == pytest.approx(1 / 3, rel=1e-5)
    first = back.rows["two"][0]
    assert (first.status, first.train_loss, first.score) == ("diverged", None, 0.0)
    assert back.curves[rows["two"][1].run_id][0].test_loss == 0.123457
    assert "recollect" in back.provenance
    assert (
        tmp_path / "b.json"
    ).stat().st_size < 500 * 108  # what is the same everywhere stands there once


def test_an_unfinished_card_is_no_baseline(tmp_path):
    rows = rows_of()
    rows[0] = replace(rows[0], status="todo", accuracy=None)
    with pytest.raises(SpecError, match=r"1 of 27 runs without a result in 1 cell \(1 todo\)"):
        save_baselines(tmp_path / "b.json", {"mamba": rows}, {})
    with pytest.raises(SpecError, match="nothing was scored"):
        save_baselines(tmp_path / "b.json", {}, {})
    assert not (tmp_path / "b.json").exists()


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("nothing", "no stored baselines"),
        ("[]", "no stored baselines"),
        ('{"format": 9}', "another version"),
        ("{}", "KeyError"),
    ],
)
def test_a_file_that_holds_no_baselines_is_refused(tmp_path, content, rule):
    (tmp_path / "b.json").write_text(content)
    with pytest.raises(SpecError, match=rule):
        read_baselines(tmp_path / "b.json")
    with pytest.raises(SpecError, match="cannot be read"):
        read_baselines(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"overrides": ["train.steps=300"]}, "train.steps: 800 here, 300 there"),
        ({"overrides": ["sweep.seed=[1]"]}, "seed: 42, 123, 777 here, 1 there"),
        ({"overrides": ["sweep.train.lr=[1e-2]"]}, "train.lr: "),
        ({"overrides": ["model.dropout=0.1"]}, "model.dropout: 0 here, 0.1 there"),
        ({"card": "gpu"}, "no depth, width and length that both have"),
    ],
)
def test_other_recipes_are_refused(changes, reason):
    with pytest.raises(SpecError, match="scores of another recipe cannot be compared") as refusal:
        refuse_other_recipe(specs(), specs(**changes), "file")
    assert reason in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 3


def test_other_mixers_surroundings_and_missing_cells_are_no_other_recipe():
    refuse_other_recipe(specs(), specs(mixer='{name="attention", positions="rope"}'), "file")
    refuse_other_recipe(specs(mixer="based_hybrid"), specs(mixer="mamba2"), "file")


def test_a_baseline_from_before_an_option_existed_still_fits():
    old = specs()
    for spec in old:
        del spec["train"]["exempt"], spec["task"]["placement"]
    refuse_other_recipe(specs(), old, "file")


def test_stored_baselines_that_do_not_fit_are_left_out_and_asked_for_ones_refused(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("recollect.reports.score.baselines._STORED", tmp_path)
    assert "no baselines are stored for the card cpu" in ScoreRequest.read("cpu", ["mamba"]).note
    save_baselines(tmp_path / "cpu.json", {"hyena": rows_of("hyena")}, {})
    fits = ScoreRequest.read("cpu", ["mamba"])
    assert list(fits.baselines.rows) == ["hyena"]
    assert "hyena" in text_of(fits.tables(RunSet(rows_of(), {})))
    other = ScoreRequest.read("cpu", ["mamba"], TINY)
    assert other.baselines is None
    assert "train.steps: 2 here, 800 there" in other.note
    with pytest.raises(SpecError, match="another recipe"):
        ScoreRequest.read("cpu", ["mamba"], TINY, tmp_path / "cpu.json")


def test_stored_baselines_fit_their_card():
    for card in CARDS:
        asked = ScoreRequest.read(card, [])
        assert "another recipe" not in asked.note
        assert (asked.baselines is None) == ("no baselines are stored" in asked.note)


def test_any_folder_serves_as_baselines_with_what_fits_of_it(tmp_path):
    card = [run.model_dump(mode="json") for run in card_sweep("gpu", read_mixer("gru")).runs]
    found = folder_baselines(CAMPAIGN, card)
    assert len(found.rows) == 9
    assert {len(rows) for rows in found.rows.values()} == {39}
    assert found.provenance == f"from {CAMPAIGN}, on NVIDIA H200"
    asked = ScoreRequest.read("gpu", ["gru"], against=CAMPAIGN)
    stored = ScoreRequest.read("gpu", ["gru"])
    assert [score.label for score in asked.others()] == [score.label for score in stored.others()]
    with pytest.raises(SpecError) as caught:
        ScoreRequest.read("cpu", ["gru"], against=CAMPAIGN)
    what, remedy = str(caught.value).splitlines()
    assert what == f"--against {CAMPAIGN}: none of its 351 runs was trained as this card"
    assert remedy.startswith("make some with `recollect score MIXER... --out DIR`")


def test_variants_of_one_mixer_in_a_folder_are_told_apart(tmp_path):
    card = card_sweep("cpu", read_mixer("gru"))
    with Store.create(tmp_path) as store:
        for mixer in ("mamba", '{name="mamba", state=32}', "hyena"):
            engine.plan(store, card_sweep("cpu", read_mixer(mixer)))
        todo = store.todo()
        claims = store.claim([entry.run_id for entry in todo], "made", 1e9)
        last = Evaluation(800, 1.0, 1.0, 0.5, 0.0)
        store.finish(Result(run, at, "done", 800, 1.0, last) for run, at in claims.items())
    found = folder_baselines(tmp_path, [run.model_dump(mode="json") for run in card.runs])
    assert list(found.rows) == ["mamba, state 16", "mamba, state 32", "hyena"]
    assert {len(rows) for rows in found.rows.values()} == {54}


# --- for real


def test_a_plugins_card_on_the_command_line(tmp_path, command, plugins):
    cells = (
        'sweep.zip=[{"model.depth"=[1,2], '
        '"model.width"=[8,8], '
        '"task.length"=[8,8], "task.pairs"=[2,2]}]'
    )
    settings = [word for override in [*TINY, cells] for word in ("--set", override)]
    call = [
        "score",
        "leaky",
        "--plugin",
        "examples/my_mixer.py",
        "--card",
        "cpu",
        "--device",
        "cpu",
        "--workers",
        1,
        *settings,
    ]
    said = command(*call, "--out", tmp_path / "out", "--dry-run")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[1].startswith("mqar 8, leaky, width 8")
    assert not (tmp_path / "out").exists()
    said = command(*call, "--out", tmp_path / "out", "--save", tmp_path / "b.json")
    assert (said.code, said.err) == (0, "")
    assert "score:cpu:headline: 1 runs, 1 new" in said.out
    assert "score:cpu:rest: 1 runs, 1 new" in said.out
    assert "2 pairs in 8 tokens, width 8, 2 layers" in said.out
    assert said.out.splitlines()[-2].startswith("leaky does not recall 2 pairs at width 8: best ")
    for file in ("score.png", "report.html"):
        assert (tmp_path / "out" / file).stat().st_size > 10_000
    assert len(json.loads((tmp_path / "b.json").read_text())["runs"]) == 2
    again = command(*call, "--out", tmp_path / "out", "--against", tmp_path / "b.json")
    assert "1 runs, 0 new, 1 known" in again.out
    refused = command(*call[:6], "--out", tmp_path / "other", "--against", tmp_path / "b.json")
    assert refused.code == 2
    assert "another recipe" in refused.err
    assert not (tmp_path / "other").exists()


def test_without_a_mixer_the_stored_baselines_are_shown_and_can_be_saved(tmp_path, command):
    said = command(
        *("score", "--card", "gpu", "--against", CAMPAIGN, "--save", tmp_path / "b.json")
    )
    assert (said.code, said.err) == (0, "")
    assert said.out.count("\nhyena ") == 2
    assert read_baselines(tmp_path / "b.json").about["on"] == "NVIDIA H200"


def test_the_card_is_shown_live_and_read_again_only_now_and_then(tmp_path, monkeypatch):
    asked = ScoreRequest.read("gpu", ["gru"])
    card = _LiveCard(asked, tmp_path)
    read = []
    empty = RunSet([], {})
    monkeypatch.setattr("recollect.cli.score._results", lambda out: read.append(out) or empty)
    for _ in range(3):
        assert "gated_delta_net" in text_of(card)
    assert read == [tmp_path]
