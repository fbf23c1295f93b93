"""What the program loads only when it comes to need it, loaded once,
by the fork server, for all its children.

Otherwise every child would load it again, for a second or more, and then compute for a quarter of
one. A real process of the program, as in test_run_signals.py, still loads all by itself.
"""

from run_workers import M, sweep

from recollect.analysis import export
from recollect.ops import dispatch as kernels
from recollect.reports import page as report
from recollect.reports.live import view
from recollect.reports.page import gather as evidence
from recollect.reports.paper import claims, figures
from recollect.running import spending
from recollect.running.planning.cost import cost
from recollect.running.processes import child, count, parent

__all__ = [
    "child",
    "claims",
    "count",
    "evidence",
    "export",
    "figures",
    "parent",
    "report",
    "spending",
    "view",
]

for run in sweep(M).runs:  # of each mixer: torch's meta device comes with all of its compiler
    cost(run)
if kernels.has_numba():
    from recollect.ops.selective_scan import numba_kernel  # noqa: F401
