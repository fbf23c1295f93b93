"""The examples in Python do what they say: the notebook in a real kernel, the script by itself, the
pages' code as it stands.
"""

import ast
import importlib.util
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import matplotlib
import nbformat
import pytest
import typer
from IPython.core.inputtransformer2 import TransformerManager

from recollect import Results
from recollect.cli import app as cli

ROOT = Path(__file__).parent.parent
NOTEBOOK, SCRIPT = ROOT / "examples/own_mixer.ipynb", ROOT / "examples/own_mixer.py"
COLAB, PAGE = ROOT / "docs/colab.ipynb", ROOT / "docs/python.md"


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


# ---- your own mixer ----


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def outputs(place: Path) -> list[list[dict[str, Any]]]:
    """Of the cells, and then of three more: the class edited once more, the call, and again."""
    cells = read(NOTEBOOK).cells
    classes = [n for n, cell in enumerate(cells) if "class Lookup" in cell.source]
    call = next(n for n, cell in enumerate(cells) if cell.source.startswith("both = "))
    edited = cells[classes[-1]].source.replace("/ x.shape[1]", "/ 4")
    assert edited != cells[classes[-1]].source
    again = [[classes[-1], edited], [call, None], [call, None]]
    (place / "again.json").write_text(json.dumps(again))
    ended = subprocess.run(
        [sys.executable, ROOT / "tests/execute_notebook.py", NOTEBOOK, "again.json"],
        cwd=place,
        env=os.environ
        | {"JUPYTER_RUNTIME_DIR": str(place / "jupyter"), "IPYTHONDIR": str(place / "ipython")},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    found: list[list[dict[str, Any]]] = json.loads(ended.stdout.splitlines()[-1])
    return found


def shown(outputs: list[dict[str, Any]], kind: str) -> list[str]:
    """What a cell shows of one kind, in full."""
    return ["".join(one["data"][kind]) for one in outputs if kind in one.get("data", {})]


def test_the_notebook_is_the_script():
    made = runpy.run_path(str(ROOT / "docs/notebooks.py"))["notebook"](SCRIPT.read_text())
    assert NOTEBOOK.read_text() == made, "run `python docs/notebooks.py`"
    assert not any(cell.get("outputs") for cell in read(NOTEBOOK).cells)
    nbformat.validate(read(NOTEBOOK))


def test_an_edited_cell_gets_new_runs_in_the_notebook(outputs):
    cells = [cell.source for cell in read(NOTEBOOK).cells]
    runs = {}
    for number, source in enumerate(cells):
        if called := re.search(r"^(\w+) = recollect\.run\(", source, re.MULTILINE):
            (runs[called[1]],) = shown(outputs[number][-1:], "text/plain")
    assert runs == {
        "first": "Results('own-mixer': 3 runs, 3 done; 1 cell)",
        "both": "Results('own-mixer': 6 runs, 6 done; 2 cells)",
    }
    again = [shown(outputs[number][-1:], "text/plain") for number in (-2, -1)]
    assert again == [["Results('own-mixer': 9 runs, 9 done; 3 cells)"]] * 2


def test_the_notebook_shows_progress_tables_and_pictures(outputs):
    cells = [cell.source for cell in read(NOTEBOOK).cells]
    trained = outputs[next(n for n, source in enumerate(cells) if source.startswith("both = "))]
    progress, card = (shown([one], "text/html")[0] for one in trained)
    assert "own mixer: 3 runs, 3 new" in progress
    assert "6 of 6 runs" in progress
    assert card.count("<svg") == 2
    drawn = [number for number, source in enumerate(cells) if ".plot(" in source]
    assert [len(shown(outputs[number], "image/png")) for number in drawn] == [1, 1]
    assert not [one for own in outputs for one in own if one["output_type"] == "error"]


def test_the_edit_is_what_makes_it_work(outputs, place: Path):
    """Linear attention over single tokens cannot bind a value to its key; over pairs it can."""
    scores = Results.load(place / "own-mixer").best()["score"].tolist()
    assert scores[0] < 0.75 < 0.9 < scores[1]


def test_the_script_does_the_same(tmp_path: Path):
    ended = subprocess.run(
        [sys.executable, "-W", "error", SCRIPT], cwd=tmp_path, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    results = Results.load(tmp_path / "own-mixer")
    assert repr(results) == "Results('own-mixer': 6 runs, 6 done; 2 cells)"


def test_a_notebook_shows_a_refusal_without_the_way_it_came(tmp_path: Path):
    code = "import recollect; recollect.Results.load('nowhere')"
    ended = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=NoColor", "-c", code],
        cwd=tmp_path,
        env=os.environ | {"IPYTHONDIR": str(tmp_path / "ipython")},
        capture_output=True,
        text=True,
    )
    said = (ended.stdout + ended.stderr).strip().splitlines()
    assert said == [
        "SpecError: no results in nowhere; run `recollect run SPEC --out nowhere` first"
    ]
    assert not (tmp_path / "nowhere").exists()


# ---- the page on Python ----


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch, plugins, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    file = tmp_path / "page_on_python.py"
    file.write_text("\n".join(blocks))
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("page_on_python", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "page_on_python", module)
    from matplotlib import pyplot

    with matplotlib.rc_context():
        pyplot.switch_backend("Agg")
        spec.loader.exec_module(module)
        pyplot.close("all")
    assert repr(module.results) in PAGE.read_text()
    assert capsys.readouterr().out.startswith("train.steps = 0: must be at least 1; ")
    assert not Path("never").exists()
    assert Path("page.html").stat().st_size > 10_000


def test_the_page_names_every_call():
    text = PAGE.read_text()
    own = {field.name for field in fields(Results)}
    methods = [name for name in vars(Results) if not name.startswith("_") and name not in own]
    assert "plot" in methods
    assert [name for name in methods if name not in text] == []


# ---- the notebook that installs from a checkout ----


def colab_code() -> list[str]:
    return [cell.source for cell in read(COLAB).cells if cell.cell_type == "code"]


def test_the_hosted_notebook_is_valid_and_compiles():
    notebook = read(COLAB)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    for source in colab_code():
        ast.parse(TransformerManager().transform_cell(source))


def test_the_hosted_notebooks_commands_exist():
    text = "\n".join(colab_code())
    lines = re.findall(r"^\s*(?:# )?!(\w+) ?(.*)$", text, re.MULTILINE)
    assert {name for name, _ in lines} == {"unzip", "recollect"}
    verbs = typer.main.get_command(cli.app).commands
    for words in (shlex.split(rest) for name, rest in lines if name == "recollect"):
        known = {flag for one in verbs[words[0]].params for flag in one.opts}
        assert {word for word in words if word.startswith("-")} <= known
    for path in re.findall(r"examples/[\w.]+", text):
        assert (ROOT / path).is_file()
    assert "[pandas]" in text
    # A kernel that is running does not read a new link; it would import the folder of the checkout.
    assert "--editable" not in text


def test_what_the_hosted_notebook_asks_of_results_is_there():
    text = "\n".join(colab_code())
    for name in re.findall(r"\b(?:results|both)\.(\w+)\(", text):
        assert callable(getattr(Results, name))
