"""What there is, as tables: mixers, tasks, their options, and what a sweep would cost."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from recollect.errors import SpecError
from recollect.spec import MIXERS, TASKS, Spec
from recollect.spec.base import suggest, toml_value

if TYPE_CHECKING:
    from recollect.forecast import Forecast


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, padding=(0, 2, 0, 0), header_style="bold")


def mixer_table(width: int, length: int) -> Table:
    """Name, parameters and state of one layer's mixer at a width and length, what it is."""
    import torch

    from recollect.mixers import Site, build

    table = _table("mixer", f"parameters at width {width}", f"state at length {length}", "what it is")
    for name, options in MIXERS.items():
        spec = options.model_validate({"name": name})
        with torch.device("meta"):
            mixer = build(spec, Site(1, width, length, 1, "none"))
        parameters = sum(parameter.numel() for parameter in mixer.parameters())
        state = mixer.state_size()
        table.add_row(name, f"{parameters:,}", "unknown" if state is None else f"{state:,}", options.summary)
    return table


def task_table() -> Table:
    table = _table("task", "judged by", "what it is")
    for name, spec in TASKS.items():
        table.add_row(name, spec.score_name, (spec.__doc__ or "").splitlines()[0])
    return table


def mixer_options(name: str) -> Table:
    return _options(name, MIXERS, "mixer")


def task_options(name: str) -> Table:
    return _options(name, TASKS, "task")


def _options(name: str, registry: Mapping[str, type[Spec]], what: str) -> Table:
    if name not in registry:
        raise SpecError(f"{name!r} is no {what} here; {suggest(name, registry)}")
    table = _table(f"option of {name}", "default", "meaning")
    for option, field in registry[name].model_fields.items():
        if option not in ("name", "source"):
            table.add_row(option, toml_value(field.default), field.description or "")
    return table


def forecast_table(forecasts: Sequence["Forecast"]) -> Table:
    """One line per shape of a sweep and their sum."""
    table = _table("shape", "runs", "done", "populations", "parameters", "memory each", "time")
    for entry in forecasts:
        run, task = entry.example, entry.example.task
        shape = f"{task.name} {task.train_length}, {run.model.mixer.name}, width {run.model.width}, depth {run.model.depth}"
        populations = f"{entry.populations} of up to {entry.together}"
        cells = [f"{entry.runs}", f"{entry.runs - entry.todo}", populations, f"{entry.parameters:,}"]
        table.add_row(
            shape, *cells, f"{entry.memory_bytes / 1e9:.2f} GB", ("" if entry.measured else "~") + duration(entry.seconds)
        )
    runs, todo = sum(entry.runs for entry in forecasts), sum(entry.todo for entry in forecasts)
    packs = sum(entry.populations for entry in forecasts)
    memory = max((entry.memory_bytes for entry in forecasts), default=0)
    total = duration(sum(entry.seconds for entry in forecasts))
    table.add_row("all", f"{runs}", f"{runs - todo}", f"{packs}", "", f"{memory / 1e9:.2f} GB at most", total, style="bold")
    return table


def duration(seconds: float) -> str:
    """1.5 s, 12 min, 3.4 h: two digits that matter."""
    for limit, divisor, unit in ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.2g} {unit}"
    return f"{seconds / 86_400:.1f} days"
