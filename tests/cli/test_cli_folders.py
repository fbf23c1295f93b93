"""Several sweeps in a folder, several folders as one, and joining them: from the command line."""

import csv
import io
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from rows_made import make_row
from stores_made import make_store

from recollect.rows import Evaluation
from recollect.running import engine
from recollect.running.planning.order import order_of, remember_search
from recollect.spec.sweep import read_sweep
from recollect.store import Store
from recollect.store.database import FILE
from recollect.store.reading.checksums import register
from recollect.store.records import Result
from recollect.store.schema import SEARCH_ENDED

SWEEP = """
[task]
name = "mqar"
vocabulary = 32
length = 16
train_rows = 64
test_rows = 32
[model]
mixer = "attention"
width = {width}
depth = 1
[train]
batch = 32
steps = 2
evaluations = 1
[sweep]
train.lr = [1e-4, 1e-3, 1e-2, 1e-1]
"""


@pytest.fixture
def specs(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.toml" for name in ("first", "second")]
    for path, width in zip(paths, (8, 16), strict=True):
        path.write_text(SWEEP.format(width=width))
    return paths


def planned(text: str) -> list[str]:
    return [line.partition(" = ")[0].strip() for line in text.splitlines() if "planned = " in line]


# ---- several sweeps ----


def test_sweeps_are_added_to_a_folder_that_has_others_and_status_tells_them_apart(
    command, specs, tmp_path
):
    out = tmp_path / "out"
    assert command("run", specs[0], "--out", out, "--device", "cpu")[0] == 0
    code, told, _ = command("status", out)
    assert (code, planned(told)) == (0, ["4 planned"])
    code, told, _ = command("run", *specs, "--out", out, "--device", "cpu")
    assert code == 0
    assert "first: 4 runs, 0 new, 4 known" in told
    assert "second: 4 runs, 4 new" in told
    code, told, _ = command("status", out)
    assert planned(told) == ["8 planned", "first: 4 planned", "second: 4 planned"]
    with Store.open(out) as store:
        assert [sweep.source for sweep in store.sweeps()] == [path.read_text() for path in specs]


def test_a_search_is_told_while_it_goes_on_and_when_it_is_over(command, specs, tmp_path):
    out = tmp_path / "out"
    code, told, _ = command("run", *specs, "--out", out, "--device", "cpu", "--search", "edges")
    assert code == 0
    lines = told.splitlines()
    assert sum("windows known" in line or "window known" in line for line in lines) >= 4
    assert any(line.startswith("first: 1 of 1 window known to +-0.1 decades") for line in lines)
    assert lines[-1] == f"train the rest, if it is wanted, with `recollect resume {out}`"
    with Store.open(out) as store:
        assert 0 < store.counts()["todo"] < 8
    told = command("status", out)[1]
    assert "not needed" in told
    assert told.splitlines()[-1] == lines[-1]
    page = tmp_path / "page.html"
    assert command("report", out, "-o", page)[0] == 0
    assert "needed for that</dd>" in page.read_text()
    assert command("resume", out, "--device", "cpu")[0] == 0
    with Store.open(out) as store:
        assert store.counts()["todo"] == 0
    assert "search" not in command("status", out)[1]


def test_what_a_search_left_out_is_trained_on_request_only(command, specs, tmp_path):
    """Its sweep is given in full, or the folder goes on; another sweep is no such request."""
    out = tmp_path / "out"
    device = ("--device", "cpu")
    search = (*device, "--search", "edges")
    assert command("run", specs[0], "--out", out, *search)[0] == 0
    with Store.open(out) as store:
        left = store.counts()["todo"]
    assert left
    assert command("run", specs[1], "--out", out, *device)[0] == 0
    assert command("run", specs[0], "--out", out, *search)[0] == 0
    assert command("resume", out, *search)[0] == 0
    with Store.open(out) as store:
        store.set_meta(SEARCH_ENDED, "[]")  # as if killed before it was said
    assert command("resume", out, *device)[0] == 0
    with Store.open(out) as store:
        assert store.counts()["todo"] == left
    assert command("run", specs[0], "--out", out, *device)[0] == 0
    with Store.open(out) as store:
        assert store.counts()["todo"] == 0


def test_what_a_search_left_out_waits_for_what_was_interrupted(command, specs, tmp_path):
    """And for a search that new results have opened again; then it is trained on request."""
    out = tmp_path / "out"
    device = ("--device", "cpu")
    assert command("run", specs[0], "--out", out, *device, "--search", "edges")[0] == 0
    with Store.open(out) as store:
        left = store.counts()["todo"]
    assert left
    assert command("run", specs[1], "--out", out, *device, "--budget", "1e-6")[0] == 0
    assert command("resume", out, *device)[0] == 0
    with Store.open(out) as store:
        assert store.counts()["todo"] == left, "only the second sweep was interrupted"
    assert command("resume", out, *device)[0] == 0
    with Store.open(out) as store:
        assert store.counts()["todo"] == 0


def test_a_search_within_a_budget_says_what_is_next(command, specs, tmp_path):
    out = tmp_path / "out"
    arguments = ("--out", out, "--device", "cpu", "--search", "edges", "--budget")
    code, told, _ = command("run", *specs, *arguments, "1e-6")
    assert code == 0
    assert "next: the next round of a search" in told
    assert "--budget" in told.splitlines()[-1]
    assert "search of first: 0 of 1 window known" in command("status", out)[1]
    code, told, _ = command("resume", out, "--device", "cpu", "--budget", "9")
    assert "all that was asked for is trained within the budget of 9 min" in told


def test_status_says_what_a_search_needs_at_most_and_what_it_does_not(command, specs, tmp_path):
    out = tmp_path / "out"
    last = Evaluation(1, 1.0, 1.0, 0.1, 0.1)

    def finish(store: Store, run_ids: Sequence[str]) -> None:
        claims = store.claim(run_ids, "test", 60.0)
        store.finish(
            Result(run_id, attempt, "done", steps=1, wall_s=100.0, last=last)
            for run_id, attempt in claims.items()
        )

    with Store.create(out) as store:
        for path in specs:
            engine.plan(store, read_sweep(path))
        remember_search(store, ["first"], "edges")
        remember_search(store, ["second"], "best")
        finish(store, order_of(store, within_budget=False)(store.rows()).run_ids)
    assert "at most " in command("status", out)[1]
    with Store.open(out) as store:
        choose = order_of(store, within_budget=False)
        while (stage := choose(store.rows())) is not None:
            finish(store, stage.run_ids)
        assert store.counts()["todo"]
    told = command("status", out)[1]
    assert "not needed" in told
    assert "at most" not in told


# ---- several folders ----


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Two stores below a folder; one run stands in both."""
    rows = [make_row(seed=seed, score=seed / 10) for seed in (1, 2, 3)]
    make_store(tmp_path / "results" / "a", rows[:2])
    make_store(tmp_path / "results" / "b", rows[1:])
    return tmp_path / "results"


def test_a_folder_of_folders_is_read_as_one(command, folders):
    code, told, complaints = command("status", folders)
    assert (code, complaints) == (0, "")
    assert planned(told) == [
        "2 stores: 3 planned",
        f"{folders / 'a'}: 2 planned",
        f"{folders / 'b'}: 2 planned",
    ]
    code, told, complaints = command("export", folders)
    assert (code, complaints, len(list(csv.DictReader(io.StringIO(told))))) == (0, "", 3)
    for verb in (("claims",), ("report",), ("figure", "rates")):
        code, _, complaints = command(*verb, folders, "-o", folders / "found.svg")
        assert (code, complaints) == (0, ""), verb


def test_different_results_of_one_run_are_told_by_whoever_reads_them(command, folders):
    make_store(folders / "c", [make_row(seed=1, score=0.9)])
    for verb in (("status",), ("export",), ("claims",), ("figure", "rates")):
        output = ("-o", folders / "found.svg") if verb[0] == "figure" else ()
        code, _, complaints = command(*verb, folders, *output)
        assert code == 0
        assert "(attention lr=0.001 seed=1): done 0.1000 after 100 steps in" in complaints, verb


def test_every_store_below_a_folder_is_checked(command, folders):
    code, told, complaints = command("check", folders)
    assert (code, complaints) == (0, "")
    assert told.splitlines() == [
        f"{folders / 'a'}: 2 runs, 4 evaluations, 0 checkpoints, 0 files of weights",
        f"{folders / 'a'}: all as it was written",
        f"{folders / 'b'}: 2 runs, 4 evaluations, 0 checkpoints, 0 files of weights",
        f"{folders / 'b'}: all as it was written",
        f"{folders}: 2 stores, all as they were written",
    ]
    spoil(folders / "a", 2)
    (folders / "c").mkdir()
    (folders / "c" / FILE).write_bytes(b"no database at all" * 500)
    code, told, complaints = command("check", folders)
    assert code == 3
    assert f"recollect: {folders / 'a'}: run " in complaints
    assert f"recollect: {folders / 'c' / FILE}: damaged (" in complaints
    assert f"{folders / 'b'}: all as it was written" in told
    assert told.splitlines()[-1] == f"{folders}: 3 stores, 2 with damage"


def test_a_folder_of_folders_is_no_folder_to_go_on_with(command, folders):
    for verb, *rest in (
        ["resume"],
        ["failures"],
        ["inspect", "best:mamba"],
        ["export", "--salvage"],
    ):
        code, _, complaints = command(verb, folders, *rest)
        assert code == 2
        assert complaints.splitlines()[1:] == [
            f"`{' '.join(['recollect', verb, str(folders / name), *rest])}`" for name in ("a", "b")
        ]


def test_status_counts_the_runs_it_lists(command, folders):
    spoil(folders / "a", 1)
    code, told, complaints = command("status", folders / "a")
    assert (code, "left out" in complaints) == (3, True)
    assert told.startswith("1 planned = 1 done")


def spoil(folder: Path, seed: int) -> None:
    """Change a run as no program of ours does."""
    connection = sqlite3.connect(folder / FILE)
    register(connection)
    for (name,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type='trigger'")):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("UPDATE runs SET wall_s = 7 WHERE json_extract(spec, '$.seed') = ?", [seed])
    connection.commit()
    connection.close()


# ---- joining ----


def test_damaged_runs_are_named_and_all_others_are_merged(command, folders, tmp_path):
    into = tmp_path / "into"
    spoil(folders / "a", 1)
    code, told, complaints = command("merge", into, folders)
    assert code == 3
    assert told.splitlines()[0].endswith(
        "1 run, 1 new, 1 result taken over, 0 there already, 1 damaged"
    )
    lines = complaints.splitlines()
    assert lines[0].startswith(f"recollect: {folders / 'a'}: run ")
    assert lines[0].endswith("its checksum is wrong: it is not as it was written; left out")
    assert lines[-1] == f"`recollect run SPEC --out {into}`"
    assert command("check", into).code == 0
    spoil(into, 3)
    code, _, complaints = command("merge", into, folders / "b")
    assert code == 3
    assert complaints.splitlines()[-1] == f"`recollect merge NEW {into} {folders / 'b'}`"
    assert "recollect run SPEC" not in complaints  # it would not train what is damaged there
    assert command("merge", tmp_path / "new", into, folders / "b").code == 3
    assert command("check", tmp_path / "new").code == 0


def test_stores_are_merged_and_conflicts_have_their_own_exit_code(command, folders, tmp_path):
    into = tmp_path / "into"
    code, told, complaints = command("merge", into, folders)
    assert (code, complaints) == (0, "")
    assert told.splitlines() == [
        f"{folders / 'a'}: 2 runs, 2 new, 2 results taken over, 0 there already",
        f"{folders / 'b'}: 2 runs, 1 new, 1 result taken over, 1 there already",
    ]
    make_store(folders / "c", [make_row(seed=1, score=0.9)])
    code, _, complaints = command("merge", into, folders / "c")
    assert code == 3
    assert complaints.splitlines()[-1] == (
        f"recollect: 1 run with different results; {into} keeps its own"
    )
    code, _, complaints = command("merge", into, tmp_path / "nowhere")
    assert code == 2
    assert f"no results in {tmp_path / 'nowhere'}" in complaints


def test_status_says_what_a_lost_process_means(command, tmp_path):
    make_store(tmp_path, [make_row(lr=lr, score=None, status="todo") for lr in (1e-3, 1e-2)])
    with Store.open(tmp_path) as store:
        owner = "laptop|boot|4711|99"
        store.claim([row.run_id for row in store.rows()], owner, lease_s=60)
        assert len(store.reclaim(dead=lambda other: other == owner)) == 2
    _, told, _ = command("status", tmp_path)
    assert (
        "note: lost: 2 runs were left by a process on laptop that died or was cut off: each goes "
        "on from its last checkpoint, or from its start" in told
    )
    assert "4711" not in told


def test_status_says_each_reason_of_failed_runs_once(command, tmp_path):
    failed = {"score": None, "status": "failed", "failure": "error: ValueError: one"}
    rows = [make_row(lr=1e-3, score=0.5), *(make_row(lr=lr, **failed) for lr in (1e-2, 1e-1))]
    make_store(tmp_path, rows)
    with Store.open(tmp_path) as store:
        store.note("error", "runs a b\nTraceback\nValueError: one\nsecond line of it")
    _, told, _ = command("status", tmp_path)
    assert told.splitlines()[-2:] == [
        "failed: 2 runs: error: ValueError: one",
        f"`recollect failures {tmp_path}` shows where",
    ]
    assert "1/3, 2 failed" in told


def test_status_calls_no_rate_best_where_every_run_diverged(command, tmp_path):
    lost = [
        make_row(lr=lr, score=None, status="diverged", diverged_step=3) for lr in (1e-2, 1e-1, 1.0)
    ]
    make_store(tmp_path / "lost", lost)
    make_store(tmp_path / "half", [make_row(lr=1e-3, score=0.0), *lost])
    code, told, _ = command("status", tmp_path / "lost")
    assert code == 0
    assert "all diverged" in told
    assert " at 1e-" not in told
    _, told, _ = command("status", tmp_path / "half")
    assert "0.000 at 1e-3" in told
