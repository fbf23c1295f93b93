"""Groups of comparable cells (one recipe, one variant of each model), and the measures that a rule
may request from them.

A group is read in one of two ways. *Strict*: only sizes and models that the study trained count,
only rates with enough seeds count, and a score counts as tuned only after a search that is fine
and wide enough. *As it is*: every trained run counts; this is for the remark on what holds at a
reduced scale.
"""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from recollect.analysis import TAU, Cell, Curves
from recollect.analysis.seeds.other_seeds import draw_cell
from recollect.reports.paper.claims.checks import Measure
from recollect.reports.paper.claims.groups.subjects import Panel, Subject, size_text, subject_text
from recollect.reports.paper.claims.measures import (
    missing_rates,
    redrawn_score,
    redrawn_window,
    standard_error,
    trusted,
    tuned,
    up_to_gaps,
    window,
)
from recollect.reports.paper.claims.roles import Role
from recollect.reports.paper.claims.wanted import Want, scored_runs
from recollect.reports.paper.study import Size

Kept = Mapping[str, Sequence[float]]  # see inspections.py; by run id
LIKELY = 2  # number of rates to try before a whole search


@dataclass(frozen=True)
class Group:
    """The subjects of each role. All share one recipe, and each role has one variant."""

    subjects: Mapping[Role, tuple[Subject, ...]]
    curves: Curves
    strict: bool
    recipe: Mapping[str, Any]
    choices: tuple[str, ...]  # settings that the study leaves open and that are not the defaults
    varied: Role | None = None  # the role that has not its plainest variant
    tau: float = TAU  # the score from which a rate belongs to a window
    kept: Kept = field(default_factory=dict)
    brief: bool = False  # numbers without texts
    noises: dict[tuple[Role, Size], float] = field(default_factory=dict)  # a cache for _noise

    @property
    def runs(self) -> int:
        return sum(subject.cell.scored_runs for own in self.subjects.values() for subject in own)

    def roles(self, wanted: Iterable[Role]) -> list[Role]:
        """All wanted roles if the group is strict, else the wanted roles that were trained."""
        return [role for role in wanted if self.strict or role in self.subjects]

    def panels(
        self, roles: Iterable[Role], sizes: Sequence[Size] = (), widths: Sequence[int] = ()
    ) -> list[Panel]:
        """The sizes and widths to compare at.

        A strict group combines every size with every width if both are given. Otherwise these are
        the panels at which at least one of the roles was trained.
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
        """The subject of a role at a given size, width, depth or positions. If several differ only
        in their evaluation settings, the one with the most runs.

        If the group is read as it is and each model was trained at a single width, the width is
        ignored: such models may have been matched by state size or parameters.
        """
        there = self.subjects.get(role, ())
        if not self.strict and all(
            len({s.width for s in own}) == 1 for own in self.subjects.values()
        ):
            place.pop("width", None)
        own = [s for s in there if all(getattr(s, key) == wanted for key, wanted in place.items())]
        return max(own, key=lambda subject: subject.cell.scored_runs, default=None)

    def redraws(self, count: int) -> Iterator["Group"]:
        """Copies of the group with other seeds in each cell, and without texts."""
        draws = {
            role: [draw_cell(subject.cell, count) for subject in own]
            for role, own in self.subjects.items()
        }
        for number in range(count):
            runs = random.Random(number)
            drawn = {
                role: tuple(
                    subject.redrawn(runs, found[number] if found else None)
                    for subject, found in zip(own, draws[role], strict=True)
                )
                for role, own in self.subjects.items()
            }
            yield replace(self, subjects=drawn, brief=True, noises={})

    def trusted_cell(self, subject: Subject) -> Cell:
        """The subject's cell, reduced to the rates that count."""
        return trusted(subject.cell) if self.strict else subject.cell

    def score(self, role: Role, panel: Panel | None = None, **place: Any) -> Measure:
        """The score at the best rate."""
        place = (panel._asdict() if panel else {}) | place
        subject = self.find(role, **place)
        if subject is None:
            found = unknown(role, place, 1.0)
            wants = (replace(want, search="best") for want in found.wants)
            return replace(found, wants=tuple(map(self._with_likely_rates, wants)))
        return self._tuned(role, subject)

    def window(self, role: Role, panel: Panel | None = None, **place: Any) -> Measure:
        """The window's decades."""
        place = (panel._asdict() if panel else {}) | place
        subject = self.find(role, **place)
        if subject is None:
            missing = unknown(role, place, math.inf)
            return replace(missing, wants=tuple(replace(w, search="edges") for w in missing.wants))
        cell, name = subject.as_trained, subject_text(role, subject)
        found = window(cell, name, self.strict, self.tau, self.brief)
        if subject.draw is not None:
            found = redrawn_window(found, subject.draw, self.tau)
        if found.lacks:
            found = replace(found, wants=self.wants(role, subject, search="edges"))
        return up_to_gaps(found, cell, name, self.tau, subject.draw) if self.strict else found

    def reaches(self, role: Role, panel: Panel) -> bool | None:
        """Whether the best score reaches tau. None while this is open.

        A model that does not reach tau has no window, so nothing can be said about its width. A
        search for edges that found no window says so too, even if it did not look for the best
        score.
        """
        score = self.score(role, panel)
        if score.low >= self.tau:
            return True
        is_missing = score.high < self.tau or self.window(role, panel).high == 0
        return False if is_missing else None

    def _tuned(self, role: Role, subject: Subject) -> Measure:
        name = subject_text(role, subject)
        found = tuned(subject.as_trained, name, self.strict, self.brief)
        if subject.draw is not None:
            found = redrawn_score(found, subject.draw)
        wants = self.wants(role, subject, search="best") if found.lacks else ()
        likely = tuple(map(self._with_likely_rates, wants))
        return replace(found, noise=self._noise(role, subject), wants=likely)

    def _noise(self, role: Role, subject: Subject) -> float:
        """The standard error of a best score, pooled over all cells of this role and size.

        Three seeds are too few to estimate the spread of a single cell.
        """
        key = role, subject.size
        if key not in self.noises:
            alike = [self.trusted_cell(s) for s in self.subjects[role] if s.size == subject.size]
            bests = [cell.best for cell in alike]
            self.noises[key] = standard_error(best for best in bests if best)
        return self.noises[key]

    def _with_likely_rates(self, want: Want) -> Want:
        """The want with likely rates: the best rates of the nearest cell of this model.

        Cells that solve the task come before cells that do not. The want is returned unchanged if
        one of these rates was already tried in its cell, and in a group without texts.
        """
        if self.brief:
            return want
        place = {"size": want.size, "width": want.width, "depth": want.depth}
        place |= {"positions": want.positions} if want.positions else {}
        own = self.find(want.role, **place)
        tried = {rate.lr for rate in self.trusted_cell(own).scored_rates} if own else set()
        # A rate with a single seed may be luck, which is good enough for a guess.
        others = [
            (best.mean < self.tau, _distance(want, other), other.cell)
            for other in self.subjects.get(want.role, ())
            if (best := self.trusted_cell(other).best)
        ]
        if not others:
            return want
        *_, nearest = min(others, key=lambda entry: entry[:2])
        best_rates = sorted(nearest.scored_rates, key=lambda rate: -rate.mean)[:LIKELY]
        likely = tuple(sorted(rate.lr for rate in best_rates))
        return want if tried & set(likely) else replace(want, likely=likely)

    def wants(self, role: Role, subject: Subject, search: str = "") -> tuple[Want, ...]:
        """The part of a subject's grid that still has to be trained, by the given search."""
        rates = missing_rates(subject.cell, self.tau)
        want = Want(
            role,
            subject.size,
            subject.width,
            subject.depth,
            task=str(subject.flat.get("task.name")),
            positions=subject.positions if "model.positions" in role.any_of else "",
            rates=rates,
            trained=scored_runs(subject.cell, rates),
            search=search,
        )
        return (want,) if rates else ()


def _distance(want: Want, subject: Subject) -> float:
    """The distance between two cells of one model, in doublings of length and width."""
    pairs = ((want.size[0], subject.size[0]), (want.width, subject.width))
    return sum(abs(math.log2(max(a, 1) / max(b, 1))) for a, b in pairs)


def unknown(role: Role, place: Mapping[str, Any], most: float) -> Measure:
    """The measure of a cell that was not trained: anything from 0 to `most`."""
    words = {"size": "{}", "width": "width {}", "depth": "depth {}", "positions": "positions {}"}
    told = ", ".join(
        words[key].format(size_text(value) if key == "size" else value)
        for key, value in place.items()
    )
    lacks = f"{role.name} at {told}" if told else role.name
    return Measure(0.0, most, "", lacks, _wanted(role, place))


def _wanted(role: Role, place: Mapping[str, Any]) -> tuple[Want, ...]:
    """The cell to train; empty if its width or depth is not known."""
    depth = place.get("depth", role.depth_to_train or role.depth)
    if not isinstance(depth, int) or "width" not in place:
        return ()
    task = "mqar" if "size" in place else "copying"
    size, positions = place.get("size", (0, 0)), place.get("positions", "")
    return (Want(role, size, place["width"], depth, task=task, positions=positions),)
