"""The content of a picture: cells from one or two folders, sorted into panels, with the label and
the style of each line.

A panel is one task at one width and depth. The title of the picture names what all panels share;
the title of a panel names what distinguishes it. With two folders a label has the same colour in
both, and the lines of the second folder are dashed. Settings that differ between the folders as a
whole, such as a recipe, are not included in the labels.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from recollect.analysis import Cell, Curves, count_text, group_cells
from recollect.analysis.settings import DEPTH, MIXER, WIDTH, canonical, cell_settings
from recollect.errors import SpecError, command_text
from recollect.plotting.colours import DASHES, LineStyle, line_styles
from recollect.plotting.coordinates import TASK_KEYS, Coordinates, find_coordinates
from recollect.plotting.text import plain
from recollect.reports.pictures.labels import label_places
from recollect.rows import RunRow
from recollect.running.cluster.plan import go_on_command
from recollect.running.results import RunSet

MOST_PANELS = 24
FIRST_DASHES, SECOND_DASHES = DASHES[0], DASHES[6]


@dataclass(frozen=True)
class Source:
    """The rows of a folder, or of several folders that are read as one."""

    name: str
    rows: Sequence[RunRow]
    curves: Curves
    conflicts: tuple[str, ...] = ()  # runs with different results in several folders
    go_on: str = "recollect resume DIR"  # the command that trains more of it
    explain: str = "recollect failures DIR"  # the command that shows why runs failed
    left_out: str = ""  # rows of the folder that are another measurement, in words

    @classmethod
    def load(cls, folders: Sequence[Path], name: str = "") -> "Source":
        """Load the folders as one source, named after them."""
        results = RunSet.load_all(folders)
        found = cls(name or names_of(folders)[0], results.rows, results.curves, results.conflicts)
        if len(folders) > 1:
            return found
        (folder,) = folders
        return replace(found, go_on=go_on_command(folder), explain=command_text("failures", folder))

    @classmethod
    def load_each(cls, *several: Sequence[Path]) -> "list[Source]":
        """A source for each group of folders that is not empty, with names that differ."""
        groups = [folders for folders in several if folders]
        named = zip(groups, names_of(*groups), strict=True)
        return [cls.load(folders, name) for folders, name in named]

    @property
    def no_result(self) -> str:
        """Why there is nothing to draw, if no run has a result, and what to do about it."""
        failed = sum(row.status == "failed" for row in self.rows)
        if not self.rows:
            plan = command_text("run", "SPEC", "--out", "DIR")
            return f"{self.name}: no run to draw; plan and train some with `{plan}`"
        if failed == len(self.rows):
            return f"{self.name}: {count_text(failed, 'run')} failed; `{self.explain}` shows why"
        why = f" ({failed} failed: `{self.explain}` shows why)" if failed else ""
        return (
            f"{self.name}: none of {len(self.rows)} runs has a result yet{why}; train some with "
            f"`{self.go_on}`"
        )


def names_of(*several: Sequence[Path]) -> list[str]:
    """A name for each group of folders: the last parts of their paths, one of each if that tells
    the groups apart. The same folders once more are called "compared".
    """
    parts = [[folder.resolve().parts for folder in folders] for folders in several]
    for length in range(1, max((len(own) for group in parts for own in group), default=0) + 1):
        names = [", ".join(str(Path(*own[-length:])) for own in group) for group in parts]
        if len(set(names)) == len(names):
            return names
    first, *others = [", ".join(own[-1] for own in group) for group in parts]
    return [first, *(f"{name}, compared".removeprefix(", ") for name in others)]


@dataclass(frozen=True)
class ShownCell:
    """A cell with its coordinates, the index of its source, and the label of its line."""

    runs: Cell
    place: Coordinates
    source: int
    label: str


@dataclass(frozen=True)
class Panel:
    """The cells that are compared with each other."""

    title: str  # how it differs from the other panels; empty if it is the only one
    cells: tuple[ShownCell, ...]


@dataclass(frozen=True)
class Shown:
    """The cells of one or two sources: those with a result, and those without one yet."""

    sources: tuple[Source, ...]
    cells: tuple[ShownCell, ...]
    waiting: tuple[ShownCell, ...] = ()
    unsaid: tuple[tuple[str, str], ...] = ()  # (mixer, values that its labels leave out)

    @classmethod
    def of(cls, *sources: Source) -> "Shown":
        """The cells of these sources. Raises SpecError if a source has no result at all."""
        every, unsaid = _place_all(sources)
        shown = tuple(cell for cell in every if cell.runs.best)
        for number, source in enumerate(sources):
            if not any(cell.source == number for cell in shown):
                raise SpecError(source.no_result)
        waiting = tuple(cell for cell in every if not cell.runs.best)
        return cls(sources, shown, waiting, unsaid)

    @property
    def runs(self) -> list[Cell]:
        return [cell.runs for cell in self.cells]

    @property
    def planned(self) -> list[Cell]:
        """All cells, including those without a result."""
        return [*self.runs, *(cell.runs for cell in self.waiting)]

    @property
    def is_comparison(self) -> bool:
        return len(self.sources) > 1

    def source_name(self, number: int, limit: int) -> str:
        """The name of a source, shortened to its beginning, or to its end if the sources begin
        alike; in full if these are alike, too.
        """
        names = [plain(source.name) for source in self.sources]
        ends = [name if len(name) <= limit else f"…{name[1 - limit :]}" for name in names]
        for short in ([plain(name, limit) for name in names], ends):
            if len(set(short)) == len(short):
                return short[number]
        return names[number]

    @cached_property
    def styles(self) -> Mapping[tuple[str, int], LineStyle]:
        """Line styles by label and source. Dashes distinguish two sources, or else mixers."""
        by_label = line_styles((cell.label, cell.place.mixer) for cell in self.cells)
        if not self.is_comparison:
            return {(label, 0): style for label, style in by_label.items()}
        return {
            (label, source): LineStyle(style.colour, style.marker, dashes)
            for label, style in by_label.items()
            for source, dashes in enumerate((FIRST_DASHES, SECOND_DASHES))
        }

    @property
    def labels(self) -> dict[str, LineStyle]:
        """Each label with its style, as a legend lists them."""
        return {label: style for (label, source), style in self.styles.items() if source == 0}

    def panels(
        self,
        sides: Sequence[str] = ("task", "width", "depth"),
        by_rows: bool = False,
        most: float = MOST_PANELS,
    ) -> list[Panel]:
        """The cells grouped by `sides`: task, width and depth, without the one that is an axis.

        Panels are sorted by these values, or with `by_rows` in the order of the rows. Raises
        SpecError if there are more than `most` panels.
        """
        said = [side for side in sides if len(self._values(side)) > 1]
        found: dict[tuple[str, ...], list[ShownCell]] = {}
        for cell in self.cells:
            key = tuple(getattr(cell.place, side) for side in sides)
            found.setdefault(key, []).append(cell)
        if len(found) > most:
            raise SpecError(
                f"{len(found)} panels, one for each task and size, are more than the {most:g} "
                "that a page can show;\nchoose some, for example --where model.width=64"
            )
        order = sorted(found, key=lambda key: [_natural(text) for text in key])
        if by_rows:
            rows = [row.run_id for source in self.sources for row in source.rows]
            number = {run_id: place for place, run_id in reversed(list(enumerate(rows)))}
            order.sort(
                key=lambda key: min(
                    number[row.run_id] for cell in found[key] for row in cell.runs.rows
                )
            )
        return [
            Panel(_place_text(found[key][0].place, said), tuple(self._in_label_order(found[key])))
            for key in order
        ]

    def shared(self, sides: Sequence[str] = ("task", "width", "depth")) -> str:
        """What all panels have in common: "mqar, length 64, pairs 4, width 64, 2 layers"."""
        common = [side for side in sides if len(self._values(side)) == 1]
        return _place_text(self.cells[0].place, common)

    def _values(self, side: str) -> list[str]:
        return list(dict.fromkeys(getattr(cell.place, side) for cell in self.cells))

    def _in_label_order(self, cells: Iterable[ShownCell]) -> list[ShownCell]:
        order = list(self.labels)
        return sorted(cells, key=lambda cell: (order.index(cell.label), cell.source))


def _place_all(
    sources: Sequence[Source],
) -> tuple[list[ShownCell], tuple[tuple[str, str], ...]]:
    """All cells, and by mixer the values that their labels leave out."""
    cells = [
        (number, cell) for number, source in enumerate(sources) for cell in group_cells(source.rows)
    ]
    unsaid = _constant_keys(cells) if len(sources) > 1 else set()
    places = find_coordinates([cell for _, cell in cells], unsaid)
    labels = label_places(places)
    found = [
        ShownCell(cell, place, number, label)
        for (number, cell), place, label in zip(cells, places, labels.texts, strict=True)
    ]
    return found, labels.unsaid


def _constant_keys(cells: Sequence[tuple[int, Cell]]) -> set[str]:
    """The keys that are constant within each mixer of each source, except those that define a
    panel.
    """
    groups: dict[tuple[int, str], list[dict[str, str]]] = {}
    for number, cell in cells:
        flat = cell_settings(cell.rows[0].spec)
        own = {key: canonical(value) for key, value in flat.items()}
        groups.setdefault((number, cell.mixer), []).append(own)
    keys = {key for group in groups.values() for own in group for key in own}
    return {
        key
        for key in keys - {*TASK_KEYS, WIDTH, DEPTH, MIXER}
        if all(len({own.get(key) for own in group}) == 1 for group in groups.values())
    }


def _natural(text: str) -> list[tuple[bool, float, str]]:
    """A sort key that compares numbers inside texts as numbers: length 8 before length 12."""
    return [
        (part.isdigit(), float(part) if part.isdigit() else 0.0, part)
        for part in re.split(r"(\d+)", text)
    ]


def _place_text(place: Coordinates, sides: Sequence[str]) -> str:
    words: dict[str, Callable[[str], str]] = {
        "task": lambda text: text,
        "width": lambda text: f"width {text}",
        "depth": lambda text: f"{text} layer{'' if text == '1' else 's'}",
    }
    return ", ".join(words[side](getattr(place, side)) for side in sides)
