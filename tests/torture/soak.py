"""A long sweep of many tiny packs in two processes, one of which is killed now and then: its speed
and the memory of the parent stay as they are, and what it finished is right.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import run_workers
from figures import Figures
from harness import child
from kills import compare
from run_workers import outcome

import recollect
from recollect.api import Results
from recollect.spec.sweep import Sweep, parse_sweep
from recollect.store import Store

# Packs differ in their data alone, so that each is as much work as any other.
PACKS, RUNS_A_PACK = 1_200, 20
EVERY_S = 5.0
KILL_EVERY = 4  # looks
SAMPLE = 12  # finished runs that are trained once more
MOST_GROWTH_MB = 20.0
MOST_CORE_SHARE = 0.1
# Runs in a second of the processes' own time, which others on the machine do not change: in the
# last third at least so much of what there was before. One that is killed has to start once more.
LEAST_SPEED_LEFT = 0.7
MANY = f"""
[task]
name = "mqar"
vocabulary = 32
length = 8
pairs = 2
data = "fresh"
test_rows = 16
[model]
mixer = "attention"
width = 8
depth = 1
[train]
steps = 4
batch = 32
evaluations = 1
[sweep]
data_seed = {list(range(PACKS))}
seed = {list(range(RUNS_A_PACK))}
"""


class Watched:
    """The parent as the system sees it."""

    def __init__(self, pid: int):
        self.folder = Path(f"/proc/{pid}")

    def cpu_s(self) -> float:
        return _times_s(self.folder)[0]

    def children_s(self) -> float:
        """Processor time of its children, living and dead."""
        living = (_times_s(Path(f"/proc/{pid}"))[0] for pid in self.children())
        return _times_s(self.folder)[1] + sum(living)

    def memory_mb(self) -> float:
        pages = int((self.folder / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def files(self) -> int:
        return len(list((self.folder / "fd").iterdir()))

    def children(self) -> list[int]:
        pids = (self.folder / "task" / self.folder.name / "children").read_text().split()
        names = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in map(int, pids)}
        return [pid for pid, name in names.items() if b"spawn_main" in name]


def _times_s(process: Path) -> tuple[float, float]:
    """Processor time of a process and of its children that have ended."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0  # it has just ended
    own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return own / os.sysconf("SC_CLK_TCK"), ended / os.sysconf("SC_CLK_TCK")


def soak(minutes: float, place: Path, draw: random.Random) -> Figures:
    figures = Figures("a long sweep in two processes, killed now and then")
    spec, out = place / "many.toml", place / "out"
    spec.write_text(MANY)
    home = str(Path(recollect.__file__).parents[1])
    with (
        (place / "said").open("w") as said,
        (place / "complaint").open("w") as complaint,
        subprocess.Popen(
            [sys.executable, "-m", "recollect", "run", spec, "--out", out, "--workers", "2"],
            env=os.environ | {"PYTHONPATH": home, "OMP_NUM_THREADS": "1"},
            stdout=said,
            stderr=complaint,
        ) as process,
    ):
        looks = _watch(process, out, 60 * minutes, draw, figures)
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=120)
    told = (place / "complaint").read_text()
    figures.expect(code in (0, 143), f"it ended with {code}: {' '.join(told.splitlines()[-2:])}")
    figures.look_for_tracebacks(told)
    _judge(looks, figures)
    _check_results(place, out, draw, figures)
    return figures


class Look(NamedTuple):
    """At the parent and at its store."""

    at: float
    done: int
    memory_mb: float
    cpu_s: float
    children_s: float
    files: int


def _watch(
    process: subprocess.Popen[bytes], out: Path, seconds: float, draw: random.Random, found: Figures
) -> list[Look]:
    watched, looks = Watched(process.pid), list[Look]()
    done_at_kill = 0
    # The time counts from the first finished run on: to plan so many takes a while.
    while process.poll() is None and (not looks or looks[-1].at - looks[0].at < seconds):
        time.sleep(EVERY_S)
        if not (out / "recollect.db").exists():
            continue
        with Store.open(out, read_only=True) as store:
            counts = store.counts()
        if counts["done"] in (0, PACKS * RUNS_A_PACK):
            continue  # still starting, or reading all results to say what came out
        looks.append(
            Look(
                time.monotonic(),
                counts["done"],
                watched.memory_mb(),
                watched.cpu_s(),
                watched.children_s(),
                watched.files(),
            )
        )
        children = watched.children()
        # Five in a row that die before any run ends are an error by contract.
        if len(looks) % KILL_EVERY == 0 and children and counts["done"] > done_at_kill:
            os.kill(draw.choice(children), signal.SIGKILL)
            done_at_kill = counts["done"]
            found.tried += 1
    return looks


def _judge(looks: list[Look], figures: Figures) -> None:
    figures.expect(len(looks) >= 9, "too short to say anything")
    if len(looks) < 9:
        return
    third = len(looks) // 3
    before, middle, last = looks[third], looks[2 * third], looks[-1]
    speeds = [
        (end.done - start.done) / (end.children_s - start.children_s)
        for start, end in ((before, middle), (middle, last))
    ]
    share = (last.cpu_s - before.cpu_s) / (last.at - before.at)
    growth = last.memory_mb - before.memory_mb
    figures.expect(speeds[1] >= LEAST_SPEED_LEFT * speeds[0], f"slower: {speeds}")
    figures.expect(share <= MOST_CORE_SHARE, f"the parent takes {share:.0%} of a core")
    figures.expect(growth <= MOST_GROWTH_MB, f"the parent has grown by {growth:.0f} MB")
    figures.expect(last.files <= before.files + 2, "files stay open")
    figures.notes.append(
        f"{last.done:,} runs of a sweep of {PACKS * RUNS_A_PACK:,}: {speeds[0]:.0f} in a second of "
        f"processor time in the second third, {speeds[1]:.0f} in the last; its parent takes "
        f"{share:.1%} of a core and grew by {growth:.1f} MB"
    )


def _check_results(place: Path, out: Path, draw: random.Random, figures: Figures) -> None:
    """A few of the finished runs, trained alone, have the same numbers."""
    rows = Results.load(out).rows
    figures.lost += sum(row.status == "failed" for row in rows)
    with Store.open(out) as store:
        figures.expect(store.check() == [], "the store is damaged")
    done = [row.run_id for row in rows if row.status == "done"]
    chosen = set(draw.sample(done, min(SAMPLE, len(done))))
    planned = tuple(run for run in parse_sweep(MANY, name="sweep").runs if run.run_id in chosen)
    with Store.create(place / "again") as store:
        run_workers.engine.plan(store, Sweep("sweep", "", planned))
    arguments = ("resume", place / "again", "--device", "cpu", "--workers", "1")
    with child(place / "journal", run_workers.command, place / "again-said", *arguments) as running:
        figures.expect(running.end() == 0, "the sample was not trained")
    found = {run_id: entry for run_id, entry in outcome(out).items() if run_id in chosen}
    compare(figures, found, outcome(place / "again"))
