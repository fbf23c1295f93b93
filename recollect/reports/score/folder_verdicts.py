"""The verdicts on a folder that `recollect score` trained, by its rows and the stored baselines."""

from collections.abc import Sequence
from pathlib import Path

from recollect.errors import SpecError
from recollect.reports.score.baselines import folder_baselines, stored_baselines
from recollect.reports.score.card import CARDS, card_sweep, read_mixer
from recollect.reports.score.measure import score_mixer
from recollect.reports.score.verdict import verdict


def folder_verdicts(folder: Path, sweeps: Sequence[str]) -> list[str]:
    """One sentence a mixer; nothing for a folder without a card among its `sweeps`, or with one
    under other settings than the card's own.
    """
    return [
        text
        for card in CARDS
        if any(name.startswith(f"score:{card}:") for name in sweeps)
        for text in _card_verdicts(folder, card)
    ]


def _card_verdicts(folder: Path, card: str) -> list[str]:
    runs = card_sweep(card, read_mixer("attention")).runs  # any mixer: the card is what counts
    try:
        specs = [run.model_dump(mode="json") for run in runs]
        own = folder_baselines(folder, specs, unfinished=True)
    except SpecError:
        return []
    known = stored_baselines(card)
    compared = {} if known is None else known.rows
    curves = {} if known is None else known.curves
    others = [
        score_mixer(label, rows, curves)
        for label, rows in compared.items()
        if label not in own.rows
    ]
    return [
        verdict(score_mixer(label, rows, own.curves), others) for label, rows in own.rows.items()
    ]
