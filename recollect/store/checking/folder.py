"""Check every byte of a folder of results: the database, checkpoints and weights.

Nothing is changed. Each finding is one line that names the problem and the remedy.
"""

from dataclasses import dataclass
from pathlib import Path

from recollect.errors import SpecError, StoreError, command_text
from recollect.spec.run import RunSpec
from recollect.store import Store, checkpoint, weights
from recollect.store.checking.runs import gap_in_curve, leave_out_wrong
from recollect.store.schema import SWEEP_LISTS

CHECKPOINTS = "checkpoints"
_AGAIN = "plan it in a new folder and train it again"


@dataclass(frozen=True)
class Checked:
    """Numbers of checked objects, and the findings."""

    runs: int
    points: int
    checkpoints: int
    weights: int
    unsummed: int  # runs stored before there were checksums; their numbers cannot be verified
    unread: int  # runs whose specification needs a plug-in that is not loaded
    findings: tuple[str, ...]


def check_folder(folder: Path) -> Checked:
    """Check a folder of results; raise StoreError if its database cannot be read at all."""
    findings: list[str] = []
    with Store.open(folder, read_only=True) as store:
        findings += [f"{problem}; {_salvage(folder)}" for problem in store.check()]
        leave_out_wrong(store)
        rows, curves = store.rows(), store.curves()
        store.sweeps(), store.notes(), store.span()
        for listed in SWEEP_LISTS:
            store.names(listed)
        findings += [f"{problem}; {_AGAIN}" for problem in store.problems]
        gaps = [gap_in_curve(row, curves.get(row.run_id, [])) for row in rows]
        findings += [f"{gap}; its end is sound, or {_AGAIN}" for gap in gaps if gap]
        unsummed, key = store.unsummed(), store.key
    saved, bad = _checkpoints(folder / CHECKPOINTS, key)
    kept, spoilt = _weights(folder / weights.FOLDER)
    return Checked(
        len(rows),
        sum(map(len, curves.values())),
        saved,
        kept,
        unsummed,
        sum(not _is_readable(row.spec) for row in rows),
        (*findings, *bad, *spoilt),
    )


def _salvage(folder: Path) -> str:
    return f"save what is readable with `{command_text('export', folder, '--salvage')}`"


def _is_readable(spec: dict[str, object]) -> bool:
    try:
        RunSpec.parse(spec)
    except SpecError:
        return False
    return True


def _checkpoints(folder: Path, key: bytes) -> tuple[int, list[str]]:
    found, findings = 0, []
    for path in sorted(folder.glob(f"*{checkpoint.SUFFIX}")):
        try:
            checkpoint.load(path, key)
            found += 1
        except StoreError as error:
            if path.exists():  # else removed since the folder was listed
                findings.append(_line(error))
    return found, findings


def _weights(folder: Path) -> tuple[int, list[str]]:
    found, findings = 0, []
    for path in sorted(folder.rglob(f"*{weights.SUFFIX}")):
        try:
            header, _ = weights.read(path)
            found += 1
        except FileNotFoundError:
            continue  # removed since the folder was listed
        except (OSError, StoreError) as error:
            findings.append(_line(error))
            continue
        name = path.stem if path.parent == folder else path.parent.name
        if header.run_id != name:
            findings.append(f"{path}: holds weights of run {header.run_id}; remove it")
    return found, findings


def _line(error: Exception) -> str:
    return "; ".join(str(error).splitlines())
