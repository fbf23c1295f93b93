"""Checkpoints under truncation, flipped bits, full disks and hostile content."""

import ast
import errno
import hashlib
import io
import json
import os
import pickle
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import recollect
from recollect.errors import ResourceError, StoreError
from recollect.store import checkpoint
from recollect.store.checkpoint import Checkpoint
from recollect.store.durable import sweep_orphans, write_atomically

MEMBERS = ("run-a", "run-b")


def at(step: int) -> Checkpoint:
    generator = torch.Generator().manual_seed(step)
    weights_PDD = torch.randn(2, 8, 8, generator=generator)
    return Checkpoint(
        MEMBERS,
        step,
        {"weights_PDD": weights_PDD, "steps_P": torch.full((2,), step)},
        {"step": step},
    )


def same(one: Checkpoint, other: Checkpoint) -> bool:
    equal = all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())
    return equal and (one.run_ids, one.step, one.state, set(one.tensors)) == (
        *(other.run_ids, other.step, other.state),
        set(other.tensors),
    )


# ---- damage ----


def assert_damage_is_caught(folder: Path, damaged: bytes) -> None:
    """The newest of two checkpoints is damaged: said once, kept aside, the other one used."""
    checkpoint.save(folder, at(10))
    newest = checkpoint.save(folder, at(20))
    newest.write_bytes(damaged)
    with pytest.raises(StoreError, match=newest.name):
        checkpoint.load(newest)
    found = checkpoint.find(folder)
    assert len(found.problems) == 1
    assert str(newest) in found.problems[0]
    assert same(checkpoint.load(found.newest("run-a").path), at(10))


def test_every_truncation_is_caught(tmp_path: Path, kill_seed: int) -> None:
    draw, sound = random.Random(kill_seed), checkpoint.save(tmp_path / "sound", at(20)).read_bytes()
    for trial, length in enumerate(
        [0, 1, len(sound) - 1, *(draw.randrange(len(sound)) for _ in range(197))]
    ):
        folder = tmp_path / str(trial)
        assert_damage_is_caught(folder, sound[:length])
        (kept,) = folder.glob("*.bad")
        assert kept.read_bytes() == sound[:length]
        assert checkpoint.find(folder).problems == (), "reported once"


def test_every_flipped_bit_is_caught(tmp_path: Path, kill_seed: int) -> None:
    draw, sound = random.Random(kill_seed), checkpoint.save(tmp_path / "sound", at(20)).read_bytes()
    first_bits = range(
        8 * 100
    )  # the magic line, the checksum and the length of the header, all of them
    for trial, bit in enumerate(
        [*first_bits, *(draw.randrange(8 * len(sound)) for _ in range(400))]
    ):
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        if trial % 10 == 0:
            assert_damage_is_caught(tmp_path / str(trial), bytes(damaged))
        else:
            path = tmp_path / "flipped.ckpt"
            path.write_bytes(damaged)
            with pytest.raises(StoreError):
                checkpoint.load(path)


# ---- full disks ----


@pytest.mark.parametrize("failing", ["open", "write", "fsync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_at_any_call_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, code: int
) -> None:
    size = checkpoint.save(tmp_path / "elsewhere", at(20)).stat().st_size
    checkpoint.save(tmp_path, at(10))
    real, made = getattr(os, failing), 0
    for fail_at in range(1, 40):
        made = 0

        def call(*arguments: object) -> int:
            nonlocal made
            made += 1
            if made == fail_at:  # noqa: B023 (used within the same turn)
                raise OSError(code, os.strerror(code))
            return real(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(os, failing, call)
            try:
                checkpoint.save(tmp_path, at(20))
                break
            except ResourceError as error:
                refusal = error
        assert refusal.exit_code == 4
        assert f"-20.ckpt: no room for {size:,} bytes ({os.strerror(code)})" in str(refusal)
        assert not list(tmp_path.glob(".*"))
        newest = checkpoint.find(tmp_path).newest("run-a")
        assert same(checkpoint.load(newest.path), at(newest.step))
    assert fail_at > 1, "the fault was never met"
    assert same(checkpoint.load(checkpoint.find(tmp_path).newest("run-a").path), at(20))


def test_only_the_temporary_files_of_the_dead_are_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
        patch.setattr(Path, "replace", lambda self, target: None)
        write_atomically(tmp_path / "mine", b"left by a living process")
        kept = list(tmp_path.glob(".*.tmp"))
    mine = kept[0].name
    dead = tmp_path / mine.replace(f"%7C{os.getpid()}%7C", "%7C4194303%7C")
    dead.write_bytes(b"left by a dead one")
    foreign = tmp_path / ".somebody.tmp"
    foreign.write_bytes(b"not ours at all")
    assert sweep_orphans(tmp_path) == [dead]
    assert sorted(tmp_path.iterdir()) == sorted([*kept, foreign])


# ---- hostile content ----


class Bomb:
    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch '{self.canary}'",)


def hostile_files(canary: Path) -> Iterator[bytes]:
    bomb = pickle.dumps(Bomb(canary))
    saved = io.BytesIO()
    torch.save(Bomb(canary), saved)
    yield bomb
    yield saved.getvalue()
    bodies = [
        bomb,
        saved.getvalue(),
        b"",
        b"\xff" * 64,
        *(headed(text) for text in ("{}", "[]", "[" * 10**5)),
    ]
    abouts = [
        [],
        {},
        {"run_ids": "ab", "step": 1},
        {"run_ids": [1], "step": 1},
        {"run_ids": ["a"], "step": "1"},
    ]
    bodies += [
        headed(json.dumps({"__metadata__": {"recollect": json.dumps(about)}})) for about in abouts
    ]
    for body in bodies:  # with the right checksum: whoever can write the file can compute that too
        yield b"recollect checkpoint 1\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def headed(header: str) -> bytes:
    return len(header).to_bytes(8, "little") + header.encode()


def test_hostile_checkpoints_are_refused_and_nothing_runs(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for count, content in enumerate(hostile_files(canary)):
        folder = tmp_path / str(count)
        folder.mkdir()
        path = folder / "abc-1.ckpt"
        path.write_bytes(content)
        with pytest.raises(StoreError, match="damaged or foreign"):
            checkpoint.load(path)
        assert len(checkpoint.find(folder).problems) == 1
        assert path.with_suffix(".bad").read_bytes() == content
    assert not canary.exists()
    pickle.loads(pickle.dumps(Bomb(canary)))
    assert canary.exists(), "the bomb itself does not work, so the test proves nothing"


def dangers(source: str) -> set[str]:
    """Names in a program by which data could become code."""
    modules = {"pickle", "cPickle", "dill", "marshal", "shelve", "yaml", "joblib", "cloudpickle"}
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                found |= {alias.name for alias in names if alias.name.split(".")[0] in modules}
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in modules:
                found.add(module)
            case ast.Name("eval" | "exec" as name):
                found.add(name)
            case ast.Attribute(ast.Name("torch"), "load"):
                found.add("torch.load")
    return found


def test_nothing_in_the_package_turns_data_into_code() -> None:
    assert dangers(
        "import yaml.x\nfrom pickle import loads\neval('1')\ntorch.load(f)\nmodel.eval()"
    ) == {*("yaml.x", "pickle", "eval", "torch.load")}
    sources = list(Path(recollect.__file__).parent.rglob("*.py"))
    assert len(sources) > 5
    assert {
        path.name: dangers(path.read_text()) for path in sources if dangers(path.read_text())
    } == {}
