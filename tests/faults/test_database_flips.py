"""One byte of a results database changed anywhere: what is read is right, or refused, or named.

Without checksums of rows, about one change in five was another number that nobody noticed.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.errors import SpecError, StoreError, noticing_damage
from recollect.rows import Evaluation
from recollect.running.results import RunSet
from recollect.spec.run import RunSpec
from recollect.store import PlannedRun, Result, Store
from recollect.store.database import FILE
from recollect.store.ownership import this_process

FLIPS = 300


def filled(folder: Path, make_run: Callable[..., RunSpec]) -> None:
    """Finished runs with their curves, as a worker leaves them."""
    draw = random.Random(3)
    runs = [make_run({"train.lr": 1e-3 * (1 + lr)}) for lr in range(16)]
    with Store.create(folder) as store:
        store.plan(
            [
                PlannedRun(run.run_id, run.canonical_json(), run.task.score_name, run.task.chance)
                for run in runs
            ],
            "flips",
            "text",
        )
        claims = store.claim([run.run_id for run in runs], this_process(), 60)
        for run in runs:
            *before, last = [
                Evaluation(step, *(draw.random() for _ in range(4)), {"test": {"exact": 0.5}})
                for step in run.train.evaluation_steps()
            ]
            store.record({run.run_id: 1}, [(run.run_id, point) for point in before])
            store.finish([Result(run.run_id, 1, "done", run.train.steps, 1.0, last, device="cpu")])
        assert len(claims) == len(runs)


def numbers(folder: Path) -> tuple[str, list[str]]:
    """All that is shown of a folder, and what was said about damage."""
    with noticing_damage() as damage:
        found = RunSet.load(folder)
        with Store.open(folder, read_only=True) as store:
            counts: dict[Any, int] = store.counts()
    curves = {run_id: repr(curve) for run_id, curve in sorted(found.curves.items())}
    rows = sorted(repr(row) for row in found.rows)
    return json.dumps([rows, curves, counts]), damage


def test_no_flipped_byte_changes_a_number_silently(
    tmp_path: Path, kill_seed: int, make_run: Callable[..., RunSpec]
) -> None:
    filled(tmp_path / "sound", make_run)
    sound = (tmp_path / "sound" / FILE).read_bytes()
    truth, damage = numbers(tmp_path / "sound")
    assert damage == []
    draw, folder = random.Random(kill_seed), tmp_path / "flipped"
    folder.mkdir()
    refused, named, harmless = 0, 0, 0
    for _ in range(FLIPS):
        place = draw.randrange(len(sound))
        data = bytearray(sound)
        data[place] ^= 1 << draw.randrange(8)
        (folder / FILE).write_bytes(data)
        try:
            found, damage = numbers(folder)
        except (StoreError, SpecError):
            refused += 1
            continue
        assert damage or found == truth, f"byte {place}, {sound[place]} -> {data[place]}: silent"
        named += bool(damage)
        harmless += not damage
    assert named > FLIPS // 10
    assert refused
    assert harmless  # free space
