"""Policy of the C allocator: a process that trains on a CPU reuses the memory of the last step.

By default glibc maps large blocks and unmaps them when they are freed, so the system clears every
page of every large tensor in every step. On Linux this takes a third of the time of a step
(docs/decisions/freed-memory-on-a-cpu.md).
"""

import ctypes
import sys
from functools import cache

# Options of <malloc.h>: the amount of free memory above which some is returned to the system, and
# the number of blocks that may be mapped outside of the heap.
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
DEFAULT_TRIM_THRESHOLD, DEFAULT_MMAP_MAX = 128 * 1024, 65_536


@cache
def keep_freed_memory() -> None:
    """Reuse freed memory from now on and do not return it to the system.

    The process grows by about a fifth because of fragmentation. The call takes effect once per
    process: after `give_back_freed_memory` it does nothing. It also does nothing if the address
    space is limited (`ulimit -v`), because fragments count against the limit.
    """
    if _address_space_is_unlimited():
        _set_option(M_MMAP_MAX, 0)
        _set_option(M_TRIM_THRESHOLD, -1)


def give_back_freed_memory() -> None:
    """Restore the default policy, for when memory is short."""
    _set_option(M_MMAP_MAX, DEFAULT_MMAP_MAX)
    _set_option(M_TRIM_THRESHOLD, DEFAULT_TRIM_THRESHOLD)


def trim_freed_memory() -> None:
    """Return all memory that is free now to the system; the policy stays."""
    _call("malloc_trim", 0)


def _address_space_is_unlimited() -> bool:
    if sys.platform != "linux":
        return False
    import resource  # on Unix only

    return resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def _set_option(option: int, value: int) -> None:
    _call("mallopt", option, value)


def _call(name: str, *arguments: int) -> None:
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    if function is not None:  # not every C library has it
        function(*arguments)
