"""Places where a test can kill this process: there is one at each step of every durable write.

Without RECOLLECT_FAILPOINT in the environment, a failpoint costs one dictionary lookup, next to an
fsync. With RECOLLECT_FAILPOINT="name:n" the n-th call of failpoint `name` ends the process by
SIGKILL: no handler runs and no buffer is flushed, as when the kernel kills it.
"""

import os
import signal
from collections import Counter

from recollect.errors import SpecError

VARIABLE = "RECOLLECT_FAILPOINT"
NAMES = (
    "file.created",  # the temporary file exists and is empty
    "file.written",  # its bytes are handed to the system, not yet to the disk
    "file.synced",  # its bytes are on the disk under the temporary name
    "file.renamed",  # the final name points to it, but the folder is not yet on the disk
    "file.durable",  # the file and its folder are on the disk
    "checkpoint.pruned",  # an older checkpoint of the same pack is gone
    "store.opened",  # the database file exists, perhaps without a table
    "store.written",  # all statements of a transaction are executed, before the commit
    "store.committed",  # the transaction is on the disk, the caller does not know yet
    "spool.written",  # a record is handed to the system, not yet to the disk
    "spool.synced",  # it is on the disk, the caller does not know yet
)
_KNOWN = frozenset(NAMES)
_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Kill this process if the environment asks for it; tests visit every name in NAMES."""
    if name not in _KNOWN:
        raise SpecError(
            f"failpoint {name!r}: unknown; add it to NAMES in recollect/store/failpoint.py"
        )
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    target, passing = _parse(wanted)
    _passed[name] += 1
    if name == target and _passed[name] == passing:
        os.kill(os.getpid(), signal.SIGKILL)


def _parse(wanted: str) -> tuple[str, int]:
    name, _, count = wanted.partition(":")
    if name not in _KNOWN or not count.isdecimal() or int(count) < 1:
        raise SpecError(
            f"{VARIABLE} = {wanted!r}: must be NAME:N with N >= 1 and NAME one of "
            f"{', '.join(NAMES)}"
        )
    return name, int(count)
