"""The card: its sweep, its numbers on constructed rows, what may stand beside it,
and one real card of a plugin.
"""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from recollect.analysis import is_sparse_rate
from recollect.errors import SpecError
from recollect.reports.score import (
    CARDS,
    card_sweep,
    read_baselines,
    read_mixer,
    save_baselines,
    score_mixer,
    score_tables,
)
from recollect.reports.score.recipe import refuse_other_recipe
from recollect.reports.score.request import ScoreRequest
from recollect.rows import Evaluation, RunRow

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
        found.setdefault((run.model.depth, run.model.width, run.task.length), []).append(
            (run.train.lr, run.seed)
        )
    for pairs in found.values():
        rates, seeds = {lr for lr, _ in pairs}, {seed for _, seed in pairs}
        assert len(pairs) == len(rates) * len(seeds)
        assert sum(map(is_sparse_rate, rates)) == 4
        assert len(seeds) == 3
    depths = {depth for depth, width, length in found if (width, length) == next(iter(found))[1:]}
    assert depths == {1, 2}


def test_cells_a_mixer_cannot_be_built_at_are_left_out():
    whole = {
        (run.model.depth, run.model.width) for run in card_sweep("cpu", read_mixer("mamba")).runs
    }
    stack = {
        (run.model.depth, run.model.width)
        for run in card_sweep("cpu", read_mixer("based_hybrid")).runs
    }
    assert whole - stack == {(1, 64)}
    with pytest.raises(SpecError, match="'nothing' is no mixer here"):
        card_sweep("cpu", read_mixer("nothing"))
    with pytest.raises(SpecError, match="--card 'tpu': did you mean gpu"):
        card_sweep("tpu", read_mixer("mamba"))


# --- what is measured


def test_a_card_by_hand():
    """Solved from 1e-3 to 1e-2 at depth 2, never at depth 1;
    the score rises with width and falls with length.
    """

    def made(run):
        if run.model.depth == 1:
            return 0.25
        top = {16: 0.5, 32: 0.75, 64: 1.0}[run.model.width] - (0.25 if run.task.length == 16 else 0)
        return top if 9e-4 < run.train.lr < 1.1e-2 else 0.0

    rows = rows_of(score=made)
    curves = {
        row.run_id: [Evaluation(80, 1, 1, 0.1, 0), Evaluation(160, 1, 1, 0.95, 0)] for row in rows
    }
    score = score_mixer("mine", rows, curves)
    assert list(score.windows) == [1, 2]
    assert score.windows[1].window is None
    assert score.windows[2].window.decades == pytest.approx(
        1 + 2 * 0.1 / 3, abs=1e-3
    )  # a third of a decade on either side
    assert score.windows[2].steps_to_solve == 160
    assert [(point.x, point.mean) for point in score.widths] == [(16, 0.5), (32, 0.75), (64, 1.0)]
    assert [(point.x, point.mean) for point in score.lengths] == [(8, 1.0), (12, 1.0), (16, 0.75)]
    assert (score.parameters, score.state_size, score.run_steps_per_s) == (64_000, 7, 200)
    assert (score.planned, score.missing) == (126, 0)


def test_a_card_that_has_only_begun():
    rows = [
        replace(row, status="todo", accuracy=None, steps=None, wall_s=None) for row in rows_of()
    ]
    score = score_mixer("mine", rows, {})
    assert (score.missing, score.run_steps_per_s, score.widths) == (126, None, ())
    assert "mine: 126 of 126 runs have no result yet" in text_of(score_tables([score], []))


def test_the_tables_say_it_all_and_run_nothing():
    score = score_mixer(
        "[red]mine[/red]", rows_of(score=lambda run: 0.9 + 1e-4 * (run.seed % 3)), {}
    )
    text = text_of(
        score_tables(
            [score], [score_mixer("known", rows_of("hyena", score=lambda run: 0.2), {})], ["a note"]
        )
    )
    assert "[red]mine[/red]" in text
    assert "depth 1, width 64, length 12 with 3 pairs; chance 0.333" in text
    assert ">= 2.3 [2.3, 2.3]" in text  # the whole grid
    assert "0.200+-0.000" in text
    assert text.index("mine") < text.index("known") < text.index("a note")


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
    assert (first.status, first.train_loss, first.score) == (
        "diverged",
        None,
        pytest.approx(1 / 3, rel=1e-5),
    )
    assert back.curves[rows["two"][1].run_id][0].test_loss == 0.123457
    assert "recollect" in back.provenance
    assert (
        tmp_path / "b.json"
    ).stat().st_size < 500 * 252  # what is the same everywhere stands there once


def test_an_unfinished_card_is_no_baseline(tmp_path):
    rows = rows_of()
    rows[0] = replace(rows[0], status="todo", accuracy=None)
    with pytest.raises(SpecError, match=r"1 of 21 runs without a result in 1 cell \(1 todo\)"):
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
        ({"overrides": ["train.steps=300"]}, "train.steps: 400 here, 300 there"),
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
    assert "hyena" in text_of(fits.tables(rows_of(), {}))
    other = ScoreRequest.read("cpu", ["mamba"], TINY)
    assert other.baselines is None
    assert "train.steps: 2 here, 400 there" in other.note
    with pytest.raises(SpecError, match="another recipe"):
        ScoreRequest.read("cpu", ["mamba"], TINY, tmp_path / "cpu.json")


def test_stored_baselines_fit_their_card():
    for card in CARDS:
        asked = ScoreRequest.read(card, [])
        assert "another recipe" not in asked.note
        assert (asked.baselines is None) == ("no baselines are stored" in asked.note)


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
    said = command(*call, "--out", tmp_path / "out", "--save", tmp_path / "b.json")
    assert (said.code, said.err) == (0, "")
    assert "score:cpu: 2 runs, 2 new" in said.out
    assert "depth 2, width 8, length 8 with 2 pairs" in said.out
    assert len(json.loads((tmp_path / "b.json").read_text())["runs"]) == 2
    again = command(*call, "--out", tmp_path / "out", "--against", tmp_path / "b.json")
    assert "2 runs, 0 new, 2 known" in again.out
    assert again.out.count("\nleaky ") == 6  # itself and its baseline, in three tables
    refused = command(*call[:6], "--out", tmp_path / "other", "--against", tmp_path / "b.json")
    assert refused.code == 2
    assert "another recipe" in refused.err
    assert not (tmp_path / "other").exists()


def test_without_a_mixer_the_stored_baselines_are_shown(tmp_path, command):
    save_baselines(tmp_path / "b.json", {"hyena": rows_of("hyena")}, {})
    said = command("score", "--card", "cpu", "--against", tmp_path / "b.json")
    assert (said.code, said.err) == (0, "")
    assert said.out.count("\nhyena ") == 3
