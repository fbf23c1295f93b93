"""Small rows for every figure and table of the study, and what was drawn of them."""

from dataclasses import replace
from functools import cache

from study_made import RATES, SIZES, study_curve, study_rows

from recollect.plotting.sheet import HATCH
from recollect.reports.paper.figures import FIGURES

THREE = ("attention", "hyena", "mamba")


COPY = {"name": "copying"}


FEW = RATES[1:6]  # with all of Zoology's four


@cache
def rows_for(name):
    """Small but complete rows for a figure or table."""
    made = {
        "fig1": lambda: study_rows(THREE, SIZES[:2], (64, 128)),
        "fig2": lambda: study_rows(THREE, SIZES[:2], (64, 128), rates=FEW),
        "fig3": lambda: study_rows(THREE, SIZES[:2], (64, 128), (1,), FEW),
        "fig4": lambda: study_rows(THREE, SIZES[:1], (64, 128), (1, 2), FEW[:2]),
        "fig5": lambda: (
            study_rows(["attention"], task=COPY, positions="rope", depths=(3,))
            + study_rows(["mamba"], task=COPY, depths=(3,), widths=(64, 96))
        ),
        "fig6": lambda: study_rows(THREE, SIZES[:1], (64, 128), (1,), (1e-3,)),
        "fig7": lambda: study_rows(("mamba", "mamba2", "delta_net"), widths=(64, 128), depths=(1,)),
        "fig13": lambda: study_rows(("attention", "mamba"), depths=(12,)),
        "table2": lambda: study_rows(
            [
                "attention",
                {"name": "attention", "conv": "qkv"},
                "mamba",
                {"name": "mamba", "kernel": 0},
                "s6",
            ],
            depths=(1,),
            rates=(1e-3,),
        ),
        "table4": lambda: [
            row
            for pe in ("none", "learned")
            for row in study_rows(("mamba", "h3"), rates=(1e-3,), positions=pe)
        ],
    }
    same = {"fig11": "fig2", "fig12": "fig3", "table1": "fig5", "table3": "table2"}
    return tuple(made[same.get(name, name)]())


def curves_for(rows):
    return {row.run_id: study_curve(row) for row in rows}


def draw(name, rows=None, kind="min-max"):
    rows = rows_for(name) if rows is None else rows
    return FIGURES[name](rows, curves_for(rows) if name == "fig6" else {}, kind)


def drawn(ax, label):
    """The points of all lines of that label."""
    return [
        list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for line in ax.get_lines()
        if line.get_label() == label
    ]


def hatched(figure):
    return sum(patch.get_hatch() == HATCH for ax in figure.axes for patch in ax.patches)


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def lose(row, status):
    """The same run with another end."""
    ended = status == "diverged"
    return replace(
        row,
        status=status,
        accuracy=row.accuracy if ended else None,
        exact=row.exact if ended else None,
    )


PANELS = {
    "fig1": 4,
    "fig2": 6,
    "fig3": 6 + 1,
    "fig4": 1,
    "fig5": 1,
    "fig6": 6,
    "fig7": 2,
    "fig11": 12,
    "fig12": 6 + 1,
    "fig13": 1,
}
