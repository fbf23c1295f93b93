"""Shell completion: the names that a shell offers for arguments and options.

Each list is made when a shell asks for it, and its imports happen then; where it is empty, the
shell offers files.
"""

import contextlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from recollect.cli.printing import say

BREAKS = frozenset(":=")  # bash splits words at these, which values here may contain


def offer(names: Callable[[], Iterable[str]], or_files: bool = False) -> Callable[[str], list[str]]:
    """Return a completion for typer: the names that begin with what was typed. With `or_files` it
    offers no names before anything is typed, so that the shell offers files.
    """

    def complete(incomplete: str) -> list[str]:
        if or_files and not incomplete:
            return []
        return [name for name in names() if name.startswith(incomplete)]

    return complete


# ---- bash ----


@contextlib.contextmanager
def in_whole_words() -> Iterator[None]:
    """Pass whole words to typer when bash asks for a completion, and return to bash only the part
    of each answer that it lacks.

    Bash splits words at BREAKS and replaces only the last piece by an answer: "fig1" of
    "paper:fig1". No other shell splits words like this.
    """
    words = os.environ.get("COMP_WORDS", "").split("\n")  # separated as in typer's script
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
    """Join the pieces that bash has split to words. Also return the part of the last word that
    stays when its last piece is replaced.

    Bash does not report where blanks were; an empty piece begins a new word.
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
