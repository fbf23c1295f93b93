"""The embedding and the head, which may share one table."""

import torch
from torch import Generator, Tensor, nn

from recollect.model.layers.base import Layer
from recollect.model.layers.initial import normal
from recollect.ops.embedding import embedding


class Embedding(Layer):
    """One table per member; the ids to look up are shared by all members or separate."""

    def __init__(self, population: int, entries: int, width: int, *, std: float = 0.02):
        super().__init__()
        self.std = std
        self.weight = nn.Parameter(torch.empty(population, entries, width))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {"weight": normal(self.std)(tuple(self.weight.shape[1:]), generator)}

    def forward(self, ids_BL: Tensor) -> Tensor:
        return embedding(self.weight, ids_BL)

    def logits(self, x_PMD: Tensor) -> Tensor:
        """Scores of every entry, (P, M, entries), when the table is used as the head."""
        return torch.bmm(x_PMD, self.weight.transpose(1, 2))
