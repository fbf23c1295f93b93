"""Tests whether a mixer sees more than its own past: the future, other rows, members or calls.

The input is changed at some places, and the output is compared at places that must not depend on
them: in training and in evaluation, at two lengths, in float64 if the module supports it, with the
initial weights and with slightly changed ones (a last layer that starts at zero would hide
everything). Shapes: P population, B rows, L length, D width.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from recollect.mixers.base import Mixer

MOST_CUTS = 64  # positions from which on everything is changed, tried in one batch
FEW_CUTS = 16  # tried one by one, if rows of a batch are not treated alike
WEIGHT_NOISE = 0.02
# Largest difference between two results that should be equal, relative to the largest value. Below
# float64 a different order of summation shows: a transform over the whole length is such a sum.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
ROUNDED_TOLERANCE = 1e-2  # for a layer that computes in bf16 internally

Kind = Literal["future", "rows", "members", "calls"]


@dataclass(frozen=True)
class Leak:
    """A dependence of the output that is not allowed."""

    kind: Kind
    text: str


def find_leak(
    mixer: Mixer, width: int, length: int, looks_at: str = "", is_rounded: bool = False
) -> Leak | None:
    """Return the first leak found; `looks_at` names what is allowed. The mixer must have two
    members on its device. It is left with other weights and in another precision.
    """
    device = next(itertools.chain(mixer.parameters(), mixer.buffers()), torch.zeros(())).device
    generator = torch.Generator().manual_seed(0)
    drawn = {name: value.clone() for name, value in mixer.state_dict().items()}
    trained = {name for name, value in mixer.named_parameters() if value.requires_grad}
    changed = {
        # Buffers and constants are not changed: one may be the mask that hides the future.
        name: value + WEIGHT_NOISE * torch.randn(value.shape, generator=generator).to(value)
        if name in trained
        else value
        for name, value in drawn.items()
    }
    dtype = _widest(mixer, torch.zeros(2, 1, length, width, device=device))
    tolerance = ROUNDED_TOLERANCE if is_rounded else TOLERANCE[dtype]
    for weights, is_training, at in itertools.product(
        (drawn, changed), (True, False), _lengths(mixer, length, width, device, dtype)
    ):
        mixer.train(is_training)
        x_PBLD = torch.randn(2, 3, at, width, generator=generator, dtype=torch.float64)
        other_PBLD = 2 * torch.randn(x_PBLD.shape, generator=generator, dtype=torch.float64)
        probe = _Probe(mixer, weights, tolerance)
        found = probe.look(x_PBLD.to(device, dtype), other_PBLD.to(device, dtype), looks_at)
        if found is not None:
            mode = "in training" if is_training else "in evaluation"
            return Leak(found.kind, f"{found.text} ({mode}, length {at})")
    return None


def _widest(mixer: Mixer, x_PBLD: Tensor) -> torch.dtype:
    """Return float64 if the whole module supports it; some modules create tensors in float32."""
    try:
        with torch.no_grad():
            mixer.double()(x_PBLD.double())
        return torch.float64
    except Exception:  # code from outside may fail in any way in another precision
        mixer.float()
        return torch.float32


def _lengths(
    mixer: Mixer, length: int, width: int, device: torch.device, dtype: torch.dtype
) -> list[int]:
    """Return the whole length, and an odd shorter one if the module accepts other lengths."""
    shorter = length // 2 | 1
    try:
        with torch.no_grad():
            mixer(torch.zeros(2, 1, shorter, width, device=device, dtype=dtype))
    except Exception:  # it takes no other length, and a task of one length gives no other
        return [length]
    return sorted({length, shorter}, reverse=True)


class _Probe:
    """One state of a mixer, restored before every call."""

    def __init__(self, mixer: Mixer, weights: dict[str, Tensor], tolerance: float):
        self.mixer, self.weights, self.tolerance = mixer, weights, tolerance

    def answer(self, x_PBLD: Tensor) -> Tensor:
        """Return the output, with the same weights, buffers and random numbers each time."""
        self.mixer.load_state_dict(self.weights)
        devices = [x_PBLD.device] if x_PBLD.is_cuda else []
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(0)
            return self.mixer(x_PBLD)

    def look(self, x_PBLD: Tensor, other_PBLD: Tensor, looks_at: str) -> Leak | None:
        y_PBLD = self.answer(x_PBLD)
        if not y_PBLD.isfinite().all():  # with changed weights; the initial ones were tested before
            return None
        self.limit = self.tolerance * float(y_PBLD.abs().max()) + 1e-30
        found = self._calls(x_PBLD, y_PBLD) or self._members(x_PBLD, other_PBLD, y_PBLD)
        if found is None and looks_at not in ("rows", "everything"):
            found = self._rows(x_PBLD, other_PBLD, y_PBLD)
        if found is None and looks_at not in ("future", "everything"):
            found = self._future(x_PBLD, other_PBLD, looks_at)
        return found

    def differs(self, one: Tensor, other: Tensor) -> Tensor:
        """Return where two tensors differ; a value that is not finite differs from every other."""
        return ~((one - other).abs() <= self.limit)

    def _calls(self, x_PBLD: Tensor, y_PBLD: Tensor) -> Leak | None:
        if not self.differs(self.answer(x_PBLD), y_PBLD).any():
            return None
        return Leak("calls", "the same input gives another output at the second call")

    def _members(self, x_PBLD: Tensor, other_PBLD: Tensor, y_PBLD: Tensor) -> Leak | None:
        changed_PBLD = torch.cat([x_PBLD[:1], other_PBLD[1:]])
        if not self.differs(self.answer(changed_PBLD)[0], y_PBLD[0]).any():
            return None
        return Leak("members", "the output of member 0 depends on the input of member 1")

    def _rows(self, x_PBLD: Tensor, other_PBLD: Tensor, y_PBLD: Tensor) -> Leak | None:
        """Look at the first row, then at the last: a module that takes rows for time, as nn.GRU
        without batch_first does, lets a row see only those before it.
        """
        for row in (0, -1):
            changed_PBLD = other_PBLD.clone()
            changed_PBLD[:, row] = x_PBLD[:, row]
            differs_PLD = self.differs(self.answer(changed_PBLD)[:, row], y_PBLD[:, row])
            if differs_PLD.any():
                position = int(differs_PLD.any(2).any(0).nonzero()[0])
                seen, *others = (0, 1, 2) if row == 0 else (2, 0, 1)
                return Leak(
                    "rows",
                    f"the output of row {seen} at position {position} depends on the inputs of "
                    f"rows {others[0]}, {others[1]}",
                )
        return None

    def _future(self, x_PBLD: Tensor, other_PBLD: Tensor, looks_at: str) -> Leak | None:
        x_PLD, other_PLD = x_PBLD[:, 0], other_PBLD[:, 0]
        length = x_PLD.shape[1]
        alike = looks_at != "rows" and self._rows_are_alike(x_PLD)
        cuts = _spread(length, MOST_CUTS if alike else FEW_CUTS)
        after = [torch.arange(length, device=x_PLD.device) >= cut for cut in cuts]
        for cut, differs_L in zip(cuts, self._changes(x_PLD, other_PLD, after, alike), strict=True):
            if not differs_L[:cut].any():
                continue
            seen = int(differs_L[:cut].nonzero()[0])
            later = range(cut, min(length, cut + MOST_CUTS))
            single = [torch.arange(length, device=x_PLD.device) == at for at in later]
            responses = self._changes(x_PLD, other_PLD, single, alike)
            alone = (at for at, one_L in zip(later, responses, strict=True) if one_L[seen])
            at = next(alone, None)
            where = f"position {at}" if at is not None else f"positions from {cut} on"
            return Leak("future", f"the output at position {seen} depends on the input at {where}")
        return None

    def _rows_are_alike(self, x_PLD: Tensor) -> bool:
        """Whether equal rows have equal outputs, so that many changes can share a batch."""
        y_PBLD = self.answer(torch.stack([x_PLD] * 3, dim=1))
        return not self.differs(y_PBLD[:, 1:], y_PBLD[:, :1]).any()

    def _changes(
        self, x_PLD: Tensor, other_PLD: Tensor, places: list[Tensor], alike: bool
    ) -> Iterator[Tensor]:
        """Yield for each set of places, given as a mask over positions, which outputs change with
        the inputs there.
        """
        variants = [torch.where(mask[:, None], other_PLD, x_PLD) for mask in places]
        batches = [variants] if alike else [[variant] for variant in variants]
        for batch in batches:
            y_PBLD = self.answer(torch.stack([x_PLD, *batch], dim=1))
            # In the other case the random numbers of a row depend on its index, so the row is
            # computed again at the same index without the change.
            base_PBLD = (
                y_PBLD[:, :1] if alike else self.answer(torch.stack([x_PLD] * 2, dim=1))[:, 1:]
            )
            yield from self.differs(y_PBLD[:, 1:], base_PBLD).any(3).any(0)


def _spread(length: int, most: int) -> list[int]:
    """Return places between two positions, all or `most` of them; the distances are uneven, because
    the borders of blocks inside a mixer may be evenly spaced.
    """
    if length - 1 <= most:
        return list(range(1, length))
    return sorted({1 + round(i * (length - 2) / (most - 1)) for i in range(most)})
