"""The study as it describes itself, in rows made up for the tests of its claims: a score for every
run its presets ask for.
"""

import copy
import json
import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from recollect.reports.paper.claims import CLAIMS, Claim, Verdict
from recollect.reports.paper.claims.judge import judge
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
        run_id=run.run_id,
        spec=json.loads(_text(run)),
        status="done",
        score_name=run.task.score_name,
        chance=run.task.chance,
        steps=run.train.steps,
        accuracy=score,
        exact=score,
        parameters=150_000_000,
    )


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
    """A curve for each row: a loss that is constant and then falls at once, or falls evenly."""
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


NAMES = [claim.name for claim in CLAIMS]


def mixer(run: RunSpec) -> str:
    return str(run.model.mixer.name)


def changed(
    condition: Callable[[RunSpec], bool], score: Callable[[RunSpec], float]
) -> Callable[[RunSpec], float]:
    """The study's scores, but others for the runs that meet the condition."""
    return lambda run: score(run) if condition(run) else study_score(run)


def wide(run: RunSpec) -> float:
    return within(run, WIDE, 0.995, 0.02)


def narrow(run: RunSpec) -> float:
    return within(run, NARROW, 0.995, 0.02)


def never(top: float) -> Callable[[RunSpec], float]:
    return lambda run: within(run, WIDE, top, min(top, 0.02))


def verdict_of(
    claim: Claim, rows: Sequence[RunRow], bumpy: tuple[str, ...] = ("attention", "mamba")
) -> Verdict:
    curves = made_curves(rows, bumpy) if claim.figure == "fig6" else {}
    (verdict,) = judge([claim], rows, curves)
    return verdict


def reduced(rows: Sequence[RunRow], two_seeds: bool = False) -> list[RunRow]:
    """The same scores on a smaller vocabulary or alphabet, of one seed unless two are needed."""
    made = []
    for row in rows:
        if row.spec["seed"] == 777 or (row.spec["seed"] == 123 and not two_seeds):
            continue
        spec = copy.deepcopy(row.spec)
        key = "alphabet" if spec["task"]["name"] == "copying" else "vocabulary"
        spec["task"][key] //= 2
        made.append(replace(row, spec=spec))
    return made


# Scores with which a claim is false. C18 and C19 turn on their curves.
CONTRARY: dict[str, Callable[[RunSpec], float]] = {
    "C1": changed(lambda run: run.model.width == 64 and run.task.length == 512, never(0.8)),
    "C2": changed(lambda run: mixer(run) == "attention", narrow),
    "C3": changed(lambda run: mixer(run) == "mamba", wide),
    "C4": wide,
    "C5": wide,
    "C6": never(0.5),
    "C7": wide,
    "C8": changed(lambda run: mixer(run) == "h3" and run.model.width == 64, never(0.5)),
    "C9": changed(lambda run: run.model.width == 2048, never(0.6)),
    "C10": lambda run: 2.5 * study_score(run),
    "C11": changed(lambda run: mixer(run) == "hyena" and run.model.width == 2048, never(0.2)),
    "C12": changed(lambda run: run.task.length == 256, never(0.5)),
    "C13": changed(lambda run: run.model.width == 256, narrow),
    "C14": changed(lambda run: mixer(run) == "attention" and run.model.width == 2048, never(0.9)),
    "C15": changed(lambda run: mixer(run) == "mamba" and run.model.depth == 12, wide),
    "C16": changed(lambda run: run.model.depth == 24, wide),
    "C17": changed(lambda run: mixer(run) == "mamba", wide),
    "C18": study_score,
    "C19": study_score,
    "C20": changed(lambda run: mixer(run) == "mamba" and run.model.mixer.kernel == 0, narrow),
    "C21": never(0.5),
    "C22": wide,
    "C23": changed(
        lambda run: mixer(run) == "mamba" and run.model.positions == "learned", never(0.5)
    ),
    "C24": changed(lambda run: mixer(run) == "delta_net", narrow),
    "C25": never(0.97),
    "C26": never(0.93),
}
CONTRARY_CURVES = {"C18": ("hyena",), "C19": ("hyena",)}  # whose loss falls at once
