"""The results of folders, in memory."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.analysis import flatten
from recollect.rows import Evaluation, RunRow
from recollect.store import Store

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Results:
    """What a folder holds: one row per run and its curve."""

    rows: list[RunRow]
    curves: dict[str, list[Evaluation]]

    @classmethod
    def load(cls, folder: Path | str) -> "Results":
        """The results of one folder, also while it is being trained."""
        with Store.open(Path(folder), read_only=True) as store:
            return cls(store.rows(), store.curves())

    @classmethod
    def load_all(cls, folders: Iterable[Path | str]) -> "Results":
        """Several folders as one: a run that stands in more than one is taken from the first where
        it ended in a result.
        """
        rows: dict[str, RunRow] = {}
        curves: dict[str, list[Evaluation]] = {}
        for folder in folders:
            found = cls.load(folder)
            for row in found.rows:
                if row.run_id not in rows or (not rows[row.run_id].has_result and row.has_result):
                    rows[row.run_id] = row
                    curves[row.run_id] = found.curves.get(row.run_id, [])
        return cls(
            list(rows.values()), {run_id: curve for run_id, curve in curves.items() if curve}
        )

    def to_pandas(self) -> "pandas.DataFrame":
        """One line per run: the specification as dotted columns, then the results.

        Needs pandas installed.
        """
        import pandas

        records = [
            flatten(row.spec) | {name: value for name, value in vars(row).items() if name != "spec"}
            for row in self.rows
        ]
        return pandas.DataFrame(records)
