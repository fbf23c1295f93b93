"""The shape of the package: data flows one way, torch is loaded late, nothing prints but the
command line.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import recollect

PACKAGE = Path(recollect.__file__).parent

# From left to right: a module imports only from levels to its left, or from its own level's folder.
# What stands together on a level may not import one another, except inside one folder (a folder is
# one concept in several files).
LEVELS = [
    ["recollect"],  # the version and the list of public names
    ["errors"],
    ["failpoint", "ownership", "rows"],  # rows: plain data, the words that all later levels share
    ["durable", "spec"],
    ["sweep", "notices", "store_records", "store_schema", "pace"],
    ["store_file"],
    ["store"],
    ["salvage"],
    ["randomness"],  # from here on torch
    ["tasks", "ops"],
    ["nn"],
    ["channel"],
    ["mixers"],
    ["model"],
    ["graph"],
    ["population"],
    ["early"],
    ["train", "checkpoint", "plugins", "interrupts"],
    ["planner", "keep", "rehearsal"],
    ["ahead", "claimed"],
    ["forecast", "doctor", "runner", "bench"],
    ["analysis"],
    ["report", "export", "budget"],
    ["paper", "spending", "workers"],
    ["catalogue", "progress", "inspect", "score"],  # what the command line shows
    ["api"],
    ["evidence"],  # what a page is made from
    ["watch"],
    ["cli"],
    ["__main__"],
]
LEVEL = {name: number for number, names in enumerate(LEVELS) for name in names}
TORCH_FREE = ["recollect", "recollect.spec", "recollect.spec.sweep", "recollect.rows", "recollect.running.events", "recollect.store",
              "recollect.store.salvage",
              "recollect.analysis", "recollect.reports.page", "recollect.analysis.export", "recollect.reports.paper.figures", "recollect.reports.paper.claims",
              "recollect.reports.paper.presets",
              "recollect.running.planning.priority", "recollect.reports.score", "recollect.cli.tables", "recollect.api", "recollect.reports.page.gather",
              "recollect.reports.page.live",
              "recollect.reports.inspect.examination", "recollect.running.signals", "recollect.cli.app"]  # fmt: skip


def concept(path: Path) -> str:
    """The folder or file under recollect/ that a source file belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return "recollect" if first == "__init__.py" else first.removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The concepts a file imports, wherever in it: an import inside a function points in the same
    direction.
    """
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            # `from recollect import x` imports the module x; `from recollect.a.b import x`
            # something of a
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, *rest = name.split(".")
            if first == "recollect":
                found.add(rest[0] if rest and rest[0] in LEVEL else "recollect")
    return found


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(PACKAGE)) for path in SOURCES])
def test_a_module_imports_only_to_its_left(path):
    own = concept(path)
    assert own in LEVEL, f"{own}: give it a place in LEVELS"
    for name in imported(path):
        assert name == own or LEVEL[name] < LEVEL[own], (
            f"{path.name} imports {name}, which does not stand to its left"
        )


def test_the_levels_name_what_there_is():
    assert {concept(path) for path in SOURCES} == set(LEVEL)


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
    assert "recollect.cli.app" in loaded
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


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(PACKAGE)) for path in SOURCES])
def test_only_the_command_line_prints(path):
    if path.name == "cli.py":
        return
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not [
        call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]
    assert not [
        call.lineno
        for call in calls
        if ast.unparse(call.func) in ("sys.stdout.write", "sys.stderr.write")
    ]


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(PACKAGE)) for path in SOURCES])
def test_every_file_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))
