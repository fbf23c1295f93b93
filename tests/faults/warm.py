"""What the program loads only when it comes to need it, loaded once, by the fork server, for all
its children.

Otherwise every child would load it again, for a second or more, and then compute for a quarter of
one. A real process of the program, as in test_run_signals.py, still loads all by itself.
"""

from plotly import offline
from run_workers import M, sweep

from recollect.analysis import export
from recollect.cli import progress
from recollect.ops import dispatch as kernels
from recollect.reports import page as report
from recollect.reports.page import gather as evidence
from recollect.reports.paper import claims, figures
from recollect.running import processes as workers
from recollect.running import spending
from recollect.running.planning import planner

__all__ = [
    "claims",
    "evidence",
    "export",
    "figures",
    "offline",
    "progress",
    "report",
    "spending",
    "workers",
]

for run in sweep(M).runs:  # of each mixer: torch's meta device comes with all of its compiler
    planner.cost(run)
if kernels.has_numba():
    from recollect.ops import scan_cpu  # noqa: F401
