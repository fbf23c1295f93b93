"""What the program loads only when it comes to need it, loaded once, by the fork server, for all its children.

Otherwise every child would load it again, for a second or more, and then compute for a quarter of one. A real process of the
program, as in test_run_signals.py, still loads all by itself.
"""

from plotly import offline
from run_workers import M, sweep

from recollect import evidence, export, planner, progress, report, spending, workers
from recollect.ops import kernels
from recollect.paper import claims, figures

__all__ = ["claims", "evidence", "export", "figures", "offline", "progress", "report", "spending", "workers"]

for run in sweep(M).runs:  # of each mixer: torch's meta device comes with all of its compiler
    planner.cost(run)
if kernels.numba_works():
    from recollect.ops import scan_cpu  # noqa: F401
