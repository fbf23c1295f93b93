"""A request for a card: the sweeps to train, the baselines that fit, and the output from both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from matplotlib.figure import Figure
from rich.console import Group

from recollect.analysis import Curves
from recollect.errors import SpecError
from recollect.reports.score.baselines import (
    Baselines,
    folder_baselines,
    read_baselines,
    save_baselines,
    stored_baselines,
)
from recollect.reports.score.card import card_sweep, join_sweeps, read_mixer
from recollect.reports.score.measure import MixerScore, score_mixer
from recollect.reports.score.picture import draw_card
from recollect.reports.score.recipe import card_cell, refuse_other_recipe
from recollect.reports.score.table import score_tables
from recollect.reports.score.verdict import verdict
from recollect.rows import RunRow
from recollect.running.results import RunSet
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep


@dataclass(frozen=True)
class ScoreRequest:
    """The mixers to score, and the baselines to compare them with."""

    sweeps: dict[str, Sweep]  # by the mixer's label
    baselines: Baselines | None
    note: str  # about the baselines, or why there are none

    @classmethod
    def read(
        cls,
        card: str,
        mixers: Sequence[str],
        overrides: Sequence[str] = (),
        against: Path | None = None,
    ) -> Self:
        """Check the options and build the request. Unknown mixers and baselines of another recipe
        are refused before anything is trained.
        """
        scored = [read_mixer(text) for text in mixers]
        sweeps = {mixer.label: card_sweep(card, mixer, overrides) for mixer in scored}
        first = next(iter(sweeps.values()), None) or card_sweep(
            card, read_mixer("attention"), overrides
        )
        specs = [run.model_dump(mode="json") for run in first.runs]
        return cls(sweeps, *_find_baselines(card, specs, against))

    def stages(self) -> list[Sweep]:
        """The sweeps to train, in order: the headline cell of every mixer, then the other cells."""
        whole = join_sweeps(list(self.sweeps.values()))
        cells = [card_cell(run.model_dump(mode="json")) for run in whole.runs]
        parts: dict[str, list[RunSpec]] = {}
        for run, cell in zip(whole.runs, cells, strict=True):
            parts.setdefault("headline" if cell == cells[0] else "rest", []).append(run)
        return [
            Sweep(f"{whole.name}:{part}", whole.source, tuple(runs), whole.recipe)
            for part, runs in parts.items()
        ]

    def scores(self, results: RunSet) -> list[MixerScore]:
        return [
            score_mixer(label, own, results.curves, len(self.sweeps[label].runs))
            for label, own in self._own(results.rows).items()
            if own
        ]

    def others(self) -> list[MixerScore]:
        """The scores of the baselines, without the mixers that this request scores."""
        if self.baselines is None:
            return []
        return [
            score_mixer(label, rows, self.baselines.curves)
            for label, rows in self.baselines.rows.items()
            if label not in self.sweeps
        ]

    def tables(self, results: RunSet) -> Group:
        """The tables of the card. `results` may hold other runs too."""
        return score_tables(self.scores(results), self.others(), [self.note])

    def verdicts(self, results: RunSet) -> list[str]:
        """One sentence per mixer."""
        return [verdict(score, self.others()) for score in self.scores(results)]

    def picture(self, results: RunSet) -> Figure | None:
        """A picture of all windows; None if there is no result yet."""
        own = [row for rows in self._own(results.rows).values() for row in rows]
        known = {} if self.baselines is None else self.baselines.rows
        other = [row for label, rows in known.items() if label not in self.sweeps for row in rows]
        if not any(row.has_result for row in [*own, *other]):
            return None
        names = [str(run.model.mixer.name) for sweep in self.sweeps.values() for run in sweep.runs]
        curves: Curves = {**(self.baselines.curves if self.baselines else {}), **results.curves}
        return draw_card(own, other, curves, names)

    def save(self, path: Path, results: RunSet) -> None:
        """Save the scored mixers as baselines; if no mixer was scored, the compared baselines."""
        if self.sweeps or self.baselines is None:
            save_baselines(path, self._own(results.rows), results.curves)
        else:
            save_baselines(path, self.baselines.rows, self.baselines.curves)

    def _own(self, rows: Sequence[RunRow]) -> dict[str, list[RunRow]]:
        """The rows of each mixer, in the order of its card."""
        by_id = {row.run_id: row for row in rows}
        return {
            label: [by_id[run.run_id] for run in sweep.runs if run.run_id in by_id]
            for label, sweep in self.sweeps.items()
        }


def _find_baselines(
    card: str, specs: Sequence[Mapping[str, Any]], against: Path | None
) -> tuple[Baselines | None, str]:
    """The baselines for runs of these specifications, and a line about them.

    From a folder, the rows that fit are used. A file that the user names must fit. The baselines of
    the package are left out if they do not fit, and the line gives the reason: a card with other
    settings is still valid.
    """
    if against is not None and against.is_dir():
        found = folder_baselines(against, specs)
        return found, f"baselines: {found.provenance}"
    baselines = read_baselines(against) if against else stored_baselines(card)
    if baselines is None:
        return (
            None,
            f"no baselines are stored for the card {card}; `recollect score MIXER... --save FILE` "
            "makes some",
        )
    try:
        for rows in baselines.rows.values():
            refuse_other_recipe(specs, [row.spec for row in rows], baselines.origin)
    except SpecError as error:
        if against:
            raise
        return (
            None,
            "without baselines: those that are stored have another recipe "
            f"({str(error).splitlines()[1]})",
        )
    return baselines, f"baselines: {baselines.provenance}"
