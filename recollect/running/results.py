"""The results of one or several folders, in memory."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import notice_damage
from recollect.rows import Evaluation, RunRow
from recollect.store import Store
from recollect.store.checking.runs import gap_in_curve, leave_out_wrong
from recollect.store.joining.agreement import conflict_text, has_same_result
from recollect.store.joining.folders import find_stores


@dataclass(frozen=True)
class RunSet:
    """The content of a folder: one row and one curve per run."""

    rows: list[RunRow]
    curves: dict[str, list[Evaluation]]
    conflicts: tuple[str, ...] = ()  # one line per run whose results differ between folders
    problems: tuple[str, ...] = ()  # what was left out because it is damaged

    @classmethod
    def load(cls, folder: Path | str) -> "RunSet":
        """Load the results of one folder, which may be in training.

        Damaged rows are left out and named in `problems`.
        """
        with Store.open(Path(folder), read_only=True) as store:
            leave_out_wrong(store)
            rows, curves = store.rows(), store.curves()
            gaps = [gap for row in rows if (gap := gap_in_curve(row, curves.get(row.run_id, [])))]
        for gap in gaps:
            notice_damage(f"{folder}: {gap}")
        found = (*store.problems, *gaps)
        named = tuple(f"{folder}: {problem}" for problem in found)
        return cls(rows, curves, problems=named)

    @classmethod
    def load_all(cls, folders: Iterable[Path | str]) -> "RunSet":
        """Load several folders as one; a folder without results stands for the folders inside it.

        A run that is in several folders is taken from the first one where it has a result.
        """
        rows: dict[str, RunRow] = {}
        curves: dict[str, list[Evaluation]] = {}
        homes: dict[str, Path] = {}
        conflicts: list[str] = []
        problems: list[str] = []
        for folder in find_stores(folders):
            found = cls.load(folder)
            problems += found.problems
            for row in found.rows:
                known, curve = rows.get(row.run_id), found.curves.get(row.run_id, [])
                if known is None or (not known.has_result and row.has_result):
                    rows[row.run_id], curves[row.run_id] = row, curve
                    homes[row.run_id] = folder
                elif row.has_result and not has_same_result(known, curves[row.run_id], row, curve):
                    conflicts.append(conflict_text(known, homes[row.run_id], row, folder))
        return cls(
            list(rows.values()),
            {run_id: curve for run_id, curve in curves.items() if curve},
            tuple(conflicts),
            tuple(problems),
        )
