"""The study's claims C1 to C26 as code: rows in, verdicts out.

Each claim names its setting, its rule and its thresholds, and is decided on rows of the study's own
scale only; what the same rule says about smaller rows is a remark. See claim.py for what a claim
is, checks.py for how a rule can be open, and rules/ for the rules.
"""

from collections.abc import Iterable

from recollect.analysis import Curves
from recollect.reports.paper.claims.checks import Check as Check
from recollect.reports.paper.claims.claim import Claim as Claim
from recollect.reports.paper.claims.claim import Verdict as Verdict
from recollect.reports.paper.claims.judge import judge
from recollect.reports.paper.claims.rules import (
    ablation,
    copying,
    depth,
    dynamics,
    positions,
    search,
    solving,
    windows,
)
from recollect.rows import RunRow

CLAIMS: tuple[Claim, ...] = (
    solving.attention_solves_all,
    windows.attention_is_wide,
    windows.recurrent_is_narrow,
    search.sparse_grid_misses,
    search.finer_grid_is_better,
    solving.mamba_solves_narrow,
    solving.hyena_stays_below,
    search.stars_are_lower_bounds,
    depth.one_attention_fails,
    depth.one_attention_recalls_one,
    solving.width_helps_recurrent,
    solving.one_mamba_solves,
    solving.hyena_needs_width,
    depth.scaling_is_opposite,
    windows.depth_changes_nothing,
    copying.width_copies,
    copying.copying_is_narrow,
    dynamics.only_attention_bumps,
    dynamics.mamba_bumps,
    ablation.convolution_decides,
    ablation.two_layers_need_no_convolution,
    windows.narrow_without_convolution,
    positions.positions_do_not_matter,
    windows.delta_net_is_robust,
    search.attention_needs_no_search,
    solving.solved_is_a_line,
)


def check(rows: Iterable[RunRow], curves: Curves) -> list[Verdict]:
    """A verdict for every claim, C1 to C26."""
    return judge(CLAIMS, rows, curves)
