"""`recollect score`: one real card of a plug-in, and what is shown meanwhile."""

import json

from cards_made import CAMPAIGN, TINY
from shown import rendered

from recollect.cli.score import _LiveCard
from recollect.errors import Stopped
from recollect.reports.score import read_baselines
from recollect.reports.score.request import ScoreRequest
from recollect.running.results import RunSet


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
    assert "score:cpu:headline: 1 run, 1 new" in said.out
    assert "score:cpu:rest: 1 run, 1 new" in said.out
    assert "2 pairs in 8 tokens, width 8, 2 layers" in said.out
    assert said.out.splitlines()[-2].startswith("leaky does not recall 2 pairs at width 8: best ")
    for file in ("score.png", "report.html"):
        assert (tmp_path / "out" / file).stat().st_size > 10_000
    assert len(json.loads((tmp_path / "b.json").read_text())["runs"]) == 2
    again = command(*call, "--out", tmp_path / "out", "--against", tmp_path / "b.json")
    assert "1 run, 0 new, 1 known" in again.out
    refused = command(*call[:6], "--out", tmp_path / "other", "--against", tmp_path / "b.json")
    assert refused.code == 2
    assert "another recipe" in refused.err
    assert not (tmp_path / "other").exists()


def test_what_a_budget_leaves_is_trained_by_the_same_command(
    tmp_path, command, plugins, monkeypatch
):
    """`resume` would train the headline's runs alone, and show no card."""
    told = []
    monkeypatch.setattr(
        "recollect.cli.training.train_and_tell", lambda *args, **named: told.append(named["again"])
    )
    call = ["score", "leaky", "--plugin", "examples/my_mixer.py", "--budget", 10, "--device", "cpu"]
    command(*call, "--out", tmp_path / "my out", "--set", "task.length=16")
    assert set(told) == {
        f"recollect score leaky --out '{tmp_path}/my out' --card cpu --device cpu "
        "--set task.length=16 --plugin examples/my_mixer.py"
    }


def test_a_mixer_that_is_refused_has_no_card(tmp_path, command, plugins):
    """Its reason would stand below the tables of all others."""
    (tmp_path / "peek.py").write_text(
        "import recollect\n"
        "from torch import nn\n\n"
        "@recollect.mixer('peek')\n"
        "class Peek(nn.Module):\n"
        "    def __init__(self, width: int):\n"
        "        super().__init__()\n"
        "        self.mix = nn.Linear(width, width)\n\n"
        "    def forward(self, x):\n"
        "        return self.mix(x).roll(-1, 1)\n"
    )
    call = ("score", "peek", "--plugin", tmp_path / "peek.py", "--card", "cpu", "--device", "cpu")
    said = command(*call, "--out", tmp_path / "out")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("recollect: mixer peek")
    assert not (tmp_path / "out").exists()


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
        assert "gated_delta_net" in rendered(card, width=200)
    assert read == [tmp_path]


def test_what_was_stopped_is_trained_by_the_same_command(tmp_path, command, monkeypatch):
    def stopped(*_, **__):
        raise Stopped("stopped; continue with `recollect resume`", 130)

    monkeypatch.setattr("recollect.running.engine.train", stopped)
    out = tmp_path / "out"
    said = command("score", "gru", "--card", "cpu", "--device", "cpu", "--out", out)
    assert said.code == 130
    again = f"recollect score gru --out {out} --card cpu --device cpu"
    assert said.err.splitlines()[-1] == f"recollect: stopped; continue with `{again}`"
