"""The study's figures and tables by name, each with its definition and drawing function."""

from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.figure import Figure

from recollect.analysis import Curves
from recollect.reports.paper.figures import dynamics, heat, rates, scaling, tables, why, width
from recollect.reports.paper.figures.definition import COPYING, FigureDefinition
from recollect.reports.paper.figures.figure_cells import POSITIONS
from recollect.reports.paper.figures.table import Table
from recollect.reports.paper.study import DYNAMICS_SIZE, SCALING_SIZE
from recollect.rows import RunRow

BASED = ("based", "based_hybrid", "base_conv")  # the study's Based, whole or one of its layers
ALL_MIXERS = ("attention", *BASED, "h3", "hyena", "mamba", "rwkv4")
MAIN_MIXERS = ("attention", "hyena", "mamba")
# Based is left out: with one layer it is a different architecture than with two.
SAME_AT_ANY_DEPTH = tuple(mixer for mixer in ALL_MIXERS if mixer not in BASED)
ABLATED = ("attention", "mamba", "s6")
NEWER = ("mamba", "mamba2", "delta_net")
COMPARED = ("attention", "mamba")
RECURRENT = ("mamba", "hyena", "rwkv4", "h3")
ONE, TWO, DEEP = (1, 1), (2, 2), (3, 1000)

_DEFINITIONS = (
    FigureDefinition(
        "fig1", "Figure 1. MQAR, 2 layers: accuracy against learning rate", MAIN_MIXERS, depths=TWO
    ),
    FigureDefinition(
        "fig2", "Figure 2. MQAR, 2 layers: accuracy against width", MAIN_MIXERS, depths=TWO
    ),
    FigureDefinition(
        "fig3",
        "Figure 3. MQAR, 1 layer: best accuracy by width and (length, pairs)",
        ALL_MIXERS,
        depths=ONE,
    ),
    FigureDefinition(
        "fig4",
        "Figure 4. MQAR: accuracy against parameters, 1 and 2 layers",
        SAME_AT_ANY_DEPTH,
        depths=(1, 2),
        size=SCALING_SIZE,
    ),
    FigureDefinition(
        "fig5", "Figure 5. Copying: exact match against learning rate", COMPARED, COPYING
    ),
    FigureDefinition(
        "fig6",
        "Figure 6. MQAR, 1 layer: training dynamics",
        MAIN_MIXERS,
        depths=ONE,
        size=DYNAMICS_SIZE,
    ),
    FigureDefinition(
        "fig7", "Figure 7. MQAR, 1 layer: newer models against learning rate", NEWER, depths=ONE
    ),
    FigureDefinition(
        "fig11", "Figure 11. MQAR, 2 layers: accuracy against width", ALL_MIXERS, depths=TWO
    ),
    FigureDefinition(
        "fig12",
        "Figure 12. MQAR, 1 layer: best accuracy by width and (length, pairs)",
        ALL_MIXERS,
        depths=ONE,
    ),
    FigureDefinition(
        "fig13",
        "Figure 13. MQAR, deep models: accuracy against learning rate",
        COMPARED,
        depths=DEEP,
    ),
    FigureDefinition("table1", "Table 1. Copying by depth and width", COMPARED, COPYING),
    FigureDefinition(
        "table2", "Table 2. MQAR, 1 layer: ablations", ABLATED, depths=ONE, ablations=True
    ),
    FigureDefinition(
        "table3", "Table 3. MQAR, 1 layer: all ablations", ABLATED, depths=ONE, ablations=True
    ),
    FigureDefinition(
        "table4",
        "Table 4. MQAR: positional encodings",
        RECURRENT,
        ablations=True,
        varies=(POSITIONS,),
    ),
)
DEFINITIONS = {definition.name: definition for definition in _DEFINITIONS}

FIGURES: dict[str, Callable[[Sequence[RunRow], Curves, str], Figure]] = {
    "fig1": partial(rates.draw, DEFINITIONS["fig1"], True),
    "fig2": partial(width.draw, DEFINITIONS["fig2"]),
    "fig3": partial(heat.draw, DEFINITIONS["fig3"]),
    "fig4": partial(scaling.draw, DEFINITIONS["fig4"]),
    "fig5": partial(rates.draw, DEFINITIONS["fig5"], False),
    "fig6": partial(dynamics.draw, DEFINITIONS["fig6"]),
    "fig7": partial(rates.draw, DEFINITIONS["fig7"], True),
    "fig11": partial(width.draw, DEFINITIONS["fig11"]),
    "fig12": partial(heat.draw, DEFINITIONS["fig12"]),
    "fig13": partial(rates.draw, DEFINITIONS["fig13"], True),
}
TABLES: dict[str, Callable[[Sequence[RunRow], Curves, str], Table]] = {
    "table1": partial(tables.copying_table, DEFINITIONS["table1"]),
    "table2": partial(tables.ablation_table, DEFINITIONS["table2"], tables.TABLE_2),
    "table3": partial(tables.ablation_table, DEFINITIONS["table3"], tables.TABLE_3),
    "table4": partial(tables.position_table, DEFINITIONS["table4"]),
}
# A figure that is not in the study, as a picture and as a table.
OWN_FIGURES: dict[str, Callable[[Sequence[RunRow], Curves, str], Figure]] = {"why": why.draw}
OWN_TABLES: dict[str, Callable[[Sequence[RunRow], Curves, str], Table]] = {"why": why.table}
