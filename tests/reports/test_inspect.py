"""`recollect inspect` from a folder to numbers and pictures, and what it refuses."""

import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recollect import api
from recollect.cli.app import main
from recollect.errors import SpecError
from recollect.plotting.settings import SCREEN, to_bytes
from recollect.reports.inspect import inspect_run, summary_lines
from recollect.reports.inspect.figures import (
    heads_of,
    maps_figure,
    memory_figure,
    questions_figure,
    scores_figure,
)
from recollect.reports.inspect.run_choice import choose_run
from recollect.rows import RunRow
from recollect.spec.run import RunSpec
from recollect.spec.sweep import build_sweep
from recollect.store import Store
from recollect.store import weights as keep

SWEEP = {
    "task": {
        "name": "mqar",
        "vocabulary": 32,
        "length": 12,
        "pairs": 2,
        "data": "fresh",
        "test_rows": 64,
    },
    "model": {"mixer": "attention", "width": 16, "depth": 2},
    "train": {"steps": 12, "batch": 32, "evaluations": 6, "lr": 3e-3},
    "sweep": {
        "model.mixer": [{"name": "attention", "heads": 2}, "delta_net", ["gru", "mamba"], "lstm"]
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Four runs: of the first the weights are kept at four steps, of the last none."""
    folder = tmp_path_factory.mktemp("trained")
    sweep = build_sweep(SWEEP)
    api.run(
        sweep,
        folder,
        device="cpu",
        keep=",".join(run.run_id for run in sweep.runs[:3]),
        snapshots=3,
    )
    return folder


@pytest.fixture
def undrawn(monkeypatch):
    """Drawing takes a second; what is about numbers goes without."""
    monkeypatch.setattr(
        "recollect.reports.inspect.inspecting.draw_pictures", lambda found, folder: found
    )


@pytest.fixture(scope="module")
def attention(folder):
    return inspect_run(folder, "best:attention")


def test_numbers_of_attention(folder, attention):
    assert attention.weights == "kept"
    assert attention.steps == [0, 2, 6, 10, 12]
    assert attention.weights_test_loss == attention.test_loss == attention.curve[-1]["test_loss"]
    assert attention.losses[-1] == pytest.approx(attention.test_loss, rel=0.05), (
        "on some of the rows, so nearly the same"
    )
    assert [layer.mixer for layer in attention.layers] == ["attention", "attention"]
    for layer in attention.layers:
        assert (layer.heads, layer.channels, layer.exclude_current_token) == (2, 0, False)
        assert {name: np.shape(values) for name, values in layer.scores.items()} == dict.fromkeys(
            (
                "previous_token_head",
                "previous_token_head_at_values",
                "duplicate_token_head",
                "induction_head",
            ),
            (5, 2),
        )
        assert np.shape(layer.around_key) == (5, 2, 6)
        assert np.shape(layer.mass) == (2, 2, 12)
        assert layer.maps.shape == (2, 2, 12, 12)
        assert np.allclose(layer.maps.sum(-1), 1, atol=1e-5)
        # as drawn, attention takes nearly equally from everywhere
        assert layer.scores["induction_head"][0][0] == pytest.approx(
            layer.uniform["induction_head"], rel=0.1
        )
        assert layer.kept_per_token[0] == pytest.approx([1, 1], abs=0.01)
    assert np.shape(attention.gradients.by_distance) == (2, 12)
    assert set(attention.gradients.places[0]) == {"question", "key", "value", "elsewhere"}


def test_what_is_found_lies_beside_the_store(folder, attention):
    stored = json.loads((folder / "inspect" / f"{attention.run_id}.json").read_text())
    assert stored["run_id"] == attention.run_id
    assert stored["layers"][0]["maps"] is not None
    assert stored["command"] == f"recollect inspect {folder} {attention.run_id}"
    assert [picture["file"].rpartition("/")[2] for picture in stored["pictures"]] == [
        "maps.png",
        "scores.png",
        "questions.png",
        "memory.png",
    ]
    for picture in stored["pictures"]:
        assert (folder / picture["file"]).read_bytes().startswith(b"\x89PNG")
        assert picture["title"]
        assert picture["caption"]


def test_a_layer_without_effective_attention_is_said_to_have_none(folder, undrawn):
    found = inspect_run(folder, "best:gru+mamba")
    assert found.layers[0] is None
    assert (
        found.layers[1].channels,
        found.layers[1].heads,
        found.layers[1].exclude_current_token,
    ) == (32, 1, True)
    assert [head.label for head in heads_of(found)] == ["L1"]
    lines = summary_lines(found)
    assert "  L0: this mixer has no effective attention" in lines
    at = lines.index("  L1: mamba, mean of 32 channels")
    assert lines[at + 1] == (
        "    head    previous at values  duplicate     induction     kept per token"
    )
    assert lines[at + 2].split()[:3:2] == ["L1", "->"]
    assert max(map(len, lines)) <= 80


def test_a_run_that_was_not_kept_is_trained_again_and_then_kept(folder):
    told = []
    first = inspect_run(folder, "best:lstm", tell=lambda done, of: told.append((done, of)))
    assert (first.weights, told[0], told[-1]) == ("trained again", (0, 12), (12, 12))
    assert first.weights_test_loss == pytest.approx(first.test_loss, rel=1e-6)
    assert first.steps == [0, 2, 4, 6, 8, 10, 12]
    assert first.layers == [None, None]
    assert [picture.title for picture in first.pictures] == ["How far back it looks"]
    second = inspect_run(folder, first.run_id)
    assert (second.weights, second.steps, second.losses) == ("kept", first.steps, first.losses)
    assert len(keep.kept_files(folder, first.run_id)) == 6
    with Store.open(folder) as store:
        keep.Keeper(folder, keep.KeepPolicy()).tidy(store)
    assert len(keep.kept_files(folder, first.run_id)) == 6, "what was asked for stays"


def test_training_again_gives_the_weights_that_were_kept(folder, attention, undrawn):
    path = folder / keep.FOLDER / f"{attention.run_id}.safetensors"
    _, before = keep.read(path)
    again = inspect_run(folder, attention.run_id, again=True)
    assert again.steps == [0, 2, 4, 6, 8, 10, 12]
    _, after = keep.read(path)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_an_untrained_run_is_looked_at_as_it_was_initialised(folder, attention, tmp_path):
    """The same numbers as those of a trained one at its start, and nothing is trained."""
    fresh = tmp_path / "copy"
    shutil.copytree(folder, fresh, ignore=shutil.ignore_patterns(keep.FOLDER, "inspect"))

    def train(done, of):
        raise AssertionError("trained")

    found = inspect_run(fresh, attention.run_id, untrained=True, tell=train, consent=train)
    assert (found.weights, found.steps, found.moments) == (
        "as initialised",
        [0],
        ("at initialisation",),
    )
    assert found.losses == attention.losses[:1]
    for layer, trained in zip(found.layers, attention.layers, strict=True):
        assert layer.kept_per_token == trained.kept_per_token[:1]
        assert layer.scores["induction_head"] == trained.scores["induction_head"][:1]
    assert np.array_equal(
        found.gradients.by_distance, attention.gradients.by_distance[:1], equal_nan=True
    )
    assert [picture.title for picture in found.pictures] == [
        "Attention maps",
        "Where questions look",
        "How far back it looks",
    ]
    assert found.command.endswith(" --untrained")
    assert all("->" not in line for line in summary_lines(found))
    assert not keep.kept_files(fresh, attention.run_id)


def test_weights_that_were_kept_are_shown_rather_than_the_first(folder, attention, undrawn):
    assert inspect_run(folder, attention.run_id, untrained=True).weights == "kept"


def test_a_run_is_trained_again_or_not(folder, attention):
    with pytest.raises(SpecError, match="choose --again or --untrained"):
        inspect_run(folder, attention.run_id, again=True, untrained=True)


def test_other_tasks_can_be_looked_at(tmp_path, undrawn):
    table = {
        "task": {
            "name": "copying",
            "max_length": 6,
            "context": 20,
            "eval_lengths": [6],
            "test_rows": 8,
        },
        "model": {"mixer": "attention", "width": 8, "depth": 1},
        "train": {"steps": 2, "batch": 8},
    }
    (row,) = api.run(build_sweep(table), tmp_path, device="cpu").rows
    found = inspect_run(tmp_path, row.run_id)
    assert set(found.layers[0].scores) == {
        "previous_token_head",
        "duplicate_token_head",
        "induction_head",
    }
    assert scores_figure(found) is not None


# -- pictures


def test_pictures_show_what_was_found(attention):
    maps = maps_figure(attention)
    assert [ax.get_title(loc="left") for ax in maps.axes[:2]] == [
        "L0H0 at initialisation",
        "L0H0 after training",
    ]
    loss, questions, previous = scores_figure(attention).axes
    assert loss.lines[0].get_xdata().tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert questions.lines[0].get_ydata().tolist() == [
        step[0] for step in attention.layers[0].scores["induction_head"]
    ]
    assert previous.get_title(loc="left") == "previous_token_head_at_values"
    assert [text.get_text() for text in previous.get_legend().get_texts()] == [
        "L0H0",
        "L0H1",
        "L1H0",
        "L1H1",
    ]
    assert [ax.get_title(loc="left") for ax in questions_figure(attention).axes] == [
        "at initialisation",
        "after training",
    ]
    mass, gradients = memory_figure(attention).axes
    assert mass.lines[1].get_ydata().tolist() == attention.layers[0].mass[1][0]
    assert gradients.lines[0].get_ydata()[0] == 1


def test_a_long_name_stays_inside_of_the_picture(attention):
    name = ", ".join(["attention", "depth 1", "width 16", "learning rate 1e-3"] * 3)
    figure = questions_figure(replace(attention, name=name))
    figure.draw_without_rendering()
    [title] = figure.texts
    assert title.get_window_extent().x1 <= figure.bbox.x1
    assert title.get_text().replace("\n", " ") == name


def test_names_from_outside_are_drawn_as_they_are(attention):
    figure = questions_figure(replace(attention, name="$\\frac{1}{ <script>&\u4e2d"))
    assert to_bytes(figure, "png", settings=SCREEN).startswith(b"\x89PNG")
    assert figure.get_suptitle() == "$\\frac{1}{ <script>&\u4e2d"


# -- refusals


def row(run_id: str, status: str = "done", mixer: str = "attention", **values) -> RunRow:
    return RunRow(run_id, {"model": {"mixer": {"name": mixer}}}, status, "accuracy", 0.25, **values)


ROWS = [
    row("aa11", accuracy=0.5, test_loss=1.0),
    row("aa22", accuracy=0.9, test_loss=0.5),
    row("ab33", accuracy=0.9, test_loss=0.4),
    row("b1", "todo", "mamba"),
    row("b2", "running", "mamba"),
    row("c1", "diverged", "mamba", diverged_step=7),
    row("c2", "failed", "mamba", failure="oom: too large"),
]


def test_runs_are_chosen_by_id_and_by_being_the_best():
    assert choose_run(ROWS, "aa11").run_id == "aa11"
    assert choose_run(ROWS, "ab").run_id == "ab33"
    assert choose_run(ROWS, "best:attention").run_id == "ab33"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("zz", "no run here begins like that; `recollect export DIR` lists them"),
        ("", "no run here begins like that"),
        ("aa", r"2 runs begin like that \(aa11, aa22\); say more"),
        ("a", r"3 runs begin like that \(aa11, aa22, ab33\); say more"),
        ("b1", "run b1 is todo; finish it first with `recollect resume DIR`"),
        ("b2", "run b2 is running; finish it first"),
        ("c1", "run c1 diverged at step 7, so its weights are no numbers"),
        ("c2", "run c2 failed .*oom: too large.*--retry-failed"),
        ("best:mamba", "no run of that mixer is done here; there are 'best:attention'"),
        ("best:\n\x1b[31m", "no run of that mixer is done here"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(text, said):
    with pytest.raises(SpecError, match=said) as refusal:
        choose_run(ROWS, text)
    assert str(refusal.value).count("\n") < 3
    assert "\x1b" not in str(refusal.value)


def test_the_command_prints_what_was_found(folder, command):
    said = command("inspect", folder, "best:delta_net", "--device", "cpu")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[1].endswith(", weights kept")
    assert lines[2] == "  L0: delta_net"
    assert lines[3].startswith("    head    previous at values ")
    assert lines[4].startswith("    L0H0 ")
    assert (
        lines[-1] == "How far back it looks: "
        f"{folder / 'inspect' / lines[0].partition(':')[0] / 'memory.png'}"
    )


def test_the_command_refuses_in_one_line(folder, tmp_path, command):
    assert command("inspect", folder, "zzzz").code == 2
    assert "no run here begins like that" in command("inspect", folder, "zzzz").err
    assert command("inspect", tmp_path / "nowhere", "best:attention").code == 2


def test_the_command_says_that_it_trains_again(tmp_path, command, undrawn):
    run = build_sweep({**SWEEP, "sweep": {"seed": [1]}})
    api.run(run, tmp_path, device="cpu", keep="none")
    call = ("inspect", tmp_path, run.runs[0].run_id, "--device", "cpu")
    refused = command(*call)  # nobody to ask: the input is no terminal
    assert (refused.code, refused.out) == (2, "")
    assert re.fullmatch(
        "recollect: its weights were not kept, and to train it again takes 12 steps, "
        r"(about [^\n]+|under a second)\n"
        "say --yes for that, or --untrained to see it as initialised; "
        "`recollect run --keep all` keeps every run's weights\n",
        refused.err,
    )
    assert not (tmp_path / "inspect").exists()
    said = command(*call, "--yes")
    assert said.code == 0
    assert said.out.splitlines()[0] == "training it once more, 12 steps: its weights were not kept"


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_on_a_terminal_it_asks_first(tmp_path, monkeypatch, capsys, undrawn, answer, code):
    """Through the verb itself: a test has no terminal, so one is made up."""
    run = build_sweep({**SWEEP, "sweep": {"seed": [1]}}).runs[0]
    api.run(build_sweep({**SWEEP, "sweep": {"seed": [1]}}), tmp_path, device="cpu", keep="none")
    typed = io.StringIO(answer)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", typed)
    monkeypatch.setattr("sys.argv", ["recollect", "inspect", str(tmp_path), run.run_id])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == code
    question = said.out + said.err
    asked = r"its weights were not kept; train it again \(12 steps, (about .+|under a second)\)\?"
    assert re.search(asked, question)
    assert ("weights trained again" in said.out) == (code == 0)


def test_damaged_weights_are_not_looked_at(tmp_path, command, undrawn):
    run = build_sweep({**SWEEP, "sweep": {"seed": [1]}})
    api.run(run, tmp_path, device="cpu")
    path = tmp_path / keep.FOLDER / f"{run.runs[0].run_id}.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    said = command("inspect", tmp_path, run.runs[0].run_id, "--device", "cpu")
    assert said.code == 3
    assert "damaged or foreign" in said.err
    path.unlink()
    assert command("inspect", tmp_path, run.runs[0].run_id, "--again", "--device", "cpu").code == 0


def test_run_spec_of_a_row_can_be_read_back(folder):
    with Store.open(folder, read_only=True) as store:
        assert all(RunSpec.parse(stored.spec).run_id == stored.run_id for stored in store.rows())
