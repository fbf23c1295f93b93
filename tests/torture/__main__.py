"""The long torture, `make torture`: kills, disturbed folders, flipped bits, hostile inputs, spoilt
stores and a soak, with figures at the end. Every one of them but the number of tries must be zero.

With `--record FILE` each part that has ended is kept there: started again, it goes on with the
others. The table is written, and the record removed, when all parts are there and clean.
"""

import argparse
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from figures import Figures

TESTS = Path(__file__).resolve().parents[1]
KINDS = ("random", "failpoints", "mischief", "flips", "inputs", "stores", "soak")
sys.path[:0] = [str(TESTS), str(TESTS / "faults"), str(TESTS.parent)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=320)
    parser.add_argument("--mischief", type=int, default=60)
    parser.add_argument("--flips", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=10.0, help="of the soak")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--only", choices=KINDS, help="one kind of attack alone")
    parser.add_argument("--record", type=Path, metavar="FILE", help="parts that have ended")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table in there")
    asked = parser.parse_args()

    from harness import preload

    preload("run_workers", "warm")
    from figures import Record, put_into, to_table
    from flips import flip
    from inputs import attack, read_spoilt
    from kills import SHARE_AT_FAILPOINTS, at_failpoints, at_random
    from mischief import disturb
    from soak import soak

    record = Record.open(asked.record, asked.seed)
    durable = round(SHARE_AT_FAILPOINTS * asked.kills)
    tortures: dict[str, Callable[[Path, random.Random], Figures]] = {
        "random": lambda at, draw: at_random(asked.kills - durable, at, draw),
        "failpoints": lambda at, draw: at_failpoints(durable, at, draw),
        "mischief": lambda at, draw: disturb(asked.mischief, at, draw),
        "flips": lambda at, draw: flip(asked.flips, at, draw),
        "inputs": lambda at, draw: attack(at),
        "stores": lambda at, draw: read_spoilt(at),
        "soak": lambda at, draw: soak(asked.minutes, at, draw),
    }
    assert tuple(tortures) == KINDS
    for kind, torture in tortures.items():
        if asked.only not in (None, kind) or kind in record.found:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"torture-{kind}-") as name:
            found = torture(Path(name), random.Random(f"{record.seed} {kind}"))
        found.minutes = (time.monotonic() - began) / 60
        for failure in found.failures:
            print(f"{found.what}: {failure}", file=sys.stderr)  # noqa: T201
        record.add(kind, found)
    parts = [record.found[kind] for kind in KINDS if kind in record.found]
    table = to_table(parts, record.seed)
    print(table)  # noqa: T201
    is_clean = all(figures.is_clean for figures in parts)
    if asked.write and is_clean and len(parts) == len(KINDS):
        put_into(asked.write, table)
        record.remove()
    return not is_clean


if __name__ == "__main__":
    sys.exit(main())
