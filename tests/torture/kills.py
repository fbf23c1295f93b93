"""SIGKILL: a sweep at random moments until it is done, and at every place where something becomes
durable. What was acknowledged must be there, once, with the numbers of an undisturbed sweep.
"""

import random
import signal
from collections import Counter
from pathlib import Path

import run_workers
from figures import Figures
from harness import child
from run_workers import M, T, outcome
from test_run_kills import live, said

from recollect.store import Store, failpoint

SHARE_AT_FAILPOINTS = 0.3


def train(folder: Path, text: str, pack: int, armed: str = "") -> tuple[int, list[str]]:
    """One life; how it ended and what it said."""
    environment = {failpoint.VARIABLE: armed} if armed else {}
    with child(
        folder.with_name(f"{folder.name}-{armed.replace(':', '-')}.journal"),
        run_workers.train_all,
        folder,
        text,
        pack,
        environment=environment,
    ) as running:
        return running.end(), running.acknowledged()


def compare(figures: Figures, found: dict[str, str], reference: dict[str, str]) -> None:
    figures.different += sum(found.get(run_id) != entry for run_id, entry in reference.items())


def at_random(kills: int, place: Path, draw: random.Random) -> Figures:
    figures = Figures("kill -9 at random moments")
    train(place / "reference", T, 6)
    reference = outcome(place / "reference")
    while figures.tried < kills:
        folder = place / f"sweep{figures.tried}"
        lines: list[str] = []
        killed, lives = True, 0
        while killed:
            # Every second life is long enough to save: five in a row that do not count as lost.
            steps = draw.randrange(8, 60) if lives % 2 else draw.randrange(8)
            journal = folder.with_name(f"{folder.name}-{lives}.journal")
            killed, said_now = live(folder, journal, steps, draw.uniform(0, 0.02))
            lives += 1
            figures.tried += killed
            lines += said_now
            if lines:
                figures.lost += len(_acknowledged(lines) - _done(folder))
        figures.doubled += sum(count > 1 for count in _ends(lines).values())
        compare(figures, outcome(folder), reference)
        figures.expect(not list((folder / "checkpoints").iterdir()), "checkpoints are left")
    return figures


def at_failpoints(kills: int, place: Path, draw: random.Random) -> Figures:
    figures = Figures("kill -9 at durable steps")
    _, lines = train(place / "reference", M, 6, "store.written:1000000")
    reference = outcome(place / "reference")
    passings = [
        f"{name}:{passing}"
        for name, times in said(lines, "passed")
        for passing in range(1, int(times) + 1)
    ]
    for armed in draw.sample(passings, min(kills, len(passings))):
        folder = place / armed.replace(":", "-")
        end, before = train(folder, M, 6, armed)
        figures.tried += end == -signal.SIGKILL
        if before:
            figures.lost += len(_acknowledged(before) - _done(folder))
        end, after = train(folder, M, 6)
        figures.expect(end == 0, f"{armed}: not healed")
        figures.doubled += sum(count > 1 for count in _ends(before + after).values())
        compare(figures, outcome(folder), reference)
    return figures


def _ends(lines: list[str]) -> Counter[str]:
    return Counter(run_id for run_id, _ in said(lines, "end"))


def _acknowledged(lines: list[str]) -> set[str]:
    return set(_ends(lines))


def _done(folder: Path) -> set[str]:
    with Store.open(folder) as store:
        return {row.run_id for row in store.rows() if row.is_finished}
