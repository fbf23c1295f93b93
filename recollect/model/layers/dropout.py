"""Dropout with masks that are a function of the member's seed, the step and the place."""

import torch
from torch import Tensor, nn

from recollect.ops import randomness
from recollect.ops.dropout import Mask, drop


class Noise(nn.Module):
    """Source of the dropout masks: one number per member, made from its seed and the step."""

    def __init__(self, population: int):
        super().__init__()
        self.register_buffer(
            "stream_P", torch.zeros(population, dtype=torch.int64), persistent=False
        )

        # Seeds and step on the host, for plug-in code that uses torch's own generator.
        self.seeds: tuple[int, ...] = ()
        self.step = 0

    def set(self, seeds_P: Tensor, step: int) -> None:
        self.get_buffer("stream_P").copy_(randomness.bits(randomness.key("dropout", step), seeds_P))


class Dropout(nn.Module):
    """Zero a share of the elements while training, and scale up the rest.

    A mask is a function of the member's seed, the step and the place in the model. So a run drops
    the same elements when it trains alone, in any population, and after a resume.
    """

    def __init__(self, share: float, noise: Noise, place: str):
        super().__init__()
        self.share, self.noise, self.place = share, noise, randomness.key("dropout", place)

    def mask(self) -> Mask | None:
        """The mask of the current step, or None if nothing is dropped."""
        if not self.training or self.share == 0:
            return None
        return Mask(self.noise.get_buffer("stream_P") + self.place, self.share)

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to x, (P, B, ...).

        The row axis comes first, so that padding rows at the end do not change other masks.
        """
        mask = self.mask()
        return x if mask is None else drop(x, mask)
