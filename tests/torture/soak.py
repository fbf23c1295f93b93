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
# The last third of the time may be that much slower than the one before: others use the machine.
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
        fields = (self.folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        pages = int((self.folder / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def files(self) -> int:
        return len(list((self.folder / "fd").iterdir()))

    def children(self) -> list[int]:
        pids = (self.folder / "task" / self.folder.name / "children").read_text().split()
        names = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in map(int, pids)}
        return [pid for pid, name in names.items() if b"spawn_main" in name]


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
        figures.expect(process.wait(timeout=120) in (0, 143), "it did not stop when asked to")
    figures.look_for_tracebacks((place / "complaint").read_text())
    _judge(looks, figures)
    _check_results(place, out, draw, figures)
    return figures


Look = tuple[float, int, float, float, int]  # when, runs done, memory, processor time, open files


def _watch(
    process: subprocess.Popen[bytes], out: Path, seconds: float, draw: random.Random, found: Figures
) -> list[Look]:
    watched, looks = Watched(process.pid), list[Look]()
    # The time counts from the first finished run on: to plan so many takes a while.
    while process.poll() is None and (not looks or looks[-1][0] - looks[0][0] < seconds):
        time.sleep(EVERY_S)
        if not (out / "recollect.db").exists():
            continue
        with Store.open(out, read_only=True) as store:
            counts = store.counts()
        if not counts["done"]:
            continue  # still starting
        looks.append(
            (
                time.monotonic(),
                counts["done"],
                watched.memory_mb(),
                watched.cpu_s(),
                watched.files(),
            )
        )
        children = watched.children()
        if len(looks) % KILL_EVERY == 0 and children:
            os.kill(draw.choice(children), signal.SIGKILL)
            found.tried += 1
    return looks


def _judge(looks: list[Look], figures: Figures) -> None:
    figures.expect(len(looks) >= 9, "too short to say anything")
    if len(looks) < 9:
        return
    third = len(looks) // 3
    speeds = [
        (looks[end][1] - looks[start][1]) / (looks[end][0] - looks[start][0])
        for start, end in ((third, 2 * third), (2 * third, len(looks) - 1))
    ]
    lasted = looks[-1][0] - looks[third][0]
    share = (looks[-1][3] - looks[third][3]) / lasted
    growth = looks[-1][2] - looks[third][2]
    figures.expect(speeds[1] >= LEAST_SPEED_LEFT * speeds[0], f"slower: {speeds}")
    figures.expect(share <= MOST_CORE_SHARE, f"the parent takes {share:.0%} of a core")
    figures.expect(growth <= MOST_GROWTH_MB, f"the parent has grown by {growth:.0f} MB")
    figures.expect(looks[-1][4] <= looks[third][4] + 2, "files stay open")
    figures.notes.append(
        f"{looks[-1][1]:,} runs of a sweep of {PACKS * RUNS_A_PACK:,}: {speeds[0]:.1f} runs/s in "
        f"the second third, {speeds[1]:.1f} in the last; its parent takes {share:.1%} of a core "
        f"and grew by {growth:.1f} MB"
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
