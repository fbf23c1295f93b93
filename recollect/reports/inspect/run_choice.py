"""Find a run by its id, the beginning of its id, or `best:MIXER`."""

from collections.abc import Sequence

from recollect.errors import SpecError
from recollect.rows import RunRow
from recollect.spec.base import shorten

BEST = "best:"


def choose_run(rows: Sequence[RunRow], text: str) -> RunRow:
    """The finished run that `text` names. Raises SpecError with a suggestion if there is none."""
    row = _best(rows, text.removeprefix(BEST)) if text.startswith(BEST) else _by_id(rows, text)
    if row.status == "done":
        return row
    reason = {
        "diverged": (
            f"diverged at step {row.diverged_step}, so its weights are no numbers; "
            "choose a run that is done"
        ),
        "failed": (
            f"failed ({shorten(row.failure)}); "
            "try it again with `recollect resume DIR --retry-failed`"
        ),
    }.get(row.status, f"is {row.status}; finish it first with `recollect resume DIR`")
    raise SpecError(f"run {row.run_id} {reason}")


def _by_id(rows: Sequence[RunRow], text: str) -> RunRow:
    found = [row for row in rows if text and row.run_id.startswith(text)]
    if not found:
        raise SpecError(
            f"run {shorten(text)}: no run here begins like that; "
            "`recollect export DIR` lists them\n"
            f"the best run of a mixer can be asked for by name: {_names(rows)}"
        )
    if len(found) > 1:
        ids = ", ".join(row.run_id for row in found[:3])
        raise SpecError(
            f"run {shorten(text)}: {len(found)} runs begin like that "
            f"({ids}{', ...' * (len(found) > 3)}); say more"
        )
    return found[0]


def _best(rows: Sequence[RunRow], mixer: str) -> RunRow:
    done = [row for row in rows if row.status == "done" and _mixer(row) == mixer]
    if not done:
        raise SpecError(
            f"run {shorten(BEST + mixer)}: no run of that mixer is done here; "
            f"there are {_names(rows)}"
        )
    return max(done, key=lambda row: (row.score or 0.0, -(row.test_loss or 0.0)))


def _names(rows: Sequence[RunRow]) -> str:
    names = dict.fromkeys(_mixer(row) for row in rows if row.status == "done")
    return ", ".join(shorten(f"{BEST}{name}") for name in list(names)[:6]) or "none yet"


def _mixer(row: RunRow) -> str:
    return str(row.spec["model"]["mixer"]["name"])
