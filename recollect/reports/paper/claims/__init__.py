"""The study's claims as code: rows in, verdicts out, by recipe.

Each claim names its setting, its rule and its thresholds. It is decided only on rows of one recipe
at the study's own scale; the result of the same rule on smaller rows is a remark. See claim.py for
what a claim is, checks.py for how a rule can be open, coverage.py for how cells become a verdict,
and rules/ for the rules.
"""

from collections.abc import Iterable, Sequence

from recollect.analysis import Curves
from recollect.reports.paper.claims.checks import Check as Check
from recollect.reports.paper.claims.claim import Claim as Claim
from recollect.reports.paper.claims.claim import Verdict as Verdict
from recollect.reports.paper.claims.groups import Kept
from recollect.reports.paper.claims.judge import judge
from recollect.reports.paper.claims.judge import recipes_of as recipes_of
from recollect.reports.paper.claims.rules import (
    ablation,
    copying,
    decay,
    depth,
    dynamics,
    positions,
    search,
    solving,
    width,
    windows,
)
from recollect.reports.paper.claims.wanted import HEADLINE as HEADLINE
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
    width.width_helps_recurrent,
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
    dynamics.attention_does_not_fit,
    solving.based_needs_two_layers,
    width.width_helps_two_layers,
    solving.others_solve_with_one_layer,
    windows.larger_state_is_wider,
    decay.decay_is_faster,
)


def check(
    rows: Iterable[RunRow],
    curves: Curves,
    recipe: str = HEADLINE,
    claims: Sequence[Claim] = CLAIMS,
    kept: Kept | None = None,
) -> list[Verdict]:
    """Judge every claim by the rows of one recipe; `recipes_of` lists the available recipes.

    `kept` is the decay that inspections measured (inspections.kept_per_token).
    """
    return judge(claims, rows, curves, recipe, kept)
