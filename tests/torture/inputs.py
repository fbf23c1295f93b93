"""Hostile specifications, overrides, files and checkpoints through the command line: refused in at
most three lines, nothing written, nothing run.
"""

from collections.abc import Iterator
from pathlib import Path

import run_workers
from cli.test_hostile import GOOD, HOSTILE_FILES, HOSTILE_SETS, HOSTILE_SPECS
from figures import Figures
from harness import child
from test_file_faults import hostile_files

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
