"""The study's four tables: copying by size (1), ablations of one layer (2, 3), positions (4).

A number is the best mean over the learning rates tried. The lines are those of the study; a model
that was not run is marked as such.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.analysis import (
    Cell,
    Curves,
    band,
    get_setting,
    group_cells,
    rate_text,
    select_rows,
)
from recollect.analysis.mixer_options import CONV, GATE, KERNEL, MIXER_OPTIONS, part_text
from recollect.analysis.naming import join_name
from recollect.analysis.settings import MIXER
from recollect.plotting.text import mixer_title
from recollect.reports.paper.figures import captions
from recollect.reports.paper.figures.definition import (
    FigureDefinition,
    is_ablated,
    is_rewired,
    require_result,
    select_cells,
)
from recollect.reports.paper.figures.figure_cells import (
    POSITIONS,
    FigureCell,
    merge_repeats,
    to_figure_cells,
)
from recollect.reports.paper.figures.table import Table
from recollect.rows import RunRow
from recollect.spec.recipes import recipe_of

PADDING, TAPS = (f"{MIXER_OPTIONS}{key}" for key in ("conv_padding", "conv_kernel"))
Setting = tuple[Any, ...]  # task size, recipe, depth and width
PADDING_WORDS = {"causal": "causal", "same": "centred"}
ENCODINGS = {
    "none": "No PE",
    "sinusoidal": "Absolute PE",
    "relative": "Relative PE",
    "learned": "Learned PE",
}


@dataclass(frozen=True)
class Variant:
    """A line of the ablation tables: its name and the settings that define it."""

    name: str
    conditions: dict[str, Any]


def _convolved(letters: str) -> Variant:
    name = join_name(mixer_title("attention"), part_text("attention", CONV, letters))
    return Variant(name, {MIXER: "attention", CONV: letters, POSITIONS: "learned"})


def _selective(mixer: str, conv: bool, gate: bool, remark: str = "") -> Variant:
    def taps(kernel: int) -> bool:
        return kernel > 0 if conv else kernel == 0

    parts = [part_text(mixer, GATE, gate), "" if conv else part_text(mixer, KERNEL, 0)]
    name = join_name(mixer_title(mixer), ", ".join(filter(None, parts)))
    return Variant(name + remark, {MIXER: mixer, KERNEL: taps, GATE: gate, POSITIONS: "none"})


ATTENTION = Variant(
    mixer_title("attention"), {MIXER: "attention", CONV: "none", POSITIONS: "learned"}
)
SELECTIVE = (
    _selective("mamba", conv=True, gate=True),
    _selective("mamba", conv=False, gate=True),
    _selective("mamba", conv=True, gate=False),
    _selective("s6", conv=True, gate=False, remark=" (Mamba as a Transformer)"),
)
TABLE_2 = (ATTENTION, _convolved("qkv"), *SELECTIVE)
TABLE_3 = (ATTENTION, *map(_convolved, ("qkv", "k", "v", "q")), *SELECTIVE)


def copying_table(
    definition: FigureDefinition, rows: Sequence[RunRow], curves: Curves, kind: str = "min-max"
) -> Table:
    """Table 1: one line per model and size."""
    cells, left_out = select_cells(definition, rows)
    cells.sort(
        key=lambda cell: (
            cell.size,
            cell.recipe,
            definition.mixers.index(cell.mixer),
            cell.width,
            cell.depth,
        )
    )
    several = len({cell.column for cell in cells}) > 1
    head = (
        *(["Task"] if several else []),
        "Architecture",
        "Layers",
        "Width",
        "Parameters (M)",
        _heading(cells),
        "Rate",
        "Seeds",
    )
    lines = [((cell.task,) if several else ()) + _copying_line(cell, kind) for cell in cells]
    names = 2 if several else 1
    return _table(definition, head, lines, cells, kind, names=names, left_out=left_out)


def ablation_table(
    definition: FigureDefinition,
    variants: Sequence[Variant],
    rows: Sequence[RunRow],
    curves: Curves,
    kind: str = "min-max",
) -> Table:
    """Tables 2 and 3: a line per variant, a column per task and width."""
    fitting = _comparable(definition, [row for row in rows if definition.fits(row)], _is_compared)
    members = {variant.name: select_rows(fitting, variant.conditions) for variant in variants}
    kept = [row for own in members.values() for row in own]
    require_result(definition, kept if any(map(_is_compared, kept)) else [], len(rows))
    ids = {row.run_id: name for name, own in members.items() for row in own}
    # Attention without a convolution also has a number of taps, which has no effect. The number is
    # shown only if convolutions differ in it.
    taps = {get_setting(row, TAPS) for row in kept if get_setting(row, CONV) not in (None, "none")}
    every = to_figure_cells(
        group_cells(merge_repeats(kept, {})),
        unsaid=(CONV, PADDING, KERNEL, GATE, *((TAPS,) if len(taps) <= 1 else ())),
    )
    settings = _settings(every, _is_compared)
    cells = [cell for cell in every if _setting(cell) in settings]
    head = (
        "Model",
        *([_heading(cells)] if len(settings) == 1 else map(_setting_text, settings.values())),
    )
    lines = []
    for variant in variants:
        own = [cell for cell in cells if ids[cell.runs.rows[0].run_id] == variant.name]
        by_label: dict[str, dict[Setting, Cell]] = {}
        for cell in own:
            by_label.setdefault(_variant_label(variant, cell), {})[_setting(cell)] = cell.runs
        for label, found in (by_label or {variant.name: {}}).items():
            scores = (_score(found.get(setting), kind, percent=True) for setting in settings)
            lines.append((label, *scores))
    return _table(definition, head, lines, cells, kind, list(settings.values()))


def position_table(
    definition: FigureDefinition, rows: Sequence[RunRow], curves: Curves, kind: str = "min-max"
) -> Table:
    """Table 4: a line per model (and setting, where there are several), a column per encoding."""
    fitting = [row for row in rows if definition.fits(row) and not is_rewired(row)]
    fitting = select_rows(fitting, {POSITIONS: tuple(ENCODINGS)})
    fitting = _comparable(definition, fitting, is_ablated)
    require_result(definition, fitting if any(map(is_ablated, fitting)) else [], len(rows))
    every = to_figure_cells(group_cells(merge_repeats(fitting, {})), unsaid=(POSITIONS,))
    settings = _settings(every, is_ablated)
    cells = [cell for cell in every if _setting(cell) in settings]
    several = len(settings) > 1
    lines = []
    for setting, example in settings.items():
        here = [cell for cell in cells if _setting(cell) == setting]
        for model in definition.models(here):
            found = {
                cell.runs.rows[0].spec["model"]["positions"]: cell.runs
                for cell in here
                if cell.model == model
            }
            scores = (_score(found.get(encoding), kind) for encoding in ENCODINGS)
            lines.append((*([_setting_text(example)] if several else []), model, *scores))
    head = (*(["Setting"] if several else []), "Architecture", *ENCODINGS.values())
    return _table(
        definition, head, lines, cells, kind, list(settings.values()), names=2 if several else 1
    )


def _copying_line(cell: FigureCell, kind: str) -> tuple[str, ...]:
    best, parameters = cell.runs.best, cell.runs.parameters
    return (
        cell.model,
        str(cell.depth),
        str(cell.width),
        "-" if parameters is None else f"{parameters / 1e6:.3g}",
        _score(cell.runs, kind, percent=True),
        rate_text(best.lr) if best and not best.all_diverged else "-",
        str(len(best.scores)) if best else "0",
    )


def _score(runs: Cell | None, kind: str, percent: bool = False) -> str:
    """A cell's best mean with its band. It is never rounded up to 100 or 1.00."""
    best = runs.best if runs else None
    if best is None:
        return captions.why_missing(runs)
    low, high = band(best.scores, kind)
    text = _number(best.mean, percent)
    if len(best.scores) > 1 and kind == "min-max":
        text += f" ({_number(low, percent)} to {_number(high, percent)})"
    elif len(best.scores) > 1:
        text += f" ± {_number(max(high - best.mean, best.mean - low), percent)}"
    return text + (f", {len(best.diverged)} diverged" if best.diverged else "")


def _number(share: float, percent: bool) -> str:
    if percent:
        return "100" if share == 1 else f"{min(100 * share, 99.9):.1f}"
    return captions.share_text(share)


def _heading(cells: Sequence[FigureCell]) -> str:
    return f"{captions.score_label(cells).capitalize()} (%)"


def _setting(cell: FigureCell) -> Setting:
    return cell.size, cell.recipe, cell.depth, cell.width


def _setting_text(cell: FigureCell) -> str:
    return f"{cell.task}, width {cell.width}, {cell.depth} layer{'s' if cell.depth > 1 else ''}"


def _settings(
    cells: Sequence[FigureCell], is_compared: Callable[[RunRow], bool]
) -> dict[Setting, FigureCell]:
    """The settings with at least one compared variant, each with one of its cells."""
    compared = {_setting(cell) for cell in cells if is_compared(cell.runs.rows[0])}
    chosen = {_setting(cell): cell for cell in cells if _setting(cell) in compared}
    return {setting: chosen[setting] for setting in sorted(chosen)}


def _comparable(
    definition: FigureDefinition, rows: Sequence[RunRow], is_compared: Callable[[RunRow], bool]
) -> list[RunRow]:
    """The rows of all recipes with at least one compared variant; rows of other recipes would only
    lengthen the names. If there is no such recipe, all rows, so that the error can count them.
    """
    recipes = {recipe_of(row.spec, definition.varies) for row in rows if is_compared(row)}
    return [row for row in rows if recipe_of(row.spec, definition.varies) in recipes] or list(rows)


def _is_compared(row: RunRow) -> bool:
    """Whether the run is one of the compared variants: an ablation, or S6 with an MLP. A plain
    model alone gives no comparison.
    """
    return is_ablated(row) or get_setting(row, MIXER) == "s6"


def _variant_label(variant: Variant, cell: FigureCell) -> str:
    """The name of a line, with the padding of its convolution and any other differences."""
    padding = cell.runs.rows[0].spec["model"]["mixer"].get("conv_padding", "causal")
    words = (
        f"{variant.name} ({PADDING_WORDS.get(padding, padding)})"
        if variant.conditions.get(CONV, "none") != "none"
        else variant.name
    )
    return join_name(words, cell.variant)


def _table(
    definition: FigureDefinition,
    head: Sequence[str],
    lines: Sequence[tuple[str, ...]],
    cells: Sequence[FigureCell],
    kind: str,
    settings: Sequence[FigureCell] = (),
    names: int = 1,
    left_out: Sequence[str] = (),
) -> Table:
    shared = f"{_setting_text(settings[0])}. " if len(settings) == 1 else ""
    task = (
        f"{cells[0].task}. " if not settings and len({cell.column for cell in cells}) == 1 else ""
    )
    first, *rest = captions.small_print(definition, cells, kind, left_out)
    notes = (
        f"{shared}{task}Best of the rates tried. "
        f"{first.replace('band:', 'in brackets:' if kind == 'min-max' else '±:')}",
        *rest,
    )
    return Table(definition.name, definition.title, tuple(head), tuple(lines), tuple(notes), names)
