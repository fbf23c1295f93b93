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

With `--intervals`: 95 % intervals of the windows over seeds, from the searched cell, from the whole
grid, and by a plain bootstrap of the whole grid. How often they hold the window of the whole grid
and, of made-up cells, the windows of OTHERS sets of other seeds and the mean of these.

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

import numpy as np

from recollect.analysis import TAU, TAUS, Cell, group_cells
from recollect.analysis.seeds import Interval, percentile_interval, prediction
from recollect.analysis.seeds.drawn_windows import DrawnWindows, Floats, find_windows
from recollect.analysis.seeds.other_seeds import DRAWS, draw_windows
from recollect.analysis.windows import DIGITS, ROUNDING
from recollect.rows import RunRow
from recollect.running.results import RunSet
from recollect.running.searching import best, edges
from recollect.running.searching.outlook import window_outlook
from recollect.running.searching.searches import IN_ROUNDS

LEAST_RATES = 8
RATES = (1e-5, 3e-5, 1e-4, 3e-4, 4.642e-4, 1e-3, 2.154e-3, 3e-3, 5e-3, 1e-2, 3e-2, 1e-1, 3e-1)
SEEDS = 3
STEPS = 9750
MANY = 60  # seeds of made-up cells whose window with other seeds is asked for
OTHERS = 200  # sets of other seeds


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


# ---- intervals over seeds ----


@dataclass(frozen=True)
class Held:
    """What an interval of one cell holds, as shares, and how wide it is."""

    whole: float  # the window of the whole grid
    mean: float | None  # the mean window of many sets of other seeds, where there are such
    others: float | None  # the windows of these sets
    width: float


def intervals_of(cell: Cell, many: Cell | None = None) -> dict[tuple[float, str], Held]:
    """By tau and kind of interval; empty where there are no intervals."""
    *_, last = rounds_of(cell, "edges")
    drawn = {
        "searched": draw_windows(last, TAUS),
        "whole grid": draw_windows(cell, TAUS),
        "bootstrap": bootstrap_windows(cell),
    }
    others = windows_of_others(many) if many else [None] * len(TAUS)
    return {
        (tau, kind): held(percentile_interval(of_tau.widths), decades(cell, tau), widths)
        for kind, found in drawn.items()
        for tau, of_tau, widths in zip(TAUS, found or (), others, strict=bool(found))
    }


def bootstrap_windows(cell: Cell) -> list[DrawnWindows] | None:
    """Each rate keeps its seeds, drawn with replacement; for comparison."""
    draw = np.random.RandomState(0)
    if any(len(rate.scores) < SEEDS for rate in cell.rates):
        return None
    scores = [np.array(list(rate.scores.values())) for rate in cell.rates]
    means = [own[draw.randint(len(own), size=(DRAWS, len(own)))].mean(1) for own in scores]
    rates = [rate.lr for rate in cell.rates]
    return [find_windows(rates, np.stack(means, 1).round(DIGITS), tau) for tau in TAUS]


def windows_of_others(many: Cell) -> list[Floats]:
    """By tau: the widths of OTHERS sets of SEEDS seeds."""
    scores_RS = np.array([list(rate.scores.values()) for rate in many.rates])
    draw = np.random.RandomState(0)
    sets = [draw.choice(MANY, SEEDS, replace=False) for _ in range(OTHERS)]
    means = np.stack([scores_RS[:, chosen].mean(1).round(DIGITS) for chosen in sets])
    return [find_windows(RATES, means, tau).widths for tau in TAUS]


def held(interval: Interval, whole: float, others: Floats | None) -> Held:
    low, high = interval[0] - ROUNDING, interval[1] + ROUNDING
    if others is None:
        return Held(low <= whole <= high, None, None, high - low)
    inside = (low <= others) & (others <= high)
    return Held(low <= whole <= high, low <= others.mean() <= high, inside.mean(), high - low)


def print_intervals(name: str, found: Sequence[dict[tuple[float, str], Held]]) -> None:
    print(f"{name}: {len(found)} cells, {sum(not one for one in found)} without an interval\n")
    print("| level | interval | cells | whole grid | mean of others | others | mean width |")
    print("|---" * 7 + "|")
    for key in dict.fromkeys(key for one in found for key in one):
        own = [one[key] for one in found if key in one]
        shares = [
            f"{sum(known) / len(known):.0%}" if None not in known else ""
            for known in zip(*((one.whole, one.mean, one.others) for one in own), strict=True)
        ]
        wide = sum(one.width for one in own) / len(own)
        print(f"| {key[0]:g} | {key[1]} | {len(own)} | {' | '.join(shares)} | {wide:.2f} |")
    print()


def few_and_many(count: int, seed: int, lost: float) -> Iterator[tuple[Cell, Cell]]:
    """Made-up cells with SEEDS seeds, and the same cells with MANY."""
    for many in made_cells(count, seed, lost, MANY):
        (few,) = group_cells([row for row in many.rows if row.spec["seed"] < SEEDS])
        yield few, many


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


def made_cells(count: int, seed: int = 0, lost: float = 0.0, seeds: int = SEEDS) -> Iterator[Cell]:
    draw = random.Random(seed)
    example = {
        "task": {"name": "mqar", "length": 64, "pairs": 4},
        "model": {"mixer": {"name": "made"}, "width": 64, "depth": 2},
        "train": {"lr": 0.0, "steps": STEPS},
        "seed": 0,
        "data_seed": 0,
    }
    for number in range(count):
        score = made_scores(draw, seeds)
        rows = []
        for lr in RATES:
            for seed in range(seeds):
                spec = example | {"train": {"lr": lr, "steps": STEPS}, "seed": seed}
                reached = 0.0 if lost and draw.random() < lost else score(lr, seed)
                # A run that solves it stops early; how early differs.
                steps = int(STEPS * draw.uniform(0.08, 0.5)) if reached >= 0.99 else STEPS
                row = RunRow(f"{number}-{lr}-{seed}", spec, "done", "accuracy", 0.25)
                rows.append(replace(row, accuracy=reached, steps=steps))
        (cell,) = group_cells(rows)
        yield replace(cell, mixer=f"made {number}")


def made_scores(draw: random.Random, seeds: int) -> Callable[[float, int], float]:
    """Scores by rate and seed of a cell that is drawn: where its window lies, how high its top is,
    how soft its lower edge, how far apart its seeds.
    """
    low, width = draw.uniform(-4.6, -2.4), draw.uniform(0.0, 3.5)
    top = min(1.0, draw.choice((0.995, 0.995, 0.97, 0.94, 0.85)))
    softness = draw.uniform(0.05, 0.3)
    begins = [low + draw.gauss(0, 0.08) for _ in range(seeds)]
    breaks = [low + width + draw.gauss(0, 0.25) for _ in range(seeds)]

    def score(lr: float, seed: int) -> float:
        at = math.log10(lr)
        if at > breaks[seed]:
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
    parser.add_argument("--intervals", action="store_true", help="of windows, over seeds")
    parser.add_argument("--midway", action="store_true", help="bounds of windows before the end")
    asked = parser.parse_args()
    set_constants(asked.constant)
    # A run may be stored twice, and its cell with it.
    stored = [cell for folder in asked.folders for cell in whole_cells(folder)[0]]
    distinct = {frozenset(row.run_id for row in cell.rows): cell for cell in stored}.values()
    if asked.intervals:
        made = few_and_many(asked.made, asked.seed, asked.lost)
        for name, found in (
            ("stored", [intervals_of(cell) for cell in distinct]),
            ("made up", [intervals_of(few, many) for few, many in made]),
        ):
            if found:
                print_intervals(name, found)
        return
    if asked.midway:
        print_midway("stored", list(distinct), asked.search)
        print_midway("made up", list(made_cells(asked.made, asked.seed, asked.lost)), asked.search)
        return
    found = [one for folder in asked.folders for one in print_grid(folder, asked.search)]
    if len(asked.folders) > 1:
        print("all stored grids")
        print_sum(found, asked.search)
    if asked.made:
        made = [
            replay(cell, asked.search) for cell in made_cells(asked.made, asked.seed, asked.lost)
        ]
        print(f"{asked.made} made-up cells: {len(RATES)} rates, {SEEDS} seeds")
        print_sum(made, asked.search)


if __name__ == "__main__":
    main()
