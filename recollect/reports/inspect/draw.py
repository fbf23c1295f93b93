"""The pictures of an examination: maps, scores over training, where questions look, how far the
model looks back.

Heads are called as in TransformerLens: L0H1 is the second head of the first layer; a layer with one
map for all its channels is L0. What would crowd a picture is left out, the least telling first, and
the caption says so.
"""

import math
import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from recollect.analysis import bumps
from recollect.reports.inspect.examination import FOLDER, MOMENTS, Examination, LayerFound, Picture
from recollect.reports.inspect.scores import DUPLICATE, INDUCTION, PREVIOUS, PREVIOUS_AT_VALUES
from recollect.reports.page.style import DOTTED, FAINT, INK, PALETTE, SETTINGS, line_style
from recollect.rows import Evaluation
from recollect.store.durable import write_atomically

DPI = 150
MOST_LINES = 7  # heads of one picture: as many as there are colours
MOST_MAPS = 4
LEAST_RANGE = 100  # of a log axis, so that small ups and downs look small
DASHES = {"-": "solid", "--": "dashed", "-.": "dash-dotted"}
NAMED_POSITIONS = 24  # longer rows have numbers along the axes instead of their tokens
KEY_COLOUR, VALUE_COLOUR = PALETTE[2], PALETTE[1]


@dataclass(frozen=True)
class Head:
    """One map of one layer."""

    layer: int
    head: int
    found: LayerFound

    @property
    def label(self) -> str:
        return f"L{self.layer}" if self.found.channels else f"L{self.layer}H{self.head}"

    def score(self, name: str) -> list[float]:
        """Over the steps; empty if the task has no such score."""
        return [at_step[self.head] for at_step in self.found.scores.get(name, [])]


def draw(found: Examination, folder: Path) -> Examination:
    """Draw all that there is to draw into DIR/inspect/RUN_ID; the examination with its pictures
    named.
    """
    makers: dict[str, Callable[[Examination], Figure | None]] = {
        "maps": maps_figure,
        "scores": scores_figure,
        "questions": questions_figure,
        "memory": memory_figure,
    }
    pictures = []
    for name, make in makers.items():
        with matplotlib.rc_context(SETTINGS):
            figure = make(found)
        if figure is not None:
            file = f"{FOLDER}/{found.run_id}/{name}.png"
            write_atomically(folder / file, to_png(figure))
            pictures.append(Picture(file, TITLES[name], _caption(name, found)))
    return replace(
        found,
        pictures=pictures,
        command=f"recollect inspect {shlex.quote(str(folder))} {found.run_id}",
    )


def to_png(figure: Figure) -> bytes:
    out = BytesIO()
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()


def _title(figure: Figure, found: Examination) -> None:
    title = figure.suptitle(" ", x=0.01, ha="left", fontsize=10)
    title.set_parse_math(False)  # a mixer's name may hold anything printable
    title.set_text(found.name)


def heads_of(found: Examination, most: int = MOST_LINES) -> list[Head]:
    """The maps there are; if there are too many, those with the highest induction or previous-token
    score at the end.
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


def maps_figure(found: Examination) -> Figure | None:
    """The shares of the first test row, before and after training, one line of maps per head."""
    heads = heads_of(found, MOST_MAPS)
    if not heads:
        return None
    figure = Figure(figsize=(7.4, 0.7 + 3.1 * len(heads)), layout="constrained")
    axes = figure.subplots(len(heads), len(MOMENTS), squeeze=False)
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
            ax.set_title(f"{head.label} {MOMENTS[moment]}", loc="left")
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


def _mark_targets(ax: Axes, found: Examination) -> None:
    """Frames around what an answer could be read from: the key of each question, and behind it the
    value.
    """
    for question in found.questions:
        if found.tokens[question] not in found.tokens[:question]:
            continue
        key = found.tokens.index(found.tokens[question])
        wide = (
            len(found.tokens) <= NAMED_POSITIONS
        )  # in a long row there is room for one thin frame
        frames = [(key, KEY_COLOUR, DOTTED)] * wide + [(key + 1, VALUE_COLOUR, "-")]
        for place, colour, dash in frames:
            ax.add_patch(
                Rectangle(
                    (place - 0.5, question - 0.5),
                    1,
                    1,
                    fill=False,
                    ec=colour,
                    lw=1.5 if wide else 0.7,
                    ls=dash,
                )
            )


def _name_positions(ax: Axes, found: Examination) -> None:
    ax.tick_params(length=0)
    if len(found.tokens) <= NAMED_POSITIONS:
        names = [str(token) if token else "·" for token in found.tokens]
        ax.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
        ax.set_yticks(range(len(names)), names, fontsize=7)


# ---- scores over training ----


def scores_figure(found: Examination) -> Figure | None:
    """Loss above, scores below, all against the training step."""
    heads = heads_of(found)
    if not heads:
        return None
    panels = [_question_lines(found, heads)] if heads[0].score(INDUCTION) else []
    previous = PREVIOUS_AT_VALUES if heads[0].score(PREVIOUS_AT_VALUES) else PREVIOUS
    panels.append({previous: [head.score(previous) for head in heads]})
    figure = Figure(figsize=(6.2, 2.2 + 2.2 * len(panels)), layout="constrained")
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
            ax.axvspan(start, end, color=PALETTE[4], alpha=0.22, lw=0)
    score_axes[-1].set_xlabel("step")
    _title(figure, found)
    return figure


def _question_lines(found: Examination, heads: Sequence[Head]) -> dict[str, list[list[float]]]:
    """What questions take from their value and from their key; and from further behind, if they end
    up looking there.
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
    ax: Axes, found: Examination, heads: Sequence[Head], lines: dict[str, list[list[float]]]
) -> None:
    """For each of the lines' names one dash, for each head one colour."""
    for dash, by_head in zip(DASHES, lines.values(), strict=False):
        for index, (head, values) in enumerate(zip(heads, by_head, strict=True)):
            style, label = line_style(index), head.label if dash == "-" else None
            ax.plot(
                found.steps,
                values,
                color=style.colour,
                marker=style.marker,
                ms=3.5,
                lw=1.4,
                ls=dash,
                label=label,
            )
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


def _bumps(found: Examination) -> list[tuple[int, int]]:
    curve = [
        Evaluation(int(point["step"]), math.nan, point["test_loss"], point["score"], point["score"])
        for point in found.curve
    ]
    return [(bump.start_step, bump.end_step) for bump in bumps(curve, found.score_name)]


# ---- where questions look ----


def questions_figure(found: Examination) -> Figure | None:
    """The share that questions take from around their key."""
    heads = [head for head in heads_of(found) if head.score(INDUCTION)]
    if not heads:
        return None
    figure = Figure(figsize=(6.2, 3.0), layout="constrained")
    axes = figure.subplots(1, len(MOMENTS), sharey=True)
    for moment, ax in enumerate(axes):
        for index, head in enumerate(heads):
            style = line_style(index)
            share = head.found.around_key[-moment][head.head]  # of the first and of the last step
            ax.plot(
                found.offsets,
                share,
                color=style.colour,
                marker=style.marker,
                ms=5,
                lw=1.2,
                label=head.label,
            )
        ax.set_title(MOMENTS[moment], loc="left")
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


def memory_figure(found: Examination) -> Figure | None:
    """|Phi| against distance where there is one, and the gradient of the loss against distance."""
    heads = heads_of(found)
    figure = Figure(figsize=(8.6 if heads else 4.6, 3.5), layout="constrained")
    axes = figure.subplots(1, 2 if heads else 1, squeeze=False)[0]
    for index, head in enumerate(heads):
        style = line_style(index)
        for moment, dash in enumerate(("--", "-")):
            mass = _positive(head.found.mass[moment][head.head])
            label = head.label if dash == "-" else None
            axes[0].plot(
                mass,
                color=style.colour,
                ls=dash,
                lw=1.4,
                marker=style.marker,
                ms=3,
                markevery=_every(mass),
                label=label,
            )
    if heads:
        relative = not all(head.found.exclude_current_token for head in heads)
        axes[0].set_ylabel("attention, relative to an equal share" if relative else "mean |Φ|")
        axes[0].set_title(f"effective attention (eq. 1); dashed: {MOMENTS[0]}", loc="left")
    for moment, dash in enumerate(("--", "-")):
        norms = found.gradients.by_distance[moment]
        relative_norms = _positive([norm / norms[0] if norms[0] else math.nan for norm in norms])
        axes[-1].plot(
            relative_norms,
            color=INK,
            ls=dash,
            lw=1.4,
            marker="o",
            ms=3,
            markevery=_every(norms),
            label=MOMENTS[moment],
        )
    axes[-1].set_ylabel("relative to the question's own token")
    axes[-1].set_title("gradient of a question's loss", loc="left")
    for ax in axes:
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        ax.set_ylim(min(low, high / LEAST_RANGE), high)
        ax.set_xlabel("distance back (tokens)")
    if len(heads) > 1:
        axes[0].legend(loc="lower left", ncols=3, frameon=False, fontsize=8)
    axes[-1].legend(frameon=False, fontsize=8)
    _title(figure, found)
    return figure


def _positive(values: Sequence[float]) -> list[float]:
    """Zeros have no place on a log axis."""
    return [value if value > 0 else math.nan for value in values]


def _every(values: Sequence[float]) -> int:
    return max(1, len(values) // 16)


# ---- words ----

TITLES = {
    "maps": "Attention maps",
    "scores": "Scores over training",
    "questions": "Where questions look",
    "memory": "How far back it looks",
}


def _caption(name: str, found: Examination) -> str:
    own = any(layer is not None and layer.exclude_current_token for layer in found.layers)
    without = " A position's own share is left out." if own else ""
    maps = sum(layer.heads for layer in found.layers if layer is not None)
    shown = min(maps, MOST_MAPS if name == "maps" else MOST_LINES)
    fewer = (
        f" {shown} of {maps} maps are shown, those with the highest scores." if shown < maps else ""
    )
    few_steps = (
        " The weights of few steps were kept: `recollect "
        "inspect DIR "
        f"{found.run_id} --again` has more."
        if len(found.steps) < 4
        else ""
    )
    text = {
        "maps": "What each position of a test row takes from each earlier one "
        "(|Φ| of "
        f"eq. 1, as shares of its line).{without} "
        f"Frames: a question's value and, if dotted, its key.{fewer}",
        "scores": f"Shares averaged over {found.rows} test rows. Dotted: a map "
        "that takes "
        "equally from everywhere. "
        f"Shaded: sudden changes of the loss.{without}{fewer}{few_steps}",
        "questions": "The share that questions take from positions around their "
        "key: at "
        "the key duplicate_token_head, at the "
        f"value induction_head.{without}{fewer}",
        "memory": "Left, the mean size of the effective attention at each "
        "distance; "
        "right, the norm of the gradient of a "
        "question's loss with respect to the embedded token at each distance." + fewer,
    }
    return text[name]


def _at_end(head: Head) -> list[str]:
    return [
        name
        for name in (INDUCTION, PREVIOUS)
        if head.score(name) and math.isfinite(head.score(name)[-1])
    ]
