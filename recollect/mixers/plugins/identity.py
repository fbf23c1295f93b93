"""What a mixer from outside is made of. The digest of its text is part of a run's identity, so that
a changed mixer is another run and never meets stale results.

A class in a file: that file, and every file of the user's own that it imports, wherever in it the
import stands. A class typed into a notebook: its own text, and whatever of the notebook it uses,
followed through functions, classes and plain values. What has no text to look at is refused.
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
    """Files as they were when the mixer was registered: what is loaded stays what it was."""

    file: Path
    text: str
    imported: dict[str, tuple[Path, str]]  # by module: the file and the digest of its content
    closed_over: str = ""  # what a class made inside a function took from there, and its line

    @property
    def files(self) -> tuple[Path, ...]:
        return self.file, *(path for path, _ in self.imported.values())

    def digest(self) -> str:
        parts = [f"\0{name}\0{content}" for name, (_, content) in sorted(self.imported.items())]
        return _sha("".join([self.text, *parts, self.closed_over]))[:16]

    def require_unchanged(self) -> None:
        """Refuse if a file is no longer what was loaded: a digest of either would be a guess."""
        now = {self.file: _sha(self.text)} | dict(self.imported.values())
        changed = [path for path, content in now.items() if _content(path) != content]
        if changed:
            raise SpecError(
                f"{shown(changed[0])}: changed since it was loaded; load it again: restart, or run "
                "again what registers the mixer"
            )


@dataclass(frozen=True)
class LiveSource:
    """A class without a file, looked at anew each time: what it uses may be defined again."""

    module: type[nn.Module]
    files: tuple[Path, ...] = ()

    def digest(self) -> str:
        return _sha("\0".join(_live_texts(self.module, self.module.__name__, {})))[:16]

    def require_unchanged(self) -> None:
        """There is nothing that could have changed unseen."""


Source = FileSource | LiveSource


def source_of(module: type[nn.Module], before: "tuple[type, Source] | None" = None) -> Source:
    """Where the text of a class is; `before` is what its name stood for until now. A file that
    gives a name twice, as a notebook saved as a script does, has one text and two classes: the
    later one is known by its line as well.
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
    """The modules loaded by now that are the user's own code, by name."""
    # By text first: thousands of modules are loaded, and to resolve a path asks the disk.
    known = tuple(f"{path}{os.sep}" for path in _libraries() if not folder.is_relative_to(path))
    found = {
        name: _file_of(module)
        for name, module in list(sys.modules.items())
        if name not in ("__main__", "__mp_main__")
        and not str(getattr(module, "__file__", None)).startswith(known)
    }
    return {name: path for name, path in found.items() if path is not None and is_own(path, folder)}


def is_own(path: Path, folder: Path) -> bool:
    """In the plug-in's folder, or outside all places where packages are installed."""
    inside = path.is_relative_to(folder)
    return not any(
        path.is_relative_to(library) and not (inside and folder.is_relative_to(library))
        for library in _libraries()
    )


def shown(path: Path) -> str:
    """A path as short as it can be written here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


@cache
def _libraries() -> tuple[Path, ...]:
    """Where code comes from that is known by its version: Python, installed packages, this one."""
    paths = sysconfig.get_paths()
    named = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    named += [*site.getsitepackages(), site.getusersitepackages()]
    return _PACKAGE, *dict.fromkeys(Path(name).resolve() for name in named)


# ---- files ----


def _imported_by(first: Path) -> dict[str, tuple[Path, str]]:
    """The user's own files that a file imports, directly or not, by the name of their module."""
    found: dict[str, tuple[Path, str]] = {}
    waiting: list[tuple[Path, str]] = [(first, "")]  # a file and the package it is in
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
    """Every module that import statements of a file may mean, the packages around it first."""
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
    """The file of a module: as loaded, or where an import would find it; nothing is imported."""
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
    """With plain line ends, and one at the end, whatever editor wrote it."""
    with tokenize.open(path) as file:
        text = file.read()
    return text if text.endswith("\n") else text + "\n"


def _content(path: Path) -> str:
    """The digest of a file; of one that is gone, nothing."""
    if not path.is_file():
        return ""
    return (
        _sha(_text(path)) if path.suffix == ".py" else hashlib.sha256(path.read_bytes()).hexdigest()
    )


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ---- what a class takes from around it ----


def _functions(owner: type) -> list[FunctionType]:
    """Those that the class itself defines."""
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
    """The values that methods take from a function around the class."""
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


def _live_texts(value: Any, where: str, seen: dict[int, Any]) -> Iterator[str]:
    """The text of a class or function, then of all it uses."""
    if id(value) in seen:
        return
    seen[id(value)] = value  # held, so that its address stays its own
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
        yield from _live_texts(value, where, seen)
    else:
        yield f"{where} = {_plain_text(value, where)}"


def _is_library(path: Path) -> bool:
    return any(path.is_relative_to(library) for library in _libraries())


def _segment(value: Any, functions: list[FunctionType]) -> str:
    """The lines of a definition, its decorators included."""
    name = value.__name__
    for function in functions:
        code = function.__code__
        text = "".join(linecache.getlines(code.co_filename))
        try:
            nodes = list(ast.walk(ast.parse(text)))
        except SyntaxError:  # a cell with magic commands: the lines that Python saw are elsewhere
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
    """Names that a definition takes from the module around it."""

    def walk(table: symtable.SymbolTable, is_top: bool) -> Iterator[str]:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (is_top or symbol.is_global()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child, False)

    return set(walk(symtable.symtable(segment, "<cell>", "exec"), True))


def _plain_text(value: Any, where: str) -> str:
    """A value that says all about itself, as text."""
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
