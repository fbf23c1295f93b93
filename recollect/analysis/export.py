"""Rows as CSV or JSON for other tools: one line, or one object, per run.

Columns: the run's id, its specification by dotted key in sorted order, the name of its recipe, its
results, and last TIMING_COLUMNS, which say how it was run. Two exports of the same work,
interrupted or not, differ only in the timing columns.

CSV: floats are written so that reading them back gives the same number (nan and inf as such); an
empty cell is "none". Text that a spreadsheet would run as a formula gets a leading apostrophe,
numbers never do. Line breaks in text become "\\n", control characters "\\x1b" etc.

JSON has no nan or inf, so a loss that is not finite is null; the run's status says why.
"""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from recollect.analysis.curves import Curves
from recollect.analysis.settings import flatten
from recollect.errors import printable
from recollect.rows import RunRow

RESULT_COLUMNS = (
    "recipe",
    "status",
    "score_name",
    "chance",
    "score",
    "accuracy",
    "exact",
    "train_score",
    "train_loss",
    "test_loss",
    "steps",
    "stopped_early",
    "diverged_step",
    "failure",
    "parameters",
    "state_size",
)
TIMING_COLUMNS = ("attempt", "wall_s", "device", "threads", "versions", "drift")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")


def to_csv(rows: Sequence[RunRow]) -> str:
    """Return all rows under one header; a setting that a run does not have is an empty cell."""
    columns, records = to_records(rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_csv_cell, columns))
    for record in records:
        writer.writerow(_csv_cell(record.get(name)) for name in columns)
    return out.getvalue()


def to_records(rows: Sequence[RunRow]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns in their order, and a record per run with only the settings it has."""
    flats = [flatten(row.spec) for row in rows]
    settings = sorted({key for flat in flats for key in flat})
    records = [
        {**flat, "run_id": row.run_id, **results_of(row)}
        for row, flat in zip(rows, flats, strict=True)
    ]
    return ["run_id", *settings, *RESULT_COLUMNS, *TIMING_COLUMNS], records


def to_json(rows: Sequence[RunRow], curves: Curves | None = None) -> str:
    """Return a list of objects, one per line; `curves` adds each run's evaluations as `curve`."""
    lines = []
    for row in rows:
        record = {"run_id": row.run_id, "spec": row.spec, **results_of(row)}
        if curves is not None:
            record["curve"] = [asdict(point) for point in curves.get(row.run_id, ())]
        lines.append(json.dumps(finite(record), allow_nan=False))
    return "[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n"


def results_of(row: RunRow) -> dict[str, Any]:
    """Return every result column of a row, then every timing column."""
    return {name: getattr(row, name) for name in (*RESULT_COLUMNS, *TIMING_COLUMNS)}


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    # Python's writer does not quote a lone carriage return, and readers end the line there.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = printable(text)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def finite(value: Any) -> Any:
    """Return the value as JSON can hold it: null for a number that is not finite, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return value
