"""The card on a terminal: the mixers that were scored, then the baselines."""

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from recollect.analysis import (
    TAU,
    CellSummary,
    ScalingPoint,
    deviation,
    get_setting,
    rate_text,
    score_text,
)
from recollect.reports.score.measure import MixerScore

NONE = "-"
Styled = Sequence[tuple[MixerScore, str]]


def score_tables(
    scores: Sequence[MixerScore], baselines: Sequence[MixerScore], notes: Sequence[str] = ()
) -> Group:
    """A table for each depth, then one for series and costs; baselines below what was scored."""
    styled = [*((score, "bold") for score in scores), *((score, "") for score in baselines)]
    if not styled:
        return Group(*(Text(note) for note in notes))
    depths = sorted({depth for score, _ in styled for depth in score.windows})
    parts = [*(_window_table(styled, depth) for depth in depths), _series_table(styled)]
    legend = [
        f"window: decades of learning rate with a mean score of at least {TAU:g}, with its 95 % "
        "bootstrap interval over seeds;",
        ">= where the grid ends first. +- is the standard deviation over seeds at the best rate. "
        "Steps to solve: median of the seeds at that rate.",
    ]
    unfinished = [
        f"{score.label}: {score.missing} of {score.planned} runs have no result yet; a best score "
        "can still rise"
        for score, _ in styled
        if score.missing
    ]
    return Group(*parts, *(Text(line) for line in [*legend, *unfinished, *notes]))


def _table(title: str, *columns: str) -> Table:
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        header_style="bold",
        title=Text(title),
        title_justify="left",
        title_style="",
    )
    for column in columns:
        table.add_column(
            Text(column),
            justify="left" if column == "mixer" else "right",
            no_wrap=column == "mixer",
        )
    return table


def _window_table(styled: Styled, depth: int) -> Table:
    cell = next(score.windows[depth].cell for score, _ in styled if depth in score.windows)
    width, length, pairs = (
        get_setting(cell.rows[0], key) for key in ("model.width", "task.length", "task.pairs")
    )
    title = (
        f"\ndepth {depth}, width {width}, length {length} with {pairs} pairs; chance "
        f"{score_text(cell.chance)}"
    )
    table = _table(
        title,
        "mixer",
        "best",
        "at rate",
        "window",
        "between rates",
        "seeds solve",
        "steps to solve",
    )
    for score, style in styled:
        table.add_row(Text(score.label), *_window_cells(score.windows.get(depth)), style=style)
    return table


def _window_cells(summary: CellSummary | None) -> list[str]:
    if summary is None or summary.best is None:
        return [NONE] * 6
    best, window, spread = summary.best, summary.window, summary.spread
    texts = [_mean_text(best.mean, best.scores), rate_text(best.lr)]
    if window is None:
        texts += ["none", NONE]
    else:
        interval = (
            f" [{spread.interval[0]:.1f}, {spread.interval[1]:.1f}]"
            if spread and spread.interval
            else ""
        )
        texts.append(f"{'>= ' if window.is_open else ''}{window.decades:.1f}{interval}")
        texts.append(f"{rate_text(window.low)} .. {rate_text(window.high)}")
    steps = f"{summary.steps_to_solve:,.0f}" if summary.steps_to_solve is not None else NONE
    return [*texts, f"{summary.solved_seeds} of {len(best.scores)}", steps]


def _series_table(styled: Styled) -> Table:
    everything = [score for score, _ in styled]
    widths = sorted({point.x for score in everything for point in score.widths})
    lengths = sorted({point.x for score in everything for point in score.lengths})
    axes = [f"width {width}" for width in widths] + [f"length {length}" for length in lengths]
    title = (
        "\nbest score over width and over length, the other as above; size and speed of the model "
        "above"
    )
    table = _table(title, "mixer", *axes, "parameters", "state", "run-steps/s")
    for score, style in styled:
        by_width, by_length = (
            {point.x: point for point in points} for points in (score.widths, score.lengths)
        )
        cells = [_point_text(by_width.get(width)) for width in widths] + [
            _point_text(by_length.get(at)) for at in lengths
        ]
        speed = f"{score.run_steps_per_s:,.0f}" if score.run_steps_per_s else NONE
        table.add_row(
            Text(score.label),
            *cells,
            _count(score.parameters),
            _count(score.state_size),
            speed,
            style=style,
        )
    return table


def _point_text(point: ScalingPoint | None) -> str:
    return _mean_text(point.mean, point.scores) if point else NONE


def _mean_text(mean: float, scores: dict[int, float]) -> str:
    return (
        f"{score_text(mean)}+-{deviation(list(scores.values())):.3f}"
        if len(scores) > 1
        else score_text(mean)
    )


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"
