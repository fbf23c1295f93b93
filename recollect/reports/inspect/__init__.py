"""Inspect a trained run: `inspect_run(folder, run)` measures it and draws the results.

Reading a record does not need torch, so the modules that compute are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.reports.inspect.inspecting import inspect_run as inspect_run
    from recollect.reports.inspect.record import Inspection as Inspection
    from recollect.reports.inspect.summary import summary_lines as summary_lines

_MODULES = {"Inspection": "record", "inspect_run": "inspecting", "summary_lines": "summary"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
