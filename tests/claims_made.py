"""The study as it describes itself, in rows made up for the tests of its claims: a score for every
run its presets ask for.
"""

import copy
import json
import math
import random
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from recollect.analysis import group_cells
from recollect.reports.paper import study
from recollect.reports.paper.claims import CLAIMS, HEADLINE, Claim, Verdict
from recollect.reports.paper.claims.judge import judge
from recollect.reports.paper.claims.thresholds import LEAST_SEEDS
from recollect.reports.paper.presets import preset_text, read_preset
from recollect.reports.paper.study import RATES
from recollect.rows import Evaluation, RunRow
from recollect.running.searching.searches import IN_ROUNDS, next_runs
from recollect.spec.recipes import RECIPES, recipe_of
from recollect.spec.run import RunSpec

Score = Callable[[RunSpec], float]


SEEDS = study.SEEDS[: int(LEAST_SEEDS)]  # as many as a verdict needs


WIDE = (1e-4, 1e-2)  # what works for attention


NARROW = (2.9e-3, 5e-3)  # and for recurrent models: between two of Zoology's rates


LESS_NARROW = (2.1e-3, 5e-3)  # a little more


ONE_RATE = (2.9e-3, 3.1e-3)  # and a little less


NOISE = 0.05  # of a seed, standard deviation


BY_NAME = {claim.name: claim for claim in CLAIMS}


@cache
def wanted_runs(command: str) -> tuple[RunSpec, ...]:
    """The runs of `recollect run paper:...` with three seeds.

    One run of each cell is read and the others are copied from it: thousands would take seconds.
    """
    recollect, run, preset, *options = shlex.split(command)
    assert (recollect, run, options[-2:]) == ("recollect", "run", ["--out", "out"])
    options = options[: -4 if search_of(command) else -2]
    sets = options[1::2]
    assert options == [word for override in sets for word in ("--set", override)]
    name = preset.removeprefix("paper:")
    assert tuple(tomllib.loads(preset_text(name))["sweep"]["train"]["lr"]) == RATES
    one_of_each = [*sets, f"sweep.seed=[{SEEDS[0]}]", f"sweep.train.lr=[{RATES[0]}]"]
    return tuple(
        _with(cell, lr, seed)
        for cell in read_preset(name, overrides=one_of_each).runs
        for lr in RATES
        for seed in SEEDS
    )


def search_of(command: str) -> str:
    """How `recollect run ... --search HOW --out out` trains its runs; empty: all of them."""
    key, value = shlex.split(command)[-4:-2]
    return value if key == "--search" else ""


def trained_as_asked(command: str, score: Score) -> list[RunRow]:
    """The rows of a command's runs after it has ended: with a search some are todo."""
    rows = {row.run_id: row for run in wanted_runs(command) for row in [made_row(run, score(run))]}
    search = search_of(command)
    if not search:
        return list(rows.values())
    found = {run_id: replace(row, status="todo", accuracy=None) for run_id, row in rows.items()}
    while chosen := next_runs(IN_ROUNDS[search], group_cells(list(found.values()))):
        found |= {run_id: rows[run_id] for run_id in chosen}
    return list(found.values())


def _with(cell: RunSpec, lr: float, seed: int) -> RunSpec:
    train = cell.train.model_copy(update={"lr": lr})
    run = cell.model_copy(update={"train": train, "seed": seed})
    run.__dict__.pop("run_id", None)  # worked out before the copy
    return run


def made_rows(claim: Claim, score: Score) -> list[RunRow]:
    """Finished rows for everything the claim says to run."""
    rows = [
        made_row(run, score(run))
        for command in claim.what_to_run.splitlines()
        for run in wanted_runs(command)
    ]
    return list({row.run_id: row for row in rows}.values())


# The model of a cell's runs -> one of the runs, its text and its id. Copies share their model.
_CELLS: dict[int, tuple[RunSpec, str, str]] = {}


def _cell(run: RunSpec) -> tuple[str, str]:
    """The canonical text of some run of the same cell, and an id that all of them share."""
    if id(run.model) not in _CELLS:
        first = _with(run, RATES[0], SEEDS[0])
        _CELLS[id(run.model)] = first, first.canonical_json(), first.run_id
    return _CELLS[id(run.model)][1:]


STATES = {"mamba": 16, "mamba2": 64, "delta_net": 128}  # floats per channel, in the study's order


def made_row(run: RunSpec, score: float) -> RunRow:
    """Fitted as well as it generalises."""
    width, depth = run.model.width, run.model.depth
    text, cell = _cell(run)
    spec = json.loads(text)
    spec["seed"], spec["train"]["lr"] = run.seed, run.train.lr
    return RunRow(
        run_id=f"{cell}-{run.train.lr:g}-{run.seed}",
        spec=spec,
        status="done",
        score_name=run.task.score_name,
        chance=run.task.chance,
        steps=run.train.steps,
        accuracy=score,
        exact=score,
        train_score=score,
        parameters=150_000_000
        if run.task.name == "copying"
        else 8192 * width + 12 * depth * width**2,
        state_size=STATES.get(run.model.mixer.name, 1) * width,
    )


def recipe_label(rows: Sequence[RunRow]) -> str:
    """The recipe that most of these rows follow; what a claim varies differs from it.

    A few of many rows tell.
    """
    few = rows[:: max(1, len(rows) // 40)]
    found = Counter(label for row in few if (label := recipe_of(row.spec)) in RECIPES)
    return found.most_common(1)[0][0] if found else HEADLINE


def noisy(score: Score, draw: int) -> Score:
    """The same with noise of every seed at every rate."""

    def scored(run: RunSpec) -> float:
        noise = random.Random(f"{draw} {_cell(run)[1]} {run.train.lr} {run.seed}").gauss(0, NOISE)
        return min(1.0, max(0.0, score(run) + noise))

    return scored


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
    if mixer in ("based", "based_hybrid"):
        return within(run, WIDE, 0.999 if model.depth > 1 else floor, floor)
    if mixer == "attention":
        conv, padding = model.mixer.conv, model.mixer.conv_padding
        binds = model.depth > 1 or conv in ("qkv", "k") or (conv == "v" and padding == "same")
        return within(run, WIDE, 0.999 if binds else floor, floor)
    if mixer == "delta_net":
        return within(run, WIDE, 0.995, floor)
    if mixer in ("mamba", "mamba2", "s6"):
        binds = model.depth > 1 or model.mixer.kernel > 0
        window = LESS_NARROW if mixer == "mamba2" else NARROW
        return within(run, window, 0.995 if binds else floor, floor)
    if model.depth > 1:
        small = mixer == "hyena" and model.width == 64
        return within(run, NARROW, 0.6 if small else 0.995, floor)
    rising = 0.3 + 0.08 * math.log2(model.width / 64)
    enough = run.task.length if mixer == "hyena" else 512
    return within(run, NARROW, 0.995 if model.width > enough else rising, floor)


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


def made_kept(
    rows: Iterable[RunRow], decaying: Sequence[str], fast: float = 0.9, slow: float = 0.999
) -> dict[str, tuple[float, ...]]:
    """What inspections would say of the runs with a decay and of those without one."""
    return {
        row.run_id: (fast if row.spec["model"]["mixer"]["name"] in decaying else slow,)
        for row in rows
    }


def verdict_of(
    claim: Claim,
    rows: Sequence[RunRow],
    bumpy: tuple[str, ...] = ("attention", "mamba"),
    decaying: tuple[str, ...] = ("mamba", "mamba2"),
    resamples: int = 0,
) -> Verdict:
    curves = made_curves(rows, bumpy) if claim.figure == "fig6" else {}
    kept = made_kept(rows, decaying) if claim.name == "C32" else {}
    (verdict,) = judge([claim], rows, curves, recipe_label(rows), kept, resamples)
    return verdict


def contrary_verdict(claim: Claim, rows: Sequence[RunRow]) -> Verdict:
    """On rows made with CONTRARY, and with what else makes the claim false."""
    curves = CONTRARY_CURVES.get(claim.name, ("attention", "mamba"))
    return verdict_of(claim, rows, curves, CONTRARY_DECAY.get(claim.name, ("mamba", "mamba2")))


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


# Scores with which a claim is false. C18 and C19 turn on their curves, C32 on what was inspected.
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
    "C25": changed(lambda run: run.train.lr in (1e-4, 4.642e-4, 2.154e-3, 1e-2), never(0.8)),
    "C26": never(0.93),
    "C27": never(0.9),
    "C28": changed(lambda run: mixer(run) == "based", wide),
    "C29": changed(lambda run: mixer(run) == "hyena" and run.model.width == 2048, never(0.2)),
    "C30": changed(lambda run: mixer(run) == "rwkv4", never(0.5)),
    "C31": changed(lambda run: mixer(run) == "mamba", wide),
    "C32": study_score,
}
CONTRARY_CURVES = {"C18": ("hyena",), "C19": ("hyena",)}  # whose loss falls at once
CONTRARY_DECAY = {"C32": ("delta_net",)}
