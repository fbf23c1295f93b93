"""How much every position takes from every other: |Phi| of the study's eq. 1, layer by layer.

Phi is a mixer's `effective_attention`: for softmax attention the attention weights, for other
mixers the matrix over positions that gives the same output. The sign is dropped, since only the
amount is measured. A mixer with a matrix per head gives a map per head; one with a matrix per
channel gives the mean over its channels.

Shapes: P = 1, B rows, L length, H maps of a layer, D width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recollect.mixers.base import EffectiveAttention
from recollect.model.model import Model

AT_ONCE = 1 << 26  # the most numbers of Phi computed at a time
HELD = 1 << 27  # the most numbers held in all maps together
LEAST_ROWS = 4
SUMS_TO_ONE = 1e-3  # tolerance for the row sums of a map of probabilities


@dataclass(frozen=True)
class LayerMaps:
    """|Phi| of one layer."""

    size_BHLL: Tensor
    channels: int  # channels averaged into H = 1 map; 0 if there is one map per head
    probabilities: bool  # no entry is negative, and every row sums to 1

    @property
    def heads(self) -> int:
        return self.size_BHLL.shape[1]

    @property
    def computed_per_row(self) -> int:
        return self.size_BHLL[0].numel() * max(1, self.channels)


@torch.no_grad()
def layer_maps(model: Model, tokens_BL: Tensor) -> list[LayerMaps | None]:
    """The maps of every layer; None for a mixer without an effective attention.

    Fewer rows are used if all of them would not fit into memory.
    """
    parts = [_maps(model, tokens_BL[:1])]
    known = [maps for maps in parts[0] if maps is not None]
    if not known:
        return parts[0]
    at_once = max(1, AT_ONCE // max(maps.computed_per_row for maps in known))
    rows = min(
        tokens_BL.shape[0],
        max(LEAST_ROWS, HELD // sum(maps.size_BHLL[0].numel() for maps in known)),
    )
    for first in range(1, rows, at_once):
        parts.append(_maps(model, tokens_BL[first : min(rows, first + at_once)]))
    return [
        _joined([part for part in layer if part is not None]) for layer in zip(*parts, strict=True)
    ]


def mixer_inputs(model: Model, tokens_BL: Tensor) -> list[Tensor]:
    """The input x_PBLD of each layer's mixer."""
    seen: list[Tensor] = []
    hooks = [
        block.mixer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        for block in model.layers
    ]
    x_PBLD: Tensor = model.embedding(tokens_BL)
    if model.positions is not None:
        x_PBLD = x_PBLD + model.positions(tokens_BL.shape[1])
    branch: Any = None
    try:
        for block in model.layers:
            x_PBLD, branch = block.transform(*block.mix(x_PBLD, branch))
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def measure_maps(effective: EffectiveAttention) -> LayerMaps:
    """The maps of one layer, for P = 1 member."""
    weights_BHLL = effective.weights_PBHLL[0]
    heads, per_channel = weights_BHLL.shape[1], effective.values_PBHLD.shape[-1] == 1
    sums_BHL = weights_BHLL.sum(-1)
    probabilities = bool((weights_BHLL >= 0).all() and ((sums_BHL - 1).abs() < SUMS_TO_ONE).all())
    size_BHLL = weights_BHLL.abs()
    return LayerMaps(
        (size_BHLL.mean(1, keepdim=True) if per_channel else size_BHLL).cpu(),
        heads if per_channel else 0,
        probabilities,
    )


def _maps(model: Model, tokens_BL: Tensor) -> list[LayerMaps | None]:
    seen = mixer_inputs(model, tokens_BL)
    found = [
        block.mixer.effective_attention(x_PBLD)
        for block, x_PBLD in zip(model.layers, seen, strict=True)
    ]
    return [None if effective is None else measure_maps(effective) for effective in found]


def _joined(parts: list[LayerMaps]) -> LayerMaps | None:
    if not parts:
        return None
    sizes_BHLL = torch.cat([part.size_BHLL for part in parts])
    return LayerMaps(sizes_BHLL, parts[0].channels, all(part.probabilities for part in parts))
