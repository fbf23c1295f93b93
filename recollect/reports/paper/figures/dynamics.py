"""Loss and score against step for the smallest model that solves the task (Fig. 6), with the levels
of the loss at which a model may plateau.

Each model has a column, with the width in brackets: the smallest width whose best rate reaches
SOLVED, or the widest tried if none does. The seed with the median score at that rate is drawn in
full, with its training loss and its score on training rows in fainter lines; the other seeds are
thin and grey. Sudden changes of the test loss are marked, with or without a gain in score.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from recollect.analysis import Curves, bumps, plateaus, rate_text
from recollect.plotting import sheet
from recollect.plotting.colours import FAINT, LineStyle, line_styles
from recollect.plotting.settings import DOTTED, print_style
from recollect.plotting.text import write, write_wrapped
from recollect.reports.paper.figures import captions
from recollect.reports.paper.figures.definition import FigureDefinition, select_cells
from recollect.reports.paper.figures.figure_cells import FigureCell
from recollect.reports.paper.study import SOLVED
from recollect.rows import RunRow

PANEL = (2.4, 1.35)
TRAIN: dict[str, Any] = {"lw": 1.0, "alpha": 0.45, "ls": (0, (4, 1.5))}
TRAIN_SCORE = "train score"
TEST: dict[str, Any] = {"lw": 1.5}
OTHER: dict[str, Any] = {"lw": 0.6, "color": FAINT, "alpha": 0.7}
GAINED: dict[str, Any] = {"fc": "#dcdcdc", "ec": "none"}
WITHOUT_GAIN: dict[str, Any] = {"fc": "none", "ec": "#b4b4b4", "hatch": ".....", "lw": 0}


def draw(definition: FigureDefinition, rows: Sequence[RunRow], curves: Curves, kind: str) -> Figure:
    """Draw two rows of panels per task, loss above score. Single runs are drawn, so there is no
    band.
    """
    cells, _ = select_cells(definition, rows, curves)
    # A task without any finished run would only give panels without a curve.
    tasks = {cell.column: cell.task for cell in cells if cell.runs.best}
    models = definition.models(cells)
    styles = line_styles((cell.model, cell.mixer) for cell in cells)
    with print_style():
        figure, axes = sheet.panel_grid(2 * len(tasks), len(models), PANEL, sharey="row")
        drawn: dict[str, list[str]] = {task: [] for task in tasks.values()}
        for line, (column, task) in enumerate(tasks.items()):
            axes[2 * line, 0].set_ylim(-0.3, 1)
            for number, model in enumerate(models):
                pair = axes[2 * line, number], axes[2 * line + 1, number]
                cell = smallest_solving(
                    [cell for cell in cells if (cell.column, cell.model) == (column, model)]
                )
                if cell is None:
                    _mark_absent(pair, model)
                    continue
                drawn[task].append(_draw_run(pair, cell, styles[model], curves))
            write_wrapped(
                axes[2 * line, 0].set_ylabel(" ", size=7),
                f"{task}: loss" if len(tasks) > 1 else "loss",
                PANEL[1],
            )
            axes[2 * line + 1, 0].set_ylabel(captions.score_label(cells), size=7)
        ink = next(iter(styles.values())).colour
        entries: list[sheet.LegendEntry] = [
            (Line2D([], [], color=ink, **TEST), "test"),
            (Line2D([], [], color=ink, **TRAIN), _train_label(figure)),
            (Line2D([], [], **OTHER), "test, other seeds"),
            (Line2D([], [], color=FAINT, lw=0.8, ls=DOTTED), "levels of loss, chance"),
            (Patch(**GAINED), "sudden change with a gain"),
            (Patch(**WITHOUT_GAIN), "sudden change without one"),
            *sheet.marks(figure)[1:],
        ]
        title = definition.title + (f", {next(iter(tasks.values()))}" if len(tasks) == 1 else "")
        return sheet.finish(
            figure,
            title,
            entries,
            [
                f"In full: the median seed at the best rate. {drawn_text(drawn)}",
                *captions.setting_lines(definition, cells),
            ],
        )


def smallest_solving(cells: Sequence[FigureCell]) -> FigureCell | None:
    """The narrowest cell that solves the task, else the widest with a result."""
    scored = sorted((cell for cell in cells if cell.runs.best), key=lambda cell: cell.width)
    solved = [cell for cell in scored if cell.runs.best and cell.runs.best.mean >= SOLVED]
    return solved[0] if solved else scored[-1] if scored else None


def drawn_text(drawn: Mapping[str, Sequence[str]]) -> str:
    """The runs drawn in full, by task if there are several."""
    texts = ["; ".join(runs) for runs in drawn.values()]
    if len(drawn) > 1:
        texts = [f"{task}: {text}" for task, text in zip(drawn, texts, strict=True)]
    return " ".join(f"{text}." for text in texts)


def _draw_run(pair: tuple[Axes, Axes], cell: FigureCell, style: LineStyle, curves: Curves) -> str:
    """Draw one model's column. Returns a text about the run that was drawn."""
    loss_ax, score_ax = pair
    best = cell.runs.best
    assert best is not None
    name = f"{cell.model} ({cell.width})"
    sheet.panel_title(loss_ax, name)
    runs = sorted(
        (row for row in best.scored if curves.get(row.run_id)),
        key=lambda row: (row.score or 0, row.run_id),
    )
    sheet.score_axis(score_ax, "")
    score_ax.set_xlabel("step")
    loss_ax.sharex(score_ax)
    loss_ax.tick_params(labelbottom=False)
    score_ax.xaxis.set_major_locator(MaxNLocator(5))
    score_ax.xaxis.set_major_formatter(
        FuncFormatter(lambda step, _: f"{step / 1000:g}k" if step >= 1000 else f"{step:g}")
    )
    if not runs:
        for ax in pair:
            sheet.mark_missing(ax, "no curve")
        return f"{name} has no curve"
    shown = runs[(len(runs) - 1) // 2]
    for row in runs:
        _draw_curve(pair, row, curves, style if row is shown else None)
    levels = plateaus(shown.spec["task"])
    _draw_levels(loss_ax, levels)
    sheet.draw_floors(score_ax, [cell.runs])
    # The panels of a row share this axis. It is cut at the top, so a loss that rises far leaves it.
    starts = [
        point.test_loss for point in curves[shown.run_id][:1] if math.isfinite(point.test_loss)
    ]
    loss_ax.set_ylim(
        -0.3, max(loss_ax.get_ylim()[1], 1.12 * max([*levels.values(), *starts], default=1.0))
    )
    for bump in bumps(curves[shown.run_id], shown.score_name, shown.chance):
        for ax in pair:
            ax.axvspan(
                bump.start_step,
                bump.end_step,
                zorder=0,
                label="bump",
                **(GAINED if bump.gained else WITHOUT_GAIN),
            )
    return f"{name} rate {rate_text(best.lr)}, seed {shown.spec['seed']}"


def _draw_levels(ax: Axes, levels: Mapping[str, float]) -> None:
    """Draw dotted lines at the plateaus of the loss, with their names to the right of the panel."""
    lowest = min(levels.values(), default=0.0)
    beside = ax.get_yaxis_transform()
    for label, level in levels.items():
        ax.axhline(level, color=FAINT, lw=0.8, ls=DOTTED, zorder=1)
        # Two levels may be close together, so the name of the lowest is below its line.
        side = "top" if level == lowest and len(levels) > 1 else "bottom"
        write(ax.text(1.01, level, " ", transform=beside, va=side, size=5.5), label)


def _draw_curve(
    pair: tuple[Axes, Axes], row: RunRow, curves: Curves, style: LineStyle | None
) -> None:
    loss_ax, score_ax = pair
    curve = curves[row.run_id]
    steps = [point.step for point in curve]
    test = {**OTHER, "zorder": 2} if style is None else {**TEST, "color": style.colour, "zorder": 4}
    if len(curve) == 1:
        test |= {"marker": "o", "ms": 3}
    label = "other" if style is None else "test"
    loss_ax.plot(steps, [_finite(point.test_loss) for point in curve], label=label, **test)
    score_ax.plot(steps, [point.score(row.score_name) for point in curve], label=label, **test)
    if style is not None:
        train = {**TRAIN, "color": style.colour, "zorder": 3}
        loss_ax.plot(steps, [_finite(point.train_loss) for point in curve], label="train", **train)
        fitted = [(p.step, p.train_score) for p in curve if p.train_score is not None]
        if fitted:  # rows that are new at every step have no such score
            score_ax.plot(*zip(*fitted, strict=True), label=TRAIN_SCORE, **train)
    if row.status == "diverged":
        score_ax.plot(
            [row.diverged_step or steps[-1]],
            [row.score or 0.0],
            color=test["color"],
            label="diverged",
            **sheet.CROSS,
        )


def _train_label(figure: Figure) -> str:
    """What the faint lines show: the score only where some run has it."""
    labels = {line.get_label() for ax in figure.axes for line in ax.lines}
    return "train" if TRAIN_SCORE in labels else "train (loss)"


def _mark_absent(pair: tuple[Axes, Axes], model: str) -> None:
    for ax in pair:
        sheet.mark_missing(ax, "not run")
        ax.set_xticks([])
    sheet.score_axis(pair[1], "")
    sheet.panel_title(pair[0], model)


def _finite(loss: float) -> float:
    return loss if math.isfinite(loss) else math.nan
