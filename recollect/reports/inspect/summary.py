"""An inspection in a few lines of text."""

import math

from recollect.reports.inspect.record import InspectedLayer, Inspection
from recollect.reports.inspect.scores import DUPLICATE, INDUCTION, PREVIOUS, PREVIOUS_AT_VALUES

WHEN = ("first", "last")  # names of the moments


def summary_lines(found: Inspection) -> list[str]:
    """The most important numbers as lines of text; the JSON record has all numbers."""
    lines = [
        f"{found.run_id}: {found.name}; {found.score_name} {found.score:.3f}, "
        f"weights {found.weights}"
    ]
    if not math.isnan(found.weights_test_loss) and not math.isclose(
        found.weights_test_loss, found.test_loss, rel_tol=1e-3, abs_tol=1e-4
    ):
        lines.append(
            f"trained again, its test loss is {found.weights_test_loss:.4f}, not "
            f"{found.test_loss:.4f}: other device or version"
        )
    for number, layer in enumerate(found.layers):
        if layer is None:
            lines.append(f"  L{number}: this mixer has no effective attention")
        else:
            lines += [
                f"  {_label(number, head, layer)}: {_head(head, layer)}"
                for head in range(layer.heads)
            ]
    places = found.gradients.places
    if "value" in places[-1]:
        shares = [
            place["value"] / place["question"] if place["question"] else math.nan
            for place in places
        ]
        told = [f"{share:.2g} at {when}" for share, when in zip(shares, WHEN, strict=False)]
        lines.append(f"  gradient at the value, relative to the question's own: {', '.join(told)}")
    return lines


def _label(number: int, head: int, layer: InspectedLayer) -> str:
    return (
        f"L{number} {layer.mixer} ({layer.channels} channels)"
        if layer.channels
        else f"L{number}H{head} {layer.mixer}"
    )


def _head(head: int, layer: InspectedLayer) -> str:
    told = [
        PREVIOUS_AT_VALUES if PREVIOUS_AT_VALUES in layer.scores else PREVIOUS,
        DUPLICATE,
        INDUCTION,
    ]
    ends = [0, -1][: len(layer.kept_per_token)]
    parts = [
        f"{name} {' -> '.join(f'{layer.scores[name][end][head]:.2f}' for end in ends)}"
        for name in told
        if name in layer.scores
    ]
    kept = " -> ".join(f"{moment[head]:.3f}" for moment in layer.kept_per_token)
    return ", ".join([*parts, f"kept per token {kept}"])
