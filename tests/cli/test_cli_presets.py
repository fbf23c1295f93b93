"""The study's experiments and budgets through the command line."""

import re
from pathlib import Path

import pytest

from recollect.reports.paper.presets import EXPERIMENTS, preset_text
from recollect.running.planning.priority import coarse_rates
from recollect.store import Store

# fig1:small with almost nothing to do.
TINY = [
    *(
        "--set",
        "train.steps=3",
        "--set",
        "train.evaluations=1",
        "--set",
        "train.batch=16",
        "--set",
        "task.test_rows=32",
    ),
    *("--set", "model.width=8", "--set", "sweep.seed=[42]", "--device", "cpu"),
]


def test_the_presets_are_listed_and_can_be_copied(command, tmp_path: Path):
    lines = command("presets").out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [f"paper:{name}" for name in EXPERIMENTS]
    assert {line.split()[2] for line in lines[1:-1]} == {"study"}
    assert lines[-1].strip() == "--recipe NAME trains it under another recipe"
    assert lines[6].split()[1:5] == ["195", "study", "36", "plain"]
    assert command("presets", "fig6").out == preset_text("fig6")
    assert command("presets", "paper:fig6:small").out == preset_text("fig6", "small")
    said = command("presets", "fgi1")
    assert (said.code, said.err) == (
        2,
        "recollect: 'paper:fgi1' is no experiment of the study; did you mean paper:fig1?\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([""], "SPEC = '': must be the path of a TOML file, or paper:NAME, as paper:fig1"),
        (["paper:fgi1"], "'paper:fgi1' is no experiment of the study; did you mean paper:fig1?"),
        (
            ["paper:fig1:big"],
            "'paper:fig1:big': the only other scale is small; write paper:fig1 or paper:fig1:small",
        ),
        (
            ["paper:fig1", "--budget", "0"],
            "--budget 0.0: must be a number of minutes above 0; for example --budget 10",
        ),
        (
            ["paper:fig1", "--budget", "nan"],
            "--budget nan: must be a number of minutes above 0; for example --budget 10",
        ),
        (
            ["paper:fig1", "--budget", "inf"],
            "--budget inf: must be a number of minutes above 0; for example --budget 10",
        ),
    ],
)
def test_refusals_write_nothing(command, tmp_path: Path, arguments, message):
    said = command("run", *arguments, "--out", tmp_path / "out")
    assert (said.code, said.out, said.err) == (2, "", f"recollect: {message}\n")
    assert not (tmp_path / "out").exists()


def test_a_preset_within_a_budget_and_on_to_its_end(command, tmp_path: Path):
    out = tmp_path / "out"
    said = command("run", "paper:fig1:small", *TINY, "--budget", "0.2", "--out", out)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == f"paper:fig1: 30 runs, 30 new -> {out}"
    rates = coarse_rates([1e-5, 1e-4, 4.642e-4, 1e-3, 2.154e-3, 5e-3, 1e-2, 3e-2, 1e-1, 3e-1])
    with Store.open(out, read_only=True) as store:
        rows = store.rows()
    tried = {row.spec["train"]["lr"] for row in rows if row.attempt > 0}
    if all(row.status == "done" for row in rows):
        assert lines[-1] == "all is trained within the budget of 0.2 min"
    else:
        ended = sum(row.status == "done" for row in rows)
        spent = (
            r"the budget of 0\.2 min is spent: (\d+) of 30 runs have a result, "
            r"\d+ begun and kept, \d+ not begun; next: .+"
        )
        assert int(re.fullmatch(spent, lines[-2])[1]) == ended
        assert lines[-1].startswith(
            f"continue with `recollect resume {out} --budget 0.2`, or without a limit"
        )
        assert tried <= set(rates) or set(rates) <= tried  # nothing else before the coarse grid
    said = command("resume", out, "--device", "cpu")
    assert said.code == 0
    assert command("status", out).out.splitlines()[:2] == [
        "30 planned = 30 done + 0 diverged + 0 failed + 0 running + 0 todo",
        "recipes: plain 30",
    ]


def test_a_budget_that_is_over_at_once_is_no_failure(command, tmp_path: Path):
    out = tmp_path / "out"
    said = command("run", "paper:fig1:small", *TINY, "--budget", "0.0001", "--out", out)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[-2:] == [
        "the budget of 0.0001 min is spent: 0 of 30 runs have a result, 0 begun and kept, 30 not "
        "begun; next: a coarse grid of rates with one seed",
        f"continue with `recollect resume {out} --budget 0.0001`, or without a limit with "
        f"`recollect resume {out}`",
    ]
    assert "30 todo\nrecipes: plain 30\n" in command("status", out).out


def test_a_preset_can_be_foretold(command, tmp_path: Path):
    said = command("run", "paper:fig1:small", *TINY, "--dry-run", "--out", tmp_path / "out")
    assert said.code == 0
    assert [line.split(",")[1].strip() for line in said.out.splitlines()[1:4]] == [
        "attention",
        "hyena",
        "mamba",
    ]
    assert said.out.splitlines()[4].split()[:3] == ["all", "30", "0"]
    assert not (tmp_path / "out").exists()
