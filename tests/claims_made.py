"""The study as it describes itself, in rows made up for the tests of its claims: a score for every
run its presets ask for.
"""

import json
import math
import shlex
from collections.abc import Callable, Iterable
from functools import cache

from recollect.reports.paper.claims import CLAIMS, Claim
from recollect.reports.paper.presets import read_preset
from recollect.rows import Evaluation, RunRow
from recollect.spec.run import RunSpec

Score = Callable[[RunSpec], float]
SEEDS = "sweep.seed=[42,123,777]"  # as many as a verdict needs
WIDE = (1e-4, 1e-2)  # what works for attention
NARROW = (2.9e-3, 5e-3)  # and for recurrent models: between two of Zoology's rates
BY_NAME = {claim.name: claim for claim in CLAIMS}


@cache
def wanted_runs(command: str) -> tuple[RunSpec, ...]:
    """The runs of `recollect run paper:...` with three seeds."""
    recollect, run, preset, *options = shlex.split(command)
    assert (recollect, run, options[-2:]) == ("recollect", "run", ["--out", "out"])
    sets = options[1:-2:2]
    assert options[:-2] == [word for override in sets for word in ("--set", override)]
    return read_preset(preset.removeprefix("paper:"), overrides=[*sets, SEEDS]).runs


def made_rows(claim: Claim, score: Score) -> list[RunRow]:
    """Finished rows for everything the claim says to run."""
    runs = {
        run.run_id: run
        for command in claim.what_to_run.splitlines()
        for run in wanted_runs(command)
    }
    return [made_row(run, score(run)) for run in runs.values()]


_TEXTS: dict[str, str] = {}


def _text(run: RunSpec) -> str:
    if run.run_id not in _TEXTS:
        _TEXTS[run.run_id] = run.canonical_json()
    return _TEXTS[run.run_id]


def made_row(run: RunSpec, score: float) -> RunRow:
    return RunRow(
        run_id=run.run_id, spec=json.loads(_text(run)), status="done", score_name=run.task.score_name,
        chance=run.task.chance, steps=run.train.steps, accuracy=score, exact=score, parameters=150_000_000,
    )  # fmt: skip


def within(run: RunSpec, window: tuple[float, float], top: float, floor: float) -> float:
    """`top` inside the window and `floor` outside, with a little that depends on the seed."""
    low, high = window
    return (top if low <= run.train.lr <= high else floor) - run.seed % 3 * 0.001


def study_score(run: RunSpec) -> float:
    """What the study reports, or something that fits its words."""
    model, mixer = run.model, run.model.mixer.name
    if run.task.name == "copying":
        if mixer == "attention":
            return within(run, WIDE, 1.0, 0.002)
        top = {(12, 1024): 0.004, (24, 1024): 0.16, (12, 1408): 1.0}[model.depth, model.width]
        return within(run, NARROW, top, 0.002)
    floor = 1.05 / run.task.pairs
    if mixer == "attention":
        conv, padding = model.mixer.conv, model.mixer.conv_padding
        binds = model.depth > 1 or conv in ("qkv", "k") or (conv == "v" and padding == "same")
        return within(run, WIDE, 0.999 if binds else floor, floor)
    if mixer == "delta_net":
        return within(run, WIDE, 0.995, floor)
    if mixer in ("mamba", "mamba2", "s6"):
        binds = model.depth > 1 or model.mixer.kernel > 0
        return within(run, NARROW, 0.995 if binds else floor, floor)
    if model.depth > 1:
        small = mixer == "hyena" and model.width == 64
        return within(run, NARROW, 0.6 if small else 0.995, floor)
    rising = 0.3 + 0.08 * math.log2(model.width / 64)
    return within(
        run, NARROW, 0.995 if mixer == "hyena" and model.width > run.task.length else rising, floor
    )


def made_curves(
    rows: Iterable[RunRow], bumpy: tuple[str, ...] = ("attention", "mamba")
) -> dict[str, list[Evaluation]]:
    """A curve for each row: a loss that stands still and then falls at once, or one that falls
    evenly; the score as it ends.
    """
    return {row.run_id: _curve(row, row.spec["model"]["mixer"]["name"] in bumpy) for row in rows}


def _curve(row: RunRow, bumpy: bool) -> list[Evaluation]:
    points, end = 40, row.accuracy or 0.0
    curve = []
    for index in range(points):
        share = index / (points - 1)
        learnt = (1.0 if share > 0.5 else 0.0) if bumpy else share
        score = row.chance + (end - row.chance) * learnt
        loss = 9.0 - 6.2 * learnt
        curve.append(Evaluation((index + 1) * 100, loss, loss, score, score))
    return curve
