"""How often intervals of windows over seeds hold what they promise:

    python bench/window_intervals.py results/h200/campaign results/paper/fig1 --made 300

The window of a cell is asked for with other seeds. Compared are the intervals of a searched cell
and of the whole grid (other_seeds.py), and a plain bootstrap of the whole grid; `--middle` says
which share of the draws an interval has. How often do they hold the window of the whole grid, and
of made-up cells the windows of OTHERS sets of other seeds and the mean of these? Then the same for
the difference of two cells. In made-up cells a seed breaks at one rate and all above it, or, at a
share of the rates, where another seed would (`--alike`); how alike stored seeds are, and how many
are lost, is printed first. `--lost P` makes a share P of all made-up runs fail wherever they are;
`--lost A B` draws this share for each cell from a beta distribution.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln
from search_replay import RATES, SEEDS, decades, distinct_cells, made_cells, rounds_of

from recollect.analysis import TAUS, Cell, group_cells
from recollect.analysis.seeds import percentile_interval
from recollect.analysis.seeds.drawn_windows import Floats, find_windows
from recollect.analysis.seeds.other_seeds import DRAWS, MIDDLE, draw_windows
from recollect.analysis.seeds.prediction import find_lost
from recollect.analysis.windows import DIGITS, ROUNDING
from recollect.reports.paper.evidence import load_stores

MANY = 60  # seeds of made-up cells
OTHERS = 200  # sets of other seeds
KINDS = ("searched", "whole grid", "bootstrap")
Pair = tuple["Asked", "Asked | None"]  # a cell, and the cell that it is compared with


@dataclass(frozen=True)
class Asked:
    """A cell, by tau: its window, windows with other seeds, and drawn windows by kind."""

    whole: list[float]
    others: list[Floats] | None
    drawn: dict[str, list[Floats]]


@dataclass(frozen=True)
class Held:
    """What an interval holds: the whole grid's window, the mean of others, a share of others."""

    whole: float
    mean: float | None
    others: float | None
    width: float


# ---- windows and intervals ----


def ask(cell: Cell, many: Cell | None = None) -> Asked | None:
    """None where there are no draws."""
    *_, last = rounds_of(cell, "edges")
    searched, whole = draw_windows(last, TAUS), draw_windows(cell, TAUS)
    if searched is None or whole is None:
        return None
    drawn = [[found.widths for found in own] for own in (searched, whole)]
    drawn.append(bootstrap_widths(cell))
    return Asked(
        [decades(cell, tau) for tau in TAUS],
        widths_of_others(many) if many else None,
        dict(zip(KINDS, drawn, strict=True)),
    )


def bootstrap_widths(cell: Cell) -> list[Floats]:
    """Each rate keeps its seeds, drawn with replacement."""
    draw = np.random.RandomState(0)
    scores = [np.array(list(rate.scores.values())) for rate in cell.scored_rates]
    means = [own[draw.randint(len(own), size=(DRAWS, len(own)))].mean(1) for own in scores]
    return widths_of([rate.lr for rate in cell.scored_rates], np.stack(means, 1))


def widths_of_others(many: Cell) -> list[Floats]:
    scores_RS = np.array([list(rate.scores.values()) for rate in many.rates])
    draw = np.random.RandomState(0)
    sets = [draw.choice(MANY, SEEDS, replace=False) for _ in range(OTHERS)]
    return widths_of(RATES, np.stack([scores_RS[:, chosen].mean(1) for chosen in sets]))


def widths_of(rates: Sequence[float], means: Floats) -> list[Floats]:
    return [find_windows(rates, means.round(DIGITS), tau).widths for tau in TAUS]


def held(one: Asked, kind: str, at: int, middle: float, other: Asked | None) -> Held:
    """What the interval of a width holds, or with another cell that of the gain over it."""
    whole, drawn, others = one.whole[at], one.drawn[kind][at], one.others and one.others[at]
    if other is not None:
        whole, drawn = whole - other.whole[at], drawn - other.drawn[kind][at]
        others = others - other.others[at]
    low, high = percentile_interval(drawn, middle)
    low, high = low - ROUNDING, high + ROUNDING
    if others is None:
        return Held(low <= whole <= high, None, None, high - low)
    inside = (low <= others) & (others <= high)
    return Held(low <= whole <= high, low <= others.mean() <= high, inside.mean(), high - low)


# ---- tables ----


def print_table(name: str, pairs: Sequence[Pair], middles: Sequence[float]) -> None:
    print(f"{name}: {len(pairs)}\n")
    print("| interval | draws | level | whole grid | mean of others | others | mean width |")
    print("|---" * 7 + "|")
    for kind, middle in product(KINDS, middles):
        for at, tau in enumerate(TAUS):
            own = [held(one, kind, at, middle, other) for one, other in pairs]
            shares = [
                f"{sum(known) / len(known):.0%}" if None not in known else ""
                for known in zip(*((one.whole, one.mean, one.others) for one in own), strict=True)
            ]
            wide = sum(one.width for one in own) / len(own)
            print(f"| {kind} | {middle:.1%} | {tau:g} | {' | '.join(shares)} | {wide:.2f} |")
    print()


def print_alike(cells: Sequence[Cell]) -> None:
    """Where seeds differ at two neighbouring rates: do the same seeds learn?"""
    pairs, same, by_chance, seeds = 0, 0, 0.0, 0
    for cell in cells:
        half = (cell.best.mean + cell.chance) / 2
        for one, other in pairwise(cell.scored_rates):
            both = sorted(one.scores.keys() & other.scores.keys())
            learn = [[rate.scores[seed] > half for seed in both] for rate in (one, other)]
            first, second = map(sum, learn)
            if len(both) < SEEDS or first in (0, len(both)) or second in (0, len(both)):
                continue
            pairs, seeds = pairs + 1, seeds + len(both)
            same += sum(a == b for a, b in zip(*learn, strict=True))
            by_chance += (first * second + (len(both) - first) * (len(both) - second)) / len(both)
    alike = (same - by_chance) / (seeds - by_chance) if pairs else float("nan")
    print(
        f"{pairs} pairs of neighbouring rates at both of which seeds differ: {same} of {seeds} "
        f"seeds do the same at both, by chance {by_chance:.1f}; so a share of {alike:.2f} is "
        "alike\n"
    )


def print_lost(cells: Sequence[Cell]) -> None:
    """How many runs are lost, of those at rates at which a run may be, and the beta distribution
    of the share of lost runs that makes these counts the likeliest.
    """
    lost, runs = Counter[int](), Counter[int]()
    counts: list[tuple[int, int]] = []
    for cell in cells:
        found, length = find_lost(cell), cell.rows[0].spec["task"]["length"]
        own = sum(map(len, found.seeds))
        tried = sum(len(cell.rates[place].scores) for place in found.between)
        lost[length] += own
        runs[length] += tried
        counts.append((own, tried - own))
    told = (f"{lost[length]} of {runs[length]} at {length} tokens" for length in sorted(runs))
    print(f"lost runs between rates at which seeds learn: {', '.join(told)}")
    counts_C2 = np.array(counts)

    def unlikeliness(logs: Floats) -> float:
        prior = np.exp(logs)
        return float(np.sum(betaln(*prior) - betaln(*(prior + counts_C2).T)))

    best = minimize(unlikeliness, np.log([0.1, 10.0]), method="Nelder-Mead")
    print("the share of a cell: beta({:.2g}, {:.3g})\n".format(*np.exp(best.x)))


def few_and_many(
    count: int, seed: int, lost: Sequence[float], alike: float
) -> Iterator[tuple[Cell, Cell]]:
    """Made-up cells with SEEDS seeds, and the same cells with MANY."""
    for many in made_cells(count, seed, lost, MANY, alike):
        (few,) = group_cells([row for row in many.rows if row.spec["seed"] < SEEDS])
        yield few, many


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--made", type=int, default=0, help="so many made-up cells")
    parser.add_argument("--seed", type=int, default=0, help="draws the made-up cells")
    parser.add_argument(
        "--lost",
        type=float,
        nargs="+",
        default=(0.0,),
        help="the share of made-up runs that fail, or the beta distribution it is drawn from",
    )
    parser.add_argument("--alike", type=float, nargs="*", default=(1.0,), metavar="SHARE")
    parser.add_argument("--middle", type=float, nargs="*", default=(MIDDLE,), metavar="SHARE")
    asked = parser.parse_args()
    if asked.folders:
        rows = {
            row.run_id: row
            for folder in asked.folders
            for store in load_stores(folder)
            for row in store.rows
            if row.has_result
        }
        learnt = [
            cell
            for cell in group_cells(list(rows.values()))
            if cell.best and cell.best.mean > cell.chance + 0.3
        ]
        print_alike(learnt)
        print_lost(learnt)
        found = [ask(cell) for cell in distinct_cells(asked.folders)]
        print_table("stored cells", [(one, None) for one in found if one], asked.middle)
    made = asked.made, asked.seed, asked.lost
    lost = "{:.0%}" if len(asked.lost) == 1 else "beta({:g}, {:g})"
    lost = lost.format(*asked.lost)
    for alike in asked.alike if asked.made else ():
        cells = [ask(few, many) for few, many in few_and_many(*made, alike)]
        known = [one for one in cells if one]
        own: list[Pair] = [(one, None) for one in known]
        seeds = f"seeds alike at {alike:.0%} of the rates, {lost} of the runs lost"
        print_table(f"made-up cells, {seeds}", own, asked.middle)
        gains: list[Pair] = list(zip(known[::2], known[1::2], strict=False))
        print_table(f"differences of two of them, {seeds}", gains, asked.middle)


if __name__ == "__main__":
    main()
