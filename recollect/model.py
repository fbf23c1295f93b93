"""The model around any mixer: embedding + positions + pre-norm blocks + tied head, for P members at once.

Shapes: P population, B batch, L length, D width, K labelled positions per row, V vocabulary.
Only labelled positions are read: after the last mixer nothing looks at other positions, so the last MLP, the last norm and the
head (about 80 % of a small model) work on K positions instead of L. The loss is the same.
"""

import math
from dataclasses import replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect import mixers
from recollect.channel import MLP, ChannelMix
from recollect.nn import Dropout, Embedding, Layer, LayerNorm, Noise, RMSNorm, normal
from recollect.ops.rotary import rotate
from recollect.spec import ModelSpec
from recollect.tasks.base import IGNORE, Batch

POSITION_STD = 0.02  # as the embedding's, so that neither drowns the other at the start


class Block(nn.Module):
    """x += mixer(norm(x)), then x += channel(norm(x)); the second half may be the norm alone, or left out."""

    def __init__(self, spec: ModelSpec, site: mixers.Site):
        super().__init__()
        norm = LayerNorm if spec.norm == "layer" else RMSNorm
        population, width, hidden = site.population, site.width, spec.mlp_ratio * site.width
        mixer = spec.mixer.at(site.layer)
        # The study leaves open what relative positions are where there are no scores; here the mixer sees its input rotated
        # by an angle that grows with the position, so that products of two inputs depend on their distance.
        self.rotated = spec.positions == "relative" and "relative" not in mixer.positions_inside
        self.norm_mixer = norm(population, width)
        self.mixer = mixers.build(mixer, site)
        self.norm_channel = None if spec.block == "mixer" else norm(population, width)
        self.channel: nn.Module | None = None
        if spec.block == "mixer+mlp":
            self.channel = MLP(population, width, hidden, site.depth)
        elif spec.block == "mixer+channel-mix":
            self.channel = ChannelMix(population, width, hidden, site.layer, site.depth)
        self.local = not isinstance(self.channel, ChannelMix)

    def mix(self, x_PBLD: Tensor) -> Tensor:
        normed_PBLD = self.norm_mixer(x_PBLD)
        return x_PBLD + self.mixer(rotate(normed_PBLD) if self.rotated else normed_PBLD)

    def transform(self, x: Tensor) -> Tensor:
        """The second half; if it is `local` it treats every position alone."""
        if self.norm_channel is None:
            return x
        normed = self.norm_channel(x)
        return x + (normed if self.channel is None else self.channel(normed))


class LearnedPositions(Layer):
    def __init__(self, population: int, length: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(population, length, width))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {"weight": normal(POSITION_STD)(tuple(self.weight.shape[1:]), generator)}

    def forward(self, length: int) -> Tensor:
        return self.weight[:, None, :length]


class SinusoidalPositions(nn.Module):
    """Fixed sines and cosines of geometrically spaced wavelengths, scaled to POSITION_STD."""

    def __init__(self, length: int, width: int):
        super().__init__()
        angle = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, width, 2) / width)
        table = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :width]
        self.register_buffer("table", table * (POSITION_STD * math.sqrt(2)), persistent=False)

    def forward(self, length: int) -> Tensor:
        return self.get_buffer("table")[:length]


class Model(nn.Module):
    """P members of one architecture."""

    def __init__(self, spec: ModelSpec, population: int, vocabulary: int, length: int):
        super().__init__()
        self.noise = Noise(population)
        site = mixers.Site(population, spec.width, length, spec.depth, spec.positions, dropout=spec.dropout, noise=self.noise)
        self.population = population
        self.dropout = Dropout(spec.dropout, self.noise, "embedding")
        self.embedding = Embedding(population, vocabulary, spec.width)
        self.positions: nn.Module | None = None
        if spec.positions == "learned":
            self.positions = LearnedPositions(population, length, spec.width)
        elif spec.positions == "sinusoidal":
            self.positions = SinusoidalPositions(length, spec.width)
        self.blocks = nn.ModuleList(Block(spec, replace(site, layer=layer)) for layer in range(spec.depth))
        self.norm = LayerNorm(population, spec.width)

    @property
    def layers(self) -> list[Block]:
        """The blocks, for the type checker: a ModuleList forgets what is in it."""
        return cast(list[Block], list(self.blocks))

    def forward(self, tokens_BL: Tensor, where_BK: Tensor) -> Tensor:
        """Logits at the labelled positions, (P, B * K, V)."""
        x = self.embedding(tokens_BL)
        if self.positions is not None:
            x = x + self.positions(tokens_BL.shape[1])
        x = self.dropout(x)
        *early, last = self.layers
        for block in early:
            x = block.transform(block.mix(x))
        x_PBLD = last.mix(x)
        index = where_BK[None, :, :, None].expand(self.population, -1, -1, x_PBLD.shape[-1])
        x_PBKD = last.transform(x_PBLD.gather(2, index)) if last.local else last.transform(x_PBLD).gather(2, index)
        return self.embedding.logits(self.norm(x_PBKD).flatten(1, 2))

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Each member's summed cross-entropy over its labels, (P,), and the logits it came from."""
        logits_PMV = self(batch.tokens_BL, batch.where_BK)
        labels_PM = batch.labels_BK.flatten().expand(self.population, -1)
        loss_PM = F.cross_entropy(logits_PMV.flatten(0, 1), labels_PM.flatten(), ignore_index=IGNORE, reduction="none")
        return loss_PM.view(self.population, -1).sum(1), logits_PMV

    def parameters_per_member(self) -> int:
        return sum(parameter[0].numel() for parameter in self.parameters())

    def state_size(self) -> int | None:
        """Floats a step-by-step decoder keeps per layer and sequence, the mean over the layers."""
        sizes = [block.mixer.state_size() for block in self.layers]
        known = [size for size in sizes if size is not None]
        # What is not local looks one position back, and so has to keep it.
        shifts = sum(self.norm.weight.shape[1] for block in self.layers if not block.local)
        return round((sum(known) + shifts) / len(known)) if len(known) == len(sizes) else None
