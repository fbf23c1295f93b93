"""The page's tables as lines of entries: texts, with a number if a column sorts by it."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from recollect.analysis import (
    CellSummary,
    Window,
    count_text,
    rate_text,
    score_text,
)
from recollect.analysis.cells import Cell
from recollect.analysis.settings import canonical
from recollect.reports.page.context import ShownClaim
from recollect.rows import RunRow

NONE = "–"
UNDECIDED = "not enough data"
NEVER = 1e18  # sorts after any number of steps; JavaScript cannot read "inf"


class TableEntry(NamedTuple):
    """One table cell; `key` is its sort key, or None to sort by its text."""

    text: str
    key: float | None = None
    more: str = ""  # shown in small print below the text


class ProvenanceLine(NamedTuple):
    """The number of runs that were trained under the same conditions."""

    runs: int
    device: str
    threads: str
    versions: str


def window_lines(summaries: Sequence[CellSummary]) -> list[list[TableEntry]]:
    """One line per cell, with the columns of the page's template."""
    return [_window_line(summary) for summary in summaries]


def _window_line(summary: CellSummary) -> list[TableEntry]:
    cell, best, window = summary.cell, summary.best, summary.window
    finished = TableEntry(f"{cell.scored_runs}/{len(cell.rows)}", cell.scored_runs)
    ends = [_size_entry(cell), finished]
    if best is None:
        return [TableEntry(cell.name), _chance_entry(cell), *[TableEntry(NONE, -1)] * 5, *ends]
    scores = best.scores.values()
    spread = f" ({score_text(min(scores))}–{score_text(max(scores))})" if len(scores) > 1 else ""
    where = "every run diverged" if cell.all_diverged else f"at rate {rate_text(best.lr)}"
    edges = f"{rate_text(window.low)} to {rate_text(window.high)}" if window else ""
    solved = f"{summary.solved_seeds}/{len(scores)} seeds at the best rate"
    return [
        TableEntry(cell.name),
        _chance_entry(cell),
        TableEntry(score_text(best.mean) + spread, best.mean, where),
        TableEntry(width_text(window), window.decades if window else -1, edges),
        _spread_entry(summary),
        TableEntry(f"{_bound(window) if summary.luck < 1 else ''}{summary.luck:.0%}", summary.luck),
        TableEntry(*_steps(summary), solved),
        *ends,
    ]


def _steps(summary: CellSummary) -> tuple[str, float]:
    steps = summary.steps_to_solve
    if steps is not None:
        return f"{steps:,.0f}", steps
    return ("never" if summary.window is None else NONE), NEVER


def _chance_entry(cell: Cell) -> TableEntry:
    """Chance and, if it is higher, the score from the positions of the questions alone."""
    text = score_text(cell.chance)
    more = f"{score_text(cell.position_only)} by position" if cell.position_helps else ""
    return TableEntry(text, cell.chance, more)


def _size_entry(cell: Cell) -> TableEntry:
    if cell.parameters is None:
        return TableEntry(NONE, -1)
    state = "" if cell.state_size is None else f"state {cell.state_size:,}"
    return TableEntry(f"{cell.parameters:,}", cell.parameters, state)


def _number_entry(number: float | None, form: str = ",") -> TableEntry:
    """An entry for a number. It sorts by its text if a script can read that as a number."""
    if number is None:
        return TableEntry(NONE, -1)
    text = f"{number:{form}}"
    return TableEntry(text, number if "," in text else None)


def width_text(window: Window | None) -> str:
    """The width of a window: "1.42", "≥ 1.42" if the grid ended inside the window, "none" if tau
    was not reached.
    """
    return f"{_bound(window)}{window.decades:.2f}" if window else "none"


def run_lines(cells: Sequence[Cell], limit: int) -> list[list[TableEntry]]:
    """One line per run that has begun. Failed runs come first, before the limit cuts the list."""
    rows = [(cell, row) for cell in cells for row in cell.rows if row.status != "todo"]
    rows.sort(key=lambda pair: pair[1].status != "failed")
    return [_run_line(cell, row) for cell, row in rows[:limit]]


def _run_line(cell: Cell, row: RunRow) -> list[TableEntry]:
    lr, seed = row.spec["train"]["lr"], row.spec["seed"]
    return [
        TableEntry(row.run_id),
        TableEntry(cell.name),
        TableEntry(rate_text(lr)),  # this and the next sort by their text, which is a number
        TableEntry(str(seed)),
        TableEntry(row.status),
        TableEntry(NONE, -1) if row.score is None else TableEntry(score_text(row.score)),
        _number_entry(row.steps),
        _number_entry(row.wall_s, ",.1f"),
        TableEntry(_remark(row)),
    ]


def _remark(row: RunRow) -> str:
    remarks = [
        row.failure,
        f"diverged at step {row.diverged_step:,}" if row.diverged_step is not None else None,
        f"stopped early: {row.stopped_early}" if row.stopped_early else None,
        f"attempt {row.attempt}" if row.attempt > 1 else None,
        f"drift {', '.join(row.drift)}" if row.drift else None,
    ]
    return "; ".join(remark for remark in remarks if remark)


def provenance_lines(rows: Sequence[RunRow]) -> list[ProvenanceLine]:
    """The number of runs by device, number of threads and versions."""
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


def claim_lines(claims: Sequence[ShownClaim]) -> list[list[TableEntry]]:
    """One line per claim and recipe with a result from the rows. Those decided at full scale come
    first.
    """
    telling = [(place, claim) for place, claim in enumerate(claims) if _tells(claim)]
    telling.sort(key=lambda pair: (pair[1].outcome == UNDECIDED, _number(pair[1]), pair[0]))
    return [
        [
            TableEntry(claim.name, _number(claim)),
            TableEntry(claim.text),
            TableEntry(claim.recipe),
            _verdict(claim),
            *map(TableEntry, (claim.firm, claim.numbers, claim.figure, claim.remark)),
        ]
        for _, claim in telling
    ]


def open_claim_lines(claims: Sequence[ShownClaim]) -> list[list[TableEntry]]:
    """One line per claim without a result from the rows, with what would decide it."""
    return [
        [
            TableEntry(claim.name, _number(claim)),
            *map(TableEntry, (claim.text, claim.to_train or claim.numbers)),
        ]
        for claim in claims
        if not _tells(claim)
    ]


def _tells(claim: ShownClaim) -> bool:
    return claim.outcome != UNDECIDED or bool(claim.reduced)


def _number(claim: ShownClaim) -> int:
    """A sort key that puts C10 after C9."""
    digits = claim.name.removeprefix("C")
    return int(digits) if digits.isdecimal() else 0


def _verdict(claim: ShownClaim) -> TableEntry:
    return TableEntry(
        f"{claim.verdict} (at reduced scale: {claim.reduced.split(' (')[0]})"
        if claim.reduced
        else claim.verdict
    )


def claims_count(claims: Sequence[ShownClaim]) -> str:
    """Verdicts counted by recipe: "study, 32 claims: 5 reproduced, 1 contradicted, 26 not enough
    data.".
    """
    told = []
    for recipe in dict.fromkeys(claim.recipe for claim in claims):
        own = [claim for claim in claims if claim.recipe == recipe]
        found = Counter(claim.outcome for claim in own)
        parts = [
            f"{count} {outcome}"
            for outcome, count in sorted(found.items(), key=lambda item: item[0] == UNDECIDED)
        ]
        name = f"{recipe}, " if recipe else ""
        told.append(f"{name}{count_text(len(own), 'claim')}: {', '.join(parts)}.")
    return " ".join(told)


def _versions_text(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) or NONE


def _spread_entry(summary: CellSummary) -> TableEntry:
    spread = summary.spread
    if spread is None or spread.seeds < 2 or spread.high == 0:
        return TableEntry(NONE, -1)
    interval = (
        f"other seeds: {spread.interval[0]:.2f} to {spread.interval[1]:.2f}"
        if spread.interval
        else ""
    )
    return TableEntry(f"{spread.low:.2f} to {spread.high:.2f}", spread.high - spread.low, interval)


def _bound(window: Window | None) -> str:
    return "≥ " if window and window.is_open else ""
