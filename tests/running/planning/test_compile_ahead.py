"""Processes that compile for later shapes: what they are sent, and that nothing depends on them."""

import io
import subprocess
import sys
import time

import pytest
import torch

import recollect
from recollect.running.planning import compile_ahead
from recollect.running.planning.compile_ahead import SHAPES, CompileAhead
from recollect.spec.run import RunSpec


def idle_process() -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(["sleep", "60"], stdin=pipe, stdout=pipe, text=True)


@pytest.fixture
def sent(monkeypatch):
    """What each process would be sent, for a device that compiles."""
    lines: list[list[str]] = []

    class Pipe(list):
        write = list.append

        def flush(self) -> None: ...

        def close(self) -> None: ...

    class Process:
        def __init__(self) -> None:
            self.stdin, self.stdout = Pipe(), io.StringIO()
            lines.append(self.stdin)

        def poll(self) -> None: ...

        def kill(self) -> None: ...

        def wait(self) -> None: ...

    monkeypatch.setattr(compile_ahead, "usable_cores", lambda: 8)
    monkeypatch.setattr(compile_ahead, "_start_process", lambda device: Process())
    return lines


def test_the_shapes_that_follow_are_sent_once_and_in_turn(sent, make_run):
    runs = [
        make_run({"model.width": width, "seed": seed})
        for width in (8, 16, 32, 48)
        for seed in (0, 1)
    ]
    beside = CompileAhead(torch.device("cuda"))
    beside.prepare(runs[0], runs)
    widths = [[RunSpec.from_json(line).model.width for line in lines] for lines in sent]
    assert widths == [[16, 48], [32]]
    beside.prepare(runs[2], runs)
    assert sum(map(len, sent)) == 3
    beside.close()


@pytest.mark.parametrize(
    ("cores", "workers", "processes"),
    [(16, 1, 2), (16, 8, 1), (64, 8, 2), (4, 8, 1), (2, 1, 1), (24, 8, 2)],
)
def test_workers_share_the_cores_that_compile(cores, workers, processes, monkeypatch, make_run):
    started = []
    monkeypatch.setattr(compile_ahead, "usable_cores", lambda: cores)
    monkeypatch.setattr(
        compile_ahead,
        "_start_process",
        lambda device: started.append(device) or idle_process(),
    )
    beside = CompileAhead(torch.device("cuda"), workers)
    beside.prepare(make_run(), [make_run({"model.width": 24}), make_run({"model.width": 48})])
    beside.close()
    assert len(started) == processes


def test_no_more_are_sent_than_a_pipe_holds(sent, make_run):
    runs = [make_run({"model.width": 8 * width}) for width in range(1, SHAPES + 4)]
    beside = CompileAhead(torch.device("cuda"))
    beside.prepare(runs[0], runs)
    assert sum(map(len, sent)) == SHAPES
    assert sum(len(line) for lines in sent for line in lines) < 2**16
    beside.prepare(runs[1], runs)
    assert sum(map(len, sent)) == len(runs) - 1


def test_a_process_survives_what_it_cannot_do_and_ends_with_its_pipe(make_run):
    process = subprocess.Popen(
        [sys.executable, "-m", "recollect.running.planning.compile_ahead", "cpu"],
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


def test_what_is_compiled_is_known_as_soon_as_its_process_says_so(make_run, monkeypatch):
    """Processes for a CPU, which have nothing to compile, for a device that compiles."""
    monkeypatch.setattr(compile_ahead, "compiles", lambda device: True)
    start = compile_ahead._start_process
    monkeypatch.setattr(compile_ahead, "_start_process", lambda device: start(torch.device("cpu")))
    now, later, never = (make_run({"model.width": width}) for width in (8, 16, 24))
    beside = CompileAhead(torch.device("cuda"))
    assert not beside.is_ready(later)
    beside.prepare(now, [later])
    deadline = time.monotonic() + 60
    while not beside.is_ready(later) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert beside.is_ready(later)
    assert not beside.is_ready(never)
    beside.close()


def test_where_nothing_is_compiled_everything_is_ready(make_run, plugins):
    @recollect.mixer("mine")
    class Scaled(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(width))

        def forward(self, x):
            return self.scale * x

    assert CompileAhead(torch.device("cpu")).is_ready(make_run())
    foreign = make_run({"model.mixer": "mine"})
    assert CompileAhead(torch.device("cuda")).is_ready(foreign)


def test_an_idle_process_ends(monkeypatch):
    monkeypatch.setattr(compile_ahead, "IDLE_S", 0.05)
    monkeypatch.setattr(sys, "stdin", iter(["one\n"]))
    monkeypatch.setattr("os._exit", lambda code: None)
    assert list(compile_ahead._read_lines()) == ["one\n"]


def processes_of(beside: CompileAhead) -> list[subprocess.Popen[str]]:
    return [compiler._process for compiler in beside._compilers]


def test_processes_that_ended_are_replaced(make_run, monkeypatch):
    monkeypatch.setattr(compile_ahead, "_start_process", lambda device: idle_process())
    beside = CompileAhead(torch.device("cuda"))
    beside.prepare(make_run(), [make_run({"model.width": 24})])
    first = processes_of(beside)
    beside.prepare(make_run(), [make_run({"model.width": 48})])
    assert processes_of(beside) == first
    for process in first:
        process.kill()
        process.wait()
    beside.prepare(make_run(), [make_run({"model.width": 40})])
    assert not set(processes_of(beside)) & set(first)
    beside.close()


def test_a_process_that_ended_alone_takes_no_shape_with_it(make_run, monkeypatch):
    """The other one lives and goes on with its own; what the first had is sent again."""
    monkeypatch.setattr(compile_ahead, "compiles", lambda device: True)
    monkeypatch.setattr(compile_ahead, "usable_cores", lambda: 8)
    monkeypatch.setattr(compile_ahead, "_start_process", lambda device: idle_process())
    beside = CompileAhead(torch.device("cuda"))
    now, *later = (make_run({"model.width": 8 * width}) for width in range(1, 6))
    beside.prepare(now, later[:2])
    dead, living = beside._compilers
    assert (dead.left, living.left) == ({later[0].shape_id}, {later[1].shape_id})
    dead._process.kill()
    dead._process.wait()
    assert beside.is_ready(later[0]), "nobody compiles it any more, so nothing waits for it"
    assert not beside.is_ready(later[1])
    beside.prepare(now, later)
    assert living in beside._compilers
    assert dead not in beside._compilers
    assert not any(beside.is_ready(run) for run in later)
    assert sorted(len(compiler.left) for compiler in beside._compilers) == [2, 2]
    beside.close()


def test_processes_end_when_they_are_closed(make_run, monkeypatch):
    monkeypatch.setattr(compile_ahead, "usable_cores", lambda: 8)
    beside = CompileAhead(torch.device("cuda"))
    beside.prepare(make_run(), [make_run({"model.width": 24})])
    processes = processes_of(beside)
    assert len(processes) == compile_ahead.PROCESSES
    beside.close()
    assert all(process.poll() is not None for process in processes)
