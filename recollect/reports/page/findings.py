"""What was found out about each mixer, in one sentence over all its cells: does it recall, where,
and over which rates.
"""

from collections.abc import Sequence
from typing import NamedTuple

from recollect.analysis import CellSummary, cautions, count_text, decades_text, score_text, sentence
from recollect.reports.page.axes import Place


class Finding(NamedTuple):
    """One line of the summary."""

    label: str
    sentence: str
    cautions: list[str]
    solved: bool


def find(summaries: Sequence[CellSummary], places: Sequence[Place]) -> list[Finding]:
    """One finding per label, in the order of first appearance."""
    by_label: dict[str, list[CellSummary]] = {}
    for summary, place in zip(summaries, places, strict=True):
        by_label.setdefault(place.label, []).append(summary)
    return [_finding(label, own) for label, own in by_label.items()]


def _finding(label: str, own: list[CellSummary]) -> Finding:
    if len(own) == 1:
        return Finding(label, sentence(own[0]), cautions(own[0]), own[0].window is not None)
    scored = [summary for summary in own if summary.best]
    solved = [summary for summary in own if summary.window]
    if not scored:
        return Finding(
            label, f"{label} has no result yet in any of {count_text(len(own), 'cell')}.", [], False
        )
    of = (
        f"{len(scored)} of {count_text(len(own), 'cell')} with a result"
        if len(scored) < len(own)
        else count_text(len(own), "cell")
    )
    if not solved:
        best = max(scored, key=_score)
        reached = (
            "best "
            f"{score_text(_score(best))}{_where(best)}, below "
            f"{best.tau:g} (chance {score_text(best.cell.chance)})"
        )
        text = f"{label} solves none of {of}: {reached}."
        return Finding(label, text, [], False)
    share = f"all {of}" if len(solved) == len(scored) else f"{len(solved)} of {of}"
    return Finding(label, f"{label} solves {share}{_windows(solved)}", _doubts(solved), True)


def _windows(solved: list[CellSummary]) -> str:
    """How wide the windows are, the narrowest and the widest with their cells."""
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
    return (
        [
            f"{count_text(open_ones, 'window')} "
            f"reach{'es' if open_ones == 1 else ''} "
            "the edge of the grid."
        ]
        if open_ones
        else []
    )


def _where(summary: CellSummary) -> str:
    setting = summary.cell.setting
    return f" at {setting}" if setting else ""


def _score(summary: CellSummary) -> float:
    return summary.best.mean if summary.best else -1.0


def _decades(summary: CellSummary) -> float:
    return summary.window.decades if summary.window else 0.0
