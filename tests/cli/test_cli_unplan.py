"""`recollect unplan`, and what `run` says of runs that were planned before: as a user types it."""

import re
from pathlib import Path

import pytest
from rows_made import make_row
from stores_made import finish, make_store, plan

from recollect.running.cluster.plan import FILE
from recollect.store import Store

WRONG = [make_row(lr=1.0, seed=seed, score=None, status="todo") for seed in (1, 2, 3)]
RIGHT = [make_row(lr=1e-3, seed=seed, score=None, status="todo") for seed in (1, 2)]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A sweep with a wrong rate, of which one run is done, and a sweep that shares a run."""
    folder = tmp_path / "out"
    make_store(folder, [*WRONG, *RIGHT], "mine")
    with Store.open(folder) as store:
        plan(store, RIGHT[1:], "theirs")
        finish(store, [make_row(lr=1.0, seed=1)])
    return folder


def test_a_wrong_rate_is_taken_back(command, out):
    where = ("--where", "train.lr=1.0")
    assert command("unplan", out, "mine", *where) == (
        0,
        "mine: 2 runs taken back; 1 run that has begun stays\n",
        "",
    )
    assert command("status", out)[1].startswith("3 planned = 1 done ")
    assert command("check", out)[0] == 0
    assert "2 runs of mine taken back before they began" in command("status", out)[1]


def test_a_whole_sweep_is_taken_back(command, out):
    assert command("unplan", out, "mine")[1] == (
        "mine: 3 runs taken back; 1 run that has begun stays; 1 run stays in other sweeps\n"
    )
    assert command("unplan", out, "theirs")[1] == "theirs: 1 run taken back\n"
    assert command("unplan", out, "mine")[1] == (
        "mine: 0 runs taken back; 1 run that has begun stays\n"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["their"], "'their' is no sweep of OUT; did you mean theirs?"),
        (["zzz"], "'zzz' is no sweep of OUT; known: mine, theirs"),
        (["mine", "--where", "train.lr=0.5"], "of mine fits;\nthere train.lr is 0.001; 1.0"),
        (["mine", "--where", "train.rate=1"], "--where 'train.rate=1': did you mean train.lr?"),
        (["mine", "--where", "lr"], "must be written KEY=VALUE"),
    ],
)
def test_what_it_refuses(command, out, arguments, told):
    code, said, complaint = command("unplan", out, *arguments)
    assert (code, said) == (2, "")
    assert told.replace("OUT", str(out)) in complaint
    with Store.open(out, read_only=True) as store:
        assert len(store.rows()) == 5


def test_folders_that_it_refuses(command, out, tmp_path):
    code, _, complaint = command("unplan", tmp_path / "nowhere", "mine")
    assert code == 2
    assert "no results in" in complaint
    code, _, complaint = command("unplan", tmp_path, "mine")
    assert code == 2
    assert f"`recollect unplan {out} mine`" in complaint
    make_store(tmp_path / "other", [make_row()], "another")
    code, _, complaint = command("unplan", tmp_path, "mine")
    assert f"name one:\n`recollect unplan {out} mine`\n" in complaint, "the other one has it not"
    code, _, complaint = command("unplan", tmp_path, "neither")
    assert "no folder in it has a sweep 'neither'" in complaint
    for sweep in ("mine", "theirs"):
        command("unplan", out, sweep)
    empty = tmp_path / "empty"
    Store.create(empty).close()
    assert "'mine' is no sweep of" in command("unplan", empty, "mine")[2]
    assert "it has none" in command("unplan", empty, "mine")[2]
    (empty / FILE).touch()
    assert "planned for many machines" in command("unplan", empty, "mine")[2]


def test_while_it_trains_nothing_is_taken_back(command, out):
    with Store.open(out) as store:
        store.claim([RIGHT[0].run_id], "somebody", 60.0)
        code, _, complaint = command("unplan", out, "mine")
    assert code == 2
    assert "a process trains 1 of its runs; runs are taken back while none does" in complaint
    assert "stop it (Ctrl-C keeps what is trained)" in complaint


SWEEP = """
name = "{name}"
[task]
name = "mqar"
length = 8
pairs = 1
vocabulary = 16
train_rows = 64
test_rows = 16
[model]
mixer = "attention"
width = 8
depth = 1
[train]
steps = 2
batch = 16
[sweep]
train.lr = {rates}
"""


def test_a_sweep_given_again_comes_before_what_its_earlier_text_planned(command, tmp_path):
    file, out = tmp_path / "sweep.toml", tmp_path / "out"
    arguments = ("run", file, "--out", out, "--device", "cpu")
    file.write_text(SWEEP.format(name="mine", rates=[1.0, 2.0]))
    assert command(*arguments, "--budget", "1e-6")[0] == 0
    file.write_text(SWEEP.format(name="mine", rates=[1e-3]))
    code, told, _ = command(*arguments)
    assert code == 0
    lines = told.splitlines()
    assert lines[1] == (
        f"then 2 runs planned here before (`recollect unplan {out} SWEEP` takes back what has not"
        " begun)"
    )
    rates = [re.search(r" lr=(\S+)", line)[1] for line in lines if line.startswith("[")]
    assert list(map(float, rates)) == [1e-3, 1.0, 2.0]
    assert "then " not in command(*arguments)[1], "nothing is left"


def test_of_a_search_that_follows_it_says_at_most(command, tmp_path):
    file, out = tmp_path / "sweep.toml", tmp_path / "out"
    arguments = ("--out", out, "--device", "cpu")
    file.write_text(SWEEP.format(name="early", rates=[1.0, 2.0]))
    assert command("run", file, *arguments, "--budget", "1e-6", "--search", "edges")[0] == 0
    file.write_text(SWEEP.format(name="late", rates=[1e-3]))
    told = command("run", file, *arguments)[1]
    assert told.splitlines()[1].startswith("then at most 2 runs planned here before (")


def test_a_forecast_says_what_would_follow(command, tmp_path):
    file, out = tmp_path / "sweep.toml", tmp_path / "out"
    arguments = ("run", file, "--out", out, "--device", "cpu")
    file.write_text(SWEEP.format(name="early", rates=[1.0, 2.0]))
    assert "then" not in command(*arguments, "--dry-run")[1]
    assert command(*arguments, "--budget", "1e-6")[0] == 0
    assert "then" not in command(*arguments, "--dry-run")[1]
    file.write_text(SWEEP.format(name="late", rates=[1e-3]))
    assert command(*arguments, "--dry-run")[1].splitlines()[-1] == (
        f"then 2 runs planned in {out} before, which are not in the table"
    )
