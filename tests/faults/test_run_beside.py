"""Packs side by side under kill -9: whoever comes next finds all of them, and no number changes."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import run_workers
from harness import child
from run_workers import M, outcome

from recollect.store import Store, failpoint

PACK = 2  # of three runs of a shape, of which one stops early and lets the third begin
MOMENTS = (0.25, 0.5, 0.6, 0.7, 0.8, 0.95)


def test_packs_begin_beside_others(
    tmp_path: Path, reference: Callable[..., dict[str, str]]
) -> None:
    with child(
        tmp_path / "journal", run_workers.train_all, tmp_path / "out", M, PACK, True
    ) as running:
        assert running.end() == 0
    steps = [line for line in running.acknowledged() if line.split()[0] in ("pack", "step", "end")]
    started = [index for index, line in enumerate(steps) if line == "pack 1 0"]
    assert started
    assert any(steps[index - 1].startswith("step") for index in started), (
        "none began while another trained"
    )
    assert outcome(tmp_path / "out") == reference(M)


@pytest.mark.parametrize("name", ["store.committed", "checkpoint.pruned"])
def test_death_beside_others_is_healed(
    tmp_path: Path, name: str, reference: Callable[..., dict[str, str]]
) -> None:
    counting = {failpoint.VARIABLE: "store.written:1000000"}
    with child(
        tmp_path / "counting",
        run_workers.train_all,
        tmp_path / "out",
        M,
        PACK,
        True,
        environment=counting,
    ) as whole:
        assert whole.end() == 0
    last = next(
        int(line.split()[2]) for line in whole.acknowledged() if line.startswith(f"passed {name} ")
    )
    for passing in sorted({max(1, round(share * last)) for share in MOMENTS}):
        folder, armed = tmp_path / str(passing), {failpoint.VARIABLE: f"{name}:{passing}"}
        with child(
            tmp_path / f"death{passing}",
            run_workers.train_all,
            folder,
            M,
            PACK,
            True,
            environment=armed,
        ) as dying:
            assert dying.end() == -signal.SIGKILL
        with child(
            tmp_path / f"life{passing}", run_workers.train_all, folder, M, PACK, True
        ) as healing:
            assert healing.end() == 0
        assert outcome(folder) == reference(M), f"{name}:{passing}"
        assert list((folder / "checkpoints").iterdir()) == []
        with Store.open(folder) as store:
            assert store.check() == []
