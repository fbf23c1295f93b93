"""What would settle a cause: the command that trains what is left of its two cells."""

import json
from dataclasses import dataclass

from page_parts import HERE, shown

from recollect.analysis import count_text
from recollect.analysis.settings import DEPTH, MIXER, WIDTH, cell_settings, flatten
from recollect.errors import SpecError
from recollect.reports.paper.claims.thresholds import LEAST_SEEDS
from recollect.reports.paper.evidence import BUT
from recollect.reports.paper.presets import PREFIX, open_sweep
from recollect.reports.paper.study import SEEDS
from recollect.spec.cell import cell_id

PRESET = f"{PREFIX}fig1"  # any cell of the task can be written as a change of it
STORE = HERE.parent / "results" / "h200" / "campaign"
SIZE = ("task.length", "task.pairs", WIDTH, DEPTH)


@dataclass(frozen=True)
class Remedy:
    """A command, and how many of its runs are left to train."""

    command: str
    seeds: int
    left: int
    runs: int


def remedy_text(cause):
    """32 of 78 runs, three seeds at every rate, are left: `recollect run ...`"""
    found = find_remedy(cause)
    if found is None:
        return "No preset trains both cells."
    if not found.left:
        return f"All {found.runs} runs with {found.seeds} seeds at every rate are trained."
    left = count_text(found.left, "more run")
    return f"{left} would give both sides {found.seeds} seeds a rate: `{found.command}`."


def find_remedy(cause):
    """The command that trains both cells of a cause, with as many seeds as settle most; None if it
    would train anything else.
    """
    few = min(seeds_of(cell)[0] for cell in (cause.before, cause.after)) < LEAST_SEEDS
    seeds = SEEDS[: int(LEAST_SEEDS)] if few else SEEDS
    recipe = cause.recipe.split(BUT)[0]
    spec = cause.before.rows[0].spec
    flat = cell_settings(spec)
    if MIXER not in flat:  # a stack of several mixers
        return None
    wanted = {cell_id(cell.rows[0].spec) for cell in (cause.before, cause.after)}
    values = ",".join(toml_text(value) for value in cause.values)
    places = [
        f"{MIXER.removesuffix('.name')}={flat[MIXER]}",
        *(f"{key}={flat[key]}" for key in SIZE),
    ]
    ends = [f"sweep.{cause.key}=[{values}]", f"sweep.seed=[{','.join(map(str, seeds))}]"]
    try:
        plain = open_sweep(PRESET, [*places, ends[-1]], recipe)
        usual = flatten(json.loads(plain.runs[0].canonical_json()))
        apart = [
            f"{key}={toml_text(value)}"
            for key, value in flatten(spec).items()
            if key not in (cause.key, "train.lr", "seed") and usual.get(key) != value
        ]
        words = [*places, *apart, *ends]
        runs = open_sweep(PRESET, words, recipe).runs
    except SpecError:
        return None
    if {cell_id(json.loads(run.canonical_json())) for run in runs} != wanted:
        return None
    trained = {
        row.run_id for cell in (cause.before, cause.after) for row in cell.rows if row.has_result
    }
    left = sum(run.run_id not in trained for run in runs)
    settings = " ".join(f"--set {quoted(word)}" for word in words)
    command = f"recollect run {PRESET} --recipe {recipe} {settings} --out {shown(STORE)}"
    return Remedy(command, len(seeds), left, len(runs))


def seeds_of(cell):
    """The fewest and the most seeds at a rate."""
    counts = [len(rate.scores) for rate in cell.scored_rates]
    return min(counts), max(counts)


def toml_text(value):
    return json.dumps(value)  # the same for numbers, texts and truth values


def quoted(word):
    return f"'{word}'" if set(word) & set('[]"{} ') else word
