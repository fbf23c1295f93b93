"""What a torture found, in numbers that must be zero, and as a table for the guarantees."""

import json
import os
import platform
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

BEGIN, END = "<!-- torture -->", "<!-- end of torture -->"
_CPU = Path("/proc/cpuinfo")


@dataclass
class Figures:
    """Of one kind of attack. Everything but `tried` and `notes` must be zero."""

    what: str
    tried: int = 0
    lost: int = 0  # results that were there and are not
    doubled: int = 0  # runs that ended twice
    different: int = 0  # numbers that changed without a word
    tracebacks: int = 0  # Python's words where a person's should be
    executed: int = 0  # data that ran as code
    failures: list[str] = field(default_factory=list)  # of the torture's own expectations
    notes: list[str] = field(default_factory=list)
    minutes: float = 0.0

    @property
    def is_clean(self) -> bool:
        counts = (self.lost, self.doubled, self.different, self.tracebacks, self.executed)
        return not any(counts) and not self.failures

    def look_for_tracebacks(self, text: str) -> None:
        self.tracebacks += "Traceback" in text or "internal error" in text

    def expect(self, is_so: bool, what: str) -> None:
        if not is_so:
            self.failures.append(what)


@dataclass
class Record:
    """The parts of a torture that have ended, in a file or nowhere."""

    path: Path | None
    seed: int
    found: dict[str, Figures] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path | None, seed: int) -> Self:
        """What was recorded so far, with its own seed, or nothing."""
        if path is None or not path.exists():
            return cls(path, seed)
        stored = json.loads(path.read_text())
        found = {kind: Figures(**figures) for kind, figures in stored["found"].items()}
        return cls(path, stored["seed"], found)

    def add(self, kind: str, figures: Figures) -> None:
        """A part that found something is not kept: it is to be tried again."""
        self.found[kind] = figures
        clean = {name: asdict(part) for name, part in self.found.items() if part.is_clean}
        if self.path is not None:
            self.path.write_text(json.dumps({"seed": self.seed, "found": clean}))

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def to_table(found: Sequence[Figures], seed: int) -> str:
    """Markdown, between its marks."""
    minutes = sum(figures.minutes for figures in found)
    names = ("tried", "lost", "doubled", "different", "tracebacks", "executed")
    lines = [
        BEGIN,
        *_wrapped(
            f"Measured {datetime.now(UTC):%Y-%m-%d} by `make torture` (seed {seed}, "
            f"{minutes:.0f} minutes) on {_machine()}:"
        ),
        "",
        f"| attack | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    for figures in found:
        numbers = " | ".join(f"{getattr(figures, name):,}" for name in names)
        lines.append(f"| {figures.what} | {numbers} |")
    notes = [f"- {note}" for figures in found for note in figures.notes]
    lines += ["", *(line for note in notes for line in _wrapped(note, "  "))]
    return "\n".join([*lines, END])


def _wrapped(text: str, indent: str = "") -> list[str]:
    """As wide as prose is here."""
    return textwrap.wrap(text, 100, subsequent_indent=indent, break_on_hyphens=False)


def put_into(page: Path, table: str) -> None:
    """In place of the table that stands there."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + table + after)


def _machine() -> str:
    """In words: cores, processor, memory."""
    models = [
        line.partition(":")[2].strip()
        for line in (_CPU.read_text().splitlines() if _CPU.exists() else ())
        if line.startswith("model name")
    ]
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    name = models[0] if models else platform.machine()
    return f"{cores} cores ({name}), {memory:.0f} GiB, no GPU used"
