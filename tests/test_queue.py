"""The queue of the campaign: every file is a sweep as its own comment says, under the study's
recipe, or the one that its name ends in.
"""

import re
from pathlib import Path

import pytest

from recollect.reports.paper.study import RATES
from recollect.spec.recipes import recipe_of
from recollect.spec.sweep import Sweep, read_sweep

QUEUE = Path(__file__).parents[1] / "results" / "h200" / "queue"
FILES = sorted(QUEUE.glob("*.toml"))
PARTS = ("campaign:next:", "campaign:solving:")
VARIED = {
    "campaign:next:mamba-fp32": "precision fp32",
    "campaign:next:attention": "dropout=0",
}
ZOOLOGY = {1e-4, 4.642e-4, 2.154e-3, 1e-2}


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.stem)
def file(request) -> tuple[str, Sweep]:
    return request.param.read_text(), read_sweep(request.param)


def test_there_is_a_queue():
    assert len(FILES) >= 14
    names = [read_sweep(path).name for path in FILES[:3]]
    assert len(set(names)) == len(names)


def test_a_file_has_as_many_runs_as_it_says(file):
    text, sweep = file
    (said,) = re.findall(r"^# .* = ([\d,]+) runs", text, flags=re.MULTILINE)
    assert len(sweep.runs) == int(said.replace(",", ""))


def test_every_cell_has_all_rates_and_three_seeds(file):
    """The files 00* ask for cells of the others, some of them at a few of their rates."""
    _, sweep = file
    rates = {run.train.lr for run in sweep.runs}
    seeds = {run.seed for run in sweep.runs}
    assert rates <= set(RATES)
    assert sweep.name.startswith(PARTS) or rates == set(RATES) >= ZOOLOGY
    assert len(seeds) == 3
    assert len(sweep.runs) % (len(rates) * len(seeds)) == 0


def test_all_of_it_is_one_recipe(file):
    _, sweep = file
    wanted = "zoology" if sweep.name.endswith(":zoology") else "study"
    firsts = {run.shape_id: run for run in sweep.runs}.values()
    recipes = {recipe_of(run.model_dump(mode="json")) for run in firsts}
    varied = VARIED.get(sweep.name, "positions ")  # Table 4 is about positions
    assert {name.split(f" but {varied}")[0] for name in recipes} == {wanted}
