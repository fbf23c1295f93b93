"""What it saves that rounds of searches do not wait for each other, replayed on whole grids:

    python bench/rounds_replay.py edges results/h200/study-mqar64 --packs 2 4 8

The cells of a folder are searched again on paper, each run for as many steps as it made. Compared
are four ways to train their rounds on a GPU:

  whole      every run of every cell, one cell after the other
  barrier    all cells' rounds as one stage, the next stage when its last run has ended; packs are
             stepped in turn, so they pass each evaluation together
  joining    a cell's next round begins as soon as its last one has ended, after the rounds that
             wait already; each pack advances at its own speed, with an equal share of the device
  begun      the same, but rounds of cells that have begun come before the first rounds of others

For the last two, also the time after which half of the cells were known.

n members train as fast together as one population of n, whatever packs they are in: run-steps of
attention from a stored benchmark, those of other mixers weighted by their measured speed. Starts,
evaluations and recordings take no time here.
"""

import argparse
import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from search_replay import only, set_constants, untrained, whole_cells

from recollect.analysis import Cell
from recollect.running.planning.bench import Report
from recollect.running.planning.memory import FULL
from recollect.running.searching.searches import IN_ROUNDS

BENCH = Path(__file__).parent.parent / "results" / "bench"
EVALUATIONS = 50


@dataclass
class Device:
    """How fast a device trains."""

    members: Sequence[float]  # of the populations measured
    speeds: Sequence[float]  # run-steps of attention per second, by number of members
    weights: dict[str, float]  # run-steps of attention that one of a mixer costs

    @classmethod
    def measured(cls) -> "Device":
        report = Report.from_table(json.loads((BENCH / "h200-scaling.json").read_text()))
        known = sorted(
            (s.population, s.run_steps_per_s)
            for s in report.speeds
            if (s.mixer, s.shape) == ("attention", "S1")
        )
        each = Report.from_table(json.loads((BENCH / "h200-s1-bf16.json").read_text()))
        speeds = {s.mixer: s.run_steps_per_s for s in each.speeds}
        weights = {mixer: speeds["attention"] / speed for mixer, speed in speeds.items()}
        members, rates = zip(*known, strict=True)
        return cls(members, rates, weights)

    def speed(self, members: int) -> float:
        return float(np.interp(math.log(members), np.log(self.members), self.speeds))


@dataclass
class Pack:
    """Runs of one cell that train together."""

    cell: int
    left: dict[str, int]  # steps left, by run
    weight: float
    pending: float = 0.0  # work of this pack up to the common evaluation
    every: int = field(init=False)

    def __post_init__(self) -> None:
        self.every = math.ceil(max(self.left.values()) / EVALUATIONS)

    def step(self, steps: float) -> list[str]:
        """Make this many steps; return the runs that have ended."""
        self.left = {run_id: left - steps for run_id, left in self.left.items()}
        ended = [run_id for run_id, left in self.left.items() if left <= 1e-6]
        for run_id in ended:
            del self.left[run_id]
        return ended


class Searches:
    """The searches of all cells, with the results known so far."""

    def __init__(self, cells: Sequence[Cell], search: str):
        self.truth = [{row.run_id: row for row in cell.rows} for cell in cells]
        self.mixers = [cell.rows[0].spec["model"]["mixer"]["name"] for cell in cells]
        self._rows = [{i: untrained(row) for i, row in rows.items()} for rows in self.truth]
        self._next_round = IN_ROUNDS[search].next_round

    def rounds(self, cells: Sequence[int], device: Device) -> Iterator[Pack]:
        """The next round of each of these cells that has one."""
        for cell in cells:
            chosen = self._next_round(only(self._rows[cell]))
            if chosen:
                steps = {row.run_id: self.truth[cell][row.run_id].steps or 1 for row in chosen}
                for run_id in steps:
                    self._rows[cell][run_id] = replace(self._rows[cell][run_id], status="running")
                yield Pack(cell, steps, device.weights[self.mixers[cell]])

    def end(self, cell: int, run_ids: Sequence[str]) -> None:
        self._rows[cell] |= {run_id: self.truth[cell][run_id] for run_id in run_ids}


def train_whole(cells: Sequence[Cell], device: Device) -> float:
    seconds = 0.0
    for cell in cells:
        weight = device.weights[cell.rows[0].spec["model"]["mixer"]["name"]]
        steps, done = sorted(row.steps or 1 for row in cell.rows), 0
        for place, life in enumerate(steps):
            members = len(steps) - place
            seconds += (life - done) * members * weight / device.speed(members)
            done = life
    return seconds


def train_searched(
    cells: Sequence[Cell],
    search: str,
    device: Device,
    most: int,
    joins: bool = True,
    begun_first: bool = False,
) -> tuple[float, float]:
    """Seconds until all cells are known, and until half of them are."""
    searches = Searches(cells, search)
    waiting = list(searches.rounds(range(len(cells)), device))
    packs: list[Pack] = []
    seconds, free = 0.0, set[int]()
    last = dict.fromkeys(range(len(cells)), 0.0)  # when the last round of each cell has ended
    while waiting or packs:
        if begun_first:
            waiting.sort(key=lambda pack: last[pack.cell] == 0)  # keeps the order otherwise
        while waiting and len(packs) < most and members(packs) < FULL:
            packs.append(waiting.pop(0))
        advance = advance_freely if joins else advance_together
        took, ended = advance(packs, device)
        seconds += took
        for pack, run_ids in ended:
            searches.end(pack.cell, run_ids)
            if not pack.left:
                free.add(pack.cell)
                last[pack.cell] = seconds
        packs = [pack for pack in packs if pack.left]
        if joins or not (packs or waiting):
            waiting += searches.rounds(sorted(free), device)
            free.clear()
    return seconds, statistics.median(last.values())


def members(packs: Sequence[Pack]) -> int:
    return sum(len(pack.left) for pack in packs)


Ended = list[tuple[Pack, list[str]]]


def advance_freely(packs: Sequence[Pack], device: Device) -> tuple[float, Ended]:
    """Advance to the next end of a run; every pack has an equal share of the device."""
    share = device.speed(members(packs)) / len(packs)
    paces = [share / (len(pack.left) * pack.weight) for pack in packs]
    took = min(min(p.left.values()) / pace for p, pace in zip(packs, paces, strict=True))
    return took, [(p, p.step(took * pace)) for p, pace in zip(packs, paces, strict=True)]


def advance_together(packs: Sequence[Pack], device: Device) -> tuple[float, Ended]:
    """Advance all packs by the steps between two evaluations, or to the next end of a run.

    Each has its share of the device until its steps are done; the last ones train beside fewer.
    """
    steps = min(min(pack.every, *pack.left.values()) for pack in packs)
    for pack in packs:
        pack.pending = steps * len(pack.left) * pack.weight
    took, active = 0.0, sorted(packs, key=lambda pack: pack.pending)
    done = 0.0
    while active:
        rate = device.speed(members(active)) / len(active)
        took += (active[0].pending - done) / rate
        done = active.pop(0).pending
    return took, [(pack, pack.step(steps)) for pack in packs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("search", choices=sorted(IN_ROUNDS))
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--packs", type=int, nargs="+", default=[4])
    parser.add_argument("--constant", action="append", default=[], metavar="MODULE.NAME=VALUE")
    asked = parser.parse_args()
    set_constants(asked.constant)
    cells = [cell for folder in asked.results for cell in whole_cells(folder)[0]]
    device = Device.measured()
    print(f"{len(cells)} cells, in full {train_whole(cells, device):.0f} s")
    for most in asked.packs:
        (barrier, _), (joining, half), (begun, begun_half) = (
            train_searched(cells, asked.search, device, most, *how)
            for how in ((False,), (True,), (True, True))
        )
        print(
            f"at most {most} packs: barrier {barrier:.0f} s, joining {joining:.0f} s (half of the "
            f"cells {half:.0f} s), begun {begun:.0f} s ({begun_half:.0f} s)"
        )


if __name__ == "__main__":
    main()
