"""Verbs for many machines: submit, work, collect."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from recollect.cli import completing
from recollect.cli.cluster.drafting import draft, require_plugins
from recollect.cli.cluster.following import sleep_unless
from recollect.cli.cluster.view import counted, say_collected, show_plan
from recollect.cli.options import Folder, OneDevice, Plugins, Sets, as_path, load_plugins
from recollect.cli.printing import complain, say
from recollect.errors import SpecError, command_text


def submit(
    what: Annotated[
        str,
        typer.Argument(
            metavar="SPEC.toml|DIR",
            help="a sweep; or a folder, for what is left of it",
            autocompletion=completing.offer(completing.sweeps, or_files=True),
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", parser=as_path, metavar="DIR", help="folder on a disk all machines see"
        ),
    ] = None,
    slurm: Annotated[bool, typer.Option("--slurm", help="one array of Slurm tasks")] = False,
    ray: Annotated[bool, typer.Option("--ray", help="tasks of Ray; waits until they end")] = False,
    sets: Sets = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    device: Annotated[str | None, typer.Option(help="of a task: auto, cpu or cuda (auto)")] = None,
    runs_per_pack: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="most runs in one task")
    ] = None,
    limit: Annotated[
        str | None, typer.Option("--time", help="limit of a task, as Slurm writes it (04:00:00)")
    ] = None,
    partition: Annotated[str | None, typer.Option(help="Slurm's partition")] = None,
    account: Annotated[str | None, typer.Option(help="Slurm's account")] = None,
    qos: Annotated[str | None, typer.Option(help="Slurm's quality of service")] = None,
    constraint: Annotated[str | None, typer.Option(help="features of the nodes")] = None,
    gres: Annotated[str | None, typer.Option(help="of a task; empty: none (gpu:1)")] = None,
    cpus: Annotated[
        int | None, typer.Option(min=1, help="CPU cores of a task (4, or what a Ray node has)")
    ] = None,
    memory: Annotated[str | None, typer.Option("--mem", help="memory of a task")] = None,
    array_limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="most tasks that run at the same time")
    ] = None,
    setup: Annotated[
        list[str],
        typer.Option(metavar="LINE", help="shell line before the work; may be repeated"),
    ] = [],  # noqa: B006
    sbatch: Annotated[
        list[str],
        typer.Option(metavar="NAME=VALUE", help="another option of sbatch; may be repeated"),
    ] = [],  # noqa: B006
    address: Annotated[
        str | None, typer.Option(help="of a Ray cluster, or auto; none: one on this machine")
    ] = None,
    gpus: Annotated[
        float | None, typer.Option(help="GPUs of a Ray task; a fraction shares one")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="try failed runs once more")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show packs and script; write and submit nothing")
    ] = False,
) -> None:
    """Train a sweep with Slurm or Ray, or continue with what is left of one, asking for the same
    resources as before unless others are given.
    """
    from recollect.cli.cluster.asking import (
        choose_request,
        ray_options,
        require_scheduler,
        slurm_options,
    )

    folder = out or Path(what)
    both: dict[str, Any] = {"device": device, "cpus": cpus}
    of_slurm = {
        "time": limit, "partition": partition, "account": account, "qos": qos, "gres": gres,
        "constraint": constraint, "memory": memory, "array_limit": array_limit, "setup": setup,
        "others": sbatch,
    }  # fmt: skip
    given = {"slurm": both | of_slurm, "ray": both | {"address": address, "gpus": gpus}}
    request = choose_request(folder, slurm, ray, given)
    slurm = request.scheduler == "slurm"
    options = slurm_options(folder, request.options) if slurm else None
    load_plugins(plugin)
    from recollect.analysis.wording import count_text
    from recollect.running.cluster.collect import Collector
    from recollect.running.cluster.jobs import remember_request
    from recollect.running.cluster.left import left_packs
    from recollect.running.cluster.plan import Plan

    limit_s, at_once = (options.limit_s, options.array_limit) if options else (None, array_limit)
    drafted = draft(what, out, sets, plugin, limit_s, device or "auto", runs_per_pack, at_once)
    if dry_run:
        show_plan(drafted if isinstance(drafted, Plan) else drafted.plan, options)
        return
    require_scheduler(request.scheduler)  # before anything is written
    plan = drafted if isinstance(drafted, Plan) else drafted.write()
    remember_request(plan.folder, request)
    with Collector(plan) as collector:
        left = left_packs(plan, collector.collect(), retry_failed)
    if left.held:
        say(f"jobs that wait or run hold {count_text(len(left.held), 'pack')}")
    if not left.free:
        say(f"nothing to submit; `{command_text('status', plan.folder)}` says how it stands")
        return
    if options is not None:
        from recollect.running.cluster.slurm import submit as hand_over

        for job in hand_over(plan, left.free, options):
            say(f"job {job.job_id}: {count_text(len(job.packs), 'pack')} -> {plan.folder}")
        status, collect = (command_text(verb, plan.folder) for verb in ("status", "collect"))
        say(f"see `{status}`, then `{collect}`")
    else:
        from recollect.cli.cluster.ray_view import run_on_ray

        run_on_ray(plan, left.free, ray_options(folder, request.options, retry_failed))


def work(
    folder: Folder,
    pack: Annotated[
        int | None, typer.Option(metavar="N", help="the pack to train; none: all, one by one")
    ] = None,
    device: OneDevice = "auto",
    plugin: Plugins = [],  # noqa: B006
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="try failed runs once more")
    ] = False,
) -> None:
    """Train packs of a submitted sweep; every node of a cluster runs this."""
    from recollect.running.signals import Interrupts

    interrupts = Interrupts()  # before torch, which takes long to import
    from recollect.analysis.wording import count_text
    from recollect.reports.live.view import TrainingView
    from recollect.running.cluster.attempt import work_on_pack
    from recollect.running.cluster.plan import read_plan
    from recollect.running.processes.devices import choose_device

    plan, target, failures = read_plan(folder), choose_device(device), list[str]()
    require_plugins(plan, plugin)
    for index in range(len(plan.packs)) if pack is None else [pack]:
        with TrainingView(folder) as view:
            outcome = work_on_pack(
                plan,
                index,
                target,
                retry_failed=retry_failed,
                stop=interrupts.exit_code,
                listen=view.hear,
            )
        failures += outcome.failures
        trained = count_text(outcome.trained, "run")
        say(f"pack {index}: {outcome.why}, {trained} trained here")
    if failures:
        complain(f"{count_text(len(failures), 'run')} failed, the first with: {failures[0]}")
        raise typer.Exit(1)


def collect(
    folder: Folder,
    follow: Annotated[
        bool, typer.Option("--follow", help="go on until every run has ended; Ctrl-C ends it")
    ] = False,
    settle: Annotated[
        str | None,
        typer.Option(metavar="first|last", help="which attempt counts where two ended differently"),
    ] = None,
) -> None:
    """Collect the results of a submitted sweep from its tasks into one database."""
    from recollect.running.cluster.collect import Collector
    from recollect.running.cluster.plan import read_plan
    from recollect.running.signals import Interrupts

    interrupts = Interrupts()

    def wait(seconds: float) -> bool:
        if follow:
            sleep_unless(interrupts.exit_code, seconds)
        return follow and not interrupts.exit_code()

    with Collector(read_plan(folder), _parse_settle(settle)) as collector:
        shown = ""
        for found in collector.follow(wait):
            if follow and not found.is_complete and counted(found) != shown:
                shown = counted(found)
                say(shown)
    say_collected(folder, found)
    if found.conflicts or found.problems:
        raise typer.Exit(3)
    if interrupts.exit_code():
        raise typer.Exit(interrupts.exit_code())


def _parse_settle(text: str | None) -> Literal["first", "last"] | None:
    match text:
        case None | "first" | "last":
            return text
    raise SpecError(f"--settle {text}: must be first or last")
