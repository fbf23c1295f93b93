"""The page's tables as rows of text; where a column sorts by a number, the number stands beside its
text.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from recollect.analysis import (
    CellSummary,
    Window,
    cautions,
    count_text,
    rate_text,
    score_text,
    sentence,
)
from recollect.analysis.cells import Cell
from recollect.analysis.settings import canonical
from recollect.reports.page.context import Claim
from recollect.rows import RunRow

NONE = "–"
UNDECIDED = "not enough data"
NEVER = 1e18  # sorts after any number of steps; JavaScript reads no "inf"


class Entry(NamedTuple):
    """One table cell; `key` is what it sorts by, or None to sort by its text."""

    text: str
    key: float | None = None


class CellLine(NamedTuple):
    """What the summary says about one cell."""

    sentence: str
    cautions: list[str]
    solved: bool


class ProvenanceLine(NamedTuple):
    """Runs made under the same conditions."""

    runs: int
    device: str
    threads: str
    versions: str


def cell_lines(summaries: Sequence[CellSummary]) -> list[CellLine]:
    """One entry per cell for the summary list."""
    return [
        CellLine(sentence(summary), cautions(summary), summary.window is not None)
        for summary in summaries
    ]


def window_lines(summaries: Sequence[CellSummary]) -> list[list[Entry]]:
    """Cell, best score, its rate, window, its edges, spread over seeds, G(4), solved seeds, steps,
    parameters, state, runs.
    """
    return [_window_line(summary) for summary in summaries]


def _window_line(summary: CellSummary) -> list[Entry]:
    cell, best, window = summary.cell, summary.best, summary.window
    finished = Entry(f"{cell.scored_runs}/{len(cell.rows)}", cell.scored_runs)
    sizes = [
        _size_entry([row.parameters for row in cell.rows]),
        _size_entry([row.state_size for row in cell.rows]),
    ]
    if best is None:
        return [Entry(cell.name), *[Entry(NONE, -1)] * 8, *sizes, finished]
    scores = best.scores.values()
    spread = f" ({score_text(min(scores))}–{score_text(max(scores))})" if len(scores) > 1 else ""
    steps = summary.steps_to_solve
    return [
        Entry(cell.name),
        Entry(score_text(best.mean) + spread, best.mean),
        Entry(rate_text(best.lr), best.lr),
        Entry(width_text(window), window.decades if window else -1),
        Entry(
            f"{rate_text(window.low)} – {rate_text(window.high)}" if window else NONE,
            window.low if window else -1,
        ),
        _spread_entry(summary),
        Entry(f"{_bound(window) if summary.luck < 1 else ''}{summary.luck:.0%}", summary.luck),
        Entry(f"{summary.solved_seeds}/{len(scores)}", summary.solved_seeds / len(scores)),
        Entry(f"{steps:,.0f}", steps)
        if steps is not None
        else Entry("never" if window is None else NONE, NEVER),
        *sizes,
        finished,
    ]


def _size_entry(found: Sequence[int | None]) -> Entry:
    size = next((size for size in found if size is not None), None)
    return Entry(NONE, -1) if size is None else Entry(f"{size:,}", size)


def width_text(window: Window | None) -> str:
    """1.42, ≥ 1.42 where the grid ended first, none where tau was not reached."""
    return f"{_bound(window)}{window.decades:.2f}" if window else "none"


def run_lines(cells: Sequence[Cell], limit: int) -> list[list[Entry]]:
    """One line per run, failed ones first so that a cut never hides them."""
    rows = [(cell, row) for cell in cells for row in cell.rows]
    rows.sort(key=lambda pair: pair[1].status != "failed")
    return [_run_line(cell, row) for cell, row in rows[:limit]]


def _run_line(cell: Cell, row: RunRow) -> list[Entry]:
    lr, seed = row.spec["train"]["lr"], row.spec["seed"]
    return [
        Entry(row.run_id),
        Entry(cell.name),
        Entry(rate_text(lr), lr),
        Entry(str(seed), seed),
        Entry(row.status),
        Entry(NONE, -1) if row.score is None else Entry(score_text(row.score), row.score),
        Entry(NONE, -1) if row.steps is None else Entry(f"{row.steps:,}", row.steps),
        Entry(NONE, -1) if row.wall_s is None else Entry(f"{row.wall_s:,.1f}", row.wall_s),
        Entry(_remark(row)),
    ]


def _remark(row: RunRow) -> str:
    remarks = [
        row.failure,
        f"diverged at step {row.diverged_step:,}" if row.diverged_step is not None else None,
        f"stopped early: {row.stopped_early}" if row.stopped_early else None,
        f"attempt {row.attempt}" if row.attempt > 1 else None,
    ]
    return "; ".join(remark for remark in remarks if remark)


def provenance_lines(rows: Sequence[RunRow]) -> list[ProvenanceLine]:
    """How many runs were made on which device, with how many threads, by which versions."""
    made = [row for row in rows if row.device is not None]
    found = Counter((row.device, row.threads, canonical(row.versions)) for row in made)
    versions = {canonical(row.versions): row.versions for row in made}
    return [
        ProvenanceLine(
            count,
            str(device),
            NONE if threads is None else str(threads),
            _versions_text(versions[key]),
        )
        for (device, threads, key), count in found.most_common()
    ]


def claim_lines(claims: Sequence[Claim]) -> list[list[Entry]]:
    """One line per claim about which the rows say anything, those decided at the study's own scale
    first.
    """
    telling = [
        (place, claim)
        for place, claim in enumerate(claims)
        if claim.verdict != UNDECIDED or claim.reduced
    ]
    telling.sort(key=lambda pair: pair[1].verdict == UNDECIDED)
    return [
        [
            Entry(claim.name, place),
            Entry(claim.text),
            _verdict(claim),
            *map(Entry, (claim.numbers, claim.figure, claim.remark)),
        ]
        for place, claim in telling
    ]


def _verdict(claim: Claim) -> Entry:
    return Entry(
        f"{claim.verdict} (at reduced scale: {claim.reduced.split(' (')[0]})"
        if claim.reduced
        else claim.verdict
    )


def claims_count(claims: Sequence[Claim]) -> str:
    """26 claims: 5 reproduced, 1 not reproduced, 20 not enough data."""
    found = Counter(claim.verdict for claim in claims)
    parts = [
        f"{count} {verdict}"
        for verdict, count in sorted(found.items(), key=lambda item: item[0] == UNDECIDED)
    ]
    return f"{count_text(len(claims), 'claim')}: {', '.join(parts)}."


def _versions_text(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) or NONE


def _spread_entry(summary: CellSummary) -> Entry:
    spread = summary.spread
    if spread is None or spread.seeds < 2 or spread.high == 0:
        return Entry(NONE, -1)
    interval = f" ({spread.interval[0]:.2f}–{spread.interval[1]:.2f})" if spread.interval else ""
    return Entry(f"{spread.low:.2f}–{spread.high:.2f}{interval}", spread.high - spread.low)


def _bound(window: Window | None) -> str:
    return "≥ " if window and window.is_open else ""
