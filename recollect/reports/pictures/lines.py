"""Elements that the pictures of any rows share: a mean with its band, crosses, legends."""

from collections.abc import Collection, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import Rate, band
from recollect.plotting import sheet
from recollect.plotting.colours import FAINT, LineStyle
from recollect.plotting.text import plain
from recollect.reports.pictures.shown import FIRST_DASHES, SECOND_DASHES, Shown


def mean_line(style: LineStyle, source: int, width: float = 1.4) -> dict[str, Any]:
    """The line properties of a mean. The markers of the second folder are hollow."""
    return {
        "color": style.colour,
        "ls": style.stroke,
        "marker": style.marker,
        "ms": 3.6,
        "lw": width,
        "mfc": style.colour if source == 0 else "white",
        "mec": "white" if source == 0 else style.colour,
        "mew": 0.4 if source == 0 else 0.8,
    }


def draw_means(
    ax: Axes,
    x: Sequence[float],
    rates: Sequence[Rate],
    style: LineStyle,
    source: int,
    kind: str,
    label: str,
) -> None:
    """Draw mean and band over seeds at each x, and a cross for every run that diverged."""
    bands = [band(rate.scores, kind) for rate in rates]
    lows, highs = [low for low, _ in bands], [high for _, high in bands]
    if len(x) > 1:
        ax.fill_between(x, lows, highs, color=style.colour, alpha=0.14, lw=0, label="band")
    else:  # an area over a single point is invisible
        ax.vlines(x, lows, highs, color=style.colour, alpha=0.5, lw=1.4, label="band")
    ax.plot(x, [rate.mean for rate in rates], label=label, zorder=3, **mean_line(style, source))
    lost = [
        (at, row.score or 0.0) for at, rate in zip(x, rates, strict=True) for row in rate.diverged
    ]
    ax.plot(
        [at for at, _ in lost],
        [score for _, score in lost],
        color=style.colour,
        label="diverged",
        **sheet.CROSS,
    )


def legend(
    shown: Shown,
    figure: Figure,
    *more: sheet.LegendEntry,
    marked: bool = True,
    labels: Collection[str] | None = None,
) -> list[sheet.LegendEntry]:
    """The entries of a legend: labels (all, or only `labels`), the two folders if there are two,
    `more`, and the marks that occur in the figure.

    `marked` means that the lines have a marker at every point.
    """
    entries: list[sheet.LegendEntry] = [
        (sheet.line_handle(style, marked), label)
        for label, style in shown.labels.items()
        if labels is None or label in labels
    ]
    if shown.is_comparison:
        entries += [
            (
                Line2D(
                    [], [], **mean_line(LineStyle(FAINT, "o" if marked else "", dashes), number)
                ),
                plain(source.name),
            )
            for number, (source, dashes) in enumerate(
                zip(shown.sources, (FIRST_DASHES, SECOND_DASHES), strict=True)
            )
        ]
    return [*entries, *more, *sheet.marks(figure)]
