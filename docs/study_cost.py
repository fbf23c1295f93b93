"""What the whole study costs on GPUs, by the speeds measured on one, into docs/clusters.md.

python docs/study_cost.py
"""

import json
import re
from collections import defaultdict
from pathlib import Path

from page_parts import wrapped

from recollect.reports.paper.presets import BEYOND, NAMES, read_preset
from recollect.running.cluster.draft import MOST_RUNS
from recollect.running.planning.bench import Report, parse_shape
from recollect.running.planning.cost import evaluation_stretch, operations
from recollect.running.planning.speed import SpeedModel
from recollect.spec.run import RunSpec
from recollect.spec.sweep import group_by_shape
from recollect.store import Store

HERE = Path(__file__).parent
PAGE, RESULTS = HERE / "clusters.md", HERE.parent / "results"
MARKS = "<!-- study -->\n", "<!-- end of study -->\n"
NODE, CLUSTER = 8, 256  # GPUs
MOST_PACK_H = 1.0  # a longer pack is cut, as `submit --time` does it


def learn_speeds() -> tuple[SpeedModel, dict[str, float]]:
    """Seconds of a run-step as benchmarks and stored rows have them, and the share of its steps
    that a mixer's runs made before they were solved.
    """
    speeds = SpeedModel(None, operations)
    for path in sorted((RESULTS / "bench").glob("h200-s?-bf16.json")):
        report = Report.from_table(json.loads(path.read_text()))
        for speed in report.speeds:
            if speed.run_steps_per_s:
                run = parse_shape(speed.shape).run(speed.mixer)
                speeds.measure(run, evaluation_stretch(run) / speed.run_steps_per_s)
    made, planned = defaultdict(int), defaultdict(int)
    for folder in ("study-mqar64", "campaign"):
        with Store.open(RESULTS / "h200" / folder, read_only=True) as store:
            rows = [row for row in store.rows() if row.status == "done" and row.wall_s]
        for row in rows:
            run = RunSpec.parse(row.spec)
            speeds.learn(run, row.steps, row.wall_s)
            made[run.model.mixer.name] += row.steps
            planned[run.model.mixer.name] += run.train.steps
    return speeds, {name: made[name] / planned[name] for name in made}


def cut(hours: float, runs: int) -> int:
    """Packs of a shape: as many runs as a GPU likes, none much longer than MOST_PACK_H."""
    return max(-(-runs // MOST_RUNS), min(runs, round(hours / MOST_PACK_H)))


def cost(runs: list[RunSpec], speeds: SpeedModel, shares: dict[str, float]):
    """GPU-hours to the last step of every run, GPU-hours with early ends, packs."""
    whole = early = packs = 0
    for shape in group_by_shape(runs):
        first = shape[0]
        hours = speeds.seconds(first) * sum(run.train.steps for run in shape) / 3600
        whole += hours
        early += hours * shares.get(first.model.mixer.name, 1.0)
        packs += cut(hours, len(shape))
    return whole, early, packs


def rounded(number: float) -> str:
    return f"{number:,.1f}" if number < 10 else f"{number:,.0f}"


def describe() -> str:
    speeds, shares = learn_speeds()
    seen: dict[str, RunSpec] = {}
    lines = [
        "| preset | runs | not in those above | GPU-hours | with early ends | packs |",
        "|---|---|---|---|---|---|",
    ]
    for name in (*NAMES, *BEYOND):
        runs = {run.run_id: run for run in read_preset(name).runs}
        new = [run for run_id, run in runs.items() if run_id not in seen]
        seen.update(runs)
        whole, early, packs = cost(new, speeds, shares)
        lines.append(
            f"| `paper:{name}` | {len(runs):,} | {len(new):,} | {rounded(whole)} | "
            f"{rounded(early)} | {packs:,} |"
        )
    whole, early, packs = cost(list(seen.values()), speeds, shares)
    lines.append(f"| all | {len(seen):,} | | {rounded(whole)} | {rounded(early)} | {packs:,} |")
    week = CLUSTER * 7 * 24
    prose = f"""
GPU-hours of one H200, every run of every preset once. Speeds are those of stored rows and
benchmarks (`results/h200`, `results/bench`); other shapes are scaled by multiply-adds from the
nearest one of the same mixer, which is an estimate. Early ends: the share of its steps that a
mixer's stored runs made before they were solved; where nothing is stored, all of them.

On {NODE} H200 the whole study takes {rounded(early / NODE)} to {rounded(whole / NODE)} hours, in
{packs:,} packs of at most {MOST_RUNS} runs and about {MOST_PACK_H:g} hour; at a price of p
for a GPU-hour it costs {rounded(early)} p to {rounded(whole)} p. A week on {CLUSTER} is {week:,}
GPU-hours: {rounded(week / whole)} times the study without early ends. That is every cell with
{int(5 * week / whole):,} seeds instead of five, enough to say how often a rate fails rather than
that it may; or all figures under {int(week / whole)} recipes, which would tell for every cell, not
for two of them, what of a window is the recipe's.

`--search edges` needs 25 to 37 % of the run-steps of a grid of 13 rates
([measured](decisions/search-edges.md)), and `--search best`, which is enough for all figures but
those of rates, 22 to 31 % ([measured](decisions/search-best.md)). They use all GPUs of one machine;
of several machines each is given a part of the study, `--set model.mixer=mamba` and so on, one
folder each, and `recollect merge` joins them."""
    parts = [wrapped(" ".join(part.split())) for part in prose.split("\n\n")]
    return "\n".join(lines) + "\n\n" + "\n\n".join(parts) + "\n"


def main() -> None:
    page = PAGE.read_text()
    begin, end = MARKS
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    PAGE.write_text(re.sub(pattern, lambda _: begin + describe() + end, page, flags=re.DOTALL))


if __name__ == "__main__":
    main()
