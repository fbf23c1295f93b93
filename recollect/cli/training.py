"""Training for the verbs: run the engine with a view of its progress, then report how it ended, as
text and as an exit code.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from recollect.cli.printing import complain, say
from recollect.errors import ReaderGone, Stopped, command_text
from recollect.running.budget import Budget

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recollect.running.engine import Outcome
    from recollect.spec.sweep import Sweep

OUTPUT_CLOSED = 141  # 128 + SIGPIPE, as a shell reports it


def train_and_tell(
    folder: Path,
    sweeps: "Sequence[Sweep]" = (),
    budget: Budget | None = None,
    below: "RenderableType | None" = None,
    again: str | None = None,
    **arguments: Any,
) -> None:
    """Call the engine with a view of its progress, stoppable by signals, and report how it ended.

    On a terminal `below` is shown below the progress. `again` is the command that continues the
    training; None means `resume`.
    """
    from recollect.running.signals import Interrupts

    interrupts = Interrupts()  # before torch, which takes long to import
    from recollect.analysis import count_text
    from recollect.reports.live.view import TrainingView
    from recollect.running import engine

    try:
        with TrainingView(folder, below) as view:
            outcome = engine.train(
                folder,
                sweeps,
                budget=budget,
                stop=interrupts.exit_code,
                listen=view.hear,
                **arguments,
            )
    except ReaderGone:
        raise Stopped(
            "stopped, since nobody reads its output any more; continue with "
            f"`{again or _resume(folder)}`",
            OUTPUT_CLOSED,
        ) from None
    except Stopped as stopped:
        if again is None:
            raise
        raise Stopped(f"stopped; continue with `{again}`", stopped.exit_code) from None
    again = again or _resume(folder)
    _say_results(folder, budget, outcome, again, view.ended)
    if outcome.counts["running"]:
        say(f"another process trains {count_text(outcome.counts['running'], 'run')}")
    if outcome.counts["todo"] and not (budget or outcome.search):
        left = count_text(outcome.counts["todo"], "run")
        complain(f"{left} left to train; continue with `{again}`")
        raise typer.Exit(1)
    if outcome.failures:
        complain(
            f"{count_text(len(outcome.failures), 'run')} failed, the first with: "
            f"{outcome.failures[0]}\n"
            f"`{command_text('failures', folder)}` shows where"
        )
        no_memory = all(failure.startswith("oom") for failure in outcome.failures)
        raise typer.Exit(4 if no_memory else 1)


def _say_results(
    folder: Path, budget: Budget | None, outcome: "Outcome", again: str, ended: Collection[str]
) -> None:
    from recollect.analysis import closing, count_statuses, counts_text, group_cells, summarise
    from recollect.running.planning.priority import budget_text
    from recollect.running.results import RunSet

    results = RunSet.load(folder)
    say(counts_text(count_statuses(results.rows)))
    for text in closing(summarise(group_cells(results.rows), results.curves), ended):
        say(f"  {text}")
    for text in outcome.search:
        say(text)
    if budget:
        say(budget_text(results.rows, outcome.next_stage, budget.minutes, again))
    elif outcome.search and outcome.counts["todo"]:
        say(f"train the rest, if it is wanted, with `{again}`")
    elif any(row.has_result for row in results.rows):
        page, figure = command_text("report", folder), command_text("figure", "windows", folder)
        say(f"next: `{page}` (a page) or `{figure}`")


def _resume(folder: Path) -> str:
    """Return the command that continues a folder."""
    from recollect.mixers.plugins.remembered import resume_command
    from recollect.store import Store

    with Store.open(folder, read_only=True) as store:
        return resume_command(store)
