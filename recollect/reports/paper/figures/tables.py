"""The study's four tables: copying by size (1), ablations of one layer (2, 3), positional encodings
(4).

A number is the best mean over the learning rates tried. Lines follow the study; one that was not
run says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.analysis import Cell, band, group_cells, rate_text, value, where
from recollect.reports.paper.figures import sheet
from recollect.reports.paper.figures.question import (
    MIXER,
    POSITIONS,
    Curves,
    Place,
    Question,
    ask,
    is_ablated,
    is_rewired,
    locate,
    pool,
    require,
)
from recollect.reports.paper.figures.table import Table
from recollect.rows import RunRow

CONV, PADDING, TAPS, KERNEL, GATE = (
    f"model.mixer.{key}" for key in ("conv", "conv_padding", "conv_kernel", "kernel", "gate")
)
PADDING_WORDS = {"causal": "causal", "same": "centred"}
ENCODINGS = {
    "none": "No PE",
    "sinusoidal": "Absolute PE",
    "relative": "Relative PE",
    "learned": "Learned PE",
}


@dataclass(frozen=True)
class Variant:
    """A line of the ablation tables: its name and the settings that make it."""

    name: str
    conditions: dict[str, Any]


def _convolved(letters: str) -> Variant:
    return Variant(
        f"Attention + conv on {letters.upper()}",
        {MIXER: "attention", CONV: letters, POSITIONS: "learned"},
    )


def _selective(name: str, mixer: str, conv: bool, gate: bool) -> Variant:
    taps: Callable[[int], bool] = (
        (lambda kernel: kernel > 0) if conv else (lambda kernel: kernel == 0)
    )
    return Variant(name, {MIXER: mixer, KERNEL: taps, GATE: gate, POSITIONS: "none"})


ATTENTION = Variant("Attention", {MIXER: "attention", CONV: "none", POSITIONS: "learned"})
SELECTIVE = (
    _selective("Mamba", "mamba", conv=True, gate=True),
    _selective("Mamba without conv1d", "mamba", conv=False, gate=True),
    _selective("Mamba without gating", "mamba", conv=True, gate=False),
    _selective("S6 + MLP (Mamba as a Transformer)", "s6", conv=True, gate=False),
)
TABLE_2 = (ATTENTION, _convolved("qkv"), *SELECTIVE)
TABLE_3 = (ATTENTION, *map(_convolved, ("qkv", "k", "v", "q")), *SELECTIVE)


def copying_table(
    question: Question, rows: Sequence[RunRow], curves: Curves, kind: str = "min-max"
) -> Table:
    """Table 1: one line per model and size."""
    places = ask(question, rows)
    places.sort(
        key=lambda place: (
            place.size,
            place.recipe,
            question.mixers.index(place.mixer),
            place.width,
            place.depth,
        )
    )
    several = len({place.column for place in places}) > 1
    head = (
        *(["Task"] if several else []),
        "Architecture",
        "Layers",
        "Width",
        "Parameters (M)",
        _heading(places),
        "Rate",
        "Seeds",
    )
    lines = [((place.task,) if several else ()) + _copying_line(place, kind) for place in places]
    return _table(question, head, lines, places, kind, names=2 if several else 1)


def ablation_table(
    question: Question,
    variants: Sequence[Variant],
    rows: Sequence[RunRow],
    curves: Curves,
    kind: str = "min-max",
) -> Table:
    """Tables 2 and 3: a line per variant, a column per task and width."""
    fitting = [row for row in rows if question.fits(row)]
    members = {variant.name: where(fitting, variant.conditions) for variant in variants}
    kept = [row for own in members.values() for row in own]
    require(question, kept if any(map(_is_telling, kept)) else [], len(rows))
    ids = {row.run_id: name for name, own in members.items() for row in own}
    # Plain attention has a number of taps too, and no use for it: that only counts where
    # convolutions differ in it.
    taps = {value(row, TAPS) for row in kept if value(row, CONV) not in (None, "none")}
    every = locate(
        group_cells(pool(kept, {})),
        unsaid=(CONV, PADDING, KERNEL, GATE, *((TAPS,) if len(taps) <= 1 else ())),
    )
    settings = _settings(every, _is_telling)
    places = [place for place in every if _setting(place) in settings]
    head = (
        "Model",
        *([_heading(places)] if len(settings) == 1 else map(_setting_text, settings.values())),
    )
    lines = []
    for variant in variants:
        own = [place for place in places if ids[place.cell.rows[0].run_id] == variant.name]
        labels = dict.fromkeys(_variant_label(variant, place) for place in own) or {
            variant.name: None
        }
        for label in labels:
            found = {
                _setting(place): place.cell
                for place in own
                if _variant_label(variant, place) == label
            }
            lines.append(
                (label, *(_score(found.get(setting), kind, percent=True) for setting in settings))
            )
    return _table(question, head, lines, places, kind, list(settings.values()))


def position_table(
    question: Question, rows: Sequence[RunRow], curves: Curves, kind: str = "min-max"
) -> Table:
    """Table 4: a line per model (and setting, where there are several), a column per positional
    encoding.
    """
    fitting = [row for row in rows if question.fits(row) and not is_rewired(row)]
    fitting = where(fitting, {POSITIONS: tuple(ENCODINGS)})
    require(question, fitting if any(map(is_ablated, fitting)) else [], len(rows))
    every = locate(group_cells(pool(fitting, {})), unsaid=(POSITIONS,))
    settings = _settings(every, is_ablated)
    places = [place for place in every if _setting(place) in settings]
    several = len(settings) > 1
    lines = []
    for setting, example in settings.items():
        here = [place for place in places if _setting(place) == setting]
        for model in question.models(here):
            found = {
                place.cell.rows[0].spec["model"]["positions"]: place.cell
                for place in here
                if place.model == model
            }
            scores = (_score(found.get(encoding), kind) for encoding in ENCODINGS)
            lines.append((*([_setting_text(example)] if several else []), model, *scores))
    head = (*(["Setting"] if several else []), "Architecture", *ENCODINGS.values())
    return _table(
        question, head, lines, places, kind, list(settings.values()), names=2 if several else 1
    )


def _copying_line(place: Place, kind: str) -> tuple[str, ...]:
    best = place.cell.best
    counts = [row.parameters for row in place.cell.rows if row.parameters is not None]
    return (
        place.model, str(place.depth), str(place.width), f"{counts[0] / 1e6:.3g}" if counts else "-",
        _score(place.cell, kind, percent=True), rate_text(best.lr) if best else "-", str(len(best.scores)) if best else "0",
    )  # fmt: skip


def _score(cell: Cell | None, kind: str, percent: bool = False) -> str:
    """A cell's best mean with its band, never a 100 or 1.00 that is not one."""
    best = cell.best if cell else None
    if best is None:
        return sheet.why_missing(cell)
    low, high = band(best.scores, kind)
    text = _number(best.mean, percent)
    if len(best.scores) > 1 and kind == "min-max":
        text += f" ({_number(low, percent)} to {_number(high, percent)})"
    elif len(best.scores) > 1:
        text += f" ± {_number(max(high - best.mean, best.mean - low), percent)}"
    diverged = sum(row.status == "diverged" for row in best.scored)
    return text + (f", {diverged} diverged" if diverged else "")


def _number(share: float, percent: bool) -> str:
    if percent:
        return "100" if share == 1 else f"{min(100 * share, 99.9):.1f}"
    return sheet.share_text(share)


def _heading(places: Sequence[Place]) -> str:
    return f"{sheet.score_label(places).capitalize()} (%)"


Setting = tuple[Any, ...]


def _setting(place: Place) -> Setting:
    return place.size, place.recipe, place.depth, place.width


def _setting_text(place: Place) -> str:
    return f"{place.task}, width {place.width}, {place.depth} layer{'s' if place.depth > 1 else ''}"


def _settings(places: Sequence[Place], telling: Callable[[RunRow], bool]) -> dict[Setting, Place]:
    """The settings in which something was compared, each with one of its places."""
    compared = {_setting(place) for place in places if telling(place.cell.rows[0])}
    chosen = {_setting(place): place for place in places if _setting(place) in compared}
    return {setting: chosen[setting] for setting in sorted(chosen)}


def _is_telling(row: RunRow) -> bool:
    """Whether it says something about an ablation: a plain model alone compares nothing."""
    return is_ablated(row) or value(row, MIXER) == "s6"


def _variant_label(variant: Variant, place: Place) -> str:
    """The line's name with the padding of its convolution, and what else sets it apart."""
    padding = place.cell.rows[0].spec["model"]["mixer"].get("conv_padding", "causal")
    words = (
        f"{variant.name} ({PADDING_WORDS.get(padding, padding)})"
        if variant.conditions.get(CONV, "none") != "none"
        else variant.name
    )
    return ", ".join(filter(None, [words, place.variant]))


def _table(
    question: Question,
    head: Sequence[str],
    lines: Sequence[tuple[str, ...]],
    places: Sequence[Place],
    kind: str,
    settings: Sequence[Place] = (),
    names: int = 1,
) -> Table:
    shared = f"{_setting_text(settings[0])}. " if len(settings) == 1 else ""
    task = (
        f"{places[0].task}. "
        if not settings and len({place.column for place in places}) == 1
        else ""
    )
    first, *rest = sheet.small_print(question, places, kind)
    notes = (
        f"{shared}{task}Best of the rates tried. "
        f"{first.replace('band:', 'in brackets:' if kind == 'min-max' else '±:')}",
        *rest,
    )
    return Table(question.name, question.title, tuple(head), tuple(lines), tuple(notes), names)
