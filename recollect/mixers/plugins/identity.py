"""The source text of a mixer from outside. Its digest is part of a run's identity, so that a
changed mixer gives a new run and never reuses stale results.

For a class in a file, the text is that file and every file of the user's own that it imports,
wherever the import stands. For a class typed into a notebook, it is the class's own text and
everything in the notebook that it uses, followed through functions, classes and plain values.
Objects without a text are refused.
"""

import ast
import hashlib
import linecache
import os
import site
import symtable
import sys
import sysconfig
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from recollect.errors import SpecError

_PACKAGE = Path(__file__).resolve().parents[2]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


@dataclass(frozen=True)
class FileSource:
    """Files as they were when the mixer was registered; the loaded code does not change."""

    file: Path
    text: str
    imported: dict[str, tuple[Path, str]]  # by module name: the file and the digest of its content
    closed_over: str = ""  # values that a class takes from a function around it, and its line

    @property
    def files(self) -> tuple[Path, ...]:
        return self.file, *(path for path, _ in self.imported.values())

    def digest(self) -> str:
        parts = [f"\0{name}\0{content}" for name, (_, content) in sorted(self.imported.items())]
        return _sha("".join([self.text, *parts, self.closed_over]))[:16]

    def require_unchanged(self) -> None:
        """Refuse if a file differs from what was loaded: either version's digest could be wrong."""
        now = {self.file: _sha(self.text)} | dict(self.imported.values())
        changed = [path for path, content in now.items() if _content(path) != content]
        if changed:
            raise SpecError(
                f"{shown(changed[0])}: changed since it was loaded; load it again: restart, or run "
                "again what registers the mixer"
            )


@dataclass(frozen=True)
class LiveSource:
    """A class without a file. It is examined again each time: what it uses may be redefined."""

    module: type[nn.Module]
    files: tuple[Path, ...] = ()

    def digest(self) -> str:
        return _sha("\0".join(_live_texts(self.module, {})))[:16]

    def require_unchanged(self) -> None:
        """Do nothing: every digest is computed from the current state."""


Source = FileSource | LiveSource


def source_of(module: type[nn.Module], before: "tuple[type, Source] | None" = None) -> Source:
    """Return where the text of a class is; `before` is what its name referred to until now.

    A file that defines a name twice, such as a notebook saved as a script, has one text and two
    classes: the later one is identified by its line as well.
    """
    file = _file_of(sys.modules.get(module.__module__))
    code_files = {function.__code__.co_filename for function in _functions(module)}
    if file is None or (code_files and str(file) not in {_resolved(name) for name in code_files}):
        return LiveSource(module)
    found = FileSource(file, _text(file), _imported_by(file), _closed_over(module))
    if before is None or not isinstance(before[1], FileSource) or before[1].text != found.text:
        return found
    lines, known = (min(_first_lines(one), default=0) for one in (module, before[0]))
    return found if lines == known else replace(found, closed_over=f"{found.closed_over}\0{lines}")


def own_modules(folder: Path) -> dict[str, Path]:
    """Return the loaded modules that are the user's own code, by name."""
    # Paths are compared as text first: thousands of modules are loaded, and resolving a path reads
    # the disk.
    known = tuple(f"{path}{os.sep}" for path in _libraries() if not folder.is_relative_to(path))
    found = {
        name: _file_of(module)
        for name, module in list(sys.modules.items())
        if name not in ("__main__", "__mp_main__")
        and not str(getattr(module, "__file__", None)).startswith(known)
    }
    return {name: path for name, path in found.items() if path is not None and is_own(path, folder)}


def is_own(path: Path, folder: Path) -> bool:
    """Whether a file is in the plug-in's folder, or outside of all places of installed packages."""
    inside = path.is_relative_to(folder)
    return not any(
        path.is_relative_to(library) and not (inside and folder.is_relative_to(library))
        for library in _libraries()
    )


def shown(path: Path) -> str:
    """Return a path in its shortest form relative to the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


@cache
def _libraries() -> tuple[Path, ...]:
    """Return the places of code that its version identifies: Python, installed packages, this
    one.
    """
    paths = sysconfig.get_paths()
    named = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    named += [*site.getsitepackages(), site.getusersitepackages()]
    return _PACKAGE, *dict.fromkeys(Path(name).resolve() for name in named)


# ---- files ----


def _imported_by(first: Path) -> dict[str, tuple[Path, str]]:
    """Return the user's own files that a file imports, directly or indirectly, by module name."""
    found: dict[str, tuple[Path, str]] = {}
    waiting: list[tuple[Path, str]] = [(first, "")]  # a file and the package that contains it
    while waiting:
        file, package = waiting.pop()
        for name in _imported_names(file, package):
            path = _locate(name, first.parent)
            if path is None or name in found or path == first or not is_own(path, first.parent):
                continue
            found[name] = (path, _content(path))
            if path.suffix == ".py":
                parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
                waiting.append((path, parent))
    return found


def _imported_names(file: Path, package: str) -> Iterator[str]:
    """Yield every module that a file's import statements may refer to, enclosing packages first."""
    for node in ast.walk(ast.parse(_text(file), str(file))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            names = [f"{base}.{alias.name}".lstrip(".") for alias in node.names]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _locate(name: str, folder: Path) -> Path | None:
    """Return the file of a module, loaded or where an import would find it; import nothing."""
    loaded = _file_of(sys.modules.get(name))
    if loaded is not None:
        return loaded
    for root in [folder, *map(Path, filter(None, sys.path))]:
        stem = root.joinpath(*name.split("."))
        for path in (stem / "__init__.py", stem.with_suffix(".py")):
            if path.is_file():
                return path.resolve()
    return None


def _file_of(module: ModuleType | None) -> Path | None:
    name = getattr(module, "__file__", None)
    path = Path(name).resolve() if isinstance(name, str) else None
    return path if path is not None and path.is_file() else None


def _resolved(name: str) -> str:
    return str(Path(name).resolve())


def _text(path: Path) -> str:
    """Return the text with plain line ends and one at the end, whatever editor wrote it."""
    with tokenize.open(path) as file:
        text = file.read()
    return text if text.endswith("\n") else text + "\n"


def _content(path: Path) -> str:
    """Return the digest of a file; empty if the file is gone."""
    if not path.is_file():
        return ""
    return (
        _sha(_text(path)) if path.suffix == ".py" else hashlib.sha256(path.read_bytes()).hexdigest()
    )


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ---- what a class takes from its surroundings ----


def _functions(owner: type) -> list[FunctionType]:
    """Return the functions that the class itself defines."""
    values = [
        part
        for value in vars(owner).values()
        for part in (
            [value.fget, value.fset]
            if isinstance(value, property)
            else [getattr(value, "__func__", value)]
        )
    ]
    return [value for value in values if isinstance(value, FunctionType)]


def _first_lines(owner: type) -> list[int]:
    return [function.__code__.co_firstlineno for function in _functions(owner)]


def _closed_over(module: type[nn.Module]) -> str:
    """Return the values that methods take from a function around the class, as text."""
    values = {
        f"{module.__name__} uses {name}": cell.cell_contents
        for function in _functions(module)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        )
        if name != "__class__"
    }
    texts = [f"{where} = {_plain_text(value, where)}" for where, value in sorted(values.items())]
    return "".join(f"\0{text}" for text in texts)


def _live_texts(value: Any, seen: dict[int, Any]) -> Iterator[str]:
    """Yield the text of a class or function, then the texts of everything it uses."""
    if id(value) in seen:
        return
    seen[id(value)] = value  # a reference, so that its id is not reused
    functions = _functions(value) if isinstance(value, type) else [value]
    segment = _segment(value, functions)
    yield segment
    if isinstance(value, type):
        yield _closed_over(value)
    names = functions[0].__globals__
    for name in sorted(_globals_used(segment)):
        if name in names:
            yield from _used_texts(names[name], f"{value.__name__} uses {name}", names, seen)


def _used_texts(
    value: Any, where: str, names: dict[str, Any], seen: dict[int, Any]
) -> Iterator[str]:
    home = getattr(value, "__module__", None)
    if isinstance(value, ModuleType) or (callable(value) and home != names.get("__name__")):
        module = value if isinstance(value, ModuleType) else sys.modules.get(str(home))
        file = _file_of(module)
        yield f"{where} of {getattr(module, '__name__', home)}.{getattr(value, '__qualname__', '')}"
        if file is not None and not _is_library(file):
            yield "".join([_content(file), *(text for _, text in _imported_by(file).values())])
    elif isinstance(value, FunctionType | type):
        yield from _live_texts(value, seen)
    else:
        yield f"{where} = {_plain_text(value, where)}"


def _is_library(path: Path) -> bool:
    return any(path.is_relative_to(library) for library in _libraries())


def _segment(value: Any, functions: list[FunctionType]) -> str:
    """Return the lines of a definition including its decorators."""
    name = value.__name__
    for function in functions:
        code = function.__code__
        text = "".join(linecache.getlines(code.co_filename))
        try:
            nodes = list(ast.walk(ast.parse(text)))
        except SyntaxError:  # a cell with magic commands; Python compiled other lines
            continue
        for node in nodes:
            kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            if not isinstance(node, kinds) or node.name != name:
                continue
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first <= code.co_firstlineno <= (node.end_lineno or first):
                lines = text.splitlines(keepends=True)[first - 1 : node.end_lineno]
                return textwrap.dedent("".join(lines))
    raise SpecError(
        f"mixer {name}: its text cannot be found, so results could not be told from those of "
        "another version\nput it into a file and name that with --plugin FILE.py (in Python: "
        "plugins=[...])"
    )


def _globals_used(segment: str) -> set[str]:
    """Return the names that a definition takes from the module around it."""

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and symbol.is_global():
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child)

    return set(walk(symtable.symtable(segment, "<cell>", "exec")))


def _plain_text(value: Any, where: str) -> str:
    """Return the text of a value that its text describes completely."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple | set | frozenset | dict):
        entries = sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)
        inner = [_plain_text(entry, where) for entry in entries]
        values = (
            [_plain_text(entry, where) for entry in value.values()]
            if isinstance(value, dict)
            else []
        )
        return f"{type(value).__name__}({inner}, {values})"
    if isinstance(value, ModuleType | type | FunctionType):
        return f"{getattr(value, '__module__', '')}.{value.__name__}"
    raise SpecError(
        f"mixer: {where}, a {type(value).__name__} from outside the class, which a digest cannot "
        "tell from another one\nmake it in __init__, or put the mixer into a file and name that "
        "with --plugin FILE.py"
    )
