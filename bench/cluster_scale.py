"""What breaks first at scale: `python bench/cluster_scale.py [--runs 10000] [--devices 256]`.

Prints a line of Markdown for each scenario; docs/clusters.md has the table.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from recollect.running.cluster.simulate import Scenario, simulate

CALM = {"failures": 0.0, "preemptions": 0.0, "straggling": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--devices", type=int, default=256)
    parser.add_argument("--points", type=int, default=10)
    parser.add_argument("--runs-per-pack", type=int, default=39)
    parser.add_argument("--only", choices=("calm", "usual", "rough"))
    asked = parser.parse_args()
    usual = Scenario(
        runs=asked.runs,
        devices=asked.devices,
        points=asked.points,
        runs_per_pack=asked.runs_per_pack,
    )
    scenarios = {
        "calm": replace(usual, **CALM),
        "usual": usual,
        "rough": replace(usual, failures=0.02, preemptions=1.0, straggling=0.1),
    }
    print(
        "| scenario | packs | attempts | makespan, ideal (min) | over | redone | files a pack | "
        "shared MB | runs/s | rows/s | MB of memory | lost | doubled |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, scenario in scenarios.items():
        if asked.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = simulate(scenario, Path(folder) / "out")
        print(
            f"| {name} | {found.packs:,} | {found.attempts:,} | {found.makespan_s / 60:.0f}, "
            f"{found.ideal_s / 60:.0f} | {found.overhead:.0%} | "
            f"{found.redone_s / found.busy_s:.2%} | {found.files_per_pack:.2f} | "
            f"{found.shared_bytes / 1e6:,.0f} | {found.runs_per_s:,.0f} | "
            f"{found.rows_per_s:,.0f} | "
            f"{found.memory_bytes / 1e6:,.0f} | {found.lost} | {found.doubled} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
