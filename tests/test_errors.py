"""Errors that nobody expected, in words for a person: at most three lines, the right exit code."""

import errno
import os
import shlex
from pathlib import Path

import pytest

from recollect.errors import (
    RecollectError,
    ResourceError,
    SpecError,
    as_refusal,
    command_text,
    lacks_memory,
)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 1 GB"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_a_lack_of_memory_is_known_in_many_words(error):
    assert lacks_memory(error)
    refusal = as_refusal(error, " in a worker process")
    assert type(refusal) is ResourceError
    assert str(refusal).startswith("out of memory in a worker process; close other programs")


def test_errors_of_the_system_name_the_file_if_there_is_one():
    named = as_refusal(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "a.toml"))
    assert (type(named), str(named)) == (
        SpecError,
        "a.toml: No such file or directory; give another path",
    )
    nameless = as_refusal(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert (type(nameless), str(nameless)) == (
        ResourceError,
        "No space left on device; make room, then go on",
    )


@pytest.mark.parametrize(
    "error", [ValueError("a\nb\x1b[2J"), GeneratorExit(), SystemExit("x" * 999)]
)
def test_anything_else_is_a_bug_in_two_lines(error):
    refusal = as_refusal(error)
    assert type(refusal) is RecollectError
    first, second = str(refusal).split("\n")
    assert first.startswith(f"internal error: {type(error).__name__}: ")
    assert len(first) < 350
    assert first.isprintable()
    assert second == "please report it; RECOLLECT_DEBUG=1 shows where it happened"


def test_a_command_is_what_a_shell_takes_for_the_same_words():
    folder = Path("my results/o'clock")
    text = command_text("export", folder, "--salvage")
    assert shlex.split(text) == ["recollect", "export", str(folder), "--salvage"]
    assert command_text("resume", Path("out")) == "recollect resume out"
    assert command_text("resume", Path("-out")) == "recollect resume ./-out"
    assert command_text("export", Path("-o/x"), "--salvage") == "recollect export ./-o/x --salvage"
