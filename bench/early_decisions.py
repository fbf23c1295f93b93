"""What early decisions would have saved, and changed:
`python bench/early_decisions.py DIR|EXPORT.json ...`.

Replays the rules of recollect/training/early.py on the full curves of stored results: folders of
results, or files made by `recollect export DIR --format json --curves`. Only runs that were trained
to their last step, or until they were solved, count. For each share of learning rate ahead
(`train.stop_hopeless`) it prints how many runs would have been stopped, how many of them would have
ended solved (score of at least TAU) although they were not when stopped, how many windows W(TAU) of
the mean over seeds move at all, how many by more than a hundredth of a decade, and the share of
run-steps saved; the last lines add what stopping solved runs (`train.stop_solved`) saves beside it.
"""

import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from recollect.analysis import TAU, group_cells
from recollect.rows import Evaluation, RunRow
from recollect.running.results import RunSet
from recollect.spec.run import RunSpec
from recollect.training.early import is_hopeless, is_solved, rates_behind

SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
SOLVED = (0.95, 0.99)
MOVED = 0.01  # decades

Finished = tuple[RunRow, RunSpec, list[Evaluation]]


def read(path: Path) -> list[Finished]:
    """The runs that were trained to their last step or until they were solved; their curves."""
    rows, curves = _exported(path) if path.suffix == ".json" else _stored(path)
    found = []
    for row in rows:
        if row.status == "done" and row.stopped_early != "hopeless":
            found.append((row, RunSpec.parse(row.spec), curves[row.run_id]))
    return found


def _stored(folder: Path) -> tuple[list[RunRow], dict[str, list[Evaluation]]]:
    results = RunSet.load(folder)
    return results.rows, results.curves


def _exported(path: Path) -> tuple[list[RunRow], dict[str, list[Evaluation]]]:
    rows, curves = [], {}
    names = {field.name for field in dataclasses.fields(RunRow)}
    for record in json.loads(path.read_text()):
        points = [
            {key: math.nan if value is None else value for key, value in point.items()}
            for point in record["curve"]
        ]
        curves[record["run_id"]] = [Evaluation(**point) for point in points]
        rows.append(RunRow(**{key: value for key, value in record.items() if key in names}))
    return rows, curves


def stopped_at(run: RunSpec, curve: Sequence[Evaluation], share: float, score: float) -> Evaluation:
    """Where the run would have ended."""
    wish = run.model_copy(
        update={
            "train": run.train.model_copy(update={"stop_solved": score, "stop_hopeless": share})
        }
    )
    behind = rates_behind(run)
    for number, point in enumerate(curve, start=1):
        if is_solved(wish, curve[:number]) or is_hopeless(wish, curve[:number], behind):
            return point
    return curve[-1]


def table_line(runs: Sequence[Finished], share: float, score: float) -> str:
    """One line of the table."""
    ends = [stopped_at(run, curve, share, score) for _, run, curve in runs]
    stopped = lost = made = 0
    replayed = []
    for (row, _, curve), end in zip(runs, ends, strict=True):
        name = row.score_name
        stopped += end.step < curve[-1].step
        lost += curve[-1].score(name) >= TAU > end.score(name)
        made += end.step
        replayed.append(dataclasses.replace(row, accuracy=end.accuracy, exact=end.exact))
    shifts = [
        abs((after.decades if after else 0.0) - (before.decades if before else 0.0))
        for before, after in zip(
            windows([row for row, _, _ in runs]), windows(replayed), strict=True
        )
    ]
    saved = 1 - made / sum(curve[-1].step for _, _, curve in runs)
    return (
        f"{share:8.2f} {score:8.2f} {stopped:8d} {lost:8d} {sum(shift > 0 for shift in shifts):8d} "
        f"{sum(shift > MOVED for shift in shifts):8d} {max(shifts):8.3f} {saved:8.1%}"
    )


def windows(rows: Sequence[RunRow]) -> list:
    return [cell.window(TAU) for cell in group_cells(rows)]


def main() -> None:
    runs = list(
        {
            row.run_id: entry
            for path in sys.argv[1:]
            for entry in read(Path(path))
            for row in entry[:1]
        }.values()
    )
    if not runs:
        sys.exit(__doc__)
    cells = len(windows([row for row, _, _ in runs]))
    solved_runs = sum(row.score is not None and row.score >= TAU for row, _, _ in runs)
    print(
        f"{len(runs)} runs with full curves in {cells} cells; {solved_runs} runs "
        f"end with a score of at least {TAU}"
    )
    print(
        f"{'hopeless':>8} {'solved':>8} {'stopped':>8} {'lost':>8} {'moved':>8} "
        f"{'> ' + str(MOVED):>8} {'most':>8} {'saved':>8}"
    )
    for share in SHARES:
        print(table_line(runs, share, 0.0))
    for score in SOLVED:
        for share in (0.0, 0.1, 0.2):
            print(table_line(runs, share, score))


if __name__ == "__main__":
    main()
