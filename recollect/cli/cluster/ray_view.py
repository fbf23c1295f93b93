"""The terminal's view of a sweep on Ray: a line whenever runs have ended."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from recollect.analysis.wording import count_text
from recollect.cli.cluster.view import counted, say_collected
from recollect.cli.printing import complain, say
from recollect.errors import command_text
from recollect.running.cluster.plan import Plan
from recollect.running.signals import Interrupts

if TYPE_CHECKING:
    from recollect.running.cluster.collect import Collected
    from recollect.running.cluster.ray_tasks import RayOptions


def run_on_ray(
    plan: Plan,
    packs: Sequence[int],
    options: "RayOptions",
) -> None:
    """Train until all packs are complete."""
    from recollect.running.cluster.ray_tasks import train_with_ray

    interrupts, shown = Interrupts(), ""

    def tell(found: "Collected") -> None:
        nonlocal shown
        line = counted(found)
        if line != shown:
            shown = line
            say(line)

    found = train_with_ray(plan, packs, options, interrupts.exit_code, tell)
    say_collected(plan.folder, found)
    failed = sum(pack.failed for pack in found.packs)
    if failed:
        why = command_text("failures", plan.folder)
        complain(f"{count_text(failed, 'run')} failed; `{why}` says why")
        raise typer.Exit(1)
