"""An inspection in a few lines of text, which fit a terminal of 80 columns."""

import math
import textwrap
from collections.abc import Mapping

from recollect.reports.inspect.record import InspectedLayer, Inspection
from recollect.reports.inspect.scores import DUPLICATE, INDUCTION, PREVIOUS, PREVIOUS_AT_VALUES

WHEN = ("first", "last")  # names of the moments
COLUMNS = 80
KEPT = "kept per token"


def summary_lines(found: Inspection) -> list[str]:
    """The most important numbers as lines of text; the JSON record has all numbers."""
    lines = textwrap.wrap(
        f"{found.run_id}: {found.name}", COLUMNS, subsequent_indent="  ", break_on_hyphens=False
    )
    lines.append(f"  {found.score_name} {found.score:.3f}, weights {found.weights}")
    if not math.isnan(found.weights_test_loss) and not math.isclose(
        found.weights_test_loss, found.test_loss, rel_tol=1e-3, abs_tol=1e-4
    ):
        lines.append(
            f"  trained again, its test loss is {found.weights_test_loss:.4f}, not "
            f"{found.test_loss:.4f}: other device or version"
        )
    lines += _score_lines(found)
    places = found.gradients.places
    if "value" in places[-1]:
        shares = [
            place["value"] / place["question"] if place["question"] else math.nan
            for place in places
        ]
        told = [f"{share:.2g} at {when}" for share, when in zip(shares, WHEN, strict=False)]
        lines.append("  gradient at the value, as a multiple of that at the question:")
        lines.append(f"    {', '.join(told)}")
    return lines


def _score_lines(found: Inspection) -> list[str]:
    """A line per head, below a line about its layer; the columns are named once."""
    lines, is_named = list[str](), False
    for number, layer in enumerate(found.layers):
        if layer is None:
            lines.append(f"  L{number}: this mixer has no effective attention")
            continue
        mean = f", mean of {layer.channels} channels" if layer.channels else ""
        lines.append(f"  L{number}: {layer.mixer}{mean}")
        for head in range(layer.heads):
            label = f"L{number}" if layer.channels else f"L{number}H{head}"
            scores = _scores(head, layer)
            if not is_named:
                lines.append(_aligned("head", list(scores), scores))
                is_named = True
            lines.append(_aligned(label, list(scores.values()), scores))
    return lines


def _aligned(label: str, cells: list[str], scores: Mapping[str, str]) -> str:
    widths = [max(len(name), len("0.00 -> 0.00")) + 2 for name in scores]
    told = "".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"    {label:<8}{told}".rstrip()


def _scores(head: int, layer: InspectedLayer) -> dict[str, str]:
    """The numbers of a head by short name, before and after training."""
    told = [
        PREVIOUS_AT_VALUES if PREVIOUS_AT_VALUES in layer.scores else PREVIOUS,
        DUPLICATE,
        INDUCTION,
    ]
    ends = [0, -1][: len(layer.kept_per_token)]
    scores = {
        _short(name): " -> ".join(f"{layer.scores[name][end][head]:.2f}" for end in ends)
        for name in told
        if name in layer.scores
    }
    return scores | {KEPT: " -> ".join(f"{moment[head]:.3f}" for moment in layer.kept_per_token)}


def _short(name: str) -> str:
    """The name of a score without its "token head": "previous at values"."""
    return name.replace("_token", "").replace("_head", "").replace("_", " ")
