"""Processes that compile for shapes to come: who is told what, and that nothing hangs on them."""

import subprocess
import sys
import time

import pytest
import torch

from recollect.running import ahead
from recollect.running.ahead import SHAPES, Ahead
from recollect.spec.run import RunSpec


@pytest.fixture
def heard(monkeypatch):
    """What each process would be told, for a device that compiles."""
    told: list[list[str]] = []

    class Pipe(list):
        write = list.append

        def flush(self) -> None: ...

        def close(self) -> None: ...

    class Process:
        def __init__(self) -> None:
            self.stdin = Pipe()
            told.append(self.stdin)

        def poll(self) -> None: ...

        def kill(self) -> None: ...

        def wait(self) -> None: ...

    monkeypatch.setattr(ahead, "_process", lambda device: Process())
    return told


def test_the_shapes_that_follow_are_told_once_and_in_turn(heard, make_run):
    runs = [
        make_run({"model.width": width, "seed": seed})
        for width in (8, 16, 32, 48)
        for seed in (0, 1)
    ]
    beside = Ahead(torch.device("cuda"))
    beside.prepare(runs[0], runs)
    widths = [[RunSpec.from_json(line).model.width for line in lines] for lines in heard]
    assert widths == [[16, 48], [32]]
    beside.prepare(runs[2], runs)
    assert sum(map(len, heard)) == 3
    beside.close()


def test_no_more_are_told_than_a_pipe_holds(heard, make_run):
    runs = [make_run({"model.width": 8 * width}) for width in range(1, SHAPES + 4)]
    beside = Ahead(torch.device("cuda"))
    beside.prepare(runs[0], runs)
    assert sum(map(len, heard)) == SHAPES
    assert sum(len(line) for lines in heard for line in lines) < 2**16
    beside.prepare(runs[1], runs)
    assert sum(map(len, heard)) == len(runs) - 1


def test_a_process_survives_what_it_cannot_do_and_ends_with_its_pipe(make_run):
    process = subprocess.Popen(
        [sys.executable, "-m", "recollect.running.ahead", "cpu"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdin.write("no specification\n" + make_run().canonical_json() + "\n")
    process.stdin.flush()
    time.sleep(0.5)
    assert process.poll() is None
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said == ""


def test_an_idle_process_ends(monkeypatch):
    monkeypatch.setattr(ahead, "IDLE_S", 0.05)
    monkeypatch.setattr(sys, "stdin", iter(["one\n"]))
    monkeypatch.setattr("os._exit", lambda code: None)
    assert list(ahead._lines()) == ["one\n"]


def test_processes_that_ended_are_replaced(make_run, monkeypatch):
    monkeypatch.setattr(
        ahead,
        "_process",
        lambda device: subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, text=True),
    )
    beside = Ahead(torch.device("cuda"))
    beside.prepare(make_run(), [make_run({"model.width": 24})])
    first = list(beside._processes)
    beside.prepare(make_run(), [make_run({"model.width": 48})])
    assert beside._processes == first
    for process in first:
        process.kill()
        process.wait()
    beside.prepare(make_run(), [make_run({"model.width": 40})])
    assert not set(beside._processes) & set(first)
    beside.close()


def test_processes_end_when_they_are_closed(make_run):
    beside = Ahead(torch.device("cuda"))
    beside.prepare(make_run(), [make_run({"model.width": 24})])
    processes = list(beside._processes)
    assert len(processes) == ahead.PROCESSES
    beside.close()
    assert all(process.poll() is not None for process in processes)
