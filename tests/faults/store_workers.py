"""What the processes of the store's and the files' fault tests do;
imported once by the fork server.
"""

import random
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from harness import Acknowledge

from recollect.errors import ResourceError
from recollect.rows import Evaluation
from recollect.store import PlannedRun, Result, Store, checkpoint
from recollect.store.ownership import this_process

torch.set_num_threads(1)
MEMBERS = tuple(f"run-{letter}" for letter in "abcd")
SPARE = "run-spare"  # planned and taken back
LAST_STEP = 30


def planned(run_ids: list[str]) -> list[PlannedRun]:
    return [PlannedRun(run_id, f'{{"name": "{run_id}"}}', "accuracy", 0.25) for run_id in run_ids]


def measured(run_id: str, step: int) -> Evaluation:
    """Numbers nobody could have got right by accident, known from the run and step alone."""
    draw = random.Random(f"{run_id} {step}")
    return Evaluation(
        step,
        draw.random(),
        draw.random(),
        draw.random(),
        draw.random(),
        {"test": {"accuracy": draw.random()}},
    )


def write_for_ever(acknowledge: Acknowledge, folder: Path) -> None:
    """Plan four runs, run them, finish them together, say so; again and again."""
    with Store.create(folder) as store:
        serial = sum(store.counts().values())
        store.reclaim()
        while True:
            serial += 1
            pack = [f"{serial}-{member}" for member in range(4)]
            store.plan(planned(pack), "endless", f"pack {serial}")
            claims = store.claim(pack, this_process(), lease_s=60)
            store.record(claims, [(run_id, measured(run_id, 1)) for run_id in pack])
            store.finish(
                Result(run_id, claims[run_id], "done", 2, 0.5, measured(run_id, 2))
                for run_id in pack
            )
            acknowledge(" ".join(pack))


def script(folder: Path) -> Iterator[None]:
    """A whole life of a folder in small durable steps;
    started again after a death it goes on where it was.
    """
    with Store.create(folder) as store:
        yield
        store.plan(planned([*MEMBERS, SPARE]), "script", "source")
        yield
        store.reclaim()
        store.unplan("script", [SPARE])
        yield
        claims = store.claim(MEMBERS, this_process(), lease_s=60)
        yield
        newest = checkpoint.find(folder / "checkpoints").newest(MEMBERS[0])
        start = newest.step if newest else 0
        store.rewind(claims, start)
        for step in range(start + 10, LAST_STEP + 1, 10):
            store.record(claims, [(run_id, measured(run_id, step)) for run_id in claims])
            yield
            if claims:
                tensors = {"weights_P": torch.full((len(MEMBERS),), float(step))}
                checkpoint.save(
                    folder / "checkpoints",
                    checkpoint.Checkpoint(MEMBERS, step, tensors, {"step": step}),
                )
            yield
            store.progress(claims, step)
            yield
        store.finish(
            Result(run_id, attempt, "done", LAST_STEP, 1.0) for run_id, attempt in claims.items()
        )
        yield


def follow_script(acknowledge: Acknowledge, folder: Path) -> None:
    for count, _ in enumerate(script(folder), start=1):
        acknowledge(str(count))


def claim_all(acknowledge: Acknowledge, folder: Path, seed: int) -> None:
    """Claim in small handfuls, in an order of one's own, until nothing is left."""
    draw = random.Random(seed)
    with Store.open(folder) as store:
        acknowledge("ready")
        while waiting := [run.run_id for run in store.todo()]:
            draw.shuffle(waiting)
            for start in range(0, min(len(waiting), 100), 5):
                for run_id, attempt in store.claim(
                    waiting[start : start + 5], this_process(), lease_s=60
                ).items():
                    acknowledge(f"{run_id} {attempt}")


def stall(acknowledge: Acknowledge, folder: Path, lease_s: float) -> None:
    """Claim everything, stop like a worker in a debugger,
    and try to write as if nothing had happened.
    """
    with Store.open(folder) as store:
        claims = store.claim(MEMBERS, this_process(), lease_s)
        acknowledge("claimed")
        signal.raise_signal(signal.SIGSTOP)
        late = [(run_id, Evaluation(7, -1.0, -1.0, -1.0, -1.0)) for run_id in claims]
        refused = [
            store.heartbeat(claims, lease_s),
            store.progress(claims, 7),
            store.rewind(claims, -1),
            store.record(claims, late),
        ]
        refused.append(
            store.finish(
                Result(run_id, claims[run_id], "done", 7, 1.0, point) for run_id, point in late
            )
        )
        refused.append(store.release(claims))
        acknowledge(f"refused {[sorted(each) == sorted(MEMBERS) for each in refused]}")


def work_off(acknowledge: Acknowledge, folder: Path) -> None:
    """Run everything there is to run, four at a time."""
    with Store.open(folder) as store:
        while waiting := [run.run_id for run in store.todo()][:40]:
            random.shuffle(waiting)
            claims = store.claim(waiting[:4], this_process(), lease_s=60)
            store.record(claims, [(run_id, measured(run_id, 1)) for run_id in claims])
            store.finish(
                Result(run_id, attempt, "done", 2, 0.5, measured(run_id, 2))
                for run_id, attempt in claims.items()
            )
    acknowledge("worked off")


def fill_the_disk(acknowledge: Acknowledge, folder: Path, limits: list[int]) -> None:
    """Plan more runs while no file may grow beyond a limit, each limit in a folder of its own."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in limits:
        with Store.create(folder / str(limit)) as store:
            store.plan(planned(["first"]), "small", "source")
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        outcome = "planned"
        try:
            with Store.open(folder / str(limit)) as store:
                store.plan(planned([f"{serial:05d}" for serial in range(1000)]), "large", "source")
        except ResourceError as error:
            outcome = str(error).replace("\n", " ")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
        acknowledge(f"{limit} {outcome}")


def hold_the_lock(acknowledge: Acknowledge, folder: Path, seconds: float) -> None:
    with Store.open(folder) as store, store._transaction():
        acknowledge("locked")
        time.sleep(seconds)
        acknowledge("lets go")
