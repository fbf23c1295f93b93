"""docs/add_a_mixer.md does what it says:
its file is a plugin that trains, and keeps the contract of every mixer.
"""

import re
from pathlib import Path

import pytest
import test_mixers as contract
import torch
from zoo import Case

from recollect.mixers.plugins.load import load_plugin
from recollect.store import Store

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/add_a_mixer.md").read_text().replace("\\\n", " ")
pytestmark = pytest.mark.usefixtures("plugins")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    path = tmp_path / "running.py"
    path.write_text(code)
    return path


@pytest.fixture
def case(file: Path, plugins: None) -> Case:
    load_plugin(file)
    return Case("running")


def test_the_mixer_of_the_page_keeps_the_contract(case):
    for length in (1, 2, 17):
        contract.test_step_by_step_is_the_parallel_form(case, length, torch.float64, 1e-10)
    contract.test_gradients_are_those_of_the_step_by_step_form(case)
    contract.test_gradients_are_those_of_finite_differences(case)
    contract.test_the_past_does_not_see_the_future(case, 16)
    contract.test_the_past_reaches_the_present(case)
    contract.test_effective_attention_times_values_is_the_output(case)
    contract.test_a_broken_member_is_not_noticed_by_its_neighbours(case)
    contract.test_gradients_reach_everything_and_are_finite(case)
    contract.test_a_member_is_what_it_is_alone(case)
    contract.test_the_state_is_as_large_as_stated(case)


def test_the_commands_of_the_page_work(command, file: Path, tmp_path: Path):
    commands = re.findall(r"^recollect (.*running\.py.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 2
    for number, line in enumerate(commands):
        words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", line)]
        places = {
            "running.py": str(file),
            "out": str(tmp_path / f"out{number}"),
            "examples/mqar.toml": str(ROOT / "examples/mqar.toml"),
        }
        words = [places.get(word, word) for word in words]
        if words[0] == "run":
            for short in (
                "train.steps=4",
                "train.evaluations=2",
                "sweep.seed=[42]",
                "sweep.train.lr=[1e-3]",
            ):
                words += ["--set", short]
        said = command(*words)
        assert said.code == 0, said.err
    with Store.open(tmp_path / "out1", read_only=True) as store:
        found = {row.spec["model"]["mixer"]["name"]: row.status for row in store.rows()}
    assert found == {"attention": "done", "running": "done"}


def test_the_links_of_the_page_exist():
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
