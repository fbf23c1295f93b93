"""A mixer more is a folder and a line of the registry: in a copy of the project with just these
added, the command line, a sweep, the documentation, the example sweep and the contract tests have
it.
"""

import filecmp
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from difflib import ndiff
from pathlib import Path

import pytest

from recollect.mixers.registry import ROOMS
from recollect.store import Store

ROOT = Path(__file__).parents[2]
COPIED = ("recollect", "tests/*.py", "tests/mixers/test_mixers.py", "docs/mixers.py", "docs/zoo.py")
COPIED += ("docs/deviations.json", "examples", "pyproject.toml")
NAME = "one_more"
FILES = {
    "__init__.py": '"""One more mixer."""\n',
    "options.py": '''"""Options of one more mixer."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec


class OneMoreSpec(MixerSpec):
    """A leaky sum of projected inputs."""

    name: Literal["one_more"] = "one_more"
    decay: Literal["fast", "slow"] = Field(default="fast", description="how much a step keeps")

    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "matrix products"
    architecture: ClassVar[str] = "OneMore"
    summary: ClassVar[str] = "a leaky sum of projected inputs"
    paper: ClassVar[str] = "Nobody 2026"


OPTIONS = (OneMoreSpec,)
''',
    "mixer.py": '''"""A leaky sum (Nobody 2026).

    h_t = a h_{t-1} + W x_t + b        y = h

Glossary: P population, B batch, L length, D width, a the decay. Initialisation: W N(0, 0.02), b 0.
Differs from nothing official.
"""

import torch
from torch import Generator, Tensor

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.one_more.options import OneMoreSpec
from recollect.model.layers import Linear, normal


class OneMore(Mixer):
    def __init__(self, spec: OneMoreSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        self.decay = 0.5 if spec.decay == "fast" else 0.9
        self.into = Linear(site.population, site.width, site.width, init=normal(0.02))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {}

    def _weights(self, x_PBLD: Tensor) -> Tensor:
        steps = torch.arange(x_PBLD.shape[2], dtype=x_PBLD.dtype)
        lag_LL = (steps[:, None] - steps).clamp(min=0)
        return (self.decay**lag_LL).tril()

    def forward(self, x_PBLD: Tensor) -> Tensor:
        return self._weights(x_PBLD) @ self.into(x_PBLD)

    def start(self, batch: int) -> State:
        return {"h": self.into.weight.new_zeros(self.site.population, batch, self.site.width)}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        h_PBD = self.decay * state["h"] + self.into(x_PBD)
        return h_PBD, {"h": h_PBD}

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        weights_PBHLL = self._weights(x_PBLD).expand(*x_PBLD.shape[:2], 1, -1, -1)
        values_PBHLD = self.into(x_PBLD)[:, :, None]
        return EffectiveAttention(weights_PBHLL, values_PBHLD, lambda mixed: mixed.squeeze(2))

    def state_size(self) -> int:
        return self.site.width

    def operations_per_token(self) -> int:
        return self.site.width**2 + self.site.length * self.site.width // 2
''',
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with one more mixer."""
    tree = tmp_path_factory.mktemp("project")
    for path in (path for pattern in COPIED for path in ROOT.glob(pattern)):
        copied = tree / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, copied, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, copied)
    folder, registry = tree / "recollect/mixers" / NAME, tree / "recollect/mixers/registry.py"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    last = f'    "{ROOMS[-1]}",\n'
    text = registry.read_text()
    assert text.count(last) == 1
    registry.write_text(text.replace(last, f'{last}    "{NAME}",\n'))
    return tree


# Each program as `python` would run it, one after the other in one process, which imports torch
# once; what each of them said, as JSON.
RUN_ALL = """
import contextlib, io, json, runpy, sys

said = {}
for name, (program, *words) in json.loads(sys.argv[1]).items():
    out, code = io.StringIO(), 0
    sys.argv = [program, *words]
    with contextlib.redirect_stdout(out):
        try:
            if program.endswith(".py"):
                runpy.run_path(program, run_name="__main__")
            else:
                runpy.run_module(program, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            code = ended.code
    said[name] = out.getvalue()
    if code:
        sys.exit(f"{name} ended with {code}: {said[name]}")
json.dump(said, sys.stdout)
"""


@pytest.fixture(scope="module")
def said(tree: Path) -> dict[str, str]:
    """What the programs of the project with one more mixer say; they find what they wrote in it."""
    settings = (f'sweep.model.mixer=["{NAME}"]', "train.steps=4", "train.evaluations=2")
    programs = {
        "all mixers": ["recollect", "mixers"],
        "this mixer": ["recollect", "mixers", NAME],
        "example sweep": ["docs/zoo.py"],
        "training": [
            *("recollect", "run", "examples/zoo.toml", "--out", "out", "--device", "cpu"),
            *(word for setting in settings for word in ("--set", setting)),
        ],
        "page of mixers": ["docs/mixers.py"],
        "contract tests": [
            *("pytest", "tests/mixers/test_mixers.py", "-k", NAME),
            *("-vv", "-p", "no:cacheprovider"),
        ],
    }
    ended = subprocess.run(
        [sys.executable, "-c", RUN_ALL, json.dumps(programs)],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


def differences(compared: filecmp.dircmp) -> Iterator[str]:
    """Files that differ and what only one side has, below both folders."""
    here = Path(compared.left).relative_to(ROOT)
    for name in (*compared.diff_files, *compared.left_only, *compared.right_only):
        yield str(here / name)
    for inner in compared.subdirs.values():
        yield from differences(inner)


def test_the_difference_is_one_folder_and_one_line(tree: Path):
    compared = filecmp.dircmp(ROOT / "recollect", tree / "recollect", ignore=["__pycache__"])
    registry = "recollect/mixers/registry.py"
    assert set(differences(compared)) == {registry, f"recollect/mixers/{NAME}"}
    lines = ndiff(*((root / registry).read_text().splitlines() for root in (ROOT, tree)))
    assert [line for line in lines if line[0] in "+-?"] == [f'+     "{NAME}",']


def test_the_command_line_lists_it(said: dict[str, str]):
    assert [line.split()[0] for line in said["all mixers"].splitlines()][-1] == NAME
    assert "decay" in said["this mixer"]


def test_the_generated_sweep_has_it_and_trains_it(tree: Path, said: dict[str, str]):
    assert f'    "{NAME}",\n' in (tree / "examples/zoo.toml").read_text()
    with Store.open(tree / "out", read_only=True) as store:
        rows = list(store.rows())
    assert [(row.spec["model"]["mixer"]["name"], row.status) for row in rows] == [
        (NAME, "done")
    ] * 2


def test_the_documentation_has_it(tree: Path, said: dict[str, str]):
    page = (tree / "docs/mixers.md").read_text()
    assert f"| `{NAME}` | recurrent | Nobody 2026 | 4,160 / 16,512 | 64 / 128 |" in page


def test_the_contract_tests_run_over_it(said: dict[str, str]):
    """Over its defaults, a later layer, and each value of its option."""
    for case in (NAME, f"{NAME}-layer1", f"{NAME}-decay=slow"):
        assert f"test_a_member_is_what_it_is_alone[{case}] PASSED" in said["contract tests"]
    assert " failed" not in said["contract tests"]


def test_the_example_sweep_is_generated():
    """The one of this project."""
    script = runpy.run_path(str(ROOT / "docs/zoo.py"))
    assert (ROOT / "examples/zoo.toml").read_text() == script["sweep"](), "run python docs/zoo.py"
