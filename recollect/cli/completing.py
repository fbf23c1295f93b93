"""What a shell offers for the values of arguments and options: names that there are.

Each list is made when a shell asks for it, and imports what it needs then; where it is empty, the
shell offers files.
"""

from collections.abc import Callable, Iterable


def offer(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """For typer: those of the names that begin as what was typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def mixers() -> Iterable[str]:
    from recollect.mixers.registry import MIXERS

    return MIXERS


def tasks() -> Iterable[str]:
    from recollect.tasks.options import TASKS

    return TASKS


def presets() -> Iterable[str]:
    from recollect.reports.paper.presets import NAMES

    return NAMES


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
