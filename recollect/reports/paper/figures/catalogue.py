"""The study's figures and tables by name, with the question each one asks."""

from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.figure import Figure

from recollect.reports.paper.figures import dynamics, heat, rates, scaling, tables, width
from recollect.reports.paper.figures.places import Curves
from recollect.reports.paper.figures.question import COPYING, Question
from recollect.reports.paper.figures.table import Table
from recollect.rows import RunRow

THREE = ("attention", "hyena", "mamba")
SIX = ("attention", "based", "based_hybrid", "base_conv", "h3", "hyena", "mamba", "rwkv4")
FIVE = (
    "attention",
    "h3",
    "hyena",
    "mamba",
    "rwkv4",
)  # one layer of Based is another architecture than two
ABLATED = ("attention", "mamba", "s6")
NEWER = ("mamba", "mamba2", "delta_net")
RECURRENT = ("mamba", "hyena", "rwkv4", "h3")
ONE, TWO, DEEP = (1, 1), (2, 2), (3, 1000)

_QUESTIONS = (
    Question("fig1", "Figure 1. MQAR, 2 layers: accuracy against learning rate", THREE, depths=TWO),
    Question("fig2", "Figure 2. MQAR, 2 layers: accuracy against width", THREE, depths=TWO),
    Question(
        "fig3",
        "Figure 3. MQAR, 1 layer: best accuracy by width and (length, pairs)",
        THREE,
        depths=ONE,
    ),
    Question(
        "fig4", "Figure 4. MQAR: accuracy against parameters, 1 and 2 layers", FIVE, depths=(1, 2)
    ),
    Question(
        "fig5",
        "Figure 5. Copying: exact match against learning rate",
        ("attention", "mamba"),
        COPYING,
    ),
    Question("fig6", "Figure 6. MQAR, 1 layer: training dynamics", THREE, depths=ONE),
    Question(
        "fig7", "Figure 7. MQAR, 1 layer: newer models against learning rate", NEWER, depths=ONE
    ),
    Question("fig11", "Figure 11. MQAR, 2 layers: accuracy against width", SIX, depths=TWO),
    Question(
        "fig12",
        "Figure 12. MQAR, 1 layer: best accuracy by width and (length, pairs)",
        SIX,
        depths=ONE,
    ),
    Question(
        "fig13",
        "Figure 13. MQAR, deep models: accuracy against learning rate",
        ("attention", "mamba"),
        depths=DEEP,
    ),
    Question("table1", "Table 1. Copying by depth and width", ("attention", "mamba"), COPYING),
    Question("table2", "Table 2. MQAR, 1 layer: ablations", ABLATED, depths=ONE, ablations=True),
    Question(
        "table3", "Table 3. MQAR, 1 layer: all ablations", ABLATED, depths=ONE, ablations=True
    ),
    Question("table4", "Table 4. MQAR: positional encodings", RECURRENT, ablations=True),
)
QUESTIONS = {question.name: question for question in _QUESTIONS}

FIGURES: dict[str, Callable[[Sequence[RunRow], Curves, str], Figure]] = {
    "fig1": partial(rates.draw, QUESTIONS["fig1"], True),
    "fig2": partial(width.draw, QUESTIONS["fig2"]),
    "fig3": partial(heat.draw, QUESTIONS["fig3"]),
    "fig4": partial(scaling.draw, QUESTIONS["fig4"]),
    "fig5": partial(rates.draw, QUESTIONS["fig5"], False),
    "fig6": partial(dynamics.draw, QUESTIONS["fig6"]),
    "fig7": partial(rates.draw, QUESTIONS["fig7"], True),
    "fig11": partial(width.draw, QUESTIONS["fig11"]),
    "fig12": partial(heat.draw, QUESTIONS["fig12"]),
    "fig13": partial(rates.draw, QUESTIONS["fig13"], True),
}
TABLES: dict[str, Callable[[Sequence[RunRow], Curves, str], Table]] = {
    "table1": partial(tables.copying_table, QUESTIONS["table1"]),
    "table2": partial(tables.ablation_table, QUESTIONS["table2"], tables.TABLE_2),
    "table3": partial(tables.ablation_table, QUESTIONS["table3"], tables.TABLE_3),
    "table4": partial(tables.position_table, QUESTIONS["table4"]),
}
