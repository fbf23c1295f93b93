"""A process that trains on a CPU keeps the memory of freed tensors,
until it is asked for it or memory is short.
"""

import ctypes
import subprocess
import sys

import pytest

CODE = """
import torch
from recollect.training import allocator

def held_after(megabytes):
    torch.ones(megabytes * 2**18)
    return int(open("/proc/self/statm").read().split()[1]) * 4 // 1024

found = [held_after(64)]
allocator.keep_freed_memory()
found.append(held_after(64))
allocator.trim_freed_memory()
found.append(held_after(1))
allocator.give_back_freed_memory()
allocator.keep_freed_memory()
found.append(held_after(256))
print(*found)
"""


LIMITED = """
import resource
from recollect.training import allocator

resource.setrlimit(resource.RLIMIT_AS, (2**40, resource.getrlimit(resource.RLIMIT_AS)[1]))
allocator._set_option = None  # would be called
allocator.keep_freed_memory()
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc alone"
)
def test_freed_memory_is_kept_until_memory_is_short():
    ended = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    alone, kept, given_back, short = map(int, ended.stdout.split())
    assert kept > alone + 50
    assert max(given_back, short) < alone + 20


@pytest.mark.skipif(sys.platform != "linux", reason="no such limit")
def test_a_limited_address_space_is_left_alone():
    subprocess.run([sys.executable, "-c", LIMITED], check=True)
