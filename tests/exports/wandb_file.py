"""The records of a W&B run file: the reader that the package itself has is part of a compiled
program. The frames are LevelDB's log format behind a header of seven bytes; each has a checksum.
"""

import binascii
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEADER = b":W&B"
BLOCK, FRAME = 32_768, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def records(path: Path) -> Iterator[Any]:
    """Each as the message it is."""
    from wandb.proto.wandb_internal_pb2 import Record

    for data in _frames(path.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        yield record


def _frames(content: bytes) -> Iterator[bytes]:
    assert content[:4] == HEADER
    place, pieces = len(HEADER) + 3, b""
    while place < len(content):
        left = BLOCK - place % BLOCK
        if left < FRAME:  # the rest of a block is padding
            place += left
            continue
        checksum, length, kind = struct.unpack_from("<IHB", content, place)
        piece = content[place + FRAME : place + FRAME + length]
        assert len(piece) == length, "the file ends within a record"
        # Of the kind and the piece, with the plain CRC-32 of zip files.
        assert binascii.crc32(piece, binascii.crc32(bytes([kind]))) == checksum
        place += FRAME + length
        pieces = pieces + piece if kind in (MIDDLE, LAST) else piece
        if kind in (FULL, LAST):
            yield pieces
