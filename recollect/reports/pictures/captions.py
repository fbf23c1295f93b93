"""The small print of a picture: what is shown, the seeds, the recipe and, for two folders, the
differences between them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from recollect.analysis import Cell, count_text
from recollect.analysis.naming import short_labels
from recollect.analysis.settings import cell_settings
from recollect.analysis.wording import spaced, value_text
from recollect.plotting import small_print
from recollect.plotting.text import mixer_title, plain
from recollect.reports.pictures.shown import Panel, Shown

MOST_DIFFERENCES = 8


def caption(
    shown: Shown, what: str, panels: Sequence[Panel], shared: str, band: str | None = None
) -> list[str]:
    """The lines of the small print: `shared`, the text that all panels have in common, and `what`
    the picture shows; then seeds, runs, recipe, and the differences between two folders.
    """
    first = f"{shared}. {what}" if shared else what
    if band is not None:
        first += " " + small_print.averaged_text(shown.runs, band)
    lines = [first, f"{_seeds(panels)}{small_print.results_text(shown.planned)}{_waiting(shown)}"]
    lines.append(f"Recipe: {small_print.recipe_text([cell.rows[0].spec for cell in shown.runs])}.")
    drawn = {mixer_title(cell.place.mixer) for cell in shown.cells}
    lines += [
        f"{mixer}: {values}, unless its label says otherwise."
        for mixer, values in shown.unsaid
        if mixer in drawn
    ]
    if shown.is_comparison:
        lines.append(_difference(shown))
    for source in shown.sources:
        if source.left_out:
            of = f" of {plain(source.name)}" if shown.is_comparison else ""
            lines.append(f"Left out{of}: {source.left_out}.")
    return lines


def _waiting(shown: Shown) -> str:
    drawn = {cell.label for cell in shown.cells}
    labels = [label for cell in shown.waiting if (label := cell.label) not in drawn]
    return f" No result yet: {', '.join(dict.fromkeys(labels))}." if labels else ""


def _seeds(panels: Sequence[Panel]) -> str:
    """The number of seeds of each panel, the most common one said once; empty if all panels have
    the same number.
    """
    counts = [_most_seeds([cell.runs for cell in panel.cells]) for panel in panels]
    if len(set(counts)) <= 1:
        return ""
    [(usual, times)] = Counter(counts).most_common(1)
    said_once = times > 1
    texts = [
        f"{panel.title}: {count_text(count, 'seed')}"
        for panel, count in zip(panels, counts, strict=True)
        if count != usual or not said_once
    ]
    if said_once:
        texts.append(f"every other panel: {count_text(usual, 'seed')}")
    return f"Seeds: {'; '.join(texts)}. "


def _most_seeds(cells: Sequence[Cell]) -> int:
    return max(len(rate.scores) for cell in cells for rate in cell.scored_rates)


def _difference(shown: Shown) -> str:
    """The settings in which the mixers that both folders have were trained differently."""
    values = [_values(shown, number) for number in range(len(shown.sources))]
    both = {mixer for mixer, _ in values[0]} & {mixer for mixer, _ in values[1]}
    keys = sorted(
        {
            key
            for mixer, key in {*values[0], *values[1]}
            if mixer in both and values[0].get((mixer, key)) != values[1].get((mixer, key))
        }
    )
    if not keys:
        return "" if not both else "Both folders hold the same settings."
    labels = short_labels(keys[:MOST_DIFFERENCES])
    texts = []
    for source, own in zip(shown.sources, values, strict=True):
        words = [
            f"{spaced(label)} {' or '.join(_of_key(own, key, both)) or 'none'}"
            for key, label in labels.items()
        ]
        texts.append(f"{plain(source.name)}: {', '.join(words)}")
    more = len(keys) - len(labels)
    return f"{'; '.join(texts)}{f'; {more} more settings differ' if more else ''}."


def _values(shown: Shown, number: int) -> dict[tuple[str, str], set[str]]:
    """By mixer and flat key: all values within one folder, as text."""
    found: dict[tuple[str, str], set[str]] = {}
    for cell in shown.cells:
        if cell.source == number:
            for key, value in cell_settings(cell.runs.rows[0].spec).items():
                found.setdefault((cell.place.mixer, key), set()).add(value_text(value))
    return found


def _of_key(values: Mapping[tuple[str, str], set[str]], key: str, mixers: set[str]) -> list[str]:
    return sorted({text for mixer in mixers for text in values.get((mixer, key), ())})
