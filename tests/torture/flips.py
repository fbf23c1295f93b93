"""Flipped bits in the results database: whatever is shown afterwards is as it was, or the reader is
told that it is not.
"""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import run_workers
from figures import Figures
from harness import child
from kills import train
from run_workers import T

from recollect.store import Store
from recollect.store.database import FILE

Shown = dict[str, Any]  # a run as `export` shows it, by its id
DAMAGED = 3


def export(place: Path, folder: Path) -> tuple[int, str, Shown]:
    """Exit code, complaint, and what was shown."""
    said = place / "said"
    for suffix in (".out", ".err"):
        said.with_suffix(suffix).unlink(missing_ok=True)
    arguments = ("export", folder, "--format", "json", "--curves")
    with child(place / "journal", run_workers.command, said, *arguments) as running:
        code = running.end()
    text = said.with_suffix(".out").read_text()
    try:
        shown = {run["run_id"]: run for run in json.loads(text)}
    except ValueError:
        shown = {}
    return code, said.with_suffix(".err").read_text(), shown


def is_true(run: Shown, true: Shown | None, is_told: bool) -> bool:
    """As it was; where the reader is told of damage, points of its curve may have been left out."""
    if run == true or true is None or not is_told:
        return run == true
    left = all(point in true["curve"] for point in run["curve"])
    return left and {**run, "curve": []} == {**true, "curve": []}


def flip(count: int, place: Path, draw: random.Random) -> Figures:
    figures = Figures("a flipped bit in the database")
    train(place / "sound", T, 6)
    with Store.open(place / "sound") as store:
        store._read("PRAGMA wal_checkpoint(TRUNCATE)")
    sound = (place / "sound" / FILE).read_bytes()
    _, _, truth = export(place, place / "sound")
    figures.expect(len(truth) == run_workers.RUNS_OF_T, "nothing is shown of a sound store")
    noticed = 0
    for _ in range(count):
        shutil.rmtree(place / "flipped", ignore_errors=True)
        (place / "flipped").mkdir()
        damaged, bit = bytearray(sound), draw.randrange(8 * len(sound))
        damaged[bit // 8] ^= 1 << bit % 8
        (place / "flipped" / FILE).write_bytes(damaged)
        code, complaint, shown = export(place, place / "flipped")
        figures.tried += 1
        figures.look_for_tracebacks(complaint)
        noticed += code == DAMAGED
        wrong = not all(
            is_true(run, truth.get(run_id), code == DAMAGED) for run_id, run in shown.items()
        )
        missing = code != DAMAGED and shown.keys() != truth.keys()
        figures.different += wrong or missing
        if wrong or missing:
            figures.notes.append(f"bit {bit} changed what is shown (exit {code})")
    figures.notes.append(
        f"of {count:,} flipped bits {noticed:,} were noticed, {count - noticed:,} changed nothing "
        "that is shown"
    )
    return figures
