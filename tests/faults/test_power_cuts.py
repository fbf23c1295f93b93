"""Files under power cuts: every prefix of the calls that write one,
with what was not synced lost in several ways.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from recollect.store import checkpoint
from recollect.store.checkpoint import Checkpoint
from recollect.store.durable import write_atomically


def at(step: int) -> Checkpoint:
    return Checkpoint(
        ("run-a", "run-b"), step, {"weights_PD": torch.full((2, 80), float(step))}, {"step": step}
    )


@dataclass
class Inode:
    data: bytes = b""
    synced: bytes = b""


@dataclass
class Disk:
    """A disk that may lose what was not synced:
    file content since its fsync, names since the folder's fsync.
    """

    names: dict[str, Inode] = field(default_factory=dict)
    kept_names: dict[str, Inode] = field(default_factory=dict)

    def apply(self, call: tuple[str, ...], payload: bytes = b"") -> None:
        match call:
            case ("open", name):
                self.names[name] = Inode()
            case ("write", name):
                self.names[name].data += payload
            case ("fsync", name):
                self.names[name].synced = self.names[name].data
            case ("replace", old, new):
                self.names[new] = self.names.pop(old)
            case ("unlink", name):
                del self.names[name]
            case ("sync folder",):
                self.kept_names = dict(self.names)

    def remains(self) -> Iterator[dict[str, bytes]]:
        """What may be found after the cut: any of the two sets of names, each file with more or
        less of its content.
        """
        for names in (self.names, self.kept_names):
            yield {name: inode.synced for name, inode in names.items()}
            yield {name: inode.data for name, inode in names.items()}
            yield {
                name: inode.data[: (len(inode.synced) + len(inode.data)) // 2]
                for name, inode in names.items()
            }
            yield {
                name: inode.synced.ljust(len(inode.data), b"\0") for name, inode in names.items()
            }


def recorded(
    monkeypatch: pytest.MonkeyPatch, folder: Path, act: Callable[[], object]
) -> list[tuple[tuple[str, ...], bytes]]:
    """The file system calls `act` makes in `folder`, in order."""
    calls: list[tuple[tuple[str, ...], bytes]] = []
    handles: dict[int, str] = {}
    real_open, real_write, real_fsync, real_replace, real_unlink = (
        os.open,
        os.write,
        os.fsync,
        Path.replace,
        Path.unlink,
    )

    def open_(path: Path, flags: int, *rest: int) -> int:
        handle = real_open(path, flags, *rest)
        handles[handle] = "" if Path(path) == folder else Path(path).name
        if flags & os.O_CREAT:
            calls.append((("open", handles[handle]), b""))
        return handle

    def write(handle: int, data: memoryview) -> int:
        written = real_write(
            handle, data[:700]
        )  # short writes are allowed, and make more places to fail
        calls.append((("write", handles[handle]), bytes(data[:written])))
        return written

    def fsync(handle: int) -> None:
        real_fsync(handle)
        calls.append((("fsync", handles[handle]) if handles[handle] else ("sync folder",), b""))

    def replace(self: Path, target: Path) -> Path:
        calls.append((("replace", self.name, target.name), b""))
        return real_replace(self, target)

    def unlink(self: Path, missing_ok: bool = False) -> None:
        real_unlink(self, missing_ok)
        calls.append((("unlink", self.name), b""))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_)
        patch.setattr(os, "write", write)
        patch.setattr(os, "fsync", fsync)
        patch.setattr(Path, "replace", replace)
        patch.setattr(Path, "unlink", unlink)
        act()
    return calls


def cuts(
    before: Path, calls: list[tuple[tuple[str, ...], bytes]], scratch: Path
) -> Iterator[tuple[bool, Path]]:
    """Every state a power cut may leave, as a folder; whether `calls` were all made before it."""
    old = {path.name: Inode(path.read_bytes(), path.read_bytes()) for path in before.iterdir()}
    for length in range(len(calls) + 1):
        disk = Disk(dict(old), dict(old))
        for call, payload in calls[:length]:
            disk.apply(call, payload)
        for remains in disk.remains():
            scratch.mkdir()
            for name, content in remains.items():
                (scratch / name).write_bytes(content)
            yield length == len(calls), scratch
            for path in scratch.iterdir():
                path.unlink()
            scratch.rmdir()


def copied(source: Path, target: Path) -> Path:
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


def test_a_power_cut_leaves_the_old_or_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    (before / "result").write_bytes(b"old" * 500)
    folder = copied(before, tmp_path / "live")
    calls = recorded(monkeypatch, folder, lambda: write_atomically(folder / "result", b"new" * 900))
    contents = set()
    for complete, state in cuts(before, calls, tmp_path / "cut"):
        content = (state / "result").read_bytes()
        assert content == b"new" * 900 or (content == b"old" * 500 and not complete)
        contents.add(content)
    assert len(contents) == 2


@pytest.mark.parametrize("sloppy", ["in place", "no fsync", "no folder sync"])
def test_the_power_cut_test_catches_a_sloppy_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sloppy: str
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    (before / "result").write_bytes(b"old" * 500)
    folder = copied(before, tmp_path / "live")

    def write() -> None:
        path = folder / ("result" if sloppy == "in place" else "aside")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        data = memoryview(b"new" * 900)
        while data:
            data = data[os.write(handle, data) :]
        if sloppy != "no fsync":
            os.fsync(handle)
        os.close(handle)
        if sloppy != "in place":
            path.replace(folder / "result")

    calls = recorded(monkeypatch, folder, write)
    states = [
        ((state / "result").read_bytes(), complete)
        for complete, state in cuts(before, calls, tmp_path / "cut")
    ]
    assert not all(
        content == b"new" * 900 or (content == b"old" * 500 and not complete)
        for content, complete in states
    )


def test_a_power_cut_leaves_a_checkpoint_to_go_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tmp_path / "before"
    checkpoint.save(before, at(10))
    checkpoint.save(before, at(20))
    folder = copied(before, tmp_path / "live")
    calls = recorded(monkeypatch, folder, lambda: checkpoint.save(folder, at(30)))
    assert "unlink" in {call[0] for call, _ in calls}, "nothing was pruned"
    found = set()
    for complete, state in cuts(before, calls, tmp_path / "cut"):
        catalogue = checkpoint.find(state)
        newest = catalogue.newest("run-b")
        assert catalogue.problems == ()
        assert newest.step == 30 if complete else newest.step in (20, 30)
        assert torch.equal(
            checkpoint.load(newest.path).tensors["weights_PD"],
            at(newest.step).tensors["weights_PD"],
        )
        found.add(newest.step)
    assert found == {20, 30}
