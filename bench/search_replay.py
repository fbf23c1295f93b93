"""A search (`--search edges`, `--search best`) replayed on whole grids: what it would have trained,
what that would have cost, and whether it finds the window, or the best score, of the whole grid.

    python bench/search_replay.py edges results/h200/study-mqar64 results/paper/fig1  # stored grids
    python bench/search_replay.py best --made 300                                     # made-up ones
    python bench/search_replay.py best --made 300 --constant best.STEP=0.8            # otherwise
    python bench/search_replay.py edges --made 300 --midway                           # see below

Run-steps are those that the stored runs made, early stops included. A cell counts as a whole grid
if all its runs have a result, at eight rates or more; the others are counted as left out. Made-up
cells have soft lower edges and upper edges that break single seeds, with the noise between seeds
seen on stored rows; nothing of the search was fitted to them.

With `--midway`: how often the window of the whole grid lies where `edges.bounds` says before the
search has ended, after each round that leaves the window open.
"""

import argparse
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from recollect.analysis import TAU, TAUS, Cell, group_cells
from recollect.analysis.seeds import prediction
from recollect.rows import RunRow
from recollect.running.results import RunSet
from recollect.running.searching import best, edges
from recollect.running.searching.outlook import window_outlook
from recollect.running.searching.searches import IN_ROUNDS

LEAST_RATES = 8
RATES = (1e-5, 3e-5, 1e-4, 3e-4, 4.642e-4, 1e-3, 2.154e-3, 3e-3, 5e-3, 1e-2, 3e-2, 1e-1, 3e-1)
SEEDS = 3
STEPS = 9750


@dataclass(frozen=True)
class Aim:
    """What a search looks for, measured on a cell."""

    name: str
    measure: Callable[[Cell], float]
    tolerance: float
    unit: str


@dataclass(frozen=True)
class Replay:
    """A cell searched as far as the search goes."""

    name: str
    whole: float  # the aim, of the whole grid
    found: float
    tolerance: float
    run_steps: int
    all_run_steps: int
    runs: int
    all_runs: int
    rounds: tuple[int, ...]  # runs of each

    @property
    def is_right(self) -> bool:
        return abs(self.found - self.whole) <= self.tolerance

    @property
    def share(self) -> float:
        return self.run_steps / self.all_run_steps


def decades(cell: Cell, tau: float = TAU) -> float:
    window = cell.window(tau)
    return window.decades if window else 0.0


def best_score(cell: Cell) -> float:
    """Of the rates with most seeds."""
    most = max(len(rate.scores) for rate in cell.scored_rates)
    return max(rate.mean for rate in cell.scored_rates if len(rate.scores) == most)


AIMS = {
    "edges": Aim("W", decades, edges.TOLERANCE, "decades"),
    "best": Aim("best", best_score, best.TOLERANCE, "of a score"),
}


def rounds_of(cell: Cell, search: str) -> Iterator[Cell]:
    """The cell after each round of a search, untrained first."""
    truth = {row.run_id: row for row in cell.rows}
    rows = {run_id: untrained(row) for run_id, row in truth.items()}
    yield (state := only(rows))
    while chosen := IN_ROUNDS[search].next_round(state):
        rows |= {row.run_id: truth[row.run_id] for row in chosen}
        yield (state := only(rows))


def replay(cell: Cell, search: str) -> Replay:
    states = list(rounds_of(cell, search))
    trained = [[row for row in state.rows if row.has_result] for state in states]
    return Replay(
        cell.name,
        AIMS[search].measure(cell),
        AIMS[search].measure(states[-1]),
        AIMS[search].tolerance,
        sum(row.steps or 0 for row in trained[-1]),
        sum(row.steps or 0 for row in cell.rows),
        len(trained[-1]),
        len(cell.rows),
        tuple(len(after) - len(before) for before, after in pairwise(trained)),
    )


def untrained(row: RunRow) -> RunRow:
    return RunRow(row.run_id, row.spec, "todo", row.score_name, row.chance)


def only(rows: dict[str, RunRow]) -> Cell:
    (cell,) = group_cells(list(rows.values()))
    return cell


# ---- stored grids ----


def whole_cells(folder: Path) -> tuple[list[Cell], int]:
    """The cells with a whole grid, and how many others there are."""
    cells = group_cells(RunSet.load(folder).rows)
    whole = [
        cell
        for cell in cells
        if len(cell.rates) >= LEAST_RATES and all(row.has_result for row in cell.rows)
    ]
    return whole, len(cells) - len(whole)


def distinct_cells(folders: Sequence[Path]) -> list[Cell]:
    """The cells with a whole grid. A run may be stored twice, and its cell with it."""
    stored = [cell for folder in folders for cell in whole_cells(folder)[0]]
    return list({frozenset(row.run_id for row in cell.rows): cell for cell in stored}.values())


def print_grid(folder: Path, search: str) -> list[Replay]:
    cells, left_out = whole_cells(folder)
    if not cells:
        print(f"{folder}: no whole grid of {LEAST_RATES} rates, {left_out} cells left out\n")
        return []
    found, name = [replay(cell, search) for cell in cells], AIMS[search].name
    print(f"{folder} ({left_out} cells left out)\n")
    print(f"| cell | {name} of all | {name} found | runs | run-steps | rounds |")
    print("|---|---|---|---|---|---|")
    for one in found:
        mark = "" if one.is_right else " **off**"
        rounds = " + ".join(map(str, one.rounds))
        print(
            f"| {one.name} | {one.whole:.3g} | {one.found:.3g}{mark} | {one.runs} of "
            f"{one.all_runs} | {one.share:.0%} | {rounds} |"
        )
    print_sum(found, search)
    return found


def print_sum(found: Sequence[Replay], search: str) -> None:
    share = sum(one.run_steps for one in found) / sum(one.all_run_steps for one in found)
    right = sum(one.is_right for one in found)
    aim, runs = AIMS[search], sum(one.runs for one in found) / sum(one.all_runs for one in found)
    rounds = sum(len(one.rounds) for one in found) / len(found)
    print(
        f"\n{right} of {len(found)} within {aim.tolerance:g} {aim.unit}, {share:.1%} of the "
        f"run-steps, {runs:.0%} of the runs, {rounds:.1f} rounds a cell\n"
    )


# ---- in the middle of a search ----


def print_midway(name: str, cells: Sequence[Cell], search: str) -> None:
    for tau in TAUS:
        open_windows = [
            (window_outlook(state, tau), between, decades(cell, tau))
            for cell in cells
            for state in rounds_of(cell, search)
            if state.scored_rates
            and not edges.is_known(state, tau)
            and (between := edges.bounds(state, tau))
        ]
        if open_windows:
            number = len(open_windows)
            right = sum(low <= width <= high for _, (low, high), width in open_windows)
            bare = sum(look.low <= width <= look.high for look, _, width in open_windows)
            wide = sum(high - low for _, (low, high), _ in open_windows) / number
            print(
                f"{name}, W({tau:g}): {right} of {number} open windows ({right / number:.0%}) lie "
                f"where it says, within {wide:.2f} decades on average; without the tolerance {bare}"
            )


# ---- made-up grids ----


def made_cells(
    count: int,
    seed: int = 0,
    lost: Sequence[float] = (0.0,),
    seeds: int = SEEDS,
    alike: float = 1.0,
) -> Iterator[Cell]:
    """`lost` is the share of runs that fail, or the two parameters of the beta distribution that a
    cell's share is drawn from.
    """
    draw = random.Random(seed)
    example = {
        "task": {"name": "mqar", "length": 64, "pairs": 4},
        "model": {"mixer": {"name": "made"}, "width": 64, "depth": 2},
        "train": {"lr": 0.0, "steps": STEPS},
        "seed": 0,
        "data_seed": 0,
    }
    for number in range(count):
        score = made_scores(draw, seeds, alike)
        share = lost[0] if len(lost) == 1 else draw.betavariate(*lost)
        rows = []
        for lr in RATES:
            for seed in range(seeds):
                spec = example | {"train": {"lr": lr, "steps": STEPS}, "seed": seed}
                reached = 0.0 if share and draw.random() < share else score(lr, seed)
                # A run that solves it stops early; how early differs.
                steps = int(STEPS * draw.uniform(0.08, 0.5)) if reached >= 0.99 else STEPS
                row = RunRow(f"{number}-{lr}-{seed}", spec, "done", "accuracy", 0.25)
                rows.append(replace(row, accuracy=reached, steps=steps))
        (cell,) = group_cells(rows)
        yield replace(cell, mixer=f"made {number}")


def made_scores(draw: random.Random, seeds: int, alike: float) -> Callable[[float, int], float]:
    """Scores by rate and seed of a cell that is drawn: where its window lies, how high its top is,
    how soft its lower edge, how far apart its seeds.

    A seed breaks at one rate and at all above it, or, at the share 1 - `alike` of the rates, where
    another seed would.
    """

    def draw_break() -> float:
        return low + width + draw.gauss(0, 0.25)

    low, width = draw.uniform(-4.6, -2.4), draw.uniform(0.0, 3.5)
    top = min(1.0, draw.choice((0.995, 0.995, 0.97, 0.94, 0.85)))
    softness = draw.uniform(0.05, 0.3)
    begins = [low + draw.gauss(0, 0.08) for _ in range(seeds)]
    breaks = [draw_break() for _ in range(seeds)]

    def score(lr: float, seed: int) -> float:
        at = math.log10(lr)
        is_own = alike == 1.0 or draw.random() < alike
        if at > (breaks[seed] if is_own else draw_break()):
            return draw.choice((0.0, 0.0, 0.2))
        learnt = top / (1 + math.exp(-(at - begins[seed]) / (softness / 4)))
        noisy = learnt + draw.gauss(0, 0.5 * learnt * (1 - learnt))
        return min(1.0, max(0.0, noisy))

    return score


def set_constants(constants: Sequence[str]) -> None:
    """Change constants of the searches: "edges.COARSE=0.8"."""
    for constant in constants:
        name, value = constant.split("=")
        module, name = name.split(".")
        setattr(
            {"best": best, "edges": edges, "prediction": prediction}[module], name, float(value)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("search", choices=AIMS)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--made", type=int, default=0, metavar="N", help="so many made-up cells")
    parser.add_argument("--seed", type=int, default=0, help="draws the made-up cells")
    parser.add_argument("--lost", type=float, default=0.0, metavar="P", help="share of lost runs")
    parser.add_argument("--constant", action="append", default=[], metavar="MODULE.NAME=VALUE")
    parser.add_argument("--midway", action="store_true", help="bounds of windows before the end")
    asked = parser.parse_args()
    set_constants(asked.constant)
    if asked.midway:
        print_midway("stored", distinct_cells(asked.folders), asked.search)
        print_midway(
            "made up", list(made_cells(asked.made, asked.seed, [asked.lost])), asked.search
        )
        return
    found = [one for folder in asked.folders for one in print_grid(folder, asked.search)]
    if len(asked.folders) > 1:
        print("all stored grids")
        print_sum(found, asked.search)
    if asked.made:
        made = [
            replay(cell, asked.search) for cell in made_cells(asked.made, asked.seed, [asked.lost])
        ]
        print(f"{asked.made} made-up cells: {len(RATES)} rates, {SEEDS} seeds")
        print_sum(made, asked.search)


if __name__ == "__main__":
    main()
