"""The model around any mixer, for P members at once.

It consists of embedding, positions, pre-norm blocks, and a head that may be tied to the embedding.

Shapes: P population, B batch, L length, D width, K labelled positions per row, V vocabulary. If
each member has its own rows, tokens, positions and labels have P in front.

Only labelled positions are read: after the last mixer no layer uses other positions. So the output
part of that mixer (`Mixer.at`), the last MLP, the last norm and the head (about 80 % of a small
model) work on K positions instead of L. The loss is the same.
"""

import math
from dataclasses import replace
from typing import cast

import torch
from torch import Generator, Tensor, nn

from recollect.mixers.base import Site
from recollect.mixers.build import build_mixer
from recollect.model.channel import MLP, MLP_STD, ChannelMix
from recollect.model.layers import (
    Branch,
    Dropout,
    Embedding,
    Layer,
    LayerNorm,
    Noise,
    RMSNorm,
    normal,
)
from recollect.ops.head_loss import head_loss, head_verdict
from recollect.ops.layout import at_positions, rotate
from recollect.spec.model import ModelSpec
from recollect.tasks.base import IGNORE, Batch

POSITION_STD = 0.02  # equal to the embedding's, so that neither dominates at the start


class Block(nn.Module):
    """x += mixer(norm(x)), then x += channel(norm(x)).

    The second half may be the norm alone, or left out. With parallel residuals:
    x += mixer(norm(x)) + channel(norm'(x)), where each half has its own norm (GPT-NeoX).

    A half returns its addend as a separate branch in addition to x. The next half computes the sum
    and its norm in one pass over memory.
    """

    def __init__(self, spec: ModelSpec, site: Site):
        super().__init__()
        norm = LayerNorm if spec.norm == "layer" else RMSNorm
        population, width, hidden = site.population, site.width, spec.mlp_ratio * site.width
        mixer = spec.mixer.at(site.layer)
        # The study does not define relative positions for mixers without attention scores. Here the
        # input of the mixer is rotated by an angle that grows with the position, so that products
        # of two inputs depend on their distance.
        self.rotated = spec.positions == "relative" and "relative" not in mixer.positions_inside
        self.norm_mixer = norm(population, width)
        self.mixer = build_mixer(mixer, site)
        self.norm_channel = None if spec.block == "mixer" else norm(population, width)
        self.channel: MLP | ChannelMix | None = None
        if spec.block == "mixer+mlp":
            down_std = site.rescaled(MLP_STD / math.sqrt(2 * site.depth), MLP_STD)
            self.channel = MLP(population, width, hidden, down_std)
        elif spec.block == "mixer+channel-mix":
            self.channel = ChannelMix(population, width, hidden, site.layer, site.depth)
        self.local = not isinstance(self.channel, ChannelMix)
        self.parallel = spec.residual == "parallel"

    def mix(self, x_PBLD: Tensor, branch: Branch | None) -> tuple[Tensor, Branch]:
        """Apply the first half to x + branch; return that sum and the next branch to add to it."""
        x_PBLD, seen_PBLD = self._seen(x_PBLD, branch)
        return x_PBLD, Branch(self.mixer(seen_PBLD))

    def mix_at(
        self, x_PBLD: Tensor, branch: Branch | None, where_BK: Tensor
    ) -> tuple[Tensor, Branch]:
        """Like `mix`, at K positions of each row."""
        x_PBLD, seen_PBLD = self._seen(x_PBLD, branch)
        # Mixers save work only if all members share the positions.
        shared = where_BK.dim() == 2
        mixed_PBKD = (
            self.mixer.at(seen_PBLD, where_BK)
            if shared
            else at_positions(self.mixer(seen_PBLD), where_BK)
        )
        return at_positions(x_PBLD, where_BK), Branch(mixed_PBKD)

    def _seen(self, x_PBLD: Tensor, branch: Branch | None) -> tuple[Tensor, Tensor]:
        """x + branch, and the mixer's input made from it."""
        x_PBLD, normed_PBLD = self.norm_mixer.add(x_PBLD, branch)
        return x_PBLD, rotate(normed_PBLD) if self.rotated else normed_PBLD

    def transform(self, x: Tensor, branch: Branch) -> tuple[Tensor, Branch]:
        """Apply the second half to x + branch, like `mix`.

        If the block is `local`, this half treats every position separately.
        """
        if self.norm_channel is None:
            return x, branch
        x, normed = self.norm_channel.add(x, None if self.parallel else branch)
        second = Branch(normed) if self.channel is None else self.channel.branch(normed)
        if self.parallel:  # both were made from the same x, and are added to it together
            second = Branch(branch.value + second.value, second.shift_PD)
        return x, second


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
        site = Site(
            population,
            spec.width,
            length,
            spec.depth,
            spec.positions,
            dropout=spec.dropout,
            noise=self.noise,
            branches=2 if spec.block in ("mixer+mlp", "mixer+channel-mix") else 1,
            rescale=spec.rescale,
        )
        self.population = population
        self.dropout = Dropout(spec.dropout, self.noise, "embedding")
        self.embedding = Embedding(population, vocabulary, spec.width)
        self.positions: nn.Module | None = None
        if spec.positions == "learned":
            self.positions = LearnedPositions(population, length, spec.width)
        elif spec.positions == "sinusoidal":
            self.positions = SinusoidalPositions(length, spec.width)
        self.blocks = nn.ModuleList(
            Block(spec, replace(site, layer=layer)) for layer in range(spec.depth)
        )
        self.norm = LayerNorm(population, spec.width)
        self.head = Embedding(population, vocabulary, spec.width) if spec.head == "untied" else None

    @property
    def layers(self) -> list[Block]:
        """The blocks with their type: a ModuleList has no element type for the type checker."""
        return cast(list[Block], list(self.blocks))

    def forward(self, tokens_BL: Tensor, where_BK: Tensor) -> Tensor:
        """Logits at the labelled positions, (P, B * K, V)."""
        return self._head.logits(self.read(tokens_BL, where_BK))

    @property
    def _head(self) -> Embedding:
        return self.embedding if self.head is None else self.head

    def read(self, tokens_BL: Tensor, where_BK: Tensor) -> Tensor:
        """Input of the head at the labelled positions, (P, B * K, D)."""
        x = self.embedding(tokens_BL)
        if self.positions is not None:
            x = x + self.positions(tokens_BL.shape[-1])
        x = self.dropout(x)
        branch: Branch | None = None
        *early, last = self.layers
        for block in early:
            x, branch = block.transform(*block.mix(x, branch))
        if last.local:
            x_PBKD, branch = last.transform(*last.mix_at(x, branch, where_BK))
        else:
            x, (value, shift_PD) = last.transform(*last.mix(x, branch))
            x_PBKD, branch = (
                at_positions(x, where_BK),
                Branch(at_positions(value, where_BK), shift_PD),
            )
        _, normed_PBKD = self.norm.add(x_PBKD, branch)
        return normed_PBKD.flatten(1, 2)

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy summed over each member's labels, (P,), for training."""
        x_PMD = self.read(batch.tokens_BL, batch.where_BK)
        return head_loss(x_PMD, self._head.weight, batch.labels_BK.flatten(-2), IGNORE).sum(1)

    def verdict(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Loss, (P,), and whether each label is predicted, (P, B * K), for evaluation."""
        x_PMD = self.read(batch.tokens_BL, batch.where_BK)
        loss_PM, right_PM = head_verdict(
            x_PMD, self._head.weight, batch.labels_BK.flatten(-2), IGNORE
        )
        return loss_PM.sum(1), right_PM

    def parameters_per_member(self) -> int:
        return sum(parameter[0].numel() for parameter in self.parameters())

    def state_size(self) -> int | None:
        """Floats that a step-by-step decoder keeps per sequence, as the mean over the layers.

        None if it is unknown for some layer.
        """
        sizes = [block.mixer.state_size() for block in self.layers]
        known = [size for size in sizes if size is not None]
        # A block that is not local reads one position back, so the decoder has to keep it.
        shifts = sum(self.norm.weight.shape[1] for block in self.layers if not block.local)
        return round((sum(known) + shifts) / len(known)) if len(known) == len(sizes) else None
