"""What a slice of device time bought: run-steps per second of device by cell, of the runs that one
store has and an older copy of it does not have, beside those of the older runs of the same cell.

    git show REV:results/h200/campaign/recollect.db > /tmp/older/recollect.db
    python bench/slice_speed.py results/h200/campaign /tmp/older

Seconds are those of the rows: a run counts with its share of the time of all that trained beside
it, so the sum over all runs is the time of the device. The last line has the multiply-adds of all
steps per second, which compares slices that trained similar cells, and how many runs trained at
once, on average over each STRETCH_S seconds from the first of them on.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path

from recollect.analysis import group_cells
from recollect.rows import RunRow
from recollect.running.planning.cost import cost
from recollect.running.results import RunSet
from recollect.spec.run import RunSpec
from recollect.store import Store

STRETCH_S = 60


def by_cell(rows: Iterable[RunRow]) -> dict[str, list[RunRow]]:
    found = defaultdict(list)
    for cell in group_cells(list(rows)):
        found[cell.name] += [row for row in cell.rows if row.has_result]
    return found


def speed(rows: Iterable[RunRow]) -> str:
    """Run-steps per second; empty without rows."""
    seconds = sum(row.wall_s or 0.0 for row in rows)
    return f"{sum(row.steps or 0 for row in rows) / seconds:,.0f}" if seconds else ""


def at_once(times: Sequence[tuple[float, float]]) -> list[float]:
    """The mean number of runs in training in each stretch."""
    first, last = min(began for began, _ in times), max(ended for _, ended in times)
    starts = [first + place * STRETCH_S for place in range(ceil((last - first) / STRETCH_S))]
    return [
        sum(max(0.0, min(ended, at + STRETCH_S) - max(began, at)) for began, ended in times)
        / STRETCH_S
        for at in starts
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("older", type=Path)
    asked = parser.parse_args()
    older = {row.run_id for row in RunSet.load(asked.older).rows if row.has_result}
    with Store.open(asked.store, read_only=True) as store:
        moments = store.times()
    total, operations, times = 0.0, 0.0, list[tuple[float, float]]()
    print("| cell | new runs | seconds | run-steps/s | of older runs |\n|---|---|---|---|---|")
    for name, rows in by_cell(RunSet.load(asked.store).rows).items():
        new = [row for row in rows if row.run_id not in older]
        if new:
            seconds = sum(row.wall_s or 0.0 for row in new)
            total += seconds
            operations += sum(
                cost(RunSpec.parse(row.spec)).operations * (row.steps or 0) for row in new
            )
            times += [moments[row.run_id] for row in new]
            before = [row for row in rows if row.run_id in older]
            print(f"| {name} | {len(new)} | {seconds:.0f} | {speed(new)} | {speed(before)} |")
    rate = operations / total / 1e12 if total else 0.0
    print(f"\n{total / 60:.1f} minutes of the device, {rate:.1f} tera multiply-adds per second")
    if times:
        print(
            f"runs at once, by {STRETCH_S} s: {' '.join(f'{mean:.0f}' for mean in at_once(times))}"
        )


if __name__ == "__main__":
    main()
