"""Places in the user's own files, for messages that name file and line."""

import ast
import inspect
import linecache
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from torch import nn

from recollect.mixers.plugins.identity import is_own, shown


@dataclass(frozen=True)
class Place:
    file: Path
    line: int

    def __str__(self) -> str:
        return f"{shown(self.file)}, line {self.line}"


def place_of(error: BaseException, folder: Path) -> Place | None:
    """Return the last of the user's own lines in an error's traceback."""
    return last_own(traceback.extract_tb(error.__traceback__), folder)


def last_own(frames: list[traceback.FrameSummary], folder: Path) -> Place | None:
    """Return the innermost frame in the user's own code."""
    own = [
        Place(Path(frame.filename), frame.lineno)
        for frame in frames
        if frame.lineno and _is_own_file(frame.filename, folder)
    ]
    return own[-1] if own else None


def _is_own_file(name: str, folder: Path) -> bool:
    """Whether a file is the user's own; a notebook's cell counts too, though it is not a file."""
    return not name.startswith("<frozen") and is_own(Path(name).resolve(), folder)


def place_in(module: type[nn.Module], text: str) -> Place | None:
    """Return the first line of a class that contains a text, else the first line of the class."""
    code = _own_code(module)
    if code is None:
        return None
    lines = linecache.getlines(code.co_filename)
    try:
        nodes = list(ast.walk(ast.parse("".join(lines))))
    except SyntaxError:
        nodes = []
    for node in nodes:
        if isinstance(node, ast.ClassDef) and node.name == module.__name__:
            last = node.end_lineno or node.lineno
            found = [at for at in range(node.lineno, last + 1) if text in lines[at - 1]]
            return Place(Path(code.co_filename), found[0] if found else node.lineno)
    return Place(Path(code.co_filename), code.co_firstlineno)


def _own_code(module: type[nn.Module]) -> CodeType | None:
    """Return the code of a method written in the class: an inherited forward is in another file."""
    methods = [*vars(module).values(), getattr(module, "forward", None)]
    functions = [inspect.unwrap(method) for method in methods if inspect.isfunction(method)]
    return functions[0].__code__ if functions else None
