"""The long torture, `make torture`: kills, flipped bits, hostile inputs and a soak, with figures at
the end. Every one of them but the number of tries must be zero.
"""

import argparse
import random
import secrets
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
KINDS = ("random", "failpoints", "flips", "inputs", "soak")
sys.path[:0] = [str(TESTS), str(TESTS / "faults"), str(TESTS.parent)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=320)
    parser.add_argument("--flips", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=10.0, help="of the soak")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--only", choices=KINDS, help="one kind of attack alone")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table in there")
    asked = parser.parse_args()

    from harness import preload

    preload("run_workers", "warm")
    from figures import Figures, put_into, to_table
    from flips import flip
    from inputs import attack
    from kills import SHARE_AT_FAILPOINTS, at_failpoints, at_random
    from soak import soak

    began, found = time.monotonic(), list[Figures]()
    with tempfile.TemporaryDirectory(prefix="torture") as name:
        place, draw = Path(name), random.Random(asked.seed)
        durable = round(SHARE_AT_FAILPOINTS * asked.kills)
        tortures = (
            lambda at: at_random(asked.kills - durable, at, draw),
            lambda at: at_failpoints(durable, at, draw),
            lambda at: flip(asked.flips, at, draw),
            attack,
            lambda at: soak(asked.minutes, at, draw),
        )
        for kind, torture in zip(KINDS, tortures, strict=True):
            if asked.only not in (None, kind):
                continue
            (place / kind).mkdir()
            found.append(torture(place / kind))
            for failure in found[-1].failures:
                print(f"{found[-1].what}: {failure}", file=sys.stderr)  # noqa: T201
    table = to_table(found, asked.seed, (time.monotonic() - began) / 60)
    print(table)  # noqa: T201
    if asked.write and not asked.only and all(figures.is_clean for figures in found):
        put_into(asked.write, table)
    return not all(figures.is_clean for figures in found)


if __name__ == "__main__":
    sys.exit(main())
