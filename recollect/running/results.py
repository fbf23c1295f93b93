"""The results of folders, in memory."""

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
    """What a folder holds: one row per run and its curve."""

    rows: list[RunRow]
    curves: dict[str, list[Evaluation]]
    conflicts: tuple[str, ...] = ()  # where folders have different results of a run, a line each
    problems: tuple[str, ...] = ()  # what was left out because it is not as it was written

    @classmethod
    def load(cls, folder: Path | str) -> "RunSet":
        """The results of one folder, also while it is being trained; a row that is not as it was
        written is left out and named.
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
        """Several folders as one, and a folder without results of its own as those inside it: a
        run that stands in more than one is taken from the first where it ended in a result.
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
