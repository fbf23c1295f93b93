"""Rows and curves as a data set: two Parquet files and the card that a hub shows and reads.

The same rows give the same bytes. A column has one type: int64, float64, bool or string. Settings
of mixed types and lists are JSON in a string. NaN and inf are kept.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.analysis.curves import Curves
from recollect.analysis.export import finite, to_records
from recollect.errors import SpecError
from recollect.reports.exports.card import CARD, MARK, write_card
from recollect.reports.exports.columns import CURVES
from recollect.reports.exports.replay import as_utf8
from recollect.rows import Evaluation, RunRow
from recollect.store.durable import make_folder, write_atomically

if TYPE_CHECKING:
    import pyarrow

LARGEST = 2**63 - 1  # the largest integer in a column
_WHOLE = {"steps", "diverged_step", "parameters", "state_size", "attempt", "threads", "step"}
_NUMBERS = {"chance", "score", "accuracy", "exact", "train_score", "train_loss", "test_loss"} | {
    "wall_s"
}


def write_data_set(rows: Sequence[RunRow], curves: Curves, folder: Path, licence: str) -> None:
    """Write the data set of these rows to `folder`. A data set that was written there before is
    replaced.
    """
    if not any(row.is_finished for row in rows):
        raise SpecError("nothing to export: no run has ended; `recollect status DIR` says more")
    _refuse_other_files(folder)
    runs, points = runs_table(rows), curves_table(rows, curves)
    card = write_card(rows, _types(runs), _types(points), points.num_rows, licence)
    make_folder(folder)
    # Write the card last: it makes the folder a data set.
    write_atomically(folder / "curves.parquet", _parquet(points))
    write_atomically(folder / "runs.parquet", _parquet(runs))
    write_atomically(folder / CARD, card.encode())


def runs_table(rows: Sequence[RunRow]) -> "pyarrow.Table":
    """One row per run, with the columns of the CSV export in the same order."""
    columns, records = to_records(rows)
    return _table({name: [record.get(name) for record in records] for name in columns})


def curves_table(rows: Sequence[RunRow], curves: Curves) -> "pyarrow.Table":
    """One row per evaluation, in the order of the runs."""
    points = [(row.run_id, point) for row in rows for point in curves.get(row.run_id, ())]
    columns: dict[str, list[Any]] = {
        name: [getattr(point, name) for _, point in points]
        for name in CURVES
        if name not in ("run_id", "slices")
    }
    slices = [_slices(point) for _, point in points]
    return _table({"run_id": [run_id for run_id, _ in points], **columns, "slices": slices})


def _slices(point: Evaluation) -> str | None:
    return json.dumps(finite(point.slices), sort_keys=True) if point.slices else None


def _table(columns: dict[str, list[Any]]) -> "pyarrow.Table":
    import pyarrow

    arrays = {}
    for name, values in columns.items():
        kind = _kind(name, values)
        if kind == "string":
            values = [None if value is None else _text(value) for value in values]
        arrays[name] = pyarrow.array(values, getattr(pyarrow, kind)())
    return pyarrow.table(arrays)


def _kind(name: str, values: Sequence[Any]) -> str:
    """The type of a column. It is fixed for a result and follows from the values for a setting."""
    if name in _WHOLE:
        return "int64"
    if name in _NUMBERS:
        return "float64"
    found = {type(value) for value in values if value is not None}
    if found == {bool}:
        return "bool_"
    if not found or not found <= {int, float}:
        return "string"
    if any(type(value) is int and abs(value) > LARGEST for value in values):
        return "string"
    return "int64" if found == {int} else "float64"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return as_utf8(value)
    return json.dumps(finite(value), sort_keys=True)


def _types(table: "pyarrow.Table") -> dict[str, str]:
    return {field.name: str(field.type) for field in table.schema}


def _parquet(table: "pyarrow.Table") -> bytes:
    import pyarrow
    import pyarrow.parquet

    content = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, content, compression="zstd")
    return bytes(content.getvalue().to_pybytes())


def _refuse_other_files(folder: Path) -> None:
    """Raise SpecError unless the folder is missing, empty, or a data set of this command."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SpecError(f"{folder}: is no folder; name one for the data set with -o")
    card = folder / CARD
    is_ours = card.is_file() and MARK in card.read_text(errors="replace")
    if not is_ours and any(folder.iterdir()):
        raise SpecError(
            f"{folder}: holds something else; choose an empty folder, or one that this command "
            "wrote"
        )
