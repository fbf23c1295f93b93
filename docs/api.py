"""Write docs/api.md, the Python interface, from docstrings: make docs."""

import ast
import inspect
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recollect

HERE = Path(__file__).parent
HEAD = """# Python interface

Made from docstrings by `make docs`. `import recollect` loads nothing heavy; each name is imported
when it is first used.
"""


def page() -> str:
    names = [name for name in recollect.__all__ if name != "__version__"]
    return "\n".join([HEAD, *(_entry(name, getattr(recollect, name)) for name in names)])


def _entry(name: str, value: Any) -> str:
    kind = "class " if inspect.isclass(value) else ""
    parts = [f"## `recollect.{name}`", _signature(kind, name, value), _text(value)]
    if inspect.isclass(value) and value.__module__ != "recollect.spec.run":
        parts += [
            f"### `{name}.{method}`\n\n{_signature('', f'{name}.{method}', found)}\n\n"
            f"{_text(found)}"
            for method, found in _methods(value)
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _text(value: Any) -> str:
    """Its docstring, examples as blocks."""
    parts = (inspect.getdoc(value) or "").split("\n\n")
    return "\n\n".join(f"```pycon\n{one}\n```" if one.startswith(">>>") else one for one in parts)


def _methods(value: type) -> list[tuple[str, Any]]:
    return [
        (name, getattr(value, name))
        for name, found in vars(value).items()
        if not name.startswith("_") and inspect.isroutine(getattr(value, name)) and found
    ]


def _signature(kind: str, name: str, value: Any) -> str:
    """As it is written: annotations and defaults by their names."""
    if kind:
        return ""  # made by other calls, never by hand
    function = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    own = [one for one in arguments.args if one.arg not in ("self", "cls")]
    defaults = [None] * (len(own) - len(arguments.defaults)) + arguments.defaults
    written = _written(own, defaults)
    if arguments.vararg:
        written.append(f"*{ast.unparse(arguments.vararg)}")
    if arguments.kwonlyargs:
        written += ["*", *_written(arguments.kwonlyargs, arguments.kw_defaults)]
    short = f"{name}({', '.join(written)})"
    lines = [f"{name}(", *(f"    {one}," for one in written), ")"]
    return "```python\n" + (short if len(short) <= 96 else "\n".join(lines)) + "\n```"


def _written(names: Sequence[ast.arg], defaults: Sequence[ast.expr | None]) -> list[str]:
    return [
        ast.unparse(one) + (f" = {ast.unparse(default)}" if default else "")
        for one, default in zip(names, defaults, strict=True)
    ]


if __name__ == "__main__":
    (HERE / "api.md").write_text(page())
