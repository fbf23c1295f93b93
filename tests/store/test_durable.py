"""Where a user wants output: regular files are replaced as a whole, links followed, devices and
pipes written into and never replaced.
"""

import errno
import io
import os
import stat
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from recollect.errors import ReaderGone, ResourceError, SpecError
from recollect.store.durable import (
    sweep_orphans,
    write_atomically,
    write_output,
    write_refusal,
)
from recollect.store.ownership import this_process

DATA = b"x" * 300_000  # more than a pipe holds


def test_a_regular_file_is_made_and_replaced(tmp_path: Path):
    target = tmp_path / "out.csv"
    write_output(target, b"first")
    before = target.stat().st_ino
    write_output(target, DATA)
    assert target.read_bytes() == DATA
    assert target.stat().st_ino != before, "written in place: a reader could see half of it"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("exists", [True, False])
def test_links_are_followed_and_stay(tmp_path: Path, exists: bool):
    (tmp_path / "inner").mkdir()
    target, middle, link = tmp_path / "inner" / "real", tmp_path / "middle", tmp_path / "link"
    if exists:
        target.write_bytes(b"before")
    middle.symlink_to(target)
    link.symlink_to("middle")
    write_output(link, DATA)
    assert target.read_bytes() == DATA
    assert not target.is_symlink()
    assert link.is_symlink()
    assert middle.is_symlink()


def test_a_pipe_is_written_into(tmp_path: Path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_output(pipe, DATA)
    reader.join()
    assert got == [DATA]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


@pytest.mark.parametrize("linked", [True, False])
def test_a_device_is_written_into_and_its_refusal_told(tmp_path: Path, linked: bool):
    full, null = Path("/dev/full"), Path("/dev/null")
    if linked:
        (tmp_path / "full").symlink_to(full)
        (tmp_path / "null").symlink_to(null)
        full, null = tmp_path / "full", tmp_path / "null"
    write_output(null, DATA)
    with pytest.raises(ResourceError, match=f"{full}: no room for 300,000 bytes") as refused:
        write_output(full, DATA)
    assert "else the same command again" in str(refused.value)
    assert stat.S_ISCHR(full.stat().st_mode)
    assert stat.S_ISCHR(null.stat().st_mode)


def test_a_folder_and_a_link_to_itself_are_refused(tmp_path: Path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for place in (tmp_path, loop, tmp_path / "missing" / "file"):
        with pytest.raises(SpecError, match=f"{place}: cannot be written"):
            write_output(place, DATA)
    assert loop.is_symlink()


def test_what_a_killed_writer_left_is_removed_by_the_next_and_nothing_else(tmp_path: Path):
    """A temporary file names its writer: that of one who lives, and other people's files, stay."""
    machine, boot, pid, start = this_process().rsplit("|", 3)
    dead = f"{machine}|{boot}|{pid}|{int(start) - 1}"
    orphan, mine, foreign = (
        tmp_path / f".{quote(owner, safe='')}.1000007.tmp"
        for owner in (dead, this_process(), "somebody")
    )
    for path in (orphan, mine, foreign):
        path.write_bytes(b"half of a page")
    write_output(tmp_path / "report.html", b"a page")
    assert sorted(tmp_path.iterdir()) == sorted([mine, foreign, tmp_path / "report.html"])


@pytest.mark.parametrize(
    ("writer", "days", "goes"),
    [
        ("of another boot", 2.0, True),
        ("of another boot", 0.9, False),  # its death is not certain
        ("of this one", 2.0, False),  # it lives, and may hold a file open for long
        ("of another program", 2.0, False),
    ],
)
def test_a_temporary_file_whose_writer_cannot_be_asked_is_removed_after_a_day(
    tmp_path: Path, writer: str, days: float, goes: bool
):
    machine, _, pid, start = this_process().rsplit("|", 3)
    owner = {
        "of another boot": f"{machine}|another|{pid}|{start}",
        "of this one": this_process(),
        "of another program": "somebody",
    }[writer]
    path = tmp_path / f".{quote(owner, safe='')}.7.tmp"
    path.touch()
    then = time.time() - days * 86_400
    os.utime(path, (then, then))
    assert sweep_orphans(tmp_path) == [path] * goes
    assert path.exists() != goes


def test_a_new_file_can_be_read_by_whom_the_user_lets(tmp_path: Path):
    before = os.umask(0o027)
    try:
        write_output(tmp_path / "page", DATA)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "page").stat().st_mode) == 0o640


def test_a_file_that_takes_a_little_at_a_time_gets_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:70_000]))
    write_atomically(tmp_path / "pieces", [DATA, b"", DATA[:5]])
    assert (tmp_path / "pieces").read_bytes() == DATA + DATA[:5]


def test_a_pipe_that_takes_a_little_at_a_time_gets_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    got = bytearray()

    class Slow(io.RawIOBase):
        def write(self, data: memoryview) -> int:
            got.extend(data[:70_000])
            return len(data[:70_000])

    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(Path, "open", lambda path, mode, buffering: Slow())
    write_output(tmp_path / "pipe", DATA)
    assert got == DATA


def test_a_reader_that_goes_away_is_no_failure_of_the_disk(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: pipe.open("rb", buffering=0).close())
    reader.start()
    with pytest.raises(ReaderGone):
        write_output(pipe, DATA)
    reader.join()


@pytest.mark.parametrize(
    ("kind", "words", "codes"),
    [
        (SpecError, "cannot be written", "EROFS EACCES EPERM ENOENT ENOTDIR EISDIR EEXIST ELOOP"),
        (SpecError, "cannot be written", "ENAMETOOLONG"),
        (ResourceError, "no room for 1,234 bytes", "ENOSPC EDQUOT EFBIG"),
        (ResourceError, "the disk failed for 1,234 bytes", "EIO EBADF"),
    ],
)
def test_a_refusal_says_whose_fault_it_is(kind: type[Exception], words: str, codes: str):
    for code in codes.split():
        number = getattr(errno, code)
        refusal = write_refusal(OSError(number, os.strerror(number)), Path("out"), 1234)
        assert type(refusal) is kind, code
        assert str(refusal).startswith(f"out: {words} ({os.strerror(number)})")
