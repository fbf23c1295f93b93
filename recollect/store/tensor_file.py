"""Tensor files with a checksum: safetensors, which cannot contain code, with JSON in the metadata.

Both torch and safetensors load most flipped bits without an error; the checksum detects them. There
are two layouts:

    sealed   a magic line, the sha256 of everything after it, the safetensors body;
             verified before anything is parsed. With a key the sha256 is an HMAC: it cannot be
             made without the key, and a file sealed with another key is rejected
    plain    the safetensors body alone, which any tool can open; the sha256 of the tensors is
             stored with the JSON and verified when the tensors are read
"""

import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from recollect.errors import SpecError, StoreError
from recollect.store.durable import (
    IrregularFileError,
    make_folder,
    open_regular,
    write_atomically,
)

Header = dict[str, Any]  # values that JSON can represent
Tensors = dict[str, Tensor]

_KEY, _CHECKSUM = "recollect", "sha256"
_CHECKSUM_LINE = 65  # 64 hex digits and a newline
UNKEYED, KEYED = 1, 2  # versions of a sealed file
_KNOWN = (b"1", b"2")
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
# The order in which safetensors lays tensors out: widest first, so that all are aligned.
_LAYOUT = ("I64", "F64", "F32", "I32", "BF16", "F16", "I16", "I8", "U8", "BOOL")
_UNPARSED = (ValueError, TypeError, KeyError, RecursionError, safetensors.SafetensorError)


class UnreadableError(StoreError):
    """The file cannot be read at present but may be intact, so it must not be renamed."""


@dataclass(frozen=True)
class TensorFormat:
    """One kind of file. `remedy` is the end of the message about a damaged file."""

    remedy: str
    sealed_as: str = ""  # the name in the magic line; empty: plain

    def write(
        self,
        path: Path,
        header: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        key: bytes = b"",
    ) -> None:
        """Write a file durably: at any moment a reader or a crash finds the old or the new file.

        A `key` makes the seal an HMAC. Plain files have no seal and ignore it.
        """
        if not self.sealed_as:
            header = {**header, _CHECKSUM: _digest(tensors)}
        pieces = list(_encode(header, tensors))
        if self.sealed_as:
            pieces = [self._magic(key), _seal(pieces, key), *pieces]
        make_folder(path.parent)
        write_atomically(path, pieces)

    def read(self, path: Path, key: bytes = b"") -> tuple[Header, Tensors]:
        """Read header and tensors to the CPU; raise StoreError if a bit of the tensors changed."""
        body = self._body(path, key)
        header = self._header(path, body)
        try:
            tensors = safetensors.torch.load(body)
            sound = bool(self.sealed_as) or header.pop(_CHECKSUM) == _digest(tensors)
        except _UNPARSED as error:
            raise self.damaged(path, f"no tensors inside: {error!r}") from None
        if not sound:
            raise self.damaged(path, "its checksum is wrong")
        return header, tensors

    def read_header(self, path: Path, key: bytes = b"") -> Header:
        """Read the header alone. A sealed file is verified as a whole, a plain file is not."""
        if self.sealed_as:
            return self._header(path, self._body(path, key))
        try:
            os.close(open_regular(path))
            # The metadata are the same for all frameworks. For torch the file would be opened a
            # second time, and one that was removed meanwhile would be a RuntimeError.
            with safetensors.safe_open(path, "numpy") as file:
                header: Header = json.loads(file.metadata()[_KEY])
                del header[_CHECKSUM]
                return header
        except IrregularFileError:
            raise self.damaged(path, "it is no regular file") from None
        except _UNPARSED as error:
            raise self.damaged(path, repr(error)) from None

    def damaged(self, path: Path, why: str) -> StoreError:
        return StoreError(f"{path}: damaged or foreign ({why}){self.remedy}")

    @property
    def _family(self) -> bytes:
        return f"recollect {self.sealed_as} ".encode()

    def _magic(self, key: bytes) -> bytes:
        return self._family + b"%d\n" % (KEYED if key else UNKEYED)

    def _body(self, path: Path, key: bytes) -> bytes:
        """The safetensors part of a file, verified if the file is sealed."""
        magic = self._magic(key) if self.sealed_as else b""
        try:
            with os.fdopen(open_regular(path), "rb") as file:
                if not self.sealed_as:
                    return file.read()
                seal, body = file.read(len(magic) + _CHECKSUM_LINE), file.read()
        except FileNotFoundError:
            raise
        except IrregularFileError:
            raise self.damaged(path, "it is no regular file") from None
        except OSError as error:
            raise UnreadableError(
                f"{path}: cannot be read ({error.strerror}); fix that, then `recollect resume`"
            ) from None
        if not seal.startswith(magic):
            # A version without a newline was cut off, so the file is damaged.
            version, newline, _ = seal.removeprefix(self._family).partition(b"\n")
            if seal.startswith(self._family) and newline and version in _KNOWN:
                how = "without a key" if key else "with a key, and none is known here"
                raise self.damaged(path, f"it is sealed {how}")
            if seal.startswith(self._family) and newline and version.isdigit():
                raise UnreadableError(
                    f"{path}: written by another version of recollect; upgrade, or resume with "
                    "that version"
                )
            raise self.damaged(path, f"it does not begin like a {self.sealed_as}")
        if _seal([body], key) != seal[len(magic) :]:
            size = len(seal) + len(body)
            other = ", or it was sealed with another key" if key else ""
            raise self.damaged(path, f"the checksum of its {size:,} bytes is wrong{other}")
        return body

    def _header(self, path: Path, body: bytes) -> Header:
        try:
            length = int.from_bytes(body[:8], "little")
            header = json.loads(json.loads(body[8 : 8 + length])["__metadata__"][_KEY])
        except _UNPARSED as error:
            raise self.damaged(path, f"no header inside: {error!r}") from None
        if not isinstance(header, dict):
            raise self.damaged(path, "its header is no table")
        return header


def _seal(pieces: Iterable[bytes | memoryview], key: bytes) -> bytes:
    """The checksum line that follows the magic line."""
    digest = hmac.new(key, digestmod="sha256") if key else hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest().encode() + b"\n"


def _encode(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Iterator[Any]:
    """Yield the bytes that `safetensors.torch.save` would return, piece by piece.

    That function holds a second copy of every tensor in memory.
    """
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES:
            raise SpecError(
                f"tensor {name}: dtype {tensor.dtype} cannot be saved; use one of "
                f"{', '.join(map(str, _DTYPES))}"
            )
    # A single entry of metadata: safetensors writes several entries in arbitrary order, and equal
    # tensors should give equal files.
    table: dict[str, Any] = {"__metadata__": {_KEY: json.dumps(header)}}
    pieces, end = [], 0
    dtypes = {name: _DTYPES[tensor.dtype] for name, tensor in tensors.items()}
    for name in sorted(tensors, key=lambda name: (_LAYOUT.index(dtypes[name]), name)):
        data = _bytes_of(tensors[name])
        start, end = end, end + data.nbytes
        shape = list(tensors[name].shape)
        table[name] = {"dtype": dtypes[name], "shape": shape, "data_offsets": [start, end]}
        pieces.append(data)
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    yield from pieces


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """sha256 of the names, types, shapes and contents, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(_bytes_of(tensor))
    return digest.hexdigest()


def _bytes_of(tensor: Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    data: memoryview = flat.numpy().data
    return data
