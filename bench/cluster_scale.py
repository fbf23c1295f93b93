"""What breaks first at scale: simulated clusters, and what planning a sweep costs.

`python bench/cluster_scale.py` prints two tables; `--write docs/clusters.md` puts them there. The
last line of the first one, a million runs, takes ten minutes; `--most-runs 100000` leaves it out.
"""

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

from recollect.running.cluster.simulate import Scenario, Simulated, simulate

BEGIN, END = "<!-- scale -->", "<!-- end of scale -->"
CALM = {"failures": 0.0, "preemptions": 0.0, "straggling": 0.0}
ROUGH = {"failures": 0.02, "preemptions": 1.0, "straggling": 0.1}
SCENARIOS = {
    "calm": Scenario(runs=10_000, runs_per_pack=13, **CALM),
    "usual": Scenario(runs=10_000, runs_per_pack=13),
    "rough": Scenario(runs=10_000, runs_per_pack=13, **ROUGH),
    "rough, larger": Scenario(runs=100_000, points=3, **ROUGH),
    "rough, largest": Scenario(runs=1_000_000, points=3, **ROUGH),
}
HEAD = (
    *("scenario", "runs", "packs", "attempts", "makespan, ideal (min)", "over", "redone (min)"),
    *("files a pack", "shared MB", "rows", "rows/s", "rows/s of CPU", "MB of memory"),
    *("lost", "doubled"),
)
PLANNED = (2_000, 20_000)  # runs of a sweep

P, T = ParamSpec("P"), TypeVar("T")


def alone(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """In a process of its own: the largest it has been is then the work's."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(work, *arguments, **named).result()


def simulated(scenario: Scenario) -> Simulated:
    with tempfile.TemporaryDirectory() as folder:
        return simulate(scenario, Path(folder) / "out")


@dataclass(frozen=True)
class Planned:
    """What it costs to plan a sweep."""

    cpu_s: float
    memory_bytes: int
    plan_bytes: int


def planned(runs: int) -> Planned:
    """A sweep of two mixers and many seeds, cut into packs, up to the bytes of the plan."""
    from recollect.running.cluster.draft import draft_packs, draft_sweep
    from recollect.spec.sweep import build_sweep

    started = time.process_time()
    sweep = build_sweep(
        {
            "task": {"name": "mqar", "vocabulary": 32, "length": 16, "pairs": 2},
            "model": {"width": 8, "depth": 1},
            "train": {"steps": 10},
            "sweep": {"model": {"mixer": ["attention", "hyena"]}, "seed": list(range(runs // 2))},
        }
    )
    draft = draft_sweep(Path("nowhere"), sweep, draft_packs(sweep.runs, "cpu"))
    return Planned(
        time.process_time() - started,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        sum(map(len, draft.content)),
    )


def line(name: str, scenario: Scenario, found: Simulated) -> str:
    cells = (
        *(name, f"{scenario.runs:,}", f"{found.packs:,}", f"{found.attempts:,}"),
        *(f"{found.makespan_s / 60:,.0f}, {found.ideal_s / 60:,.0f}", f"{found.overhead:.0%}"),
        *(f"{found.redone_s / 60:.1f}", f"{found.files_per_pack:.2f}"),
        *(f"{found.shared_bytes / 1e6:,.0f}", f"{found.rows:,}", f"{found.rows_per_s:,.0f}"),
        *(f"{found.rows_per_cpu_s:,.0f}", f"{found.memory_bytes / 1e6:,.0f}"),
        *(str(found.lost), str(found.doubled)),
    )
    return f"| {' | '.join(cells)} |"


def planning() -> str:
    """One sentence: what a run more costs, from two sizes."""
    few, many = (alone(planned, runs) for runs in PLANNED)
    more = PLANNED[1] - PLANNED[0]
    memory = (many.memory_bytes - few.memory_bytes) / more
    seconds = (many.cpu_s - few.cpu_s) / more
    plan = many.plan_bytes / PLANNED[1]
    return (
        f"Planning takes {memory / 1e3:.1f} kB of memory and {seconds * 1e3:.2f} ms for each run "
        f"(from sweeps of\n{PLANNED[0]:,} and {PLANNED[1]:,} runs), so {memory / 1e3:.1f} GB and "
        f"{seconds * 1e6 / 60:.0f} minutes for a million; the plan's file takes {plan:.0f} bytes a "
        "run."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most-runs", type=int, default=1_000_000)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables in there")
    asked = parser.parse_args()
    lines = [
        f"Measured {datetime.now(UTC):%Y-%m-%d} by `python bench/cluster_scale.py` on "
        f"{len(os.sched_getaffinity(0))} cores that other programs used too:",
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'---|' * len(HEAD)}",
    ]
    for name, scenario in SCENARIOS.items():
        if scenario.runs <= asked.most_runs:
            lines.append(line(name, scenario, alone(simulated, scenario)))
            print(lines[-1], flush=True)
    lines += ["", planning()]
    print(lines[-1])
    if asked.write:
        before, _, rest = asked.write.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        asked.write.write_text("\n".join([before + BEGIN, *lines, END + after]))


if __name__ == "__main__":
    main()
