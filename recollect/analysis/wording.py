"""Numbers, counts and settings as the page and the terminal write them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recollect.analysis.settings import canonical
from recollect.rows import Status

MOST_RECIPES = 4  # that one line lists
_ORDER: tuple[Status, ...] = ("done", "diverged", "failed", "running", "todo")


def rate_text(rate: float) -> str:
    """Return 0.003 as 3e-3, with at most three digits: 4.64e-4."""
    mantissa, exponent = f"{rate:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def score_text(score: float) -> str:
    """Return three decimals; a score that is not perfect is never rounded up to 1.000."""
    return f"{min(score, 0.999):.3f}" if score < 1 else "1.000"


def and_text(texts: Sequence[str]) -> str:
    """Return "a, b and c"."""
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def count_text(count: int, noun: str) -> str:
    """Return "1 run", "2 runs", "10,000 runs"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def time_text(seconds: float) -> str:
    """Return "12 s", "3 min 20 s", "1 h 5 min" or "under a second"."""
    if seconds < 1:
        return "under a second"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def about_text(seconds: float) -> str:
    """Return an estimate: "about 12 s", "under a second"."""
    return f"about {time_text(seconds)}" if seconds >= 1 else time_text(seconds)


def between_text(likely_s: float | None, most_s: float) -> str:
    """Return an estimate and its limit: "about 20 min 0 s, at most 1 h 5 min"."""
    most = f"at most {time_text(most_s)}"
    return most if likely_s is None or likely_s >= most_s else f"{about_text(likely_s)}, {most}"


def counts_text(counts: Mapping[Status, int]) -> str:
    """Return the planned runs as a sum over all statuses, so that no run is overlooked."""
    return f"{sum(counts.values())} planned = " + " + ".join(
        f"{counts[status]} {status}" for status in _ORDER
    )


def short_counts_text(counts: Mapping[Status, int]) -> str:
    """Return the same without statuses that no run has: "78 runs, 61 done, 17 todo"."""
    there = [f"{counts[status]:,} {status}" for status in _ORDER if counts[status]]
    return ", ".join([count_text(sum(counts.values()), "run"), *there])


def recipes_text(labels: Iterable[str]) -> str:
    """Return the number of runs per recipe, largest first: "study 351, study but dropout=0 33"."""
    counts = Counter(labels).most_common()
    said = [f"{label} {count:,}" for label, count in counts[:MOST_RECIPES]]
    others = len(counts) - len(said)
    return "; ".join([*said, *([count_text(others, "other")] if others else [])])


def value_text(value: Any) -> str:
    """Return a setting's value in the form a reader would write."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.6g}" if value == 0 or 0.1 <= abs(value) < 1000 else rate_text(value)
    if isinstance(value, list | tuple):
        return "/".join(value_text(entry) for entry in value) or "none"
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        options = ", ".join(
            labelled(key, value_text(inner)) for key, inner in value.items() if key != "name"
        )
        return f"{value['name']} ({options})" if options else value["name"]
    if isinstance(value, dict):
        return canonical(value)
    return "none" if value is None else str(value)


def setting_text(key: str, value: Any) -> str:
    """Return one setting with the last part of its key: "weight decay 0.1"."""
    return labelled(key.split(".")[-1], value_text(value))


def labelled(label: str, text: str) -> str:
    """Return a value with its label in front, "weight decay 0.1"; a name gets no label."""
    return text if label.split(".")[-1] == "name" else f"{spaced(label)} {text}"


def spaced(label: str) -> str:
    """Return weight_decay as "weight decay"."""
    return label.replace("_", " ").replace(".", " ")
