"""Write docs/claims.md from the claims' own code: python docs/claims.py."""

import textwrap
from pathlib import Path

from recollect.reports.paper.claims import CLAIMS, Claim, thresholds
from recollect.reports.paper.claims.thresholds import Threshold

HERE = Path(__file__).parent

HEAD = """# The study's claims and the rules that decide them

Written by `python docs/claims.py` from `recollect/reports/paper/claims/`: a rule is the docstring
of the function that computes it, with the thresholds' values in place of their names.
`recollect claims DIR...` prints the verdicts, with `--json` every comparison.

A claim is decided only on rows of the study's own scale: its sizes, a vocabulary of 8,192, 100,000
training rows, 50 epochs, its batch for each length, weight decay 0.1, 10 % warmup, and at least
{seeds:g} seeds.

- The best score is that of the best rate, averaged over seeds. Before {rates:g} rates over {span:g}
  decades were tried it is a lower bound, so a failure needs a search and a success does not.
- A window needs rates at most {step:g} decades apart; where it reaches the end of the grid it is a
  lower bound too.
- A single cell settles what it can: a counterexample to "every", a witness of "some".
- Where the study leaves a choice open, the runs with the fewest deviations from this package's
  defaults decide, and the remark names the others.

Rows of a smaller scale never decide a claim. What the same rule says about them is reported as "at
reduced scale".
"""
WIDTH = 100


def page() -> str:
    """The whole page."""
    head = HEAD.format(
        seeds=thresholds.LEAST_SEEDS,
        rates=thresholds.LEAST_RATES,
        span=thresholds.LEAST_SPAN,
        step=thresholds.FINEST_STEP,
    )
    return "\n".join(
        [
            head,
            *map(_section, CLAIMS),
            "## Thresholds\n",
            "| name | value | why |\n|---|---|---|",
            *_rows(),
            "",
        ]
    )


def _section(claim: Claim) -> str:
    texts = [
        f"**Setting:** {claim.setting}.",
        f"**Rule:** {claim.rule_text}",
        f"**Figure:** `recollect figure {claim.figure} DIR`",
    ]
    texts += [f"**Contradiction:** {claim.contradiction}"] if claim.contradiction else []
    texts += [f"**Note:** {claim.caveat}"] if claim.caveat else []
    commands = claim.what_to_run.splitlines()
    return "\n".join(
        [
            f"## {claim.name}\n",
            _wrapped(f"{claim.statement}.") + "\n",
            *(_wrapped(f"- {text}", "  ") for text in texts),
            "\n```\n" + "\n".join(commands) + "\n```\n",
        ]
    )


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _rows() -> list[str]:
    known = [value for value in vars(thresholds).values() if isinstance(value, Threshold)]
    return [f"| {value.name} | {value:g} | {value.why} |" for value in known]


if __name__ == "__main__":
    (HERE / "claims.md").write_text(page())
