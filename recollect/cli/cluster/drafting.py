"""Drafts of plans for many machines, and the plug-ins that their tasks need."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.options import load_plugins
from recollect.errors import SpecError, command_text

if TYPE_CHECKING:
    from recollect.running.cluster.plan import DraftPlan, Plan
    from recollect.spec.sweep import Sweep


def draft(
    what: str,
    out: Path | None,
    sets: list[str],
    plugins: list[Path],
    limit_s: float | None,
    device: str,
    runs_per_pack: int | None,
    at_once: int | None,
) -> "DraftPlan | Plan":
    """Return the plan of the folder, or a draft if it has none."""
    from recollect.running.cluster.plan import is_planned, read_plan, refuse_used
    from recollect.store.database import FILE as STORE_FILE

    folder = out or Path(what)
    if is_planned(folder) and (out is None or folder == Path(what)):
        return read_plan(folder)
    if out is None and (folder / STORE_FILE).exists():
        raise SpecError(
            f"{folder}: planned by `recollect run` for one machine; go on with "
            f"`{command_text('resume', folder)}`"
        )
    if out is None:
        raise SpecError(
            f"{what}: no folder with a plan; to submit a sweep, say where its results go: --out DIR"
        )
    from recollect.reports.paper.presets import open_sweep
    from recollect.running.cluster.draft import draft_packs, draft_sweep

    sweep = open_sweep(what, sets)
    if is_planned(folder):
        plan = read_plan(folder)
        if plan.source != sweep.source:
            raise SpecError(
                f"{folder}: planned from another sweep ({plan.name}); give another --out, or "
                f"`{command_text('submit', folder)}` for what is left of it"
            )
        return plan
    refuse_used(folder)
    if plugins:
        try_plugins(sweep, device)
    packs = draft_packs(sweep.runs, device, limit_s, runs_per_pack, at_once)
    return draft_sweep(folder, sweep, packs, plugins)


def try_plugins(sweep: "Sweep", device: str) -> None:
    """Try mixers from outside here if this machine has what the tasks will use; else they do it."""
    import torch

    from recollect.mixers.plugins.runs import require_mixers

    if device == "cpu" or torch.cuda.is_available():
        require_mixers(sweep.runs, torch.device("cpu" if device == "cpu" else "cuda"))


def require_plugins(plan: "Plan", given: list[Path]) -> None:
    """Load plug-ins; refuse a plan that needs some if none is given, before anything is trained."""
    if plan.plugins and not given:
        named = shlex.join(word for file in plan.plugins for word in ("--plugin", file))
        raise SpecError(
            f"{plan.folder}: planned with plug-ins, whose code runs only if you name them: add "
            f"{named}"
        )
    load_plugins(given)
