"""Verdicts as a table for a terminal, as lines for a pipe, and as records for JSON."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from recollect.analysis import count_text
from recollect.reports.paper.claims.claim import Outcome, Verdict

STYLES: dict[Outcome, str] = {
    "reproduced": "green",
    "not reproduced": "red",
    "not enough data": "dim",
}


def table(verdicts: Sequence[Verdict]) -> Table:
    """One block per claim, readable at 100 columns; `commands` lists what to run."""
    shown = Table(
        box=None,
        padding=(0, 2, 1, 0),
        show_header=False,
        title=summary(verdicts),
        title_justify="left",
    )
    shown.add_column(width=15)
    shown.add_column(ratio=1, overflow="fold")
    for verdict in verdicts:
        shown.add_row(
            Text.assemble(
                (verdict.claim.name, "bold"), "\n", (verdict.verdict, STYLES[verdict.verdict])
            ),
            Text.assemble(
                (without_controls(verdict.claim.statement), "bold"),
                *(f"\n{line}" for line in details(verdict)),
            ),
        )
    return shown


def commands(verdicts: Sequence[Verdict]) -> list[str]:
    """The commands that decide the open claims, one a line, each with the claims it is for."""
    wanted: dict[str, list[str]] = {}
    for verdict in verdicts:
        for command in verdict.what_to_run.splitlines():
            wanted.setdefault(command, []).append(verdict.claim.name)
    return [f"{command}  # {', '.join(names)}" for command, names in wanted.items()]


def to_lines(verdicts: Sequence[Verdict]) -> str:
    """One line per claim, whatever its length: a pipe wants whole lines."""
    told = []
    for verdict in verdicts:
        runs = [f"run: {command}" for command in verdict.what_to_run.splitlines()]
        parts = [without_controls(verdict.claim.statement), *details(verdict), *runs]
        told.append(f"{verdict.claim.name:<4} {verdict.verdict:<16} {' | '.join(parts)}")
    return "\n".join([summary(verdicts), *told]) + "\n"


def records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """One object per claim, the single comparisons with it."""
    return [
        {
            "claim": verdict.claim.name,
            "statement": verdict.claim.statement,
            "setting": verdict.claim.setting,
            "rule": verdict.claim.rule_text,
            "thresholds": {
                threshold.name: float(threshold) for threshold in verdict.claim.thresholds
            },
            "verdict": verdict.verdict,
            "numbers": verdict.numbers,
            "reduced": verdict.reduced,
            "what_to_run": verdict.what_to_run.splitlines(),
            "figure": verdict.figure,
            "remark": verdict.remark,
            "comparisons": [
                {"holds": part.holds, "numbers": part.text, "lacks": part.lacks}
                for part in verdict.checks
            ],
        }
        for verdict in verdicts
    ]


def to_json(verdicts: Sequence[Verdict]) -> str:
    return json.dumps(records(verdicts), indent=1) + "\n"


def summary(verdicts: Sequence[Verdict]) -> str:
    """The number of claims, and of each verdict."""
    found = Counter(verdict.verdict for verdict in verdicts)
    return f"{count_text(len(verdicts), 'claim')}: " + ", ".join(
        f"{found[outcome]} {outcome}" for outcome in STYLES
    )


def details(verdict: Verdict) -> list[str]:
    """Numbers first, then what limits them, then where it can be seen."""
    told = [
        verdict.numbers,
        f"at reduced scale: {verdict.reduced}" if verdict.reduced else "",
        verdict.claim.contradiction,
        f"figure: {verdict.figure}",
    ]
    return [without_controls(line) for line in told if line]


def without_controls(text: str) -> str:
    """Without anything that could move a cursor: settings may come from a plugin."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
