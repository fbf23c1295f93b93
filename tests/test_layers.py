"""The shape of the package: layers, no cycles, small rooms, torch loaded late, one place prints."""

import ast
import graphlib
import re
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from layers import LAYERS, PACKAGE, import_graph, layer_of, sources

import recollect

SOURCES = sources()
GRAPH = import_graph()
MOST_ENTRIES, MOST_MODULES, MOST_FILES = 18, 6, 14
MOST_LINES, MOST_CLI_LINES, MOST_COLUMNS = 400, 250, 100
FOLDERS = ("recollect", "tests", "bench", "docs", "examples")  # of Python files
TORCH_FREE = [
    "recollect", "recollect.spec.run", "recollect.spec.sweep", "recollect.rows",
    "recollect.mixers.registry", "recollect.tasks.options", "recollect.running.events",
    "recollect.store", "recollect.store.salvage", "recollect.analysis",
    "recollect.analysis.export", "recollect.plotting", "recollect.reports.page",
    "recollect.reports.paper.figures", "recollect.reports.paper.claims",
    "recollect.reports.paper.presets", "recollect.reports.score",
    "recollect.running.planning.priority", "recollect.running.signals", "recollect.api",
    "recollect.cli",
]  # fmt: skip


@pytest.mark.parametrize("module", SOURCES)
def test_a_module_imports_its_own_layer_or_lower_ones(module):
    above = [name for name in GRAPH[module] if layer_of(name) > layer_of(module)]
    names = list(LAYERS)
    assert not above, f"{module} ({names[layer_of(module)]}) imports {', '.join(sorted(above))}"


def test_no_module_imports_itself_by_a_detour():
    list(graphlib.TopologicalSorter(GRAPH).static_order())


def test_every_layer_has_modules():
    assert {layer_of(module) for module in SOURCES} == set(range(len(LAYERS)))


def test_the_package_is_a_few_rooms():
    tracked = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert len(tracked) <= MOST_ENTRIES, sorted(tracked)
    assert sum(name.endswith(".py") for name in tracked) <= MOST_MODULES


def test_no_room_is_crowded():
    files = Counter(path.parent for path in SOURCES.values())
    for folder, count in files.items():
        name = ".".join(folder.relative_to(PACKAGE).parts)
        assert count <= MOST_FILES, f"{name}: {count} files"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_file_is_long_or_wide(folder):
    paths = list((PACKAGE.parent / folder).rglob("*.py"))
    assert paths
    for path in paths:
        lines = path.read_text().splitlines()
        most = MOST_CLI_LINES if path.is_relative_to(PACKAGE / "cli") else MOST_LINES
        assert len(lines) <= most, f"{path}: {len(lines)} lines"
        wide = [number for number, line in enumerate(lines, 1) if len(line) > MOST_COLUMNS]
        assert not wide, f"{path}: lines {wide}"


def test_prose_is_at_most_a_hundred_columns_wide():
    """A row of a table and an address cannot be broken; everything else can."""
    root = PACKAGE.parent
    for path in [*root.glob("*.md"), *(root / "docs").rglob("*.md")]:
        fence = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            fence ^= line.startswith("```")
            breakable = not line.startswith("|") and not re.search(r"\S{80,}", line)
            if breakable and not fence:
                assert len(line) <= MOST_COLUMNS, f"{path.relative_to(root)}:{number}"


@pytest.mark.parametrize("folder", [*FOLDERS, "results", "."])
def test_specifications_and_the_page_are_at_most_a_hundred_columns_wide(folder):
    root = PACKAGE.parent
    found = (root / folder).glob("*" if folder == "." else "**/*")
    kinds = {".toml", ".html", ".css", ".js"}
    for path in found:
        if path.suffix in kinds and not path.name.endswith(".min.js"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                assert len(line) <= MOST_COLUMNS, f"{path.relative_to(root)}:{number}"


def test_contributing_shows_these_layers():
    root = PACKAGE.parent
    script = runpy.run_path(str(root / "docs/graph.py"))
    text = (root / "CONTRIBUTING.md").read_text()
    assert script["with_table"](text) == text, "run `make graph`"


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('|'.join(sys.modules), file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ended.stderr.strip().splitlines()[-1].split("|"))


def loaded_after_command(arguments: list[str]) -> set[str]:
    lines = [
        f"sys.argv = ['recollect', *{arguments!r}]",
        "from recollect.cli import main",
        "try: main()",
        "except SystemExit: pass",
    ]
    return loaded_after("\n".join(lines))


def test_reading_and_analysing_need_no_torch():
    loaded = loaded_after("\n".join(f"import {name}" for name in TORCH_FREE))
    assert set(TORCH_FREE) <= loaded
    assert "torch" not in loaded


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["tasks"], ["tasks", "mqar"], ["mixers", "mamba"]]
)
def test_verbs_that_compute_nothing_load_no_torch(arguments):
    loaded = loaded_after_command(arguments)
    assert "recollect.cli" in loaded
    assert "torch" not in loaded


def test_status_loads_no_torch(tmp_path):
    from recollect.store import Store

    with Store.create(tmp_path):
        pass
    loaded = loaded_after_command(["status", str(tmp_path)])
    assert "recollect.store" in loaded
    assert "torch" not in loaded


def test_importing_the_package_costs_nothing():
    loaded = loaded_after("import recollect")
    assert not {"torch", "numpy", "pydantic", "typer", "matplotlib"} & loaded


def test_public_names_resolve():
    for name in recollect.__all__:
        assert getattr(recollect, name) is not None
    assert set(recollect._PUBLIC) | {"__version__"} == set(recollect.__all__)
    with pytest.raises(AttributeError, match="module 'recollect' has no attribute 'nothing'"):
        recollect.nothing  # noqa: B018


@pytest.mark.parametrize("module", SOURCES)
def test_only_the_command_line_and_the_view_of_a_training_print(module):
    if module == "cli" or module.startswith(("cli.", "reports.live.")):
        return
    tree = ast.parse(SOURCES[module].read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    printed = ("print", "sys.stdout.write", "sys.stderr.write")
    assert not [call.lineno for call in calls if ast.unparse(call.func) in printed]


@pytest.mark.parametrize("module", SOURCES)
def test_every_file_says_what_it_is(module):
    assert ast.get_docstring(ast.parse(SOURCES[module].read_text()))


@pytest.mark.parametrize("folder", ["recollect", "tests", "bench", "docs"])
def test_kernels_are_chosen_by_operations_alone(folder):
    """Whether a kernel runs is asked under recollect/ops/ and, to be tested, under tests/; a bench
    may put another answer in its place.
    """
    asked = [
        path
        for path in (PACKAGE.parent / folder).rglob("*.py")
        if re.search(r"\buse_(triton|numba)\(|import.*\buse_(triton|numba)\b", path.read_text())
        and not path.is_relative_to(PACKAGE / "ops")
        and folder != "tests"
    ]
    assert not [str(Path(path).relative_to(PACKAGE.parent)) for path in asked]
