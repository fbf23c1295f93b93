"""What it saves that waiting runs join, replayed on stored results: `python bench/joining.py
RESULTS MIXER --places N`.

The runs of one mixer train again on paper, in their stored order, each for as many steps as it
made. Packs one after the other are compared with packs side by side as a worker makes them. The
speed of n members is read from a stored benchmark of that mixer (`bench/scaling.py`); packs side by
side count as one pack of the sum, which two streams on an H200 come close to: 3,228 run-steps/s for
attention at S1 as 8 + 8, 3,270 as 16, 2,750 in turn (docs/decisions/packs-side-by-side.md).
Preparing and recording take no time here.
"""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recollect.api import Results
from recollect.running.planning.bench import Report
from recollect.running.planning.memory import count_joining
from recollect.running.worker import MOST_PACKS
from recollect.training.loop import COMPACT_SHARE

SPEEDS = Path(__file__).parent.parent / "results" / "bench" / "h200-scaling.json"


def speed_of(mixer: str, path: Path) -> Callable[[int], float]:
    """Run-steps per second of n members, interpolated in the logarithm of n."""
    report = Report.from_table(json.loads(path.read_text()))
    known = sorted(
        (s.population, s.run_steps_per_s)
        for s in report.speeds
        if s.mixer == mixer and s.shape == "S1"
    )
    members, speeds = zip(*known, strict=True)
    return lambda n: float(np.interp(math.log(n), np.log(members), speeds))


@dataclass
class Pack:
    left: list[int]  # steps to go, of each run that has not ended
    carried: int  # members that a step computes


def replay(
    lives: Sequence[int], places: int, speed: Callable[[int], float], side_by_side: bool
) -> float:
    """Seconds for runs of so many steps each."""
    stride = math.gcd(*lives)  # runs end at these steps alone
    waiting, packs, seconds, most = list(lives), list[Pack](), 0.0, 0
    while waiting or packs:
        if not packs or (side_by_side and len(packs) < MOST_PACKS):
            most = most if packs else 0
            taken = sum(len(pack.left) for pack in packs)
            room = count_joining(len(waiting), taken, places, most) if waiting else 0
            if room:
                packs.append(Pack(waiting[:room], room))
                waiting = waiting[room:]
                most = max(most, taken + room)
        carried = sum(pack.carried for pack in packs)
        seconds += stride * carried / speed(carried)
        for pack in packs:
            pack.left = [steps - stride for steps in pack.left if steps > stride]
            if len(pack.left) <= (1 - COMPACT_SHARE) * pack.carried:
                pack.carried = len(pack.left)
        packs = [pack for pack in packs if pack.left]
    return seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("mixer")
    parser.add_argument("--places", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--speeds", type=Path, default=SPEEDS)
    arguments = parser.parse_args()
    rows = [
        row
        for row in Results.load(arguments.results).rows
        if row.spec["model"]["mixer"]["name"] == arguments.mixer
    ]
    lives = [row.steps for row in rows if row.steps]
    for places in arguments.places:
        apart, beside = (
            replay(lives, places, speed_of(arguments.mixer, arguments.speeds), how)
            for how in (False, True)
        )
        print(
            f"{arguments.mixer}, {len(lives)} runs, {places} places: {apart:.0f} s "
            f"apart, {beside:.0f} s side by side"
        )
