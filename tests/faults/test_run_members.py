"""A member's numbers are its own: beside NaN and Inf, beside any others, in any order, on the same
data as every other mixer.
"""

import math
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest
import run_workers
from harness import child
from run_workers import RUNS_OF_T, STEPS_OF_T, T, outcome, sweep

from recollect.api import Results
from recollect.running.planning.memory import even_pack_size

Reference = Callable[..., dict[str, str]]
RUN_IDS = [run.run_id for run in sweep(T).runs]
VICTIMS = (RUN_IDS[2], RUN_IDS[7])  # one of each mixer


def poisoned(
    folder: Path, what: str, value: float, at: int, victims: Sequence[str]
) -> dict[str, str]:
    with child(
        folder / "journal", run_workers.poison, folder / "out", what, value, at, victims
    ) as running:
        assert running.end() == 0
    return outcome(folder / "out")


# A bad gradient or weight shows in the loss of the next step.
@pytest.mark.parametrize(("what", "delay"), [("loss", 0), ("gradient", 1), ("weights", 1)])
@pytest.mark.parametrize(("value", "at"), [(math.nan, 23), (math.inf, 2)])
def test_one_members_nan_is_its_own(
    tmp_path: Path, what: str, delay: int, value: float, at: int, reference: Reference
) -> None:
    found = poisoned(tmp_path, what, value, at, VICTIMS)
    for run_id, expected in reference(T).items():
        if run_id not in VICTIMS:
            assert found[run_id] == expected
    for row in Results.load(tmp_path / "out").rows:
        if row.run_id in VICTIMS:
            assert (row.status, row.diverged_step) == ("diverged", at + delay)
            assert (row.score, row.chance) == (0.0, 0.5)


@pytest.mark.parametrize("what", ["gradient", "weights"])
def test_the_last_update_can_break_a_run_too(
    tmp_path: Path, what: str, reference: Reference
) -> None:
    found = poisoned(tmp_path, what, math.nan, STEPS_OF_T, VICTIMS)
    for run_id, expected in reference(T).items():
        if run_id in VICTIMS:
            assert found[run_id].startswith(f"diverged {STEPS_OF_T} {STEPS_OF_T} ")
            assert "nan" not in found[run_id]
        else:
            assert found[run_id] == expected


class Text(HTMLParser):
    def __init__(self, page: str):
        super().__init__()
        self.text = ""
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_sweep_without_survivors_still_makes_a_report(tmp_path: Path, value: float) -> None:
    found = poisoned(tmp_path, "weights", value, 1, RUN_IDS)
    assert {entry.split()[0] for entry in found.values()} == {"diverged"}
    for verb in ("report", "status", "export", "resume"):
        with child(
            tmp_path / f"{verb}.journal",
            run_workers.command,
            tmp_path / verb,
            verb,
            tmp_path / "out",
        ) as running:
            assert running.end() == 0, (tmp_path / f"{verb}.err").read_text()
    (page,) = (tmp_path / "out").glob("*.html")
    assert f"{RUNS_OF_T} planned = 0 done + {RUNS_OF_T} diverged" in Text(page.read_text()).text
    assert (
        f"{RUNS_OF_T} planned = 0 done + {RUNS_OF_T} diverged"
        in (tmp_path / "status.out").read_text()
    )


@pytest.mark.parametrize(
    ("pack_size", "order"), [(1, None), (3, None), (12, None), (12, 1), (4, 2), (5, 3)]
)
def test_other_members_and_order_change_no_number(
    tmp_path: Path, pack_size: int, order: int | None, reference: Reference
) -> None:
    run_workers.plan(tmp_path / "out", T, order)
    with child(
        tmp_path / "journal", run_workers.train_all, tmp_path / "out", T, pack_size
    ) as running:
        assert running.end() == 0
    sizes = {int(line.split()[1]) for line in running.acknowledged() if line.startswith("pack")}
    assert max(sizes) == even_pack_size(RUNS_OF_T // 2, pack_size), "T has two shapes"
    assert outcome(tmp_path / "out") == reference(T)


def test_every_mixer_sees_the_same_data(tmp_path: Path) -> None:
    with (
        child(tmp_path / "trained", run_workers.watch_data, tmp_path / "out", T) as trained,
        child(tmp_path / "alone", run_workers.draw_data, T, 7) as alone,
    ):
        assert trained.end() == alone.end() == 0
    shown: dict[str, dict[str, str]] = {}
    for line in trained.acknowledged() + alone.acknowledged():
        if line.startswith("saw"):
            _, who, step, digest = line.split()
            assert shown.setdefault(who, {}).setdefault(step, digest) == digest
    assert set(shown) == {"attention", "mamba", "alone"}
    assert shown["attention"] == shown["mamba"] == shown["alone"]
    assert len(set(shown["alone"].values())) == STEPS_OF_T, "every step has rows of its own"
