"""The figures of an inspection: maps, scores over training, where questions look, how far back.

Heads are named as in TransformerLens: L0H1 is the second head of the first layer. A layer with one
map for all its channels is L0. If there are too many heads for a figure, those with the lowest
scores are left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from recollect.analysis import bumps
from recollect.plotting.colours import FAINT, INK, PALETTE, series_style
from recollect.plotting.layout import SteadyLayout
from recollect.plotting.settings import DOTTED
from recollect.plotting.text import wrapped
from recollect.reports.inspect.record import MOMENTS, InspectedLayer, Inspection
from recollect.reports.inspect.scores import DUPLICATE, INDUCTION, PREVIOUS, PREVIOUS_AT_VALUES
from recollect.rows import Evaluation

MOST_LINES = len(PALETTE)  # the most heads in one figure: one per colour
MOST_MAPS = 4
TITLE_LETTER = 0.075  # inches
ABOVE = 1.25  # margin at the top of a log axis, for the upper half of a marker there
LEAST_RANGE = 100  # the least range of a log axis, so that small fluctuations look small
DASHES = {"-": "solid", "--": "dashed", "-.": "dash-dotted"}
MOMENT_DASHES = ("--", "-")  # in the order of MOMENTS
NAMED_POSITIONS = 24  # longer rows have numbers along the axes instead of their tokens
KEY_COLOUR, VALUE_COLOUR, BUMP_COLOUR = PALETTE[2], PALETTE[1], PALETTE[4]


@dataclass(frozen=True)
class Head:
    """One map of one layer."""

    layer: int
    head: int
    found: InspectedLayer

    @property
    def label(self) -> str:
        return f"L{self.layer}" if self.found.channels else f"L{self.layer}H{self.head}"

    def score(self, name: str) -> list[float]:
        """The score at each step; empty if the task has no such score."""
        return [at_step[self.head] for at_step in self.found.scores.get(name, [])]


def _title(figure: Figure, found: Inspection) -> None:
    title = figure.suptitle(" ", x=0.01, ha="left", fontsize=10)
    title.set_parse_math(False)  # a mixer's name may hold any printable character
    title.set_text("\n".join(wrapped(found.name, int(figure.get_figwidth() / TITLE_LETTER))))


def heads_of(found: Inspection, most: int = MOST_LINES) -> list[Head]:
    """All maps; if there are more than `most`, those with the highest induction or previous-token
    score.
    """
    heads = [
        Head(layer, head, layer_found)
        for layer, layer_found in enumerate(found.layers)
        if layer_found is not None
        for head in range(layer_found.heads)
    ]
    telling = sorted(
        heads,
        key=lambda head: max([0.0, *(head.score(name)[-1] for name in _at_end(head))]),
        reverse=True,
    )[:most]
    return [head for head in heads if head in telling]


# ---- maps ----


def maps_figure(found: Inspection) -> Figure | None:
    """Draw the shares of the first test row at each moment, with one line of maps per head."""
    heads = heads_of(found, MOST_MAPS)
    if not heads:
        return None
    moments = found.moments
    figure = Figure(
        figsize=(0.8 + 3.3 * len(moments), 0.7 + 3.1 * len(heads)), layout=SteadyLayout()
    )
    axes = figure.subplots(len(heads), len(moments), squeeze=False)
    image = None
    for head, line in zip(heads, axes, strict=True):
        for moment, ax in enumerate(line):
            image = ax.imshow(
                head.found.maps[moment, head.head],
                cmap="Greys",
                norm=PowerNorm(0.5, 0, 1),
                interpolation="nearest",
            )
            _mark_targets(ax, found)
            ax.set_title(f"{head.label} {moments[moment]}", loc="left")
            _name_positions(ax, found)
        line[0].set_ylabel("position")
    for ax in axes[-1]:
        ax.set_xlabel("takes from")
    assert image is not None
    bar = figure.colorbar(image, ax=axes, aspect=40, shrink=0.8)
    bar.set_label("share of what the position takes")
    bar.set_ticks([0, 0.05, 0.2, 0.5, 1])
    bar.outline.set_visible(False)
    _title(figure, found)
    return figure


def _mark_targets(ax: Axes, found: Inspection) -> None:
    """Draw frames around the positions that hold each question's key and value."""
    for question in found.questions:
        if found.tokens[question] not in found.tokens[:question]:
            continue
        key = found.tokens.index(found.tokens[question])
        wide = len(found.tokens) <= NAMED_POSITIONS  # a long row has space for one thin frame only
        frames = [(key, KEY_COLOUR, DOTTED)] * wide + [(key + 1, VALUE_COLOUR, "-")]
        for place, colour, dash in frames:
            frame: dict[str, Any] = {
                "fill": False,
                "ec": colour,
                "lw": 1.5 if wide else 0.7,
                "ls": dash,
            }
            ax.add_patch(Rectangle((place - 0.5, question - 0.5), 1, 1, **frame))


def _name_positions(ax: Axes, found: Inspection) -> None:
    ax.tick_params(length=0)
    if len(found.tokens) <= NAMED_POSITIONS:
        names = [str(token) if token else "·" for token in found.tokens]
        ax.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
        ax.set_yticks(range(len(names)), names, fontsize=7)


# ---- scores over training ----


def scores_figure(found: Inspection) -> Figure | None:
    """Draw the loss above and the scores below, all against the training step."""
    heads = heads_of(found)
    if not heads or len(found.steps) < 2:
        return None
    panels = [_question_lines(found, heads)] if heads[0].score(INDUCTION) else []
    previous = PREVIOUS_AT_VALUES if heads[0].score(PREVIOUS_AT_VALUES) else PREVIOUS
    panels.append({previous: [head.score(previous) for head in heads]})
    figure = Figure(figsize=(6.2, 2.2 + 2.2 * len(panels)), layout=SteadyLayout())
    loss_ax, *score_axes = figure.subplots(1 + len(panels), 1, sharex=True)
    curve = [
        (0, found.losses[0]),
        *((int(point["step"]), point["test_loss"]) for point in found.curve),
    ]
    loss_ax.plot(*zip(*curve, strict=True), color=INK, lw=1.5, marker="o", ms=2.5)
    loss_ax.set_ylim(bottom=0)
    loss_ax.set_ylabel("test loss")
    for ax, lines in zip(score_axes, panels, strict=True):
        _draw_scores(ax, found, heads, lines)
    for ax in (loss_ax, *score_axes):
        for start, end in _bumps(found):
            ax.axvspan(start, end, color=BUMP_COLOUR, alpha=0.22, lw=0)
    score_axes[-1].set_xlabel("step")
    _title(figure, found)
    return figure


def _question_lines(found: Inspection, heads: Sequence[Head]) -> dict[str, list[list[float]]]:
    """The shares that questions take from their value and from their key.

    A position further behind the key is included if at the end of training more is taken from
    there than from the value.
    """
    lines = {name: [head.score(name) for head in heads] for name in (INDUCTION, DUPLICATE)}
    behind = [place for place, offset in enumerate(found.offsets) if offset >= 1]
    favourite = max(
        behind, key=lambda place: max(head.found.around_key[-1][head.head][place] for head in heads)
    )
    if found.offsets[favourite] > 1:
        taken = [
            [at_step[head.head][favourite] for at_step in head.found.around_key] for head in heads
        ]
        lines[f"{found.offsets[favourite]} behind the key"] = taken
    return lines


def _draw_scores(
    ax: Axes, found: Inspection, heads: Sequence[Head], lines: dict[str, list[list[float]]]
) -> None:
    """Draw the scores over steps, with one dash pattern per name and one colour per head."""
    for dash, by_head in zip(DASHES, lines.values(), strict=False):
        for index, (head, values) in enumerate(zip(heads, by_head, strict=True)):
            style, label = series_style(index), head.label if dash == "-" else None
            look: dict[str, Any] = {"color": style.colour, "marker": style.marker, "label": label}
            ax.plot(found.steps, values, ls=dash, ms=3.5, lw=1.4, **look)
    for value in {
        head.found.uniform[name] for head in heads for name in lines if name in head.found.uniform
    }:
        ax.axhline(value, color=FAINT, lw=1.2, ls=DOTTED)
    ax.set_ylim(-0.03, 1.03)
    ax.set_ylabel("share taken")
    names = [
        f"{name} ({way})" if len(lines) > 1 else name
        for name, way in zip(lines, DASHES.values(), strict=False)
    ]
    ax.set_title(", ".join(names), loc="left", fontsize=9)
    if len(heads) > 1:
        ax.legend(frameon=False, fontsize=8)


def _bumps(found: Inspection) -> list[tuple[int, int]]:
    curve = [
        Evaluation(int(point["step"]), math.nan, point["test_loss"], point["score"], point["score"])
        for point in found.curve
    ]
    return [(bump.start_step, bump.end_step) for bump in bumps(curve, found.score_name)]


# ---- where questions look ----


def questions_figure(found: Inspection) -> Figure | None:
    """Draw the share that questions take from positions around their key."""
    heads = [head for head in heads_of(found) if head.score(INDUCTION)]
    if not heads:
        return None
    moments = found.moments
    figure = Figure(figsize=(0.6 + 2.8 * len(moments), 3.0), layout=SteadyLayout())
    axes = figure.subplots(1, len(moments), sharey=True, squeeze=False)[0]
    for moment, ax in enumerate(axes):
        for index, head in enumerate(heads):
            style = series_style(index)
            share = head.found.around_key[-moment][head.head]  # the first step, then the last
            look = {"color": style.colour, "marker": style.marker, "label": head.label}
            ax.plot(found.offsets, share, ms=5, lw=1.2, **look)
        ax.set_title(moments[moment], loc="left")
        ax.set_xticks(
            found.offsets,
            [{0: "key", 1: "value"}.get(offset, f"{offset:+d}") for offset in found.offsets],
        )
        ax.set_xlabel("position, from the key on")
        ax.set_ylim(-0.03, 1.03)
    axes[0].set_ylabel("share a question takes")
    axes[-1].legend(loc="upper right", frameon=False)
    _title(figure, found)
    return figure


# ---- how far back ----


def memory_figure(found: Inspection) -> Figure | None:
    """Draw the gradient of the loss against distance and, if there are maps, |Phi|."""
    heads = heads_of(found)
    figure = Figure(figsize=(8.6 if heads else 4.6, 3.5), layout=SteadyLayout())
    axes = figure.subplots(1, 2 if heads else 1, squeeze=False)[0]
    if heads:
        _draw_mass(axes[0], heads, found.moments)
    _draw_gradients(axes[-1], found)
    for ax in axes:
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        ax.set_ylim(min(low, high / LEAST_RANGE), high * ABOVE)
        ax.set_xlabel("distance back (tokens)")
    if len(heads) > 1:
        axes[0].legend(loc="lower left", ncols=3, frameon=False, fontsize=8)
    axes[-1].legend(frameon=False, fontsize=8)
    _title(figure, found)
    return figure


def _draw_mass(ax: Axes, heads: Sequence[Head], moments: Sequence[str]) -> None:
    for index, head in enumerate(heads):
        style = series_style(index)
        for moment, dash in enumerate(MOMENT_DASHES[: len(moments)]):
            mass = _positive(head.found.mass[moment][head.head])
            marks: dict[str, Any] = {"marker": style.marker, "ms": 3, "markevery": _every(mass)}
            label = head.label if moment == len(moments) - 1 else None
            ax.plot(mass, color=style.colour, ls=dash, lw=1.4, label=label, **marks)
    relative = not all(head.found.exclude_current_token for head in heads)
    ax.set_ylabel("attention, relative to an equal share" if relative else "mean |Φ|")
    ax.set_title(f"effective attention (eq. 1); dashed: {MOMENTS[0]}", loc="left")


def _draw_gradients(ax: Axes, found: Inspection) -> None:
    for moment, dash in enumerate(MOMENT_DASHES[: len(found.moments)]):
        norms = found.gradients.by_distance[moment]
        relative = _positive([norm / norms[0] if norms[0] else math.nan for norm in norms])
        marks: dict[str, Any] = {"marker": "o", "ms": 3, "markevery": _every(norms)}
        ax.plot(relative, color=INK, ls=dash, lw=1.4, label=found.moments[moment], **marks)
    ax.set_ylabel("relative to the question's own token")
    ax.set_title("gradient of a question's loss", loc="left")


def _positive(values: Sequence[float]) -> list[float]:
    """Replace values that a log axis cannot show by NaN."""
    return [value if value > 0 else math.nan for value in values]


def _every(values: Sequence[float]) -> int:
    return max(1, len(values) // 16)


def _at_end(head: Head) -> list[str]:
    return [
        name
        for name in (INDUCTION, PREVIOUS)
        if head.score(name) and math.isfinite(head.score(name)[-1])
    ]
