"""What a shell offers for the values of arguments and options: names that there are.

Each list is made when a shell asks for it, and imports what it needs then; where it is empty, the
shell offers files.
"""

import contextlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from recollect.cli.printing import say

BREAKS = frozenset(":=")  # bash breaks words there, and what is typed here may contain them


def offer(names: Callable[[], Iterable[str]], or_files: bool = False) -> Callable[[str], list[str]]:
    """For typer: those of the names that begin as what was typed; `or_files`: none before anything
    is typed.
    """

    def complete(incomplete: str) -> list[str]:
        if or_files and not incomplete:
            return []
        return [name for name in names() if name.startswith(incomplete)]

    return complete


# ---- bash ----


@contextlib.contextmanager
def in_whole_words() -> Iterator[None]:
    """Where bash asks, typer is told whole words, and bash the part of each answer that it lacks:
    it puts an answer in the place of the last piece alone, "fig1" of "paper:fig1". No other shell
    breaks words so.
    """
    words = os.environ.get("COMP_WORDS", "").split("\n")  # as typer's script joins them
    current = os.environ.get("COMP_CWORD", "")
    asked = os.environ.get("_RECOLLECT_COMPLETE") == "complete_bash"
    if not (asked and current.isdecimal() and int(current) < len(words)):
        yield
        return
    whole, kept = join_pieces(words[: int(current) + 1])
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(whole), f"{len(whole) - 1}"
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            yield
    finally:
        for answer in said.getvalue().splitlines():
            say(answer.removeprefix(kept))


def join_pieces(pieces: Sequence[str]) -> tuple[list[str], str]:
    """The words that bash has broken, and what stays of the last one when its last piece is
    replaced. Bash does not say where there were blanks; an empty piece is a new word.
    """
    words: list[str] = []
    for before, piece in pairwise(("", *pieces)):
        if piece and words and (_is_break(before) or _is_break(piece)):
            words[-1] += piece
        else:
            words.append(piece)
    last = pieces[-1]
    return words, words[-1] if _is_break(last) else words[-1].removesuffix(last)


def _is_break(piece: str) -> bool:
    return bool(piece) and BREAKS.issuperset(piece)


# ---- names ----


def mixers() -> Iterable[str]:
    from recollect.mixers.registry import MIXERS

    return MIXERS


def tasks() -> Iterable[str]:
    from recollect.tasks.options import TASKS

    return TASKS


def presets() -> Iterable[str]:
    from recollect.reports.paper.presets import EXPERIMENTS

    return [name for experiment in EXPERIMENTS for name in (experiment, f"{experiment}:small")]


def sweeps() -> Iterable[str]:
    from recollect.reports.paper.presets import PREFIX

    return (f"{PREFIX}{name}" for name in presets())


def recipes() -> Iterable[str]:
    from recollect.spec.recipes.recipe import NAMES

    return NAMES


def searches() -> Iterable[str]:
    from recollect.spec.sweep import SEARCHES

    return SEARCHES


def cards() -> Iterable[str]:
    from recollect.reports.score.card import CARDS

    return ("auto", *CARDS)


def figures() -> Iterable[str]:
    from recollect.reports.paper.figures.all_figures import FIGURES, OWN_FIGURES, TABLES
    from recollect.reports.pictures import KINDS

    return (*KINDS, *FIGURES, *TABLES, *OWN_FIGURES)


def bands() -> Iterable[str]:
    from recollect.analysis import BANDS

    return BANDS


def sizes() -> Iterable[str]:
    from recollect.reports.pictures.scaling import AXES

    return AXES


def forms() -> Iterable[str]:
    from recollect.reports.exports.request import FORMS

    return FORMS


def trackers() -> Iterable[str]:
    from recollect.reports.exports.trackers import TRACKERS

    return TRACKERS
