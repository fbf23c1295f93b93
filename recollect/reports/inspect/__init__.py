"""Looking inside a trained run: `examine(folder, run)` gives its numbers and draws them.

Reading what was found needs no torch, so what computes is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.reports.inspect.examination import Examination as Examination
    from recollect.reports.inspect.looking import examine as examine
    from recollect.reports.inspect.summary import summary_lines as summary_lines

_PLACES = {"Examination": "examination", "examine": "looking", "summary_lines": "summary"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
