"""Hostile specifications, overrides, files, checkpoints and stores through the command line: they
are refused in at most three lines, nothing is written, nothing run.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import run_workers
from cli.test_hostile import GOOD, HOSTILE_FILES, HOSTILE_SETS, HOSTILE_SPECS
from cli.test_spoilt_stores import OLD
from figures import Figures
from flips import DAMAGED, export
from harness import child
from stores_spoilt import spoil, spoilt_stores
from test_file_faults import hostile_files

from recollect.store import Store
from recollect.store.database import FILE

REFUSED = (2, 3)
READERS = ("resume", "status", "report", "export")


def command(place: Path, *arguments: object) -> tuple[int, str]:
    said = place / "said"
    said.with_suffix(".err").unlink(missing_ok=True)
    with child(place / "journal", run_workers.command, said, *arguments) as running:
        return running.end(), said.with_suffix(".err").read_text()


def cases(place: Path) -> Iterator[tuple[str, tuple[object, ...]]]:
    """What each is called, and the command that meets it."""
    for name, text in HOSTILE_SPECS.items():
        spec = place / "spec.toml"
        spec.write_text(text)
        yield f"specification: {name}", ("run", spec, "--out", place / "new")
        spec.unlink()
    good = place / "good.toml"
    good.write_text(GOOD)
    for name, text in HOSTILE_SETS.items():
        yield f"override: {name}", ("run", good, "--out", place / "new", "--set", text)
    for number, (name, make) in enumerate(HOSTILE_FILES.items()):
        folder = place / f"file{number}"
        folder.mkdir()
        make(folder / "spec.toml")
        yield f"file: {name}", ("run", folder / "spec.toml", "--out", place / "new")
        make(folder / "recollect.db")
        for verb in READERS:
            yield f"store: {name}, {verb}", (verb, folder)


def read_spoilt(place: Path) -> Figures:
    """Stores with values that nobody wrote: a bad row costs that row, and it is said."""
    figures = Figures("spoilt stores")
    sound = place / "sound"
    sound.mkdir()
    shutil.copyfile(OLD, sound / FILE)
    with Store.open(sound) as store:
        store.reclaim(lambda owner: True)
    _, _, truth = export(place, sound)
    figures.expect(len(truth) > 1, "nothing is shown of a sound store")
    for number, (name, change) in enumerate(spoilt_stores()):
        folder = place / f"store{number}"
        folder.mkdir()
        shutil.copyfile(sound / FILE, folder / FILE)
        spoil(folder / FILE, change)
        code, complaint, shown = export(place, folder)
        figures.tried += 1
        figures.look_for_tracebacks(complaint)
        figures.expect(code in (0, DAMAGED), f"{name}: exit {code}")
        figures.expect(complaint.count("\n") <= 3, f"{name}: {complaint.count(chr(10))} lines")
        figures.expect("\x1b" not in complaint, f"{name}: an escape is printed")
        changed = sum(shown[run_id] != truth.get(run_id) for run_id in shown)
        figures.different += code == 0 and (changed > 0 or shown.keys() != truth.keys())
        shutil.rmtree(folder)
    return figures


def attack(place: Path) -> Figures:
    figures = Figures("hostile inputs")
    for name, arguments in cases(place):
        code, complaint = command(place, *arguments)
        figures.tried += 1
        figures.look_for_tracebacks(complaint)
        figures.expect(code in REFUSED, f"{name}: exit {code}")
        figures.expect(1 <= complaint.count("\n") <= 3, f"{name}: {complaint.count(chr(10))} lines")
        figures.expect(not (place / "new").exists(), f"{name}: something was written")
    canary = place / "canary"
    for number, content in enumerate(hostile_files(canary)):
        folder = place / f"checkpoint{number}"
        run_workers.plan(folder, run_workers.M)
        (folder / "checkpoints").mkdir()
        (folder / "checkpoints" / "abc-1.ckpt").write_bytes(content)
        code, complaint = command(place, "resume", folder, "--device", "cpu")
        figures.tried += 1
        figures.look_for_tracebacks(complaint)
        figures.expect(code == 0, f"checkpoint {number}: exit {code}")
        figures.executed += canary.exists()
        canary.unlink(missing_ok=True)
    return figures
