"""The definition of a figure or table, and the selection of its rows.

Task, depth, mixer and whether a row is one of the study's ablations decide. Other settings of a run
(its recipe, its sizes) are not restricted, so that the same code draws a reduced sweep and a full
one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from recollect.analysis import Curves, get_setting, group_cells
from recollect.analysis.mixer_options import PARTS, part_text
from recollect.analysis.settings import DEPTH, MIXER
from recollect.errors import SpecError
from recollect.plotting.text import mixer_title
from recollect.reports.paper.figures.figure_cells import (
    POSITIONS,
    FigureCell,
    merge_repeats,
    to_figure_cells,
)
from recollect.rows import RunRow

MQAR, COPYING = "mqar", "copying"
ANY_DEPTH = (1, 1000)
# The official Based is a stack of two kinds of layers. A single layer is only its convolution, or
# (as here) only its attention.
PARTS_OF = {"based_hybrid": "based", "base_conv": "based"}
# Models without positions, to which the study added positions as an experiment.
WITHOUT_POSITIONS = ("mamba", "hyena", "rwkv4", "h3")


@dataclass(frozen=True)
class FigureDefinition:
    """One of the study's figures or tables."""

    name: str  # the name of the preset: fig1, table2
    title: str
    mixers: tuple[str, ...]  # in the order they are shown
    task: str = MQAR
    depths: tuple[int, int] = ANY_DEPTH  # least and most layers
    ablations: bool = False  # whether it shows the study's ablations
    varies: tuple[str, ...] = ()  # settings that it compares, so they make no other recipe
    size: tuple[int, int] | None = None  # length and pairs, if the study shows one size alone

    def fits(self, row: RunRow) -> bool:
        least, most = self.depths
        return (
            get_setting(row, "task.name") == self.task
            and get_setting(row, MIXER) in self.mixers
            and least <= get_setting(row, DEPTH, 0) <= most
            and (self.ablations or not is_ablated(row))
        )

    def absent(self, cells: Sequence[FigureCell]) -> list[str]:
        """The names of the study's models that have no cell."""
        found = {PARTS_OF.get(cell.mixer, cell.mixer) for cell in cells}
        return [
            mixer_title(mixer)
            for mixer in self.mixers
            if mixer not in PARTS_OF and mixer not in found
        ]

    def models(self, cells: Sequence[FigureCell]) -> list[str]:
        """The labels of all models in the order of the mixers, even of models that were not run."""
        absent = self.absent(cells)
        named = [(self.mixers.index(cell.mixer), cell.model) for cell in cells]
        named += [
            (index, mixer_title(mixer))
            for index, mixer in enumerate(self.mixers)
            if mixer_title(mixer) in absent
        ]
        return list(dict.fromkeys(model for _, model in sorted(named)))

    @property
    def wanted(self) -> str:
        """The rows it needs, in words."""
        ablated = "ablated" if self.ablations else ""
        parts = [self.task, self._layers(), " or ".join(self.mixers), ablated]
        return ", ".join(filter(None, parts))

    def _layers(self) -> str:
        least, most = self.depths
        if self.depths == ANY_DEPTH:
            return ""
        if least == most:
            return f"{least} layer" if least == 1 else f"{least} layers"
        if most == ANY_DEPTH[1]:
            return f"more than {least - 1} layers"
        return f"{least} to {most} layers"


def is_ablated(row: RunRow) -> bool:
    """Whether the run is one of the study's ablations: a part added or removed, or positions on a
    model that has none.
    """
    has_positions = get_setting(row, POSITIONS, "none") != "none"
    return is_rewired(row) or (get_setting(row, MIXER) in WITHOUT_POSITIONS and has_positions)


def is_rewired(row: RunRow) -> bool:
    """Whether a convolution or a gate was added or removed."""
    mixer = str(get_setting(row, MIXER))
    return any(part_text(mixer, key, get_setting(row, key)) for key in PARTS)


class Selection(NamedTuple):
    """The cells of a figure, and the models that it leaves out."""

    cells: list[FigureCell]  # sorted by task, depth, width and mixer
    left_out: list[str]


def select_cells(
    definition: FigureDefinition, rows: Sequence[RunRow], curves: Curves = MappingProxyType({})
) -> Selection:
    """The cells of a figure. Raises SpecError if none has a result.

    A folder may hold another sweep's variants of the models. They are left out as long as they have
    no result and their model has one.
    """
    fitting = [row for row in rows if definition.fits(row)]
    require_result(definition, fitting, len(rows))
    cells = to_figure_cells(group_cells(merge_repeats(fitting, curves)))
    scored = {(cell.mixer, cell.model) for cell in cells if cell.runs.best}
    mixers = {mixer for mixer, _ in scored}
    left_out = [
        cell
        for cell in cells
        if cell.variant and cell.mixer in mixers and (cell.mixer, cell.model) not in scored
    ]
    if left_out:
        gone = {id(cell) for cell in left_out}
        cells = to_figure_cells([cell.runs for cell in cells if id(cell) not in gone])
    order = {mixer: index for index, mixer in enumerate(definition.mixers)}
    cells.sort(key=lambda c: (c.size, c.recipe, c.depth, c.width, order[c.mixer], c.model))
    return Selection(cells, sorted({cell.model for cell in left_out}))


def require_result(definition: FigureDefinition, fitting: Sequence[RunRow], among: int) -> None:
    """Raise SpecError if there is nothing to draw. The message says what to train."""
    if any(row.has_result and row.score is not None for row in fitting):
        return
    if fitting and all(row.status == "failed" for row in fitting):
        raise SpecError(
            f"{definition.name}: {len(fitting)} runs fit but failed; `recollect failures DIR` "
            "shows why"
        )
    found = (
        f"{len(fitting)} runs fit but none has a result yet"
        if fitting
        else f"none of {among} runs fits"
    )
    raise SpecError(
        f"{definition.name}: {found} (wanted: {definition.wanted});\n"
        f"run `recollect run paper:{definition.name} --out DIR`, small: "
        f"paper:{definition.name}:small;\n"
        "`recollect figure rates DIR` draws any rows, and so do windows, curves and scaling"
    )
