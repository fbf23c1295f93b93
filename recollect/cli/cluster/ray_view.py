"""A sweep on Ray as a person sees it: a line whenever runs have ended."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from recollect.cli.cluster.view import counted, say_collected
from recollect.cli.printing import complain, say
from recollect.running.cluster.plan import Plan
from recollect.running.signals import Interrupts

if TYPE_CHECKING:
    from recollect.running.cluster.collect import Collected


def run_on_ray(
    plan: Plan,
    packs: Sequence[int],
    address: str | None,
    device: str,
    gpus: float | None,
    cpus: int,
    retry_failed: bool,
) -> None:
    """Until all packs are complete."""
    from recollect.running.cluster.ray_tasks import RayOptions, train_with_ray

    interrupts, shown = Interrupts(), ""

    def tell(found: "Collected") -> None:
        nonlocal shown
        line = counted(found)
        if line != shown:
            shown = line
            say(line)

    options = RayOptions(address, device, gpus, cpus, retry_failed)
    found = train_with_ray(plan, packs, options, interrupts.exit_code, tell)
    say_collected(plan.folder, found)
    failed = sum(pack.failed for pack in found.packs)
    if failed:
        complain(f"{failed} runs failed; `recollect failures {plan.folder}` says why")
        raise typer.Exit(1)
