"""Files and databases that do not belong together: a checkpoint that does not fit costs the file, a
database without its log costs the steps since; every number is as undisturbed, and it is said.
"""

import dataclasses
import hashlib
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from run_workers import outcome, sweep

from recollect.errors import Stopped
from recollect.rows import Evaluation
from recollect.running import engine
from recollect.store import Store, checkpoint
from recollect.store.checking.folder import check_folder
from recollect.store.checkpoint import Checkpoint
from recollect.store.database import FILE
from recollect.store.ownership import this_process

SMALL = """
[task]
name = "mqar"
vocabulary = 32
length = 16
pairs = 2
test_rows = 32
train_rows = 64
[model]
width = 16
depth = 1
mixer = "attention"
[train]
steps = 12
batch = 32
evaluations = 6
[sweep]
train.lr = [1e-3, 1e-2]
"""
SAVED_AT = 7
Change = Callable[[Checkpoint], Checkpoint]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("whole")
    engine.train(folder, [sweep(SMALL)], device="cpu")
    return outcome(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Stopped between two steps, with one checkpoint of both runs."""
    asked = itertools.count()
    with pytest.raises(Stopped):
        engine.train(
            tmp_path,
            [sweep(SMALL)],
            device="cpu",
            stop=lambda: 143 if next(asked) > SAVED_AT else 0,
        )
    # A slow machine may have saved on the way too.
    *older, _ = sorted(files(tmp_path), key=lambda path: int(path.stem.rpartition("-")[2]))
    for path in older:
        path.unlink()
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints").glob("*.ckpt"))


def resume(folder: Path) -> list[str]:
    """Train the rest; what was noted about checkpoints."""
    engine.train(folder, device="cpu")
    with Store.open(folder, read_only=True) as store:
        return [note.text for note in store.notes() if note.kind in ("checkpoint", "log")]


def without_a_tensor(saved: Checkpoint) -> Checkpoint:
    name = next(name for name in saved.tensors if name.startswith("first/"))
    tensors = {other: value for other, value in saved.tensors.items() if other != name}
    return dataclasses.replace(saved, tensors=tensors)


def of_another_shape(saved: Checkpoint) -> Checkpoint:
    name = next(name for name, value in saved.tensors.items() if value.ndim > 2)
    wider = torch.cat([saved.tensors[name], saved.tensors[name]], dim=-1)
    return dataclasses.replace(saved, tensors={**saved.tensors, name: wider})


def of_another_dtype(saved: Checkpoint) -> Checkpoint:
    tensors = {
        name: value.double() if value.is_floating_point() else value
        for name, value in saved.tensors.items()
    }
    return dataclasses.replace(saved, tensors=tensors)


def of_more_members(saved: Checkpoint) -> Checkpoint:
    tensors = {name: torch.cat([value, value]) for name, value in saved.tensors.items()}
    return dataclasses.replace(saved, tensors=tensors)


def beyond_the_end(saved: Checkpoint) -> Checkpoint:
    return dataclasses.replace(saved, step=400)


def without_its_state(saved: Checkpoint) -> Checkpoint:
    return dataclasses.replace(saved, state={})


@pytest.mark.parametrize(
    "change",
    [
        without_a_tensor,
        of_another_shape,
        of_another_dtype,
        of_more_members,
        beyond_the_end,
        without_its_state,
    ],
)
def test_a_checkpoint_that_does_not_fit_costs_the_file(
    folder: Path, whole: dict[str, str], change: Change
) -> None:
    (path,) = files(folder)
    with Store.open(folder, read_only=True) as store:
        key = store.key
    changed = change(checkpoint.load(path, key))
    path.unlink()
    checkpoint.save(path.parent, changed, key)
    assert resume(folder)
    assert outcome(folder) == whole


def test_a_checkpoint_beyond_the_end_of_a_whole_curve_costs_the_file(
    folder: Path, whole: dict[str, str]
) -> None:
    """Every evaluation up to its step is there, so that nothing but the step tells."""
    (path,) = files(folder)
    with Store.open(folder) as store:
        key = store.key
        claims = store.claim([todo.run_id for todo in store.todo()], this_process(), 60)
        points = [
            (run_id, Evaluation(step, 1.0, 1.0, 0.5, 0.5))
            for run_id in claims
            for step in range(2, 13, 2)
        ]
        store.record(claims, points)
        store.release(claims)
    saved = checkpoint.load(path, key)
    path.unlink()
    checkpoint.save(path.parent, beyond_the_end(saved), key)
    assert "the run has only 12 steps" in resume(folder)[0]
    assert outcome(folder) == whole


def another_step(header: bytes, run_ids: list[str]) -> bytes:
    return header.replace(b'step\\": 7', b'step\\": 6', 1)


def swapped_members(header: bytes, run_ids: list[str]) -> bytes:
    first, second = (run_id.encode() for run_id in run_ids)
    return header.replace(first, b"?").replace(second, first).replace(b"?", second)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("forge", [another_step, swapped_members])
def test_a_forged_checkpoint_with_a_sum_of_its_own_costs_the_file(
    folder: Path, whole: dict[str, str], forge: Callable[[bytes, list[str]], bytes], version: int
) -> None:
    """Whoever changes a file can sum it again, but has no key of the store."""
    (path,) = files(folder)
    assert path.stem.endswith(f"-{SAVED_AT}")
    body = path.read_bytes().split(b"\n", 2)[2]
    end = 8 + int.from_bytes(body[:8], "little")
    forged = body[:8] + forge(body[8:end], list(whole)) + body[end:]
    assert len(forged) == len(body)
    assert forged != body
    digest = hashlib.sha256(forged).hexdigest().encode()
    path.write_bytes(b"recollect checkpoint %d\n" % version + digest + b"\n" + forged)
    (note,) = resume(folder)
    assert f"kept as {path.stem}.bad" in note
    assert outcome(folder) == whole


@pytest.mark.parametrize("kind", ["folder", "pipe", "name", "empty"])
def test_what_is_no_checkpoint_costs_nothing(
    folder: Path, whole: dict[str, str], kind: str
) -> None:
    (path,) = files(folder)
    stray = path.with_name(f"{path.stem.rpartition('-')[0]}-stray.ckpt")
    if kind == "folder":
        stray.mkdir()
    elif kind == "pipe":
        os.mkfifo(stray)
    elif kind == "name":
        stray.write_text("not ours")
    else:
        stray.touch()
    (note,) = resume(folder)
    assert f"kept as {stray.stem}.bad" in note
    assert outcome(folder) == whole


def test_a_database_without_its_log_is_recognised_and_no_curve_has_holes(
    tmp_path: Path, whole: dict[str, str]
) -> None:
    """A copy of a folder in use, without the log: the checkpoint knows more than the database."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    asked = itertools.count()

    def stop() -> int:
        count = next(asked)
        if count == 0:
            with Store.open(live) as store:  # as much of the log as this goes into the file
                store._read("PRAGMA wal_checkpoint(TRUNCATE)")
        if count > SAVED_AT:
            (copy / "checkpoints").mkdir(parents=True, exist_ok=True)
            shutil.copyfile(live / FILE, copy / FILE)
            return 143
        return 0

    with pytest.raises(Stopped):
        engine.train(live, [sweep(SMALL)], device="cpu", stop=stop)
    for path in files(live):
        shutil.copyfile(path, copy / "checkpoints" / path.name)
    with Store.open(copy) as store, store._transaction() as connection:  # its owner is elsewhere
        connection.execute("UPDATE runs SET lease_until = renewed")
    notes = resume(copy)
    assert any("are not in the database, which is older" in note for note in notes)
    assert outcome(copy) == whole
    assert check_folder(copy).findings == ()


def test_a_folder_that_is_as_it_was_written(folder: Path) -> None:
    found = check_folder(folder)
    assert found.findings == ()
    assert (found.runs, found.checkpoints, found.unsummed) == (2, 1, 0)
    assert found.points == 2 * 3


def test_a_check_names_what_is_wrong_and_changes_nothing(folder: Path) -> None:
    resume(folder)
    (kept,) = (folder / "models").glob("*.safetensors")
    data = bytearray(kept.read_bytes())
    data[-1] ^= 1
    kept.write_bytes(data)
    (folder / "checkpoints").mkdir(exist_ok=True)
    os.mkfifo(folder / "checkpoints" / "x-1.ckpt")
    with Store.open(folder) as store, store._transaction() as connection:
        connection.execute("DROP TRIGGER points_leave_while_running")
        connection.execute("DELETE FROM evaluations WHERE step = 4")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    findings = check_folder(folder).findings
    assert len(findings) == 4
    assert sum("its curve lacks 1 point, the first at step 4" in f for f in findings) == 2
    assert sum(str(kept) in finding for finding in findings) == 1
    assert sum("x-1.ckpt: damaged or foreign (it is no regular file)" in f for f in findings) == 1
    assert {path: path.stat().st_mtime_ns for path in before} == before
