"""The queue of the campaign: every file is a sweep as its own comment says, under the study's
recipe, or the one that its name ends in.
"""

import re
from pathlib import Path

import pytest

from recollect.analysis import group_cells
from recollect.reports.paper.study import RATES
from recollect.running.results import RunSet
from recollect.running.searching.searches import IN_ROUNDS, next_runs
from recollect.spec.recipes import recipe_of
from recollect.spec.sweep import Sweep, read_sweep

QUEUE = Path(__file__).parents[1] / "results" / "h200" / "queue"
FILES = sorted(QUEUE.glob("*.toml"))
TEXT = (QUEUE.parent / "README.md").read_text()
WHY = "paper:why"
STATES = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([^|]*) \|$", TEXT, flags=re.MULTILINE))
PARTS = ("campaign:next:", "campaign:solving:")
VARIED = {
    "campaign:next:mamba-fp32": "precision fp32",
    "campaign:next:attention": "dropout=0",
    "campaign:next:attention-64": "dropout=0",
}
ZOOLOGY = {1e-4, 4.642e-4, 2.154e-3, 1e-2}


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.stem)
def file(request) -> tuple[str, Sweep]:
    return request.param.read_text(), read_sweep(request.param)


def test_there_is_a_queue():
    assert len(FILES) >= 14
    names = [read_sweep(path).name for path in FILES[:3]]
    assert len(set(names)) == len(names)


def test_the_table_lists_every_file():
    """In order, with as many runs as it has; presets of the queue have a name of their own."""
    rows = re.findall(r"^\| `([^`]+)` \| .* \| ([\d,]+) \| .*\|$", TEXT, flags=re.MULTILINE)
    told = {
        name: int(runs.replace(",", "")) for name, runs in rows if not name.startswith("paper:")
    }
    assert told == {path.stem: len(read_sweep(path).runs) for path in FILES}
    assert list(told) == sorted(told)


def test_the_commands_train_all_that_is_not_complete():
    """A file named twice would be trained in the order of its first mention."""
    commands = re.findall(
        r"^recollect run (?!\.\.\.)(.*?)--out", TEXT, flags=re.DOTALL | re.MULTILINE
    )
    patterns = [word for command in commands for word in command.replace("\\\n", " ").split()]
    named = [
        path.stem for pattern in patterns if pattern != WHY for path in sorted(QUEUE.glob(pattern))
    ]
    assert WHY in patterns
    assert len(named) == len(set(named))
    left = {path.stem for path in FILES if not is_called_complete(path.stem)}
    assert left <= set(named)
    trained = set(named) - left
    assert all(name.startswith("03") for name in trained), "a pattern names 03 and 03b"


def is_called_complete(name: str) -> bool:
    return re.search("(^|: )complete$", STATES[name]) is not None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_called_complete_when_its_rows_are(path, stored):
    sweep = read_sweep(path)
    runs = {run.run_id for run in sweep.runs}
    search = re.match("(edges|best|all)?", STATES[path.stem])[0]
    rows = [row for row in stored if row.run_id in runs]
    if search in IN_ROUNDS:
        done = len(rows) == len(runs) and not next_runs(IN_ROUNDS[search], group_cells(rows))
    else:
        done = sum(row.has_result for row in rows) == len(runs)
    assert done is is_called_complete(path.stem)


@pytest.fixture(scope="module")
def stored():
    """The rows of the campaign: results, and runs that are planned."""
    return RunSet.load(QUEUE.parent / "campaign").rows


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
