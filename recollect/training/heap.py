"""Memory that stays with a process that trains on a CPU, so that the tensors of one step lie where
those of the last one lay.

Left alone, glibc takes large blocks from the system and gives them back as soon as they are free;
then the system clears every page of every large tensor of every step. On Linux that was a third of
a step (docs/decisions/freed-memory-on-a-cpu.md).
"""

import ctypes
import sys
from functools import cache

# Of <malloc.h>: free memory above which some is given back, and how many blocks may be taken apart
# from the heap.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
DEFAULT_TRIM_THRESHOLD, DEFAULT_MMAP_MAX = 128 * 1024, 65_536


@cache
def keep_freed_memory() -> None:
    """From now on freed memory is used again and not given back. The process grows by about a
    fifth, for blocks leave gaps.

    Once per process: it stays undone after `give_back_freed_memory`. Where the address space is
    limited (`ulimit -v`) nothing is kept: gaps count against the limit, and a run that fits might
    not.
    """
    if _address_space_is_free():
        _set(M_MMAP_MAX, 0)
        _set(M_TRIM_THRESHOLD, -1)


def give_back_freed_memory() -> None:
    """The opposite, where memory is short."""
    _set(M_MMAP_MAX, DEFAULT_MMAP_MAX)
    _set(M_TRIM_THRESHOLD, DEFAULT_TRIM_THRESHOLD)


def give_back_once() -> None:
    """Give back what is free now, and go on as before."""
    _call("malloc_trim", 0)


def _address_space_is_free() -> bool:
    if sys.platform != "linux":
        return False
    import resource  # not everywhere

    return resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def _set(option: int, value: int) -> None:
    _call("mallopt", option, value)


def _call(name: str, *arguments: int) -> None:
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if function is not None:  # not every C library has it
        function(*arguments)
