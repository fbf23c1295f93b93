"""Verbs about what is available (mixers, tasks, presets, recipes) and this machine (doctor,
bench).
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from recollect.cli import completing
from recollect.cli.options import OneDevice, Plugins, as_path, load_plugins
from recollect.cli.printing import render, say, show_step, write
from recollect.errors import SpecError


def mixers(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="show the options of this one",
            autocompletion=completing.offer(completing.mixers),
        ),
    ] = None,
    width: Annotated[
        int, typer.Option(min=1, max=65_536, help="width to count parameters and state at")
    ] = 64,
    length: Annotated[
        int, typer.Option(min=1, max=65_536, help="length to count the state at")
    ] = 64,
    plugin: Plugins = [],  # noqa: B006
) -> None:
    """The mixers there are, or the options of one."""
    from recollect.cli import tables

    load_plugins(plugin)
    render(tables.mixer_options(name) if name else tables.mixer_table(width, length))


def tasks(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="show the options of this one",
            autocompletion=completing.offer(completing.tasks),
        ),
    ] = None,
) -> None:
    """The tasks there are, or the options of one."""
    from recollect.cli import tables

    render(tables.task_options(name) if name else tables.task_table())


def presets(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="print this one's specification: fig1, fig1:small, ...",
            autocompletion=completing.offer(completing.presets),
        ),
    ] = None,
) -> None:
    """The study's experiments, to be trained with `recollect run paper:NAME`."""
    from recollect.cli import tables
    from recollect.reports.paper.presets import list_presets, preset_text, split_name

    if name:
        write(preset_text(*split_name(name)))
    else:
        render(tables.preset_table(list_presets()))


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="print this one with its reasons",
            autocompletion=completing.offer(completing.recipes),
        ),
    ] = None,
) -> None:
    """The recipes there are: named sets of the choices that a study leaves open."""
    from recollect.cli import tables
    from recollect.spec.recipes import choose_recipe

    if name:
        write(choose_recipe(name).text)
    else:
        render(tables.recipe_table())


def doctor() -> None:
    """What this machine can run, and what is missing for more."""
    from recollect.running.planning.machine import describe_machine

    for finding in describe_machine():
        say(
            f"{finding.what:<10} {finding.found}"
            + (f"\n{'':<10} {finding.advice}" if finding.advice else "")
        )


def bench(
    mixer: Annotated[
        list[str], typer.Option(help="measure this one; may be repeated; all of them if not given")
    ] = [],  # noqa: B006
    shape: Annotated[
        list[str], typer.Option(help="S1, S2, S3 or WIDTHxLENGTHxPAIRSxBATCH; may be repeated")
    ] = ["S1"],  # noqa: B006
    population: Annotated[
        int, typer.Option(min=0, help="runs together; 0: the fastest number of them")
    ] = 0,
    precision: Annotated[str, typer.Option(help="fp32, tf32 or bf16")] = "bf16",
    against: Annotated[
        Path | None,
        typer.Option(
            parser=as_path, metavar="FILE", help="a stored result; what got slower is red"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, to be stored")] = False,
    device: OneDevice = "auto",
) -> None:
    """Speed on this machine: run-steps per second by mixer and shape,
    and the share of what the hardware could do.
    """
    from recollect.cli.speed_tables import bench_table
    from recollect.mixers.registry import MIXERS
    from recollect.running.planning.bench import (
        Report,
        compare_speeds,
        describe_device,
        measure,
        parse_shape,
    )
    from recollect.running.processes.devices import choose_device

    shapes, target = [parse_shape(text) for text in shape], choose_device(device)
    stored = Report.from_table(_read_json(against)) if against else None
    runs = [
        (entry.run(name, precision), entry.name) for name in mixer or MIXERS for entry in shapes
    ]
    report = describe_device(target, runs[0][0].train.precision)
    for run, name in runs:
        report.speeds.append(measure(run, name, population or None, report, target))
        if not as_json:
            show_step(f"{run.model.mixer.name} {name}: {report.speeds[-1].run_steps_per_s:,.1f}")
    if as_json:
        say(json.dumps(report.to_table(), indent=1))
    else:
        render(bench_table(report, compare_speeds(report.speeds, stored.speeds) if stored else {}))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise SpecError(
            f"{path}: not JSON ({error}); make one with `recollect bench --json`"
        ) from None
