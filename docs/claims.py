"""Write docs/claims.md from the claims' own code: python docs/claims.py."""

import textwrap
from pathlib import Path

from recollect.analysis import TAUS
from recollect.reports.paper.claims import CLAIMS, Claim, thresholds
from recollect.reports.paper.claims.judge import RESAMPLES
from recollect.reports.paper.claims.thresholds import Threshold

HERE = Path(__file__).parent

HEAD = """# The study's claims and the rules that decide them

Written by `python docs/claims.py` from `recollect/reports/paper/claims/`: a rule is the docstring
of the function that computes it, with the thresholds' values in place of their names.
`recollect claims DIR...` prints the verdicts by recipe, `--recipe NAME` one recipe with its
numbers, `--only C3,C15` some of the claims, `--json` every comparison.

A claim is decided by the rows of one recipe and at the study's scale: its sizes, a vocabulary of
8,192, 100,000 training rows, and at least {seeds:g} seeds. `study` is the headline; other recipes
stand beside it.

- *Reproduced*: it holds in all cells that the study names. Where the study names none: in every
  cell that was searched, at {sizes:g} sizes or more, one of them of at least {length:g} tokens.
- *Holds in n of m cells*: it holds in some cells. The others are open or, where the study names
  none, it fails in them.
- *Fails in n of n cells*: only where the study names none: it fails in all cells that were
  searched, which are too few to contradict it.
- *Contradicted*: it fails in a cell that the study names. Where the study names none: one of the
  models fails in every cell that was searched, at as many sizes as above. One easy cell overturns
  nothing. The numbers say which cell it is, and how it was searched.
- *Not enough data*: no cell is decided. The cells to train are listed, with the commands and the
  run-steps they cost.

What a number means:

- The best score is that of the best rate, averaged over seeds. Before {rates:g} rates over {span:g}
  decades were tried it is a lower bound, so a failure needs a search and a success does not.
- A window needs rates at most {step:g} decades apart. Where it reaches the end of the grid it is a
  lower bound, too.
- Where only a part of a grid was trained (`--search best`, `--search edges`), the best score is an
  interval as soon as the tried rates are at most {step:g} decades apart: the runs that are left may
  raise it so far, with the confidence that the search states. A window is an interval likewise.
- Claims about windows are judged at tau = {taus} and say so if these disagree; the
  verdict is that of the first.
- How firm a verdict is: the share of {resamples} draws of other seeds with the same verdict, and
  the share of the most frequent other one. Best scores and windows are drawn from the seeds of each
  rate and, with smaller weights, of the rates next to it
  ([how](decisions/intervals-over-seeds.md)), and runs with their curves likewise. Such draws vary
  less than seeds: the middle 99 % of them hold what 95 % should. What is unknown
  of a cell stays unknown in each draw. To hold in some cells while failing in others counts as
  another verdict than to hold in all that are decided. Claims about untrained weights have no
  share.
- The noise of seeds may excuse a shortfall, but it shows nothing. Noise means {noises:g} standard
  errors of a mean over seeds, at most {most_noise:g}. For a best score they are estimated from all
  widths of the model at one size, for a window from the rates inside it.
  - Where a rule allows for standard errors, a deviation within the noise does not count.
  - A model *reaches* {solved:g} if the mean over seeds of its best score does. It *misses* it if
    that mean is lower by more than the noise. In between the claim waits for more seeds.
  - Where a single rate inside a window is below tau by no more than the noise, the window is an
    interval: from its width with this gap to its width without it.
- A diverged run counts as 0. Beside chance stands what position alone gives, which is more where
  queries follow the power law.

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
        sizes=thresholds.LEAST_SIZES,
        length=thresholds.LEAST_LENGTH,
        noises=thresholds.NOISES,
        most_noise=thresholds.MOST_NOISE,
        solved=thresholds.SOLVED,
        taus=", ".join(f"{tau:g}" for tau in TAUS),
        resamples=RESAMPLES,
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
        f"**Cells:** {claim.coverage.words}.",
        f"**Figure:** `recollect figure {claim.figure} DIR`",
    ]
    texts += ["**Ours:** not in the study's words."] if claim.origin == "ours" else []
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
