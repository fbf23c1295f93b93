"""How the command line says things: plain lines, complaints on standard error, tables."""

import sys
from typing import Any


def say(text: str) -> None:
    print(text, flush=True)


def complain(text: str) -> None:
    print(f"recollect: {text}", file=sys.stderr, flush=True)


def show_step(text: str, is_last: bool = True) -> None:
    """On a terminal, a line on standard error; the next one overwrites it unless it is the last."""
    if sys.stderr.isatty():
        print(f"\r{text}", end="\n" if is_last else "", file=sys.stderr, flush=True)


def render(renderable: Any) -> None:
    """A table, or something else that rich draws."""
    from rich.console import Console

    # A pipe wants whole lines.
    Console(width=None if sys.stdout.isatty() else 200).print(renderable)


def write(text: str) -> None:
    """Text that ends its own lines."""
    sys.stdout.write(text)
