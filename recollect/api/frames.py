"""Results as pandas data frames; pandas is imported when the first one is made."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import ModuleType
from typing import TYPE_CHECKING, Any

from recollect.analysis import Cell, CellSummary, flatten, group_cells, summarise
from recollect.analysis.export import to_records
from recollect.api.arguments import NUMBER, require
from recollect.errors import SpecError
from recollect.rows import RunRow
from recollect.running.results import RunSet

if TYPE_CHECKING:
    import pandas

    from recollect.reports.paper.claims.claim import Verdict

CELL_COLUMNS = ("cell", "mixer", "setting")
CURVE_COLUMNS = (
    *("run_id", *CELL_COLUMNS, "lr", "seed", "step", "score"),
    *("train_loss", "test_loss", "accuracy", "exact", "train_score"),
)
WINDOW_COLUMNS = (
    *(*CELL_COLUMNS, "tau", "decades", "low", "high", "open_low", "open_high"),
    *("decades_low", "decades_high", "grid_luck", "rates", "seeds"),
)
BEST_COLUMNS = (
    *(*CELL_COLUMNS, "lr", "score", "lowest", "highest", "seeds", "solved_seeds"),
    *("steps_to_solve", "chance", "parameters", "state_size", "run_id"),
)
# The columns of `recollect claims --json`, with the most wanted ones first.
FIRST_CLAIM_COLUMNS = ("claim", "recipe", "verdict", "words", "numbers", "firmness", "statement")


def runs_frame(rows: Sequence[RunRow]) -> "pandas.DataFrame":
    columns, records = to_records(rows)
    return _pandas().DataFrame(records, columns=columns)


def curves_frame(runs: RunSet) -> "pandas.DataFrame":
    """Make the frame; values of single test splits are in dotted columns after the others."""
    records = [
        {
            **_cell_columns(cell),
            **flatten({key: value for key, value in asdict(point).items() if value != {}}),
            "run_id": row.run_id,
            "lr": row.spec["train"]["lr"],
            "seed": row.spec["seed"],
            "score": point.score(row.score_name),
        }
        for cell in group_cells(runs.rows)
        for row in cell.rows
        for point in runs.curves.get(row.run_id, [])
    ]
    slices = dict.fromkeys(key for record in records for key in record if key not in CURVE_COLUMNS)
    return _pandas().DataFrame(records, columns=[*CURVE_COLUMNS, *slices])


def windows_frame(rows: Sequence[RunRow], tau: float) -> "pandas.DataFrame":
    _require_tau(tau)
    found = summarise(group_cells(rows), {}, tau)
    return _pandas().DataFrame(map(_window_record, found), columns=WINDOW_COLUMNS)


def best_frame(runs: RunSet, tau: float) -> "pandas.DataFrame":
    _require_tau(tau)
    found = summarise(group_cells(runs.rows), runs.curves, tau)
    return _pandas().DataFrame(map(_best_record, found), columns=BEST_COLUMNS)


def claims_frame(found: "Mapping[str, Sequence[Verdict]]") -> "pandas.DataFrame":
    from recollect.reports.paper.claims.verdicts import records

    entries = [entry for verdicts in found.values() for entry in records(verdicts)]
    others = dict.fromkeys(key for entry in entries for key in entry)
    columns = [*FIRST_CLAIM_COLUMNS, *(key for key in others if key not in FIRST_CLAIM_COLUMNS)]
    return _pandas().DataFrame(entries, columns=columns)


def _window_record(summary: CellSummary) -> dict[str, Any]:
    window, cell = summary.window, summary.cell
    interval = (summary.spread and summary.spread.interval) or (math.nan, math.nan)
    return {
        **_cell_columns(cell),
        "tau": summary.tau,
        "decades": window.decades if window else 0.0 if summary.best else math.nan,
        "low": window.low if window else math.nan,
        "high": window.high if window else math.nan,
        "open_low": window is not None and window.open_low,
        "open_high": window is not None and window.open_high,
        "decades_low": interval[0],
        "decades_high": interval[1],
        "grid_luck": summary.luck if summary.best else math.nan,
        "rates": len(cell.scored_rates),
        "seeds": summary.spread.seeds if summary.spread else 0,
    }


def _best_record(summary: CellSummary) -> dict[str, Any]:
    cell, best = summary.cell, summary.best
    known: dict[str, Any] = {
        **_cell_columns(cell),
        "seeds": 0,
        "solved_seeds": summary.solved_seeds,
        "steps_to_solve": summary.steps_to_solve,
        "chance": cell.chance,
        "parameters": cell.parameters,
        "state_size": cell.state_size,
    }
    if best is None:
        return known
    first = max(best.scored, key=lambda row: row.score or 0.0)
    return known | {
        "lr": best.lr,
        "score": best.mean,
        "lowest": min(best.scores.values()),
        "highest": max(best.scores.values()),
        "seeds": len(best.scores),
        "run_id": first.run_id,
    }


def _cell_columns(cell: Cell) -> dict[str, str]:
    return {"cell": cell.name, "mixer": cell.mixer, "setting": cell.setting}


def _require_tau(tau: float) -> None:
    """Check tau here as well: without any run no other check happens."""
    require(NUMBER, "0.9", tau=tau)
    if not 0 < tau <= 1:
        raise SpecError(f"tau = {tau:g}: must be above 0 and at most 1; for example tau = 0.9")


def _pandas() -> ModuleType:
    try:
        import pandas
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise SpecError(
            "a data frame needs pandas, which is not installed; `pip install 'recollect[pandas]'`\n"
            "brings it, and `results.rows` holds the same numbers without it"
        ) from None
    return pandas
