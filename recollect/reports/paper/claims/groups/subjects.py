"""Subjects of claims: the cells of the study, each with its place and its recipe."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from recollect.analysis import Cell, count_text, flatten, group_cells
from recollect.analysis.seeds import resample
from recollect.analysis.seeds.other_seeds import Draw
from recollect.reports.paper.claims.roles import Role
from recollect.reports.paper.study import Size, recipe, task_table
from recollect.rows import RunRow


class Panel(NamedTuple):
    """The task size and width at which models of different kinds are compared."""

    size: Size
    width: int


@dataclass(frozen=True)
class Subject:
    """A cell of the study: its flat settings and its recipe."""

    cell: Cell
    flat: Mapping[str, Any]
    recipe: Mapping[str, Any]
    # Of a subject with other seeds: its cell as it was trained, and a draw of its scores. Its own
    # cell is then resampled, with curves.
    trained: Cell | None = None
    draw: Draw | None = None

    @property
    def as_trained(self) -> Cell:
        return self.trained or self.cell

    @property
    def task(self) -> dict[str, Any]:
        return task_table(self.flat)

    @property
    def size(self) -> Size:
        return self.flat.get("task.length", 0), self.flat.get("task.pairs", 0)

    @property
    def width(self) -> int:
        return int(self.flat.get("model.width", 0))

    @property
    def depth(self) -> int:
        return int(self.flat.get("model.depth", 0))

    @property
    def positions(self) -> str:
        return str(self.flat.get("model.positions", "none"))

    def redrawn(self, runs: random.Random, draw: Draw | None) -> "Subject":
        """A copy of the subject with other seeds."""
        return replace(self, cell=resample(self.cell, runs), trained=self.cell, draw=draw)


def find_subjects(rows: Iterable[RunRow]) -> list[Subject]:
    """All cells whose task is one of the study's, each with its recipe."""
    subjects = []
    for cell in group_cells(list(rows)):
        flat = flatten(cell.rows[0].spec)
        made = recipe(flat)
        if made is not None:
            subjects.append(Subject(cell, flat, made))
    return subjects


def size_text(size: Size) -> str:
    return f"({size[0]},{size[1]})"


def subject_text(role: Role, subject: Subject) -> str:
    place = f" {size_text(subject.size)}" if any(subject.size) else ""
    is_open = role.depth is None or callable(role.depth)
    depth = f", {count_text(subject.depth, 'layer')}" if is_open else ""
    positions = f", positions {subject.positions}" if "model.positions" in role.any_of else ""
    return f"{role.name}{place} width {subject.width}{depth}{positions}"
