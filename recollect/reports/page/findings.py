"""The findings in sentences: a comparison of the mixers at each task and size, a summary of each
mixer over all its cells, and one of each cell.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from recollect.analysis import (
    CellSummary,
    best_text,
    cautions,
    count_text,
    decades_text,
    ranking,
    score_text,
    sentence,
)
from recollect.plotting.coordinates import Coordinates
from recollect.reports.paper.searched import is_searched
from recollect.spec.recipes.label import EVALUATION_KEYS

MOST_VERDICTS = 24  # the most tasks and sizes that are compared


class ComparedMixers(NamedTuple):
    """One task and size, and how the mixers trained there differ."""

    place: str
    sentences: list[str]


class FoundSentence(NamedTuple):
    """One line of a summary."""

    sentence: str
    cautions: list[str]
    solved: bool


def comparisons(
    summaries: Sequence[CellSummary], places: Sequence[Coordinates]
) -> list[ComparedMixers]:
    """A comparison for each task and size at which at least two cells have a result."""
    panels: dict[tuple[str, str, str], list[tuple[Coordinates, CellSummary]]] = {}
    for summary, place in zip(summaries, places, strict=True):
        key = place.task, place.width, place.depth
        panels.setdefault(key, []).append((place, summary))
    found = [
        ComparedMixers(f"{task} · width {width} · {_layers(depth)}", _ranked(_named(own)))
        for (task, width, depth), own in panels.items()
    ]
    return [compared for compared in found if compared.sentences][:MOST_VERDICTS]


def _named(own: Sequence[tuple[Coordinates, CellSummary]]) -> list[tuple[str, CellSummary]]:
    """The cells with their labels. When a run was evaluated or may stop is mentioned only if it
    tells two of these cells apart.
    """
    short = [
        replace(place, settings=tuple(s for s in place.settings if s[0] not in EVALUATION_KEYS))
        for place, _ in own
    ]
    is_enough = len({place.label for place in short}) == len(own)
    return [
        ((brief if is_enough else place).label, summary)
        for brief, (place, summary) in zip(short, own, strict=True)
    ]


def _ranked(named: list[tuple[str, CellSummary]]) -> list[str]:
    """Rank the cells. If the window of some cell is known, the windows of cells that were tried
    only at a few rates are left out.
    """
    if any(is_searched(summary.cell) for _, summary in named):
        return ranking(named, is_searched)
    return ranking(named)


def mixer_findings(
    summaries: Sequence[CellSummary], places: Sequence[Coordinates]
) -> list[FoundSentence]:
    """One sentence per label on whether and where it recalls, in the order of first appearance."""
    by_label: dict[str, list[CellSummary]] = {}
    for summary, place in zip(summaries, places, strict=True):
        by_label.setdefault(place.label, []).append(summary)
    return [_finding(label, own) for label, own in by_label.items()]


def cell_finding(summary: CellSummary) -> FoundSentence:
    """The summary of one cell."""
    return FoundSentence(sentence(summary), cautions(summary), summary.window is not None)


def _finding(label: str, own: list[CellSummary]) -> FoundSentence:
    if len(own) == 1:
        return cell_finding(own[0])
    scored = [summary for summary in own if summary.best]
    solved = [summary for summary in own if summary.window]
    cells = count_text(len(own), "cell")
    if not scored:
        return FoundSentence(f"{label} has no result yet in any of {cells}.", [], False)
    of = f"{len(scored)} of {cells} with a result" if len(scored) < len(own) else cells
    if not solved:
        best = max(scored, key=_score)
        reached = f"{best_text(best.cell, best.tau)}{_where(best)}, below {best.tau:g}"
        text = f"{label} solves none of {of}: {reached} (chance {score_text(best.cell.chance)})."
        return FoundSentence(text, [], False)
    share = f"all {of}" if len(solved) == len(scored) else f"{len(solved)} of {of}"
    return FoundSentence(f"{label} solves {share}{_windows(solved)}", _doubts(solved), True)


def _windows(solved: list[CellSummary]) -> str:
    """The widths of the narrowest and the widest window, with their cells."""
    wide = sorted(
        (summary for summary in solved if len(summary.cell.scored_rates) > 1), key=_decades
    )
    if not wide:
        return "; with a single rate tried, nothing is known about the window."
    ends = [f"{decades_text(one.window)}{_where(one)}" for one in (wide[0], wide[-1]) if one.window]
    return (
        f", over {ends[0]}."
        if len(wide) == 1
        else f"; its narrowest window is {ends[0]}, its widest {ends[1]}."
    )


def _doubts(solved: list[CellSummary]) -> list[str]:
    open_ones = sum(
        summary.window is not None and summary.window.is_open and len(summary.cell.scored_rates) > 1
        for summary in solved
    )
    if not open_ones:
        return []
    reach = "reaches" if open_ones == 1 else "reach"
    return [f"{count_text(open_ones, 'window')} {reach} the edge of the grid."]


def _layers(depth: str) -> str:
    return f"{depth} layer{'' if depth == '1' else 's'}"


def _where(summary: CellSummary) -> str:
    setting = summary.cell.setting
    return f" at {setting}" if setting else ""


def _score(summary: CellSummary) -> float:
    return summary.best.mean if summary.best else -1.0


def _decades(summary: CellSummary) -> float:
    return summary.window.decades if summary.window else 0.0
