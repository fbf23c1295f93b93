"""Records in a file: whole or ignored, wherever a writer died."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import ResourceError, SpecError, StoreError
from recollect.running.cluster.frames import FrameReader, FrameWriter, frame, split_frames

BODIES = [b"first", b"", b"third " * 20]


@given(st.lists(st.binary(max_size=50), max_size=6), st.data())
def test_a_cut_anywhere_leaves_the_whole_records_before_it(
    bodies: list[bytes], data: st.DataObject
):
    whole = b"".join(map(frame, bodies))
    cut = data.draw(st.integers(0, len(whole)))
    zeros = data.draw(st.sampled_from([0, 1, 4096]))
    found, end = split_frames(whole[:cut] + bytes(zeros))
    assert found == bodies[: len(found)]
    assert end == sum(len(frame(body)) for body in found)
    ends = [sum(len(frame(body)) for body in bodies[: n + 1]) for n in range(len(bodies))]
    assert len(found) == sum(end <= cut for end in ends)


def test_a_reader_goes_on_where_it_stopped(tmp_path: Path):
    path = tmp_path / "records"
    reader, whole = FrameReader(path), b"".join(map(frame, BODIES))
    assert reader.new() == []
    found = []
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        found += reader.new()
    assert found == BODIES


@pytest.mark.parametrize("place", range(0, len(frame(BODIES[0])), 3))
def test_damage_before_sound_records_is_reported(tmp_path: Path, place: int):
    content = bytearray(b"".join(map(frame, BODIES)))
    content[place] ^= 1
    (tmp_path / "records").write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged at byte 0, sound records follow"):
        FrameReader(tmp_path / "records").new()


def test_a_writer_has_its_file_alone(tmp_path: Path):
    with FrameWriter(tmp_path / "records") as writer:
        writer.write(b"mine")
        with pytest.raises(SpecError, match="cannot be written"):
            FrameWriter(tmp_path / "records")
    assert FrameReader(tmp_path / "records").new() == [b"mine"]


def test_a_full_disk_is_a_refusal_with_a_remedy():
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("no /dev/full here")
    writer = FrameWriter.__new__(FrameWriter)
    writer.path, writer._is_synced = device, True
    writer._handle = os.open(device, os.O_WRONLY)
    try:
        with pytest.raises(ResourceError, match="no room for"):
            writer.write(b"x")
    finally:
        writer.close()
