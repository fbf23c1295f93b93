"""The card on a terminal: the scored mixers ranked among the baselines."""

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from recollect.analysis import (
    TAU,
    CellSummary,
    deviation,
    rate_text,
    score_text,
)
from recollect.reports.score.measure import MixerScore, cell_text
from recollect.reports.score.recipe import CardCell

NONE = "-"
COSTS = ("mixer", "parameters", "state", "run-steps/s")
Styled = Sequence[tuple[MixerScore, str]]


def score_tables(
    scores: Sequence[MixerScore], baselines: Sequence[MixerScore], notes: Sequence[str] = ()
) -> Group:
    """A table for each cell, the headline first, then a table of the costs of each mixer.

    The scored mixers are in bold, at their rank among the baselines.
    """
    styled = [*((score, "bold") for score in scores), *((score, "") for score in baselines)]
    if not styled:
        return Group(*(Text(note) for note in notes))
    cells = list(dict.fromkeys(cell for score, _ in styled for cell in score.cells))
    parts = [*(_window_table(styled, cell) for cell in cells), _cost_table(styled)]
    legend = [
        f"window: decades of learning rate with a mean score of at least {TAU:g}; in brackets: "
        "with other seeds (95 %);",
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
        table.add_column(Text(column), justify="left" if column == "mixer" else "right")
    return table


def _window_table(styled: Styled, cell: CardCell) -> Table:
    ranked = sorted(
        (entry for entry in styled if cell in entry[0].cells),
        key=lambda entry: entry[0].rank_key(cell),
        reverse=True,
    )
    example = ranked[0][0].cells[cell].cell
    table = _table(
        f"\n{cell_text(example)}; chance {score_text(example.chance)}",
        *("mixer", "best", "at rate", "window", "between rates", "seeds solve", "steps to solve"),
    )
    for score, style in ranked:
        table.add_row(Text(score.label), *_window_cells(score.cells[cell]), style=style)
    return table


def _window_cells(summary: CellSummary) -> list[str]:
    if summary.best is None:
        return [NONE] * 6
    best, window, spread = summary.best, summary.window, summary.spread
    rate = "all diverged" if summary.cell.all_diverged else rate_text(best.lr)
    texts = [_mean_text(best.mean, best.scores), rate]
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


def _cost_table(styled: Styled) -> Table:
    table = _table("\nsize and speed in the first cell", *COSTS)
    for score, style in styled:
        speed = f"{score.run_steps_per_s:,.0f}" if score.run_steps_per_s else NONE
        sizes = (_count(score.parameters), _count(score.state_size))
        table.add_row(Text(score.label), *sizes, speed, style=style)
    return table


def _mean_text(mean: float, scores: dict[int, float]) -> str:
    return (
        f"{score_text(mean)}+-{deviation(list(scores.values())):.3f}"
        if len(scores) > 1
        else score_text(mean)
    )


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"
