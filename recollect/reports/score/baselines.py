"""Scores of known mixers, stored as rows in stored/CARD.json inside the package.

A file holds every run of the card with its curve. Settings and results that are the same in all
runs are written once. results/score is a link to this folder.
"""

import datetime
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import recollect
from recollect.analysis import Curves, find_missing, group_cells, missing_text
from recollect.analysis.naming import join_name, name_cells
from recollect.analysis.settings import canonical, flatten
from recollect.errors import SpecError
from recollect.reports.score.card import SURROUNDINGS
from recollect.reports.score.recipe import trained_as
from recollect.rows import Evaluation, RunRow
from recollect.running.results import RunSet
from recollect.store.durable import write_output

FORMAT = 1
_STORED = Path(__file__).with_name("stored")
_POINT = ("step", "train_loss", "test_loss", "accuracy", "exact")


@dataclass(frozen=True)
class Baselines:
    """The rows and curves of each mixer by its label, and their origin."""

    origin: str
    about: dict[str, Any]
    rows: dict[str, list[RunRow]]
    curves: dict[str, list[Evaluation]]

    @property
    def provenance(self) -> str:
        """One line about the origin, for use below a table."""
        return ", ".join(f"{key} {value}" for key, value in self.about.items())


def stored_baselines(card: str) -> Baselines | None:
    """The baselines that are part of this package, or None if it has none for this card."""
    path = _STORED / f"{card}.json"
    return read_baselines(path) if path.is_file() else None


def save_baselines(path: Path, rows: Mapping[str, Sequence[RunRow]], curves: Curves) -> None:
    """Write the rows of finished cards, by label. An unfinished card is refused, since it amounts
    to a different search.
    """
    everything = [row for own in rows.values() for row in own]
    if not everything:
        raise SpecError(f"--save {path}: nothing was scored; name at least one mixer")
    if any(not row.is_finished for row in everything):
        raise SpecError(
            f"--save {path}: {missing_text(find_missing(group_cells(everything)))}\nfinish the "
            "card first"
        )
    records = [
        {"label": label, **_record(row, curves)} for label, own in rows.items() for row in own
    ]
    first = {key: canonical(value) for key, value in records[0].items()}
    shared = {
        key: records[0][key]
        for key in first
        if all(canonical(record.get(key)) == first[key] for record in records)
    }
    runs = [
        {key: value for key, value in record.items() if key not in shared} for record in records
    ]
    about = {
        "recollect": recollect.__version__,
        "made": datetime.date.today().isoformat(),
        "on": _machines(everything),
    }
    lines = ",\n".join(json.dumps(run, allow_nan=False) for run in runs)
    head = json.dumps({"format": FORMAT, "about": about, "shared": shared}, allow_nan=False)[:-1]
    write_output(path, f'{head}, "runs": [\n{lines}\n]}}\n'.encode())


def read_baselines(path: Path) -> Baselines:
    """Read the baselines from a file that `save_baselines` wrote."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["format"] != FORMAT:
            raise SpecError(
                f"{path}: format {table['format']}, made by another version of recollect; this "
                f"one reads {FORMAT}"
            )
        rows: dict[str, list[RunRow]] = {}
        curves = {}
        for run in table["runs"]:
            record = {**table["shared"], **run}
            row = _row(record)
            rows.setdefault(record["label"], []).append(row)
            curves[row.run_id] = [_evaluation(*point) for point in record["curve"]]
        return Baselines(str(path), dict(table["about"]), rows, curves)
    except OSError as error:
        raise SpecError(
            f"{path}: cannot be read ({error.strerror}); give a file made by `recollect score "
            "--save`"
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"[:120]
        raise SpecError(
            f"{path}: no stored baselines ({problem}); make them with `recollect score --save`"
        ) from None


def folder_baselines(
    folder: Path, card: Sequence[Mapping[str, Any]], unfinished: bool = False
) -> Baselines:
    """By mixer: the rows of a folder of results that have the training settings of a card's runs.

    With `unfinished` rows without a result are included.
    """
    results = RunSet.load(folder)
    known = {trained_as(spec) for spec in card}
    fitting = [
        row
        for row in results.rows
        if trained_as(row.spec) in known and (row.has_result or unfinished)
    ]
    if not fitting:
        raise SpecError(
            f"--against {folder}: none of its {len(results.rows)} runs was trained as this card\n"
            "make some with `recollect score MIXER... --out DIR`, or choose the card they were "
            "trained for"
        )
    models = {canonical(_mixer_settings(row)): _mixer_settings(row) for row in fitting}
    names = [join_name(*name) for name in name_cells(list(models.values()))]
    by_model = dict(zip(models, names, strict=True))
    order = {text: number for number, text in enumerate(map(trained_as, card))}
    rows: dict[str, list[RunRow]] = {}
    for row in sorted(fitting, key=lambda row: order[trained_as(row.spec)]):
        rows.setdefault(by_model[canonical(_mixer_settings(row))], []).append(row)
    places = [canonical(_mixer_settings(row)) for row in fitting]
    rows = {by_model[place]: rows[by_model[place]] for place in dict.fromkeys(places)}
    about = {"from": str(folder), "on": ", ".join(sorted({row.device or "?" for row in fitting}))}
    return Baselines(str(folder), about, rows, results.curves)


def _mixer_settings(row: RunRow) -> dict[str, Any]:
    """The flat settings of the mixer and its surroundings."""
    model = row.spec["model"]
    return flatten({"model": {key: model.get(key) for key in ("mixer", *SURROUNDINGS)}})


def _record(row: RunRow, curves: Curves) -> dict[str, Any]:
    """A flat table of JSON values. Results have six digits; a loss that is not finite is null."""
    settings = {f"spec.{key}": value for key, value in flatten(row.spec).items()}
    results = {key: value for key, value in asdict(row).items() if key != "spec"}
    points = [[getattr(point, name) for name in _POINT] for point in curves.get(row.run_id, ())]
    return settings | {key: _rounded(value) for key, value in {**results, "curve": points}.items()}


def _row(record: Mapping[str, Any]) -> RunRow:
    spec: dict[str, Any] = {}
    for key, value in record.items():
        if key.startswith("spec."):
            *parents, last = key.split(".")[1:]
            table = spec
            for parent in parents:
                table = table.setdefault(parent, {})
            table[last] = value
    names = {field.name for field in fields(RunRow)} - {"spec"}
    return RunRow(spec=spec, **{name: record[name] for name in names if name in record})


def _evaluation(step: int, *numbers: float | None) -> Evaluation:
    train_loss, test_loss, accuracy, exact = (
        math.nan if number is None else number for number in numbers
    )
    return Evaluation(step, train_loss, test_loss, accuracy, exact)


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _machines(rows: Sequence[RunRow]) -> str:
    """The devices that trained the rows. Rows do not name their CPU model, so the CPU of this
    machine is assumed.
    """
    devices = dict.fromkeys(row.device or "cpu" for row in rows)
    return ", ".join(_this_cpu() if device == "cpu" else device for device in devices)


def _this_cpu() -> str:
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    name = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.processor(),
    )
    return name or platform.machine()
