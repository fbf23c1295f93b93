"""Checkpoints of populations: one checksummed file each, which holds numbers and JSON and can hold
no code.

A file is a magic line, the sha256 of everything after it, and a safetensors body whose metadata
names the members. The checksum is verified before anything is parsed: torch and safetensors alike
load most flipped bits without a word. A pack keeps its two newest files; a damaged one is renamed
`.bad` and never deleted, so the one before it is used and the evidence stays.
"""

import contextlib
import hashlib
import itertools
import json
import platform
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

import recollect
from recollect.errors import SpecError, StoreError
from recollect.store.durable import make_folder, write_atomically
from recollect.store.failpoint import failpoint

KEEP = 2
SUFFIX = ".ckpt"
_FAMILY = b"recollect checkpoint "
_MAGIC = _FAMILY + b"1\n"
_PREFIX = len(_MAGIC) + 65  # the magic line and the checksum line
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


def versions() -> dict[str, str]:
    """What numbers depend on beside the specification."""
    return {
        "recollect": recollect.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


@dataclass(frozen=True)
class Checkpoint:
    """A population between two steps; tensors that belong to the members have the axis P first, in
    the order of `run_ids`.
    """

    run_ids: tuple[str, ...]
    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]  # anything JSON can hold
    versions: dict[str, str] = field(default_factory=versions)
    device: str = "cpu"
    threads: int = field(default_factory=torch.get_num_threads)


@dataclass(frozen=True)
class Entry:
    """A checkpoint on the disk whose checksum is right."""

    path: Path
    run_ids: tuple[str, ...]
    step: int


@dataclass(frozen=True)
class Catalogue:
    """What a folder holds, and what was found damaged in it."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...]

    def newest(self, run_id: str) -> Entry | None:
        """The furthest checkpoint that has this run as a member."""
        return max(
            (entry for entry in self.entries if run_id in entry.run_ids),
            key=lambda entry: entry.step,
            default=None,
        )


class _UnreadableError(StoreError):
    """Perhaps sound, but not to be read here and now: not ours to set aside."""


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint durably, then drop those of the same members that are older than the KEEP
    newest.
    """
    make_folder(folder)
    pack = hashlib.sha256("\n".join(checkpoint.run_ids).encode()).hexdigest()[:12]
    path = folder / f"{pack}-{checkpoint.step}{SUFFIX}"
    body = list(_body(checkpoint))
    digest = hashlib.sha256()
    for piece in body:
        digest.update(piece)
    write_atomically(path, [_MAGIC, digest.hexdigest().encode() + b"\n", *body])
    for old in sorted(
        folder.glob(f"{pack}-*{SUFFIX}"), key=lambda old: int(old.stem.rpartition("-")[2])
    )[:-KEEP]:
        old.unlink(missing_ok=True)
        failpoint("checkpoint.pruned")
    return path


def load(path: Path) -> Checkpoint:
    """The checkpoint at `path`, on the CPU, or a StoreError if a single bit is not as it was
    written.
    """
    try:
        body = _verified(path)
    except FileNotFoundError:
        raise StoreError(
            f"{path}: no such checkpoint; `recollect resume` finds the newest there is"
        ) from None
    about = _about(path, body)
    try:
        return Checkpoint(tensors=safetensors.torch.load(body), **about)
    except (ValueError, TypeError, KeyError, safetensors.SafetensorError) as error:
        raise _damaged(path, f"no tensors inside: {error}") from None


def catalogue(folder: Path) -> Catalogue:
    """All sound checkpoints of a folder; damaged ones are renamed `.bad` and named, this one time."""
    entries, problems = [], []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            about = _about(path, _verified(path))
            entries.append(Entry(path, about["run_ids"], about["step"]))
        except FileNotFoundError:
            continue  # another process has pruned it since it was listed
        except _UnreadableError as error:
            problems.append(str(error))
        except StoreError as error:
            problems.append(f"{error}; kept as {_set_aside(path).name}")
    return Catalogue(tuple(entries), tuple(problems))


def discard(folder: Path, finished: Collection[str]) -> list[Path]:
    """Remove the checkpoints all of whose members are finished: nothing will go on from them."""
    done, gone = set(finished), []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        # What cannot be read stays, for `catalogue` to report.
        with contextlib.suppress(StoreError, FileNotFoundError):
            if done.issuperset(_about(path, _verified(path))["run_ids"]):
                path.unlink()
                gone.append(path)
    return gone


def _body(checkpoint: Checkpoint) -> Iterator[bytes | memoryview]:
    """The safetensors format, piece by piece:

    `safetensors.save` would hold a second copy of every tensor.
    """
    about = {name: value for name, value in vars(checkpoint).items() if name != "tensors"}
    header: dict[str, Any] = {"__metadata__": {"recollect": json.dumps(about)}}
    pieces, end = [], 0
    for name, tensor in checkpoint.tensors.items():
        if tensor.dtype not in _DTYPES:
            raise SpecError(
                f"tensor {name}: dtype {tensor.dtype} cannot be saved; use "
                "one of "
                f"{', '.join(map(str, _DTYPES))}"
            )
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        start, end = end, end + flat.numel()
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        pieces.append(flat.numpy().data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    yield from pieces


def _verified(path: Path) -> bytes:
    """The body of a file whose checksum is right."""
    try:
        with path.open("rb") as file:
            prefix, body = file.read(_PREFIX), file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _UnreadableError(
            f"{path}: cannot be read ({error.strerror}); mend that, then `recollect resume`"
        ) from None
    if not prefix.startswith(_MAGIC):
        version, newline, _ = prefix[len(_FAMILY) :].partition(
            b"\n"
        )  # cut off before the newline it is no version but damage
        if prefix.startswith(_FAMILY) and newline and version.isdigit():
            raise _UnreadableError(
                f"{path}: written by another version of recollect; upgrade, or "
                "resume "
                "with that version"
            )
        raise _damaged(path, "it does not begin like a checkpoint")
    if hashlib.sha256(body).hexdigest().encode() + b"\n" != prefix[len(_MAGIC) :]:
        raise _damaged(path, f"the checksum of its {len(prefix) + len(body):,} bytes is wrong")
    return body


def _about(path: Path, body: bytes) -> dict[str, Any]:
    """Everything but the tensors."""
    try:
        length = int.from_bytes(body[:8], "little")
        about: dict[str, Any] = json.loads(
            json.loads(body[8 : 8 + length])["__metadata__"]["recollect"]
        )
        run_ids, step = about["run_ids"], about["step"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path, f"no header inside: {error!r}") from None
    if (
        type(step) is not int
        or type(run_ids) is not list
        or not all(type(run_id) is str for run_id in run_ids)
    ):
        raise _damaged(path, "its header names no members or no step")
    return about | {"run_ids": tuple(run_ids)}


def _set_aside(path: Path) -> Path:
    """Rename a damaged file so that nobody reads it again, without covering an earlier one."""
    names = (path.with_suffix(f".{count}.bad" if count else ".bad") for count in itertools.count())
    bad = next(name for name in names if not name.exists())
    return path.rename(bad)


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path}: damaged or foreign ({why}); resume from an older checkpoint or from the start"
    )
