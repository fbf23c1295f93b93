"""The cards that `recollect score` trained in a folder: its rows, compared with the stored
baselines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import SpecError
from recollect.reports.score.baselines import Baselines, folder_baselines, stored_baselines
from recollect.reports.score.card import CARDS, card_sweep, read_mixer
from recollect.reports.score.measure import score_mixer
from recollect.reports.score.verdict import verdict


@dataclass(frozen=True)
class FolderCard:
    """The mixers of a folder that were trained for one card, and the baselines to compare with."""

    own: Baselines
    others: Baselines

    def verdicts(self) -> list[str]:
        """One sentence per mixer."""
        compared = [
            score_mixer(label, rows, self.others.curves) for label, rows in self.others.rows.items()
        ]
        return [
            verdict(score_mixer(label, rows, self.own.curves), compared)
            for label, rows in self.own.rows.items()
        ]


def folder_cards(folder: Path, sweeps: Sequence[str]) -> list[FolderCard]:
    """The cards among the `sweeps` of a folder. Cards that were trained with other settings than
    the card's own are left out.
    """
    named = [card for card in CARDS if any(name.startswith(f"score:{card}:") for name in sweeps)]
    found = []
    for card in named:
        runs = card_sweep(card, read_mixer("attention")).runs  # any mixer gives the same recipe
        specs = [run.model_dump(mode="json") for run in runs]
        try:
            own = folder_baselines(folder, specs, unfinished=True)
        except SpecError:
            continue
        found.append(FolderCard(own, _others(card, own)))
    return found


def _others(card: str, own: Baselines) -> Baselines:
    """The stored baselines, without the mixers that were scored in the folder."""
    known = stored_baselines(card)
    if known is None:
        return Baselines("", {}, {}, {})
    rows = {label: rows for label, rows in known.rows.items() if label not in own.rows}
    return Baselines(known.origin, known.about, rows, known.curves)
