"""Names of cells, made from the settings that tell the cells apart, and the description of a sweep.

Both are defined only here: the page's axes and the study's figures are built on this file.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.analysis.mixer_options import (
    MIXER_OPTIONS,
    WITH,
    WITHOUT,
    has_part,
    is_usual,
    part_text,
)
from recollect.analysis.settings import DEPTH, MIXER, WIDTH, canonical, cell_settings, flatten
from recollect.analysis.wording import labelled, spaced, value_text
from recollect.rows import RunRow
from recollect.spec.cell import cell_id
from recollect.spec.recipes import RECIPES, compared_keys, recipe_of

RECIPE = "recipe"  # stands for all settings that the label of a recipe accounts for
# A name mentions these before any other key that tells the same cells apart.
FIRST_KEYS = ("task.name", "task.length", "task.pairs", WIDTH, DEPTH, RECIPE)
SIZES = ("task.length", "task.max_length", WIDTH, DEPTH)  # sizes that an option may grow with
SECTIONS = ("task", "model", "train")
MOST_VALUES = 6  # a varied setting with more values is shown as a range

Settings = Mapping[str, Any]  # by flat key
Told = tuple[tuple[str, str], ...]  # flat keys, each with its value as text


@dataclass(frozen=True)
class Fact:
    """One line of a description: its topic and its text."""

    topic: str
    text: str


# ---- what differs ----


def differing_keys(cells: Sequence[Settings]) -> set[str]:
    """Return the keys that have more than one value; a missing key counts as None."""
    keys = {key for cell in cells for key in cell}
    return {key for key in keys if len({canonical(cell.get(key)) for cell in cells}) > 1}


def telling_keys(
    cells: Sequence[Settings], known: Sequence[tuple[str, ...]], keys: Iterable[str]
) -> list[str]:
    """Return the members of `keys` that are needed to tell all cells apart, tried in the given
    order.

    `known` is what a name says about each cell already. A key is kept only if it separates cells
    that nothing before it separates; a setting that follows from the mixer or from the length is
    left out.
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
    """Map each dotted key to its last part, or to the whole key where two keys end alike."""
    keys = list(dict.fromkeys(keys))
    ends = Counter(_end(key) for key in keys)
    return {key: _end(key) if ends[_end(key)] == 1 else key for key in keys}


def settings_text(
    cell: Settings, labels: Mapping[str, str], word: Callable[[Any], str] = value_text
) -> str:
    """Return the values of the keys in `labels`, each with its label: "width 64, kernel 4"."""
    return ", ".join(text for _, text in _told(cell, labels, word))


def settings_told(
    cells: Sequence[Settings], keys: Iterable[str], labels: Mapping[str, str] | None = None
) -> list[Told]:
    """Return for each cell the values of `keys` as words, each with its key.

    A mixer's usual options are left out, an option that adds or removes a part is worded as such,
    and numbers are rounded, unless two cells would then read alike. `labels` replace the last parts
    of keys.
    """
    named = short_labels(keys) | dict(labels or {})
    whole = [_told(cell, named, canonical) for cell in cells]
    for word in (value_text, canonical):
        said = [
            tuple(
                (key, _part(cell, key) or text)
                for key, text in _told(cell, named, word)
                if not is_usual(cell, key)
            )
            for cell in cells
        ]
        if len(set(said)) == len(set(whole)):
            return said
    return whole


def settings_texts(
    cells: Sequence[Settings], keys: Iterable[str], labels: Mapping[str, str] | None = None
) -> list[str]:
    """Return what `settings_told` returns, joined to one text per cell."""
    return [", ".join(text for _, text in told) for told in settings_told(cells, keys, labels)]


def _told(cell: Settings, labels: Mapping[str, str], word: Callable[[Any], str]) -> Told:
    return tuple(
        (key, labelled(label, word(cell[key]))) for key, label in labels.items() if key in cell
    )


def _part(cell: Settings, key: str) -> str:
    return part_text(str(cell.get(MIXER)), key, cell[key])


# ---- names of cells ----


def named_keys(
    cells: Sequence[Settings], known: Sequence[tuple[str, ...]], keys: Sequence[str]
) -> list[str]:
    """Return the members of `keys` that names mention, where `known` is said about each cell
    already.

    These are the keys that tell cells apart, the keys that tell the variants of a mixer apart (even
    where sizes do so too), and every key that adds or removes a part: the name of a cell without
    its convolution must not read like the name of one that has it.
    """
    mixers = [(canonical(cell.get(MIXER)),) for cell in cells]
    options = [key for key in keys if key.startswith(MIXER_OPTIONS) and not _grows(key, cells)]
    needed = {
        *telling_keys(cells, known, keys),
        *telling_keys(cells, mixers, options),
        *(key for key in keys if any(has_part(cell, key) for cell in cells)),
    }
    return [key for key in keys if key in needed]


def name_cells(cells: Sequence[Settings]) -> list[tuple[str, str]]:
    """Return (mixer, setting) for each cell, e.g. ("mamba", "width 64").

    The names are the shortest that differ, but always mention what tells the variants of a mixer
    apart.
    """
    by_mixer: dict[str, list[int]] = {}
    for place, cell in enumerate(cells):
        by_mixer.setdefault(_mixer(cell), []).append(place)
    keys = _keys(cells)
    kept = named_keys(cells, [(_mixer(cell),) for cell in cells], keys)
    names = [("", "")] * len(cells)
    for mixer, places in by_mixer.items():
        own = [cells[place] for place in places]
        # An option that only tells the cells of another mixer apart is left out.
        differing = differing_keys(own)
        said = [
            key
            for key in kept
            if not key.startswith(MIXER_OPTIONS)
            or key in differing
            or any(has_part(cell, key) for cell in own)
        ]
        for place, text in zip(places, settings_texts(own, said), strict=True):
            names[place] = mixer, text
    return names


def name_specs(specs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the names of the cells with these specifications."""
    return name_cells(told_settings(specs))


def told_settings(
    specs: Sequence[Mapping[str, Any]], unsaid: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the settings of each cell that its name may mention, without the keys `unsaid`.

    Where cells of one mixer differ in several choices of recipes, the recipe replaces them: names
    say "recipe zoology" for "data fixed, block mixer, dropout 0".
    """
    cells = [
        {key: value for key, value in cell_settings(spec).items() if key not in unsaid}
        for spec in specs
    ]
    recipes = [recipe_of(spec, unsaid) for spec in specs]
    compared = [compared_keys(spec) for spec in specs]
    short = [
        {key: value for key, value in cell.items() if key not in own} | {RECIPE: recipe}
        for cell, own, recipe in zip(cells, compared, recipes, strict=True)
    ]
    by_mixer: dict[str, list[Settings]] = {}
    for cell in cells:
        by_mixer.setdefault(_mixer(cell), []).append(cell)
    differing = set[str]().union(*map(differing_keys, by_mixer.values()))
    is_shorter = len(differing & set[str]().union(*compared)) > 1
    has_recipe = any(recipe in RECIPES for recipe in recipes)
    is_enough = len(set(map(canonical, short))) == len(set(map(canonical, cells)))
    return short if is_shorter and has_recipe and is_enough else cells


def _mixer(cell: Settings) -> str:
    return str(cell.get(MIXER, "model"))


def _keys(cells: Sequence[Settings]) -> list[str]:
    """All keys but the mixer's name, in the order in which names mention them."""
    return sorted({key for cell in cells for key in cell} - {MIXER}, key=_rank)


def _grows(key: str, cells: Sequence[Settings]) -> bool:
    """Whether an option grows with one of the sizes, as heads grow with the width; that size then
    implies the option's value.
    """
    by_mixer: dict[str, list[Settings]] = {}
    for cell in cells:
        by_mixer.setdefault(canonical(cell.get(MIXER)), []).append(cell)
    having = [own for own in by_mixer.values() if any(key in cell for cell in own)]
    return all(any(_rises(key, size, own) for size in SIZES) for own in having)


def _rises(key: str, size: str, cells: Sequence[Settings]) -> bool:
    pairs: list[tuple[Any, Any]] = [(cell.get(size), cell.get(key)) for cell in cells]
    if not all(_is_number(value) for pair in pairs for value in pair):
        return False
    ordered = sorted(set(pairs))
    values = [value for _, value in ordered]
    return len({size for size, _ in ordered}) == len(ordered) and values == sorted(values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def names_by_run(rows: Iterable[RunRow]) -> dict[str, str]:
    """Map each run id to the name of the run's cell; two variants of one mixer have two names."""
    members = rows_by_cell(rows)
    names = name_specs([own[0].spec for own in members])
    return {
        row.run_id: join_name(*name)
        for name, own in zip(names, members, strict=True)
        for row in own
    }


def rows_by_cell(rows: Iterable[RunRow]) -> list[list[RunRow]]:
    """The rows of each cell, in the order of their first runs."""
    members: dict[str, list[RunRow]] = {}
    for row in rows:
        members.setdefault(cell_id(row.spec), []).append(row)
    return list(members.values())


def join_name(mixer: str, setting: str) -> str:
    """Join both parts to one name: "mamba, width 64", "mamba without convolution"."""
    if not setting:
        return mixer
    return f"{mixer}{' ' if setting.startswith((WITHOUT, WITH)) else ', '}{setting}"


# ---- the description of a sweep ----


def describe(specs: Sequence[dict[str, Any]]) -> list[Fact]:
    """Return what all runs share (by section), what is specific to each mixer, and what varies."""
    flats = [flatten(spec) for spec in specs]
    by_mixer: dict[str, list[dict[str, Any]]] = {}
    for flat in flats:
        by_mixer.setdefault(value_text(flat.get(MIXER, "model")), []).append(flat)
    values, own = _values(flats), {mixer: _values(group) for mixer, group in by_mixer.items()}
    varying = {key for key, found in values.items() if len(found) > 1}
    # Options of a mixer, and settings that are constant over its runs but differ between mixers,
    # such as the kind of block.
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
    """Return the settings of one section that are the same in all runs."""
    own = [key for key in fixed if key.startswith(f"{section}.")]
    # Seeds and other keys outside of the three sections belong to the recipe.
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
    """Sort FIRST_KEYS first, then section by section."""
    rank = FIRST_KEYS.index(key) if key in FIRST_KEYS else len(FIRST_KEYS)
    section = key.split(".")[0]
    return rank, SECTIONS.index(section) if section in SECTIONS else len(SECTIONS), key


def _end(key: str) -> str:
    return key.split(".")[-1]
