"""A request for a card: the sweep to train, the baselines that fit, and the tables of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Group

from recollect.analysis import Curves
from recollect.errors import SpecError
from recollect.reports.score.baselines import (
    Baselines,
    read_baselines,
    save_baselines,
    stored_baselines,
)
from recollect.reports.score.card import card_sweep, join_sweeps, read_mixer
from recollect.reports.score.measure import MixerScore, score_mixer
from recollect.reports.score.recipe import refuse_other_recipe
from recollect.reports.score.table import score_tables
from recollect.rows import RunRow
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
        """Refuses unknown mixers and baselines of another recipe before anything is trained."""
        scored = [read_mixer(text) for text in mixers]
        sweeps = {mixer.label: card_sweep(card, mixer, overrides) for mixer in scored}
        first = next(iter(sweeps.values()), None) or card_sweep(
            card, read_mixer("attention"), overrides
        )
        specs = [run.model_dump(mode="json") for run in first.runs]
        return cls(sweeps, *_find_baselines(card, specs, against))

    @property
    def sweep(self) -> Sweep:
        return join_sweeps(list(self.sweeps.values()))

    def tables(self, rows: Sequence[RunRow], curves: Curves) -> Group:
        """The card; `rows` may hold other runs too."""
        return score_tables(self.scores(rows, curves), _scores(self.baselines), [self.note])

    def scores(self, rows: Sequence[RunRow], curves: Curves) -> list[MixerScore]:
        return [score_mixer(label, own, curves) for label, own in self._own(rows).items() if own]

    def save(self, path: Path, rows: Sequence[RunRow], curves: Curves) -> None:
        save_baselines(path, self._own(rows), curves)

    def _own(self, rows: Sequence[RunRow]) -> dict[str, list[RunRow]]:
        """Each mixer's rows in the order of its card."""
        by_id = {row.run_id: row for row in rows}
        return {
            label: [by_id[run.run_id] for run in sweep.runs if run.run_id in by_id]
            for label, sweep in self.sweeps.items()
        }


def _find_baselines(
    card: str, specs: Sequence[Mapping[str, Any]], against: Path | None
) -> tuple[Baselines | None, str]:
    """The baselines for runs of these specifications, and a line about them.

    A file named by the user must fit. Those that come with the package are left out, with the
    reason, where they do not fit: a card under other settings is still a card.
    """
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


def _scores(baselines: Baselines | None) -> list[MixerScore]:
    if baselines is None:
        return []
    return [score_mixer(label, rows, baselines.curves) for label, rows in baselines.rows.items()]
