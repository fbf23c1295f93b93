"""The terminal's view of a sweep on many machines: its packs, the script, its state."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.printing import render, say, write
from recollect.errors import command_text
from recollect.running.cluster.jobs import read_request, recorded_jobs
from recollect.running.cluster.plan import Plan, read_plan
from recollect.running.cluster.slurm import SlurmOptions, TaskState, chunks, script, task_states

if TYPE_CHECKING:
    from recollect.running.cluster.collect import Collected, PackState

SHOWN_PACKS, SHOWN_HOSTS = 20, 4


def show_plan(plan: Plan, options: SlurmOptions | None) -> None:
    """Show what would be submitted: packs by kind, and the first script."""
    from recollect.analysis.wording import about_text, count_text, time_text
    from recollect.cli.tables import plain_table

    table = plain_table("packs", "runs", "what", "forecast of one")
    kinds: dict[str, list[int]] = {}
    for index, pack in enumerate(plan.packs):
        kinds.setdefault(pack.label, []).append(index)
    for label, indices in kinds.items():
        runs = sum(plan.packs[index].runs for index in indices)
        longest = max(1.0, *(plan.packs[index].seconds for index in indices))
        table.add_row(str(len(indices)), str(runs), label, f"at most {time_text(longest)}")
    render(table)
    whole = about_text(sum(pack.seconds for pack in plan.packs))
    packs = count_text(len(plan.packs), "pack")
    say(f"{count_text(plan.runs, 'run')} in {packs}, {whole} of one device")
    if options is not None:
        first, tasks = chunks(range(len(plan.packs)))[0]
        say("")
        write(script(plan, first, tasks, options))


def show_status(folder: Path) -> None:
    """Collect, then print the state of every pack."""
    from recollect.analysis.wording import time_text
    from recollect.running.cluster.collect import collect_once

    plan = read_plan(folder)
    found = collect_once(plan)
    states = task_states(recorded_jobs(folder))
    say(counted(found))
    if states is None:
        say("Slurm does not answer: what its tasks do is unknown")
    say(_by_state(found, states or {}))
    _show_packs(plan, found, states or {})
    _say_troubles(folder, found)
    waiting = [pack for pack in found.packs if not pack.is_complete]
    if waiting:
        left_s = sum(
            plan.packs[pack.index].seconds * (1 - (pack.done + pack.failed) / pack.runs)
            for pack in waiting
        )
        say(f"left by forecast: {time_text(left_s)} of one device")
    if waiting and not states:
        how = "" if read_request(folder) else " with --slurm or --ray"
        say(f"continue with `{command_text('submit', folder)}`{how}")


def say_collected(folder: Path, found: "Collected") -> None:
    say(counted(found))
    _say_troubles(folder, found)
    say(f"results: {folder}; see `{command_text('report', folder)}`")


def counted(found: "Collected") -> str:
    """Return the numbers of runs and packs as one line."""
    from recollect.analysis.wording import count_text

    done, failed = (sum(getattr(p, name) for p in found.packs) for name in ("done", "failed"))
    runs = sum(pack.runs for pack in found.packs)
    complete = sum(pack.is_complete for pack in found.packs)
    left = runs - done - failed
    return (
        f"{count_text(runs, 'run')} = {done} done + {failed} failed + {left} to do; "
        f"{complete} of {len(found.packs)} packs complete"
    )


def _by_state(found: "Collected", states: dict[int, TaskState]) -> str:
    """Return one line with the number of packs in each state and the hosts on which they train."""
    counts = Counter(_state(pack, states.get(pack.index)) for pack in found.packs)
    hosts = {task.host for task in states.values() if task.host}
    where = f"; on {', '.join(sorted(hosts)[:SHOWN_HOSTS])}" if hosts else ""
    more = f" and {len(hosts) - SHOWN_HOSTS} more" if len(hosts) > SHOWN_HOSTS else ""
    return f"packs: {', '.join(f'{n} {state}' for state, n in counts.most_common())}{where}{more}"


def _state(pack: "PackState", task: TaskState | None) -> str:
    if pack.is_complete:
        return "complete"
    if task is not None:
        return task.state.lower()
    # An attempt that has not ended and is unknown to the scheduler may train elsewhere, or be dead.
    return pack.ended or ("begun" if pack.attempts else "waiting")


def _show_packs(plan: Plan, found: "Collected", states: dict[int, TaskState]) -> None:
    from recollect.cli.tables import plain_table

    table = plain_table("pack", "what", "done", "attempts", "step", "state", "host", "time left")
    open_packs = [pack for pack in found.packs if not pack.is_complete]
    for pack in open_packs[:SHOWN_PACKS]:
        task = states.get(pack.index)
        reason = f" ({task.reason})" if task and task.reason != "None" else ""
        table.add_row(
            str(pack.index),
            plan.packs[pack.index].label,
            f"{pack.done}/{pack.runs}",
            str(pack.attempts),
            str(max(pack.step, 0)),
            _state(pack, task) + reason,
            (task.host if task else "") or pack.host,
            task.left if task else "",
        )
    if open_packs:
        render(table)
    if len(open_packs) > SHOWN_PACKS:
        say(f"and {len(open_packs) - SHOWN_PACKS} more packs")


def _say_troubles(folder: Path, found: "Collected") -> None:
    for problem in found.problems:
        say(f"problem: {problem}")
    for conflict in found.conflicts:
        names = " and ".join(conflict.attempts)
        say(f"conflict: run {conflict.run_id} of pack {conflict.pack} ended differently in {names}")
    if found.conflicts:
        say(
            f"such runs are left out; `{command_text('collect', folder, '--settle', 'first')}` "
            "takes the attempt that came first"
        )
