"""The package as layers, from the bottom up, and its import graph: shared by the tests and by
docs/graph.py, which draws it.

A module imports from its own layer or from those below, wherever in the file the import stands.
"""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "recollect"

# Name of a layer -> patterns of its modules; of several that fit, the longest decides. A folder's
# own `__init__.py` is the module of the folder's name.
LAYERS: dict[str, tuple[str, ...]] = {
    "foundations": (
        "recollect", "errors", "rows", "spec", "spec.base", "spec.cell", "spec.recipes",
        "spec.recipes.*", "store.failpoint", "store.ownership", "store.durable",
    ),
    "options": (
        "tasks", "tasks.options", "tasks.options.*", "mixers", "mixers.*.options",
        "mixers.options", "mixers.registry", "mixers.choice", "spec.model", "spec.train",
    ),
    "specification": ("spec.*",),
    "database": ("store", "store.*"),
    "analysis": ("analysis", "analysis.*", "plotting", "plotting.*"),
    "operations": ("ops", "ops.*"),
    "layers and data": ("model", "model.layers", "model.layers.*", "model.channel", "tasks.*"),
    "mixers": ("mixers.*",),
    "model and training": ("model.*", "training", "training.*"),
    "weights and checkpoints": (
        "store.checking.folder", "store.tensor_file", "store.checkpoint", "store.weights"),
    "running": ("running", "running.*"),
    "reports": ("reports", "reports.*"),
    "Python interface": ("api", "api.*"),
    "command line": ("cli", "cli.*", "__main__"),
}  # fmt: skip


def module_name(path: Path) -> str:
    """Dotted, below the package; the package itself is "recollect"."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) or "recollect"


def layer_of(module: str) -> int:
    """The place of a module's layer, from 0 at the bottom."""
    fitting = [
        (len(pattern), number)
        for number, patterns in enumerate(LAYERS.values())
        for pattern in patterns
        if fnmatchcase(module, pattern)
    ]
    assert fitting, f"{module}: give it a place in LAYERS (tests/layers.py)"
    return max(fitting)[1]


def sources() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def import_graph() -> dict[str, set[str]]:
    """Each module with those it imports."""
    known = sources()
    return {name: set(_imported(path, known)) - {name} for name, path in known.items()}


def _imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "recollect":
                yield _known_part(name, known)


def _known_part(name: str, known: dict[str, Path]) -> str:
    """The module that a dotted name stands in: `recollect.rows.RunRow` is in `rows`."""
    parts = name.split(".")[1:]
    while parts and ".".join(parts) not in known:
        parts.pop()
    return ".".join(parts) or "recollect"
