"""Where a user wants output: regular files are replaced as a whole, links followed, devices and
pipes written into and never replaced.
"""

import os
import stat
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

from recollect.errors import ResourceError, SpecError
from recollect.store.durable import write_output
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
