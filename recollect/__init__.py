"""recollect: can this sequence mixer learn to recall, and how hard is it to train to do so?

This module holds the public names. Each is imported when it is first used, so that
`import recollect` is fast.
"""

import os
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Waiting threads of GNU OpenMP spin for a long time by default. If another program occupies the
# core of the thread they wait for, a step can take tens of times as long. OpenMP reads the variable
# when torch is loaded, so it is set before (docs/decisions/spinning-threads.md).
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

_PUBLIC = {
    "mixer": "recollect.mixers.plugins.register",
    "RunSpec": "recollect.spec.run",
    "run": "recollect.api",
    "Results": "recollect.api",
}
__all__ = ["Results", "RunSpec", "__version__", "mixer", "run"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
