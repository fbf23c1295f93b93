"""What tells cells apart, and their names made from it; the description of a sweep.

This is the only definition of both: the page's axes and the study's figures are built on it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.analysis.settings import DEPTH, MIXER, WIDTH, canonical, cell_settings, flatten
from recollect.analysis.wording import labelled, spaced, value_text
from recollect.rows import RunRow
from recollect.spec.cell import cell_id

MIXER_OPTIONS = "model.mixer."
# A name mentions these before any other key that tells the same cells apart.
FIRST_KEYS = ("task.name", "task.length", "task.pairs", WIDTH, DEPTH)
SECTIONS = ("task", "model", "train")
MOST_VALUES = 6  # of a varied setting that are listed one by one

Settings = Mapping[str, Any]  # by flat key
Told = tuple[tuple[str, str], ...]  # flat keys, each with its value as text


@dataclass(frozen=True)
class Fact:
    """One line of a description: what it is about, and what holds."""

    topic: str
    text: str


# ---- what differs ----


def differing_keys(cells: Sequence[Settings]) -> set[str]:
    """The keys that have more than one value; a missing one counts as None."""
    keys = {key for cell in cells for key in cell}
    return {key for key in keys if len({canonical(cell.get(key)) for cell in cells}) > 1}


def telling_keys(
    cells: Sequence[Settings], known: Sequence[tuple[str, ...]], keys: Iterable[str]
) -> list[str]:
    """Those of `keys`, tried in their order, that are needed to tell all cells apart.

    `known` is what is said of each cell already. A key is kept only if it separates cells that
    nothing before it does: what follows from the mixer or from the length goes unsaid.
    """
    groups, kept = list(known), []
    for key in keys:
        refined = [
            (*group, canonical(cell.get(key))) for group, cell in zip(groups, cells, strict=True)
        ]
        if len(set(refined)) > len(set(groups)):
            groups = refined
            kept.append(key)
    return kept


def short_labels(keys: Iterable[str]) -> dict[str, str]:
    """The last part of each dotted key, or the whole key where two end alike."""
    keys = list(dict.fromkeys(keys))
    ends = Counter(_end(key) for key in keys)
    return {key: _end(key) if ends[_end(key)] == 1 else key for key in keys}


def settings_text(
    cell: Settings, labels: Mapping[str, str], word: Callable[[Any], str] = value_text
) -> str:
    """The values of some keys, given with their labels: "width 64, kernel 4"."""
    return ", ".join(text for _, text in _told(cell, labels, word))


def settings_told(cells: Sequence[Settings], keys: Iterable[str]) -> list[Told]:
    """The texts that `settings_text` joins, of each cell and with their keys; exact where rounding
    would make two cells read alike.
    """
    labels = short_labels(keys)
    short, exact = (
        [_told(cell, labels, word) for cell in cells] for word in (value_text, canonical)
    )
    return short if len(set(short)) == len(set(exact)) else exact


def settings_texts(cells: Sequence[Settings], keys: Iterable[str]) -> list[str]:
    """The same as one text a cell."""
    return [", ".join(text for _, text in told) for told in settings_told(cells, keys)]


def _told(cell: Settings, labels: Mapping[str, str], word: Callable[[Any], str]) -> Told:
    return tuple(
        (key, labelled(label, word(cell[key]))) for key, label in labels.items() if key in cell
    )


# ---- names of cells ----


def name_cells(cells: Sequence[Settings]) -> list[tuple[str, str]]:
    """(mixer, setting) of each cell, e.g. ("mamba", "width 64"): the shortest that differ, and
    always what tells the variants of a mixer apart.
    """
    mixers = [str(cell.get(MIXER, "model")) for cell in cells]
    keys = sorted({key for cell in cells for key in cell} - {MIXER}, key=_rank)
    known = [(mixer,) for mixer in mixers]
    # A cell without its convolution must not read as one with it, even where sizes differ too.
    variants = telling_keys(cells, known, [key for key in keys if key.startswith(MIXER_OPTIONS)])
    needed = {*telling_keys(cells, known, keys), *variants}
    kept = [key for key in keys if key in needed]
    # An option that only tells the cells of another mixer apart goes unsaid.
    own = {
        mixer: differing_keys([c for m, c in zip(mixers, cells, strict=True) if m == mixer])
        for mixer in dict.fromkeys(mixers)
    }
    labels = {
        mixer: short_labels(
            key for key in kept if not key.startswith(MIXER_OPTIONS) or key in differing
        )
        for mixer, differing in own.items()
    }
    short, exact = (
        [(m, settings_text(cell, labels[m], word)) for m, cell in zip(mixers, cells, strict=True)]
        for word in (value_text, canonical)
    )
    return short if len(set(short)) == len(set(exact)) else exact


def names_by_run(rows: Iterable[RunRow]) -> dict[str, str]:
    """The name of each run's cell, by run id: two variants of one mixer have two names."""
    members: dict[str, list[RunRow]] = {}
    for row in rows:
        members.setdefault(cell_id(row.spec), []).append(row)
    names = name_cells([cell_settings(own[0].spec) for own in members.values()])
    return {
        row.run_id: join_name(*name)
        for name, own in zip(names, members.values(), strict=True)
        for row in own
    }


def join_name(mixer: str, setting: str) -> str:
    """A name in one piece: "mamba, width 64"."""
    return f"{mixer}, {setting}" if setting else mixer


# ---- the description of a sweep ----


def describe(specs: Sequence[dict[str, Any]]) -> list[Fact]:
    """What all runs share, section by section; what goes with each mixer; what was varied."""
    flats = [flatten(spec) for spec in specs]
    by_mixer: dict[str, list[dict[str, Any]]] = {}
    for flat in flats:
        by_mixer.setdefault(value_text(flat.get(MIXER, "model")), []).append(flat)
    values, own = _values(flats), {mixer: _values(group) for mixer, group in by_mixer.items()}
    varying = {key for key, found in values.items() if len(found) > 1}
    # Options of a mixer, and whatever is the same in all its runs but not in those of others, such
    # as its kind of block.
    constant = {
        key for key in varying if all(len(found.get(key, ())) <= 1 for found in own.values())
    }
    of_mixers = {key for key in values if key.startswith(MIXER_OPTIONS)} | constant
    fixed = {key: found[0] for key, found in values.items() if key not in varying | of_mixers}
    facts = [_section_fact(section, fixed) for section in SECTIONS]
    facts.append(Fact("mixers" if len(own) > 1 else "mixer", ", ".join(own)))
    for mixer, found in own.items():
        facts.append(Fact(mixer, _values_text(found, of_mixers - {MIXER})))
    facts.append(Fact("varied", _values_text(values, varying - of_mixers)))
    return [fact for fact in facts if fact.text]


def _section_fact(section: str, fixed: Settings) -> Fact:
    """The settings of one section that never change."""
    own = [key for key in fixed if key.startswith(f"{section}.")]
    # Seeds and other keys outside the three sections belong to how a run was made.
    rest = [key for key in fixed if section == "train" and key.split(".")[0] not in SECTIONS]
    texts = [
        labelled(key.removeprefix(f"{section}."), value_text(fixed[key])) for key in [*own, *rest]
    ]
    return Fact({"train": "recipe"}.get(section, section), ", ".join(texts))


def _values(flats: Sequence[Settings]) -> dict[str, list[Any]]:
    """Every key with its distinct values, numbers in ascending order."""
    found: dict[str, dict[str, Any]] = {}
    for flat in flats:
        for key, value in flat.items():
            found.setdefault(key, {}).setdefault(canonical(value), value)
    return {key: _in_order(list(found[key].values())) for key in sorted(found, key=_rank)}


def _in_order(values: list[Any]) -> list[Any]:
    return sorted(values) if all(isinstance(value, int | float) for value in values) else values


def _values_text(values: Mapping[str, list[Any]], keys: Collection[str]) -> str:
    labels = short_labels(key for key in values if key in keys)
    return "; ".join(_varied(label, values[key]) for key, label in labels.items())


def _varied(label: str, values: list[Any]) -> str:
    label = "learning rate" if label == "lr" else spaced(label)
    if len(values) <= MOST_VALUES:
        return f"{label} {', '.join(value_text(value) for value in values)}"
    return f"{label}: {len(values)} values from {value_text(values[0])} to {value_text(values[-1])}"


def _rank(key: str) -> tuple[int, int, str]:
    """Sorts FIRST_KEYS first, then section by section."""
    rank = FIRST_KEYS.index(key) if key in FIRST_KEYS else len(FIRST_KEYS)
    section = key.split(".")[0]
    return rank, SECTIONS.index(section) if section in SECTIONS else len(SECTIONS), key


def _end(key: str) -> str:
    return key.split(".")[-1]
