"""Loss and score against step of the smallest model that solves the task (Fig. 6), with the levels
a loss may rest at.

Per model one column: the smallest width whose best rate reaches SOLVED, or the widest tried where
none does (in brackets). Of the seeds at that rate the one with the median score is drawn in full,
the others thin and grey. Sudden changes of the test loss are marked, with or without a gain of the
score.
"""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from recollect.analysis import bumps, plateaus, rate_text
from recollect.reports.page.style import DOTTED, FAINT, write
from recollect.reports.paper.figures import sheet
from recollect.reports.paper.figures.looks import Look, looks
from recollect.reports.paper.figures.places import Curves, Place
from recollect.reports.paper.figures.question import Question, ask
from recollect.rows import RunRow

PANEL = (2.4, 1.35)
SOLVED = 0.95  # the study's own word for it
TRAIN: dict[str, Any] = {"lw": 1.0, "alpha": 0.45, "ls": (0, (4, 1.5))}
TEST: dict[str, Any] = {"lw": 1.5}
OTHER: dict[str, Any] = {"lw": 0.6, "color": FAINT, "alpha": 0.7}
GAINED: dict[str, Any] = {"fc": "#dcdcdc", "ec": "none"}
WITHOUT_GAIN: dict[str, Any] = {"fc": "none", "ec": "#b4b4b4", "hatch": ".....", "lw": 0}


def draw(question: Question, rows: Sequence[RunRow], curves: Curves, kind: str) -> Figure:
    """Two rows of panels per task, loss above score; single runs are drawn, so a band has no place
    here.
    """
    places = ask(question, rows, curves)
    tasks = {place.column: place.task for place in places}
    models = question.models(places)
    look = looks(places)
    with sheet.paper_style():
        figure, axes = sheet.panel_grid(2 * len(tasks), len(models), PANEL, sharey="row")
        told = []
        for line, (column, task) in enumerate(tasks.items()):
            axes[2 * line, 0].set_ylim(-0.3, 1)
            for number, model in enumerate(models):
                pair = axes[2 * line, number], axes[2 * line + 1, number]
                place = choose(
                    [place for place in places if (place.column, place.model) == (column, model)]
                )
                if place is None:
                    _mark_absent(pair, model)
                    continue
                told.append(_draw_run(pair, place, look[model], curves))
            sheet.wrap(
                axes[2 * line, 0].set_ylabel(" ", size=7),
                f"{task}: loss" if len(tasks) > 1 else "loss",
                PANEL[1],
            )
            axes[2 * line + 1, 0].set_ylabel(sheet.score_label(places), size=7)
        ink = next(iter(look.values())).colour
        entries: list[sheet.Entry] = [
            (Line2D([], [], color=ink, **TEST), "test"),
            (Line2D([], [], color=ink, **TRAIN), "train (loss)"),
            (Line2D([], [], **OTHER), "test, other seeds"),
            (Line2D([], [], color=FAINT, lw=0.8, ls=DOTTED), "levels of loss, chance"),
            (Patch(**GAINED), "sudden change with a gain"),
            (Patch(**WITHOUT_GAIN), "sudden change without one"),
            *sheet.marks(figure)[1:],
        ]
        recipe = sheet.small_print(question, places, "min-max")[1]
        title = question.title + (f", {next(iter(tasks.values()))}" if len(tasks) == 1 else "")
        return sheet.finish(
            figure,
            title,
            entries,
            ["In full: the median seed at the best rate: " + "; ".join(told) + ".", recipe],
        )


def choose(places: Sequence[Place]) -> Place | None:
    """The narrowest that solves the task, else the widest with a result."""
    scored = sorted((place for place in places if place.cell.best), key=lambda place: place.width)
    solved = [place for place in scored if place.cell.best and place.cell.best.mean >= SOLVED]
    return solved[0] if solved else scored[-1] if scored else None


def _draw_run(pair: tuple[Axes, Axes], place: Place, style: Look, curves: Curves) -> str:
    """Draw one model's column; returns what was drawn in words."""
    loss_ax, score_ax = pair
    best = place.cell.best
    assert best is not None
    name = f"{place.model} ({place.width})"
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
    for level in levels.values():
        loss_ax.axhline(level, color=FAINT, lw=0.8, ls=DOTTED, zorder=1)
    lowest = min(levels.values(), default=0.0)
    for label, level in levels.items():
        # Two levels may lie close together: the lowest one's name stands below its line.
        side = "top" if level == lowest and len(levels) > 1 else "bottom"
        write(
            loss_ax.text(
                1.01, level, " ", transform=loss_ax.get_yaxis_transform(), va=side, size=5.5
            ),
            label,
        )
    score_ax.axhline(shown.chance, color=FAINT, lw=0.8, ls=DOTTED, zorder=1)
    # The panels of a row share this axis; a loss that shoots up leaves it at the top.
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


def _draw_curve(pair: tuple[Axes, Axes], row: RunRow, curves: Curves, style: Look | None) -> None:
    loss_ax, score_ax = pair
    curve = curves[row.run_id]
    steps = [point.step for point in curve]
    test = {**OTHER, "zorder": 2} if style is None else {**TEST, "color": style.colour, "zorder": 4}
    if len(curve) == 1:
        test |= {"marker": "o", "ms": 3}
    loss_ax.plot(
        steps,
        [_finite(point.test_loss) for point in curve],
        label="other" if style is None else "test",
        **test,
    )
    score_ax.plot(
        steps,
        [point.score(row.score_name) for point in curve],
        label="other" if style is None else "test",
        **test,
    )
    if style is not None:
        train = {**TRAIN, "color": style.colour, "zorder": 3}
        loss_ax.plot(steps, [_finite(point.train_loss) for point in curve], label="train", **train)
    if row.status == "diverged":
        score_ax.plot(
            [row.diverged_step or steps[-1]],
            [row.chance],
            color=test["color"],
            label="diverged",
            **sheet.CROSS,
        )


def _mark_absent(pair: tuple[Axes, Axes], model: str) -> None:
    for ax in pair:
        sheet.mark_missing(ax, "not run")
        ax.set_xticks([])
    sheet.score_axis(pair[1], "")
    sheet.panel_title(pair[0], model)


def _finite(loss: float) -> float:
    return loss if math.isfinite(loss) else math.nan
