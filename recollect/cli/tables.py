"""Tables of the available mixers, tasks, presets, recipes and their options."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from rich.console import Group
from rich.table import Table
from rich.text import Text

from recollect.errors import SpecError
from recollect.mixers.options import Core, MixerSpec
from recollect.mixers.registry import MIXERS
from recollect.spec.base import Spec, suggest, toml_value
from recollect.spec.recipes import RECIPES
from recollect.tasks.options import TASKS

if TYPE_CHECKING:
    from recollect.reports.paper.presets import Preset


PLAIN: dict[str, Any] = {"box": None, "padding": (0, 2, 0, 0), "header_style": "bold"}


def plain_table(*columns: str) -> Table:
    return Table(*columns, **PLAIN)


class NotedTable(Table):
    """A table whose last column is a sentence; a narrow terminal shows it below each line."""


def mixer_table(width: int, length: int) -> NotedTable:
    """Return name, family, parameters and state of one layer at a width and length, the fast form
    that it has here, and a summary of each mixer.
    """
    columns = (
        "mixer",
        "family",
        f"parameters at width {width}",
        f"state at length {length}",
        "fast form here",
        "what it is",
    )
    table = NotedTable(*columns, **PLAIN)
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
            together_here(spec, width, length) if options.foreign else fast_here(options.core),
            options.summary,
        )
    return table


def layer_size(spec: MixerSpec, width: int, length: int) -> tuple[int, int | None]:
    """Return parameters and state of one layer's mixer; the mean if layers differ."""
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
    """Return the fast form here of the operation that takes most of a mixer's time."""
    from recollect.ops.dispatch import fast_form

    if core == "unknown":
        return "unknown"
    form = fast_form(core)
    return form or "none: loop over time"


def together_here(spec: MixerSpec, width: int, length: int) -> str:
    """Return how a plug-in computes the members of a population at once on this machine."""
    import torch

    from recollect.mixers.base import Site
    from recollect.mixers.build import build_mixer
    from recollect.mixers.plugins.stack import ModuleStack
    from recollect.model.layers import initialise

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    mixer = build_mixer(spec, Site(2, width, length, 1, "none"))
    if not isinstance(mixer, ModuleStack):
        return "whole populations"
    initialise(mixer, [0, 1])
    x_PBLD = torch.randn(2, 1, length, width).to(device)
    return "vmap" if mixer.to(device).is_at_once(x_PBLD) else "none: run by run"


def task_table() -> Table:
    table = plain_table("task", "judged by", "what it is")
    for name, spec in TASKS.items():
        table.add_row(name, spec.score_name, (spec.__doc__ or "").splitlines()[0])
    return table


def preset_table(presets: Sequence["Preset"]) -> Table:
    """Return the study's experiments: runs and recipe of each, at full scale and reduced."""
    table = plain_table("name", "runs", "recipe", "runs of :small", "recipe", "what it shows")
    for preset in presets:
        scales = ((f"{runs:,}", preset.recipes[scale]) for scale, runs in preset.runs.items())
        table.add_row(f"paper:{preset.name}", *chain.from_iterable(scales), preset.about)
    table.caption, table.caption_justify = "--recipe NAME trains it under another recipe", "left"
    return table


def recipe_table() -> Table:
    """Return the recipes: what each is, and the tasks it covers."""
    table = plain_table("recipe", "covers", "what it is")
    for recipe in RECIPES.values():
        table.add_row(recipe.name, ", ".join(recipe.tasks), recipe.about)
    table.caption, table.caption_justify = "`recollect recipes NAME` prints one's choices", "left"
    return table


def mixer_options(name: str) -> Group:
    """Return what a mixer is, what it needs from the model around it, and its options."""
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
        raise SpecError(
            f"{name!r} is no {what} here; {suggest(name, registry, f'recollect {what}s')}"
        )
    table = plain_table(f"option of {name}", "default", "values", "meaning")
    for option, field in registry[name].model_fields.items():
        if option not in ("name", "source"):
            table.add_row(
                option, toml_value(field.default), option_values(field), field.description or ""
            )
    return table


def option_values(field: FieldInfo) -> str:
    """Return the allowed values: the choices, or the bounds of a number."""
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
