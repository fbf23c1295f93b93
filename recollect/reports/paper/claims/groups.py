"""Cells that can be compared: one recipe, one variant of each model; and what a rule may ask of
them.

A group is looked at in one of two ways. *Strictly*: only sizes and models that the study trained,
only rates with enough seeds, and a score counts as tuned only after a search that is fine and wide
enough. Or *as it is*: whatever was trained, for the remark on what holds at a reduced scale.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from recollect.analysis import Cell, flatten, group_cells
from recollect.analysis.settings import canonical, value_text
from recollect.reports.paper.claims.checks import Measure
from recollect.reports.paper.claims.measures import trusted, tuned, window
from recollect.reports.paper.claims.roles import OPEN_OPTIONS, Role
from recollect.reports.paper.claims.study import Size, open_choices, recipe
from recollect.rows import Evaluation, RunRow

Curves = Mapping[str, Sequence[Evaluation]]


class Panel(NamedTuple):
    """Where models of different kinds are compared."""

    size: Size
    width: int


@dataclass(frozen=True)
class Subject:
    """A cell with its place among others."""

    cell: Cell
    flat: Mapping[str, Any]
    recipe: Mapping[str, Any]

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


@dataclass(frozen=True)
class Group:
    """The subjects of each role, of one recipe and one variant each."""

    subjects: Mapping[Role, tuple[Subject, ...]]
    curves: Curves
    strict: bool
    recipe: Mapping[str, Any]
    choices: tuple[str, ...]  # answers to what the study leaves open, other than the defaults

    @property
    def runs(self) -> int:
        return sum(subject.cell.scored_runs for own in self.subjects.values() for subject in own)

    def roles(self, wanted: Iterable[Role]) -> list[Role]:
        """Strictly all of them, else those that were trained."""
        return [role for role in wanted if self.strict or role in self.subjects]

    def panels(
        self, roles: Iterable[Role], sizes: Sequence[Size] = (), widths: Sequence[int] = ()
    ) -> list[Panel]:
        """Strictly every size with every width; as it is, or where neither is prescribed, those at
        which a role was trained.
        """
        if self.strict and sizes and widths:
            return [Panel(size, width) for size, width in product(sizes, widths)]
        trained = {
            Panel(subject.size, subject.width)
            for role in roles
            for subject in self.subjects.get(role, ())
        }
        return sorted(trained)

    def sizes(self, roles: Iterable[Role], wanted: Sequence[Size]) -> list[Size]:
        return list(wanted) if self.strict else sorted({size for size, _ in self.panels(roles)})

    def widths(self, role: Role, size: Size, wanted: Sequence[int]) -> list[int]:
        return (
            list(wanted)
            if self.strict
            else [width for at, width in self.panels([role]) if at == size]
        )

    def find(self, role: Role, **place: Any) -> Subject | None:
        """The subject at a size, width, depth or with positions; the fullest if several differ in
        how they were looked at.

        As it is, models trained at one width each are compared although their widths differ:
        whoever chose them may have matched states or parameters.
        """
        there = self.subjects.get(role, ())
        if not self.strict and all(
            len({s.width for s in own}) == 1 for own in self.subjects.values()
        ):
            place.pop("width", None)
        own = [s for s in there if all(getattr(s, key) == wanted for key, wanted in place.items())]
        return max(own, key=lambda subject: subject.cell.scored_runs, default=None)

    def seen(self, subject: Subject) -> Cell:
        """The subject's cell with the rates that count."""
        return trusted(subject.cell) if self.strict else subject.cell

    def score(self, role: Role, panel: Panel | None = None, **place: Any) -> Measure:
        """The score at the best rate."""
        place = (panel._asdict() if panel else {}) | place
        subject = self.find(role, **place)
        return (
            tuned(subject.cell, named(role, subject), self.strict)
            if subject
            else missing(role, place, 1.0)
        )

    def window(self, role: Role, panel: Panel | None = None, **place: Any) -> Measure:
        """The window's decades."""
        place = (panel._asdict() if panel else {}) | place
        subject = self.find(role, **place)
        return (
            window(subject.cell, named(role, subject), self.strict)
            if subject
            else missing(role, place, math.inf)
        )


def missing(role: Role, place: Mapping[str, Any], most: float) -> Measure:
    words = {"size": "{}", "width": "width {}", "depth": "{} layers", "positions": "positions {}"}
    told = ", ".join(
        words[key].format(size_text(value) if key == "size" else value)
        for key, value in place.items()
    )
    return Measure(0.0, most, "", f"{role.name} at {told}" if told else role.name)


def size_text(size: Size) -> str:
    return f"({size[0]},{size[1]})"


def named(role: Role, subject: Subject) -> str:
    place = f" {size_text(subject.size)}" if any(subject.size) else ""
    depth = f", {subject.depth} layers" if role.depth is None or callable(role.depth) else ""
    positions = f", positions {subject.positions}" if "model.positions" in role.any_of else ""
    return f"{role.name}{place} width {subject.width}{depth}{positions}"


def gather(rows: Iterable[RunRow]) -> list[Subject]:
    """Every cell of a task the study has, with its recipe."""
    subjects = []
    for cell in group_cells(list(rows)):
        flat = flatten(cell.rows[0].spec)
        made = recipe(flat)
        if made is not None:
            subjects.append(Subject(cell, flat, made))
    return subjects


def groups(
    subjects: Sequence[Subject], roles: Sequence[Role], curves: Curves, strict: bool
) -> list[Group]:
    """What can be compared, the fewest deviations first: for each recipe the plainest variant of
    every role, and then, strictly only, every other variant of one role beside the plainest of the
    others.
    """
    by_recipe: dict[str, list[Subject]] = {}
    for subject in subjects:
        by_recipe.setdefault(canonical(subject.recipe), []).append(subject)
    found = [group for own in by_recipe.values() for group in _variants(own, roles, curves, strict)]
    return sorted(found, key=lambda group: (len(group.choices), -group.runs))


def _variants(
    subjects: Sequence[Subject], roles: Sequence[Role], curves: Curves, strict: bool
) -> list[Group]:
    cast = {role: _by_variant(role, subjects, strict) for role in roles}
    cast = {role: variants for role, variants in cast.items() if variants}
    if not cast:
        return []
    plainest = {role: min(variants, key=len) for role, variants in cast.items()}
    chosen = [plainest]
    if strict:
        chosen += [
            {**plainest, role: variant}
            for role in cast
            for variant in cast[role]
            if variant != plainest[role]
        ]
    common = open_choices(subjects[0].recipe)
    return [
        Group(
            subjects={role: cast[role][variant] for role, variant in choice.items()},
            curves=curves,
            strict=strict,
            recipe=subjects[0].recipe,
            choices=(
                *common,
                *(f"{role.name}: {text}" for role, variant in choice.items() for text in variant),
            ),
        )
        for choice in chosen
    ]


def _by_variant(
    role: Role, subjects: Sequence[Subject], strict: bool
) -> dict[tuple[str, ...], tuple[Subject, ...]]:
    found: dict[tuple[str, ...], list[Subject]] = {}
    for subject in subjects:
        if role.fits(subject.flat):
            variant = role.variant(subject.flat)
            if not strict or variant.keys() <= OPEN_OPTIONS:
                words = sorted(
                    f"{key.split('.')[-1].replace('_', ' ')} {value_text(v)}"
                    for key, v in variant.items()
                )
                found.setdefault(tuple(words), []).append(subject)
    return {variant: tuple(own) for variant, own in found.items()}
