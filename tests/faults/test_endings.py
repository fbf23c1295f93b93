"""Exit codes are a contract: every event in the table of docs/guarantees.md, and the code it has
there. Whatever ended it, no run fails for it, and a resumed sweep equals an undisturbed one.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import run_workers
from harness import child
from run_workers import M, outcome

from recollect.api import Results
from recollect.store import Store
from recollect.store.database import FILE
from recollect.store.ownership import this_process

Reference = Callable[..., dict[str, str]]
PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"

# What happens -> how, and whether the folder can then be resumed to the undisturbed results.
STOPS = {
    "the terminal closes (SIGHUP)": "SIGHUP",
    "Ctrl-C (SIGINT)": "SIGINT",
    "SIGTERM": "SIGTERM",
    "SIGUSR2, before a batch system preempts": "SIGUSR2",
    "nobody reads standard output any more, while training": "closed output",
    "standard output is full": "full output",
    "another process gave runs back, which are left": "given back",
}
FAILURES = {
    "a run failed": "error",
    "a plug-in raised what is no Exception": "no Exception",
    "no run fits into memory": "memory",
}
REFUSALS = {
    "a bad specification": ("run", "bad.toml", "--out", "new"),
    "an unknown verb or option": ("train", "everything"),
    "a folder without results": ("resume", "new"),
    "a damaged store": ("status", "damaged"),
}
DONE = "everything is trained, or other processes train the rest"
SHOWN = "nobody reads standard output any more, while showing"
STARTED = "a worker process ends before it trains anything"
FULL = "the disk is full"
DRIFT = "runs were begun under other versions, threads or devices"
LEFT_OUT = "`--salvage` cannot read all of a damaged store"


def codes() -> dict[str, int]:
    """The table as the page has it."""
    section = PAGE.read_text().partition("## Exit codes")[2]
    rows = re.findall(r"^\| (.+?) \| (\d+) \|", section, re.MULTILINE)
    return {event: int(code) for event, code in rows}


def end(folder: Path, work: Callable[..., None], *arguments: object) -> tuple[int, str]:
    """Exit code and complaint."""
    prefix = folder / "said"
    with child(folder / "journal", work, prefix, *arguments) as running:
        code = running.end()
    return code, prefix.with_suffix(".err").read_text()


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "m.toml").write_text(M)
    return tmp_path / "m.toml"


def assert_short(complaint: str) -> None:
    assert complaint.startswith("recollect: ")
    assert 1 <= complaint.count("\n") <= 3, complaint
    assert "Traceback" not in complaint
    assert "internal error" not in complaint


def test_every_event_of_the_page_is_tried_here() -> None:
    tried = (
        {DONE, SHOWN, STARTED, FULL, LEFT_OUT, DRIFT}
        | STOPS.keys()
        | FAILURES.keys()
        | REFUSALS.keys()
    )
    assert codes().keys() == tried


@pytest.mark.parametrize("event", STOPS)
def test_what_stops_it_costs_no_run(
    tmp_path: Path, spec: Path, event: str, reference: Reference
) -> None:
    out = tmp_path / "out"
    run = ("run", spec, "--out", out, "--device", "cpu")
    code, complaint = end(tmp_path, run_workers.end_by, STOPS[event], *run)
    assert code == codes()[event], complaint
    assert_short(complaint)
    statuses = {row.status for row in Results.load(out).rows}
    assert statuses <= {"todo", "done"}
    assert "todo" in statuses
    assert end(tmp_path, run_workers.command, "resume", out)[0] == 0
    assert outcome(out) == reference(M)


@pytest.mark.parametrize("event", FAILURES)
def test_what_fails_is_told(tmp_path: Path, spec: Path, event: str) -> None:
    run = ("run", spec, "--out", tmp_path / "out", "--device", "cpu")
    code, complaint = end(tmp_path, run_workers.end_by, FAILURES[event], *run)
    assert code == codes()[event]
    assert_short(complaint)
    assert "failed, the first with: " in complaint
    assert {row.status for row in Results.load(tmp_path / "out").rows} == {"failed"}


@pytest.mark.parametrize("event", REFUSALS)
def test_what_is_refused_is_told(tmp_path: Path, event: str) -> None:
    (tmp_path / "bad.toml").write_text(M.replace("width = 16", "widht = 16"))
    run_workers.plan(tmp_path / "damaged", M)
    with (tmp_path / "damaged" / FILE).open("r+b") as file:
        file.write(b"not a database, not any more")
    names = {name: tmp_path / name for name in ("bad.toml", "new", "damaged")}
    arguments = [names.get(word, word) for word in REFUSALS[event]]
    code, complaint = end(tmp_path, run_workers.command, *arguments)
    assert code == codes()[event], complaint
    assert_short(complaint)
    assert not (tmp_path / "new").exists()


def test_another_environment(tmp_path: Path, spec: Path, reference: Reference) -> None:
    out = tmp_path / "out"
    run = ("run", spec, "--out", out, "--device", "cpu")
    end(tmp_path, run_workers.end_by, "SIGTERM", *run)
    (tmp_path / "said.err").unlink()
    arguments = (run_workers.command, tmp_path / "said", "resume", out, "--device", "cpu")
    with child(
        tmp_path / "journal", *arguments, environment={"RECOLLECT_KERNELS": "off"}
    ) as running:
        assert running.end() == codes()[DRIFT]
    complaint = (tmp_path / "said.err").read_text()
    assert_short(complaint)
    assert "(kernels on -> off); bits may differ" in complaint
    assert end(tmp_path, *arguments[:1], *arguments[2:])[0] == 0
    assert outcome(out) == reference(M)


def test_a_full_disk(tmp_path: Path, spec: Path) -> None:
    run = (1, "run", spec, "--out", tmp_path / "out", "--device", "cpu")
    code, complaint = end(tmp_path, run_workers.on_full_disk, *run)
    assert code == codes()[FULL]
    assert_short(complaint)


@pytest.mark.parametrize("log", ["a pipe", "a folder"])
def test_what_salvage_leaves_out_is_told(tmp_path: Path, log: str) -> None:
    """The log of a store is something else, which must neither be waited for nor be ignored."""
    out = tmp_path / "out"
    run_ids = run_workers.plan(out, M)
    salvage = ("export", out, "--salvage")
    assert end(tmp_path, run_workers.command, *salvage) == (0, "")
    file = out / f"{FILE}-wal"
    os.mkfifo(file) if log == "a pipe" else file.mkdir()
    code, complaint = end(tmp_path, run_workers.command, *salvage)
    assert code == codes()[LEFT_OUT]
    assert "recollect.db-wal: is no regular file; read without what only it holds" in complaint
    assert complaint.count("\n") <= 3
    shown = (tmp_path / "said.out").read_text()
    assert all(shown.count(run_id) == 2 for run_id in run_ids), "once before and once after"
    (tmp_path / "said.err").unlink()
    for verb in ("resume", "status"):
        code, complaint = end(tmp_path, run_workers.command, verb, out)
        assert (code, verb) == (3, verb)
        assert_short(complaint)
        assert "is no regular file, so not one of a results database" in complaint
        (tmp_path / "said.err").unlink()


def test_all_is_done_and_shown_to_who_reads(tmp_path: Path, reference: Reference) -> None:
    out = tmp_path / "out"
    first, *_ = run_workers.plan(out, M)
    with Store.open(out) as store:
        claims = store.claim([first], this_process(), lease_s=1e6)
    resume = ("resume", out, "--device", "cpu")
    assert end(tmp_path, run_workers.command, *resume) == (codes()[DONE], "")
    assert "another process trains 1 run" in (tmp_path / "said.out").read_text()
    with Store.open(out) as store:
        store.release(claims)
    assert end(tmp_path, run_workers.command, *resume) == (codes()[DONE], "")
    assert outcome(out) == reference(M)
    for verb in ("export", "status"):
        closed = end(tmp_path, run_workers.with_closed_output, verb, out)
        assert closed == (codes()[SHOWN], "")


def test_a_worker_process_that_dies_at_its_start(tmp_path: Path, spec: Path) -> None:
    """As if something on its import path ended it, with exit code 0."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import os, sys\nif any('spawn_main' in word for word in sys.orig_argv): os._exit(0)\n"
    )
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    run = ("run", spec, "--out", tmp_path / "out", "--device", "cpu", "--workers", "2")
    with child(
        tmp_path / "journal",
        run_workers.command,
        tmp_path / "said",
        *run,
        environment={"PYTHONPATH": path},
    ) as running:
        assert running.end() == codes()[STARTED] != 0
    complaint = (tmp_path / "said.err").read_text()
    assert_short(complaint)
    assert "a worker process ended before it trained anything, with exit code 0" in complaint
    assert {row.status for row in Results.load(tmp_path / "out").rows} == {"todo"}
