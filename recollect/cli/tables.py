"""What there is, as tables: mixers, tasks, their options, and what a sweep would cost."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from rich.console import Group
from rich.table import Table
from rich.text import Text

from recollect.errors import SpecError
from recollect.mixers.options import Core, MixerSpec
from recollect.mixers.registry import MIXERS
from recollect.spec.base import Spec, suggest, toml_value
from recollect.tasks.options import TASKS

if TYPE_CHECKING:
    from recollect.reports.paper.presets import Preset
    from recollect.running.planning.bench import Report
    from recollect.running.planning.forecast import Forecast

SLOWER = 0.95  # of a stored speed: less is worth a second look


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, padding=(0, 2, 0, 0), header_style="bold")


def mixer_table(width: int, length: int) -> Table:
    """Name, family, parameters and state of one layer at a width and length, whether it is computed
    fast here, what it is.
    """
    columns = (
        "mixer",
        "family",
        f"parameters at width {width}",
        f"state at length {length}",
        "fast here",
        "what it is",
    )
    table = _table(*columns)
    for name, options in MIXERS.items():
        spec = options.model_validate({"name": name})
        try:
            spec.check(width, len(spec.kinds()), "none")
        except ValueError as error:
            table.add_row(
                name,
                options.family,
                "-",
                "-",
                "-",
                f"not at this width: {str(error).partition(';')[0]}",
            )
            continue
        parameters, state = layer_size(spec, width, length)
        states = "unknown" if state is None else f"{state:,}"
        table.add_row(
            name,
            options.family,
            f"{parameters:,}",
            states,
            fast_here(options.core),
            options.summary,
        )
    return table


def layer_size(spec: MixerSpec, width: int, length: int) -> tuple[int, int | None]:
    """Parameters and state of one layer's mixer, the mean where layers differ."""
    import torch

    from recollect.mixers.base import Site
    from recollect.mixers.build import build_mixer

    depth = len(spec.kinds())
    with torch.device("meta"):
        layers = [
            build_mixer(spec, Site(1, width, length, depth, "none", layer=layer))
            for layer in range(depth)
        ]
    parameters = sum(
        parameter.numel()
        for layer in layers
        for parameter in layer.parameters()
        if parameter.requires_grad
    )
    states = [layer.state_size() for layer in layers]
    known = [state for state in states if state is not None]
    return round(parameters / depth), round(sum(known) / depth) if len(known) == depth else None


def fast_here(core: Core) -> str:
    """Whether the operation that a mixer spends its time in has a fast kernel on this machine."""
    import torch

    from recollect.ops.dispatch import has_triton

    if core == "unknown":
        return "unknown"
    if core == "scan" and torch.cuda.is_available() and has_triton():
        return "yes: Triton scan"
    return "no: loop over time" if core in ("scan", "recurrence") else f"yes: {core}"


def task_table() -> Table:
    table = _table("task", "judged by", "what it is")
    for name, spec in TASKS.items():
        table.add_row(name, spec.score_name, (spec.__doc__ or "").splitlines()[0])
    return table


def preset_table(presets: Sequence["Preset"]) -> Table:
    """The study's experiments: how many runs each has at its full scale and reduced."""
    table = _table("name", "runs", "runs of :small", "what it shows")
    for preset in presets:
        table.add_row(
            f"paper:{preset.name}", *(f"{count:,}" for count in preset.runs.values()), preset.about
        )
    return table


def mixer_options(name: str) -> Group:
    """What a mixer is, what it wants of the model around it, and its options."""
    table = _options(name, MIXERS, "mixer")
    spec = MIXERS[name]
    lines = [f"{name}: {spec.summary}" + (f" ({spec.paper})" if spec.paper else "")]
    if len(spec.model_validate({"name": name}).kinds()) == 1:
        lines.append(
            f'model.block = "{spec.block}", model.norm = "{spec.norm}", '
            f'model.positions = "{spec.positions}" unless given'
        )
    return Group(*(Text(line) for line in lines), table)


def task_options(name: str) -> Table:
    return _options(name, TASKS, "task")


def _options(name: str, registry: Mapping[str, type[Spec]], what: str) -> Table:
    if name not in registry:
        raise SpecError(f"{name!r} is no {what} here; {suggest(name, registry)}")
    table = _table(f"option of {name}", "default", "values", "meaning")
    for option, field in registry[name].model_fields.items():
        if option not in ("name", "source"):
            table.add_row(
                option, toml_value(field.default), option_values(field), field.description or ""
            )
    return table


def option_values(field: FieldInfo) -> str:
    """What may be written: the choices, or the kind of number and its bounds."""
    if get_origin(field.annotation) is Literal:
        return ", ".join(toml_value(choice) for choice in get_args(field.annotation))
    bounds = {
        key: getattr(rule, key)
        for rule in field.metadata
        for key in ("gt", "ge", "lt", "le")
        if hasattr(rule, key)
    }
    low = f"{bounds['ge']}" if "ge" in bounds else f"above {bounds['gt']}" if "gt" in bounds else ""
    high = (
        f"{bounds['le']}" if "le" in bounds else f"below {bounds['lt']}" if "lt" in bounds else ""
    )
    return " to ".join(part for part in (low, high) if part) or (
        "true, false" if field.annotation is bool else ""
    )


def forecast_table(forecasts: Sequence["Forecast"]) -> Table:
    """One line per shape of a sweep and their sum."""
    table = _table("shape", "runs", "done", "populations", "parameters", "memory each", "time")
    for entry in forecasts:
        run, task = entry.example, entry.example.task
        shape = (
            f"{task.name} {task.train_length}, {run.model.mixer.name}, width "
            f"{run.model.width}, depth {run.model.depth}"
        )
        populations = f"{entry.populations} of up to {entry.together}"
        cells = [
            f"{entry.runs}",
            f"{entry.runs - entry.todo}",
            populations,
            f"{entry.parameters:,}",
        ]
        table.add_row(
            shape,
            *cells,
            f"{entry.memory_bytes / 1e9:.2f} GB",
            ("~" if entry.scaled else "") + duration(entry.seconds),
        )
    runs, todo = sum(entry.runs for entry in forecasts), sum(entry.todo for entry in forecasts)
    packs = sum(entry.populations for entry in forecasts)
    memory = max((entry.memory_bytes for entry in forecasts), default=0)
    scaled = any(entry.scaled for entry in forecasts)
    total = ("~" if scaled else "") + duration(sum(entry.seconds for entry in forecasts))
    table.add_row(
        "all",
        f"{runs}",
        f"{runs - todo}",
        f"{packs}",
        "",
        f"{memory / 1e9:.2f} GB at most",
        total,
        style="bold",
    )
    note = "; ~ is scaled by operations from what was measured" if scaled else ""
    table.caption, table.caption_justify = f"time if no run ends early{note}", "left"
    return table


def bench_table(report: "Report", ratios: Mapping[tuple[str, str], float]) -> Group:
    """One line per mixer and shape; with a stored result to compare with, today's speed as a share
    of it.
    """
    products = f"matrix product {report.multiply_adds_per_s / 5e11:,.1f} TFLOP/s"
    about = f"{report.device}: copy {report.copy_bytes_per_s / 1e9:,.0f} GB/s, {products}"
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    columns = [
        "mixer",
        "shape",
        "together",
        "precision",
        "run-steps/s",
        "of the limit",
        "first step",
        "memory each",
    ]
    table = _table(*columns, *(["against stored"] if ratios else []))
    for speed in report.speeds:
        numbers = [
            f"{speed.run_steps_per_s:,.1f}",
            f"{speed.share:.0%}",
            duration(speed.first_step_s),
        ]
        memory = f"{speed.memory_per_member / 1e9:.2f} GB" if speed.memory_per_member else "-"
        cells = [*numbers, memory] if not speed.problem else ["-", "-", "-", speed.problem]
        ratio = ratios.get((speed.mixer, speed.shape))
        compared = [] if not ratios else [f"{ratio:.2f}x" if ratio else "-"]
        style = "red" if ratio is not None and ratio < SLOWER else None
        table.add_row(
            speed.mixer,
            speed.shape,
            f"{speed.population}",
            speed.precision,
            *cells,
            *compared,
            style=style,
        )
    return Group(Text(about), Text(versions), table)


def duration(seconds: float) -> str:
    """1.5 s, 12 min, 3.4 h: two digits that matter."""
    for limit, divisor, unit in ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.2g} {unit}"
    return f"{seconds / 86_400:.1f} days"
