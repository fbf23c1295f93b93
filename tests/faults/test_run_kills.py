"""A running sweep under kill -9, at random steps and at every durable step, and with other
processes in the same folder.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import run_workers
from harness import Child, child
from run_workers import RUNS_OF_T, STEPS_A_SAVE, STEPS_OF_T, M, T, outcome

from recollect.api import Results
from recollect.store import Store, failpoint
from recollect.store.durable import sweep_orphans

KILLS, PACK = 25, 3
Reference = Callable[..., dict[str, str]]


def said(lines: list[str], word: str) -> list[list[str]]:
    """What follows `word` in the lines that begin with it."""
    return [line.split()[1:] for line in lines if line.split()[0] == word]


def member_steps(lines: list[str]) -> int:
    return sum(int(members) for (members,) in said(lines, "step"))


def live(folder: Path, journal: Path, steps: int, delay_s: float) -> tuple[bool, list[str]]:
    """One life, killed after about so many steps; whether it was killed, and what it said."""
    with child(journal, run_workers.train_all, folder, T, PACK) as running:
        while running.process.is_alive() and len(said(running.acknowledged(), "step")) < steps:
            time.sleep(0.003)
        time.sleep(delay_s)
    return running.end() != 0, running.acknowledged()


def live_and_die(folder: Path, draw: random.Random) -> tuple[int, list[str]]:
    """Life after life until the sweep is done; the number of kills, and all that was said."""
    kills, everything = 0, []
    while True:
        # Every second life is long enough to save: five in a row that do not would rightly count as
        # lost.
        steps = (
            draw.randrange(2 * STEPS_A_SAVE, 60) if kills % 2 else draw.randrange(2 * STEPS_A_SAVE)
        )
        killed, lines = live(
            folder, folder.with_name(f"{folder.name}-{kills}"), steps, draw.uniform(0, 0.02)
        )
        everything += lines
        if everything:
            with Store.open(folder) as store:
                done = {row.run_id for row in store.rows() if row.status == "done"}
                assert done >= {run_id for run_id, _ in said(everything, "end")}, (
                    "a result was lost"
                )
                assert sum(store.counts().values()) == RUNS_OF_T
                assert store.check() == []
        if not killed:
            return kills, everything
        kills += 1


def test_kills_at_random_moments_change_no_number(
    tmp_path: Path, kill_seed: int, reference: Reference
) -> None:
    draw, kills = random.Random(kill_seed), 0
    while kills < KILLS:
        folder = tmp_path / f"from-{kills}"
        died, lines = live_and_die(folder, draw)
        kills += died
        assert outcome(folder) == reference(T)
        assert max(Counter(run_id for run_id, _ in said(lines, "end")).values()) == 1, (
            "a run ended twice"
        )
        wasted = member_steps(lines) - RUNS_OF_T * STEPS_OF_T
        assert wasted <= died * PACK * (STEPS_A_SAVE + 1), (
            "more was lost than lies between two checkpoints"
        )
        sweep_orphans(folder / "checkpoints")
        assert list((folder / "checkpoints").iterdir()) == [], "nothing is left behind"


@pytest.fixture(scope="module")
def passings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often an undisturbed life of M passes each failpoint."""
    folder = tmp_path_factory.mktemp("passings")
    armed = {failpoint.VARIABLE: "store.written:1000000"}
    with child(
        folder / "journal", run_workers.train_all, folder / "out", M, 6, environment=armed
    ) as running:
        assert running.end() == 0
    return {name: int(times) for name, times in said(running.acknowledged(), "passed")}


# Spools are of clusters: test_cluster_kills.py.
@pytest.mark.parametrize(
    "name", [name for name in failpoint.NAMES if not name.startswith("spool.")]
)
def test_death_at_every_durable_step_is_healed(
    tmp_path: Path, name: str, passings: dict[str, int], reference: Reference
) -> None:
    for reason in (" solved ", " hopeless "):
        assert any(reason in entry for entry in reference(M).values()), (
            f"no run of M stops early:{reason}"
        )
    last = passings[name]
    # Every commit is another moment of a sweep; of the steps that lead to one, and of checkpoints,
    # a few stand for all.
    for passing in (
        range(1, last + 1)
        if name == "store.committed"
        else sorted({1, min(2, last), (last + 1) // 2, last})
    ):
        folder = tmp_path / str(passing)
        armed = {failpoint.VARIABLE: f"{name}:{passing}"}
        with child(
            tmp_path / f"death{passing}", run_workers.train_all, folder, M, 6, environment=armed
        ) as dying:
            assert dying.end() == -signal.SIGKILL
        with child(tmp_path / f"life{passing}", run_workers.train_all, folder, M, 6) as healing:
            assert healing.end() == 0
        assert outcome(folder) == reference(M), f"{name}:{passing}"
        assert list((folder / "checkpoints").iterdir()) == []
        with Store.open(folder) as store:
            assert store.check() == []


# ---- other processes ----


def both(first: Child, second: Child) -> list[str]:
    """What two processes said that end well."""
    try:
        assert [first.end(), second.end()] == [0, 0]
    finally:
        first.kill()
        second.kill()
    return first.acknowledged() + second.acknowledged()


def test_two_workers_share_a_sweep_and_train_each_run_once(
    tmp_path: Path, reference: Reference
) -> None:
    folder = tmp_path / "out"
    crowd = [Child(tmp_path / f"journal{i}", run_workers.train_all, folder, T, 2) for i in range(2)]
    lines = both(*crowd)
    assert outcome(folder) == reference(T)
    assert sorted(run_id for run_id, _ in said(lines, "end")) == sorted(reference(T))
    assert member_steps(lines) == RUNS_OF_T * STEPS_OF_T, "a step was made twice"
    assert {row.attempt for row in Results.load(folder).rows} == {1}
    assert all(said(member.acknowledged(), "end") for member in crowd), (
        "one did it all: nothing was shared"
    )


def test_a_worker_that_gets_a_part_of_a_checkpoint_goes_on_with_that_part(
    tmp_path: Path, reference: Reference
) -> None:
    killed, _ = live(tmp_path / "out", tmp_path / "killed", steps=10, delay_s=0.0)
    assert killed
    with child(tmp_path / "late", run_workers.come_late, tmp_path / "out", T, PACK) as late:
        assert late.end() == 0
    packs = said(late.acknowledged(), "pack")
    assert [members for members, _ in packs[:2]] == ["2", "1"]
    assert packs[0][1] == packs[1][1] != "0", "both parts go on from the checkpoint"
    assert outcome(tmp_path / "out") == reference(T)


@pytest.mark.parametrize("verb", ["run", "resume"])
def test_two_commands_at_once_train_each_run_once(
    tmp_path: Path, verb: str, reference: Reference
) -> None:
    folder, spec = tmp_path / "out", tmp_path / "t.toml"
    spec.write_text(T)
    if verb == "resume":
        killed, _ = live(folder, tmp_path / "killed", steps=10, delay_s=0.0)
        assert killed
    arguments = ["run", spec, "--out", folder] if verb == "run" else ["resume", folder]
    prefixes = [tmp_path / name for name in ("first", "second")]
    both(
        *(
            Child(tmp_path / f"{prefix.name}.journal", run_workers.command, prefix, *arguments)
            for prefix in prefixes
        )
    )
    assert outcome(folder) == reference(T)
    printed = "".join(prefix.with_suffix(".out").read_text() for prefix in prefixes)
    assert printed.count("] done") == RUNS_OF_T
    assert [prefix.with_suffix(".err").read_text() for prefix in prefixes] == ["", ""]
    assert max(row.attempt for row in Results.load(folder).rows) == (1 if verb == "run" else 2)
