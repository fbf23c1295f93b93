"""A running sweep on a full disk and in too little memory: it says so, keeps what is finished, and
goes on with less.
"""

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import run_workers
from harness import child
from run_workers import M, T, outcome, sweep

from recollect.api import Results
from recollect.store import MAX_LOST, Store

Reference = Callable[..., dict[str, str]]


def complaint(prefix: Path) -> str:
    """What was said on standard error: short, and no traceback."""
    text = prefix.with_suffix(".err").read_text()
    assert text.startswith("recollect: ")
    assert text.count("\n") <= 3
    assert "Traceback" not in text
    return text


def assert_intact(folder: Path) -> None:
    with Store.open(folder) as store:
        assert store.check() == []
    assert not list(folder.rglob("*.tmp"))


def resume(tmp_path: Path, folder: Path) -> None:
    with child(tmp_path / "resume.journal", run_workers.train_all, folder, M, 6) as resumed:
        assert resumed.end() == 0


# The n-th piece handed to the system: the first, one inside the first checkpoint, one behind its
# end, one of a later pack.
@pytest.mark.parametrize("failing_write", [1, 5, 47, 120])
def test_a_full_disk_stops_a_run_that_can_be_resumed(
    tmp_path: Path, failing_write: int, reference: Reference
) -> None:
    folder, spec, prefix = tmp_path / "out", tmp_path / "m.toml", tmp_path / "full"
    spec.write_text(M)
    arguments = (prefix, failing_write, "run", spec, "--out", folder)
    with child(tmp_path / "journal", run_workers.on_full_disk, *arguments) as running:
        assert running.end() == 4
    said = complaint(prefix)
    assert re.search(
        rf"{re.escape(str(folder))}/checkpoints/\S+\.ckpt: no room for [\d,]+ bytes", said
    )
    assert "what was finished is safe\nfree space, then `recollect resume" in said
    assert_intact(folder)
    assert {row.status for row in Results.load(folder).rows} <= {"todo", "done"}, "no lease is left"
    resume(tmp_path, folder)
    assert outcome(folder) == reference(M)


def test_a_limit_on_file_sizes_stops_a_run_that_can_be_resumed(
    tmp_path: Path, reference: Reference
) -> None:
    places = set()
    for largest in (4_096, 40_000, 90_000, 200_000):
        folder, prefix = tmp_path / f"out{largest}", tmp_path / f"limit{largest}"
        run_workers.plan(folder, M)
        with child(
            tmp_path / f"j{largest}",
            run_workers.with_small_files,
            prefix,
            largest,
            "resume",
            folder,
        ) as running:
            code = running.end()
        if code != 0:
            assert code == 4
            (place,) = re.findall(
                rf"{re.escape(str(folder))}/\S+(\.db|\.ckpt): ", complaint(prefix)
            )
            places.add(place)
            assert_intact(folder)
            resume(tmp_path, folder)
        assert outcome(folder) == reference(M)
    assert places == {".db", ".ckpt"}, "both kinds of file were to fail"


# ---- memory ----


def packs(lines: list[str]) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith("pack")]


def test_out_of_memory_halves_the_pack_and_changes_no_number(
    tmp_path: Path, reference: Reference
) -> None:
    with child(
        tmp_path / "journal", run_workers.never_fit, tmp_path / "out", 2, (), False
    ) as running:
        assert running.end() == 0
    assert packs(running.acknowledged())[:3] == [6, 3, 1]
    assert outcome(tmp_path / "out") == reference(T)
    with Store.open(tmp_path / "out") as store:
        remarks = [note.text for note in store.notes() if note.kind == "memory"]
    assert remarks[:2] == [
        "6 runs did not fit into memory; going on with 3",
        "3 runs did not fit into memory; going on with 1",
    ]


def test_a_run_that_never_fits_fails_alone(tmp_path: Path, reference: Reference) -> None:
    hopeless = sweep(T).runs[1].run_id
    with child(
        tmp_path / "journal", run_workers.never_fit, tmp_path / "out", 6, (hopeless,), False
    ) as running:
        assert running.end() == 0
    found = outcome(tmp_path / "out")
    assert {run_id for run_id, entry in found.items() if entry != reference(T)[run_id]} == {
        hopeless
    }
    (row,) = (row for row in Results.load(tmp_path / "out").rows if row.run_id == hopeless)
    assert row.status == "failed"
    assert (
        row.failure == "oom: one run alone does not fit into memory; use a smaller batch or width"
    )


def test_a_real_lack_of_memory_is_met_by_smaller_packs(
    tmp_path: Path, reference: Reference
) -> None:
    large = T.replace("vocabulary = 32", "vocabulary = 40_000").replace("steps = 60", "steps = 8")
    large = large.replace('["attention", { name = "mamba", state = 4 }]', '["attention"]')
    with child(
        tmp_path / "journal", run_workers.in_little_memory, tmp_path / "out", large, 250_000_000
    ) as running:
        assert running.end() == 0
    assert packs(running.acknowledged())[0] > packs(running.acknowledged())[-1]
    assert outcome(tmp_path / "out") == reference(large, 2)


def test_after_a_kill_for_its_memory_half_as_many_train_together(
    tmp_path: Path, reference: Reference
) -> None:
    sizes, ends = [], []
    while not ends or ends[-1] != 0:
        journal = tmp_path / f"life{len(ends)}"
        with child(journal, run_workers.never_fit, tmp_path / "out", 2, (), True) as running:
            ends.append(running.end())
        sizes.append(packs(running.acknowledged())[-1])
    assert set(ends[:-1]) == {-signal.SIGKILL}
    assert sizes[:-1] == [6, 3, 3] * 2, (
        "six runs of each mixer, then each half of them; ones are small enough"
    )
    assert outcome(tmp_path / "out") == reference(T)


def test_a_run_that_kills_every_worker_is_given_up(tmp_path: Path, reference: Reference) -> None:
    deadly = sweep(T).runs[0].run_id
    for _ in range(4 * MAX_LOST):
        with child(
            tmp_path / "journal", run_workers.never_fit, tmp_path / "out", 6, (deadly,), True
        ) as running:
            if running.end() == 0:
                break
    found = outcome(tmp_path / "out")
    assert {run_id for run_id, entry in found.items() if entry != reference(T)[run_id]} == {deadly}
    assert f"lost: {MAX_LOST} attempts in a row ended without progress" in found[deadly]
