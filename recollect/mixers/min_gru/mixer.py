"""minGRU: a GRU whose gate and candidate depend only on the input, which makes it a linear scan
(Feng et al. 2024).

    z_t = sigmoid(W_z x_t)        n_t = g(W_n x_t)
    h_t = (1 - z_t) h_{t-1} + z_t n_t        y_t = h_t, or W_o h_t if expand > 1

g(u) = u + 1/2 for u >= 0, sigmoid(u) below: positive and continuous, so that the paper's form in
logarithms exists.

Glossary: P population, B batch, L length, D width, E inner channels (expand * width), z the update
gate (1: forget), n the candidate, h the state. W_n and W_z are the halves of `into`, W_o is `out`.
As in the paper's minimal form there is no output projection with expand = 1; a wider state needs
one to get back to the width.
Differs from the paper's code in that h starts at 0 and h itself is scanned; there, g is applied to
a given h_0 and log h is scanned.
Initialisation: PyTorch's default, no biases; so z is about 1/2 and the memory about a token long
until training changes it.
"""

import torch
from torch import Generator, Tensor

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.min_gru.options import MinGRUSpec
from recollect.model.layers import Linear, fan_in_uniform
from recollect.ops.diagonal_scan import diagonal_scan


class MinGRU(Mixer):
    def __init__(self, spec: MinGRUSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        self.inner = inner = spec.expand * site.width
        self.into = Linear(
            site.population, site.width, 2 * inner, init=fan_in_uniform(site.width), bias=False
        )
        self.out = (
            Linear(site.population, inner, site.width, init=fan_in_uniform(inner), bias=False)
            if spec.expand > 1
            else None
        )

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {}

    def forward(self, x_PBLD: Tensor) -> Tensor:
        keep_PBLE, update_PBLE, candidate_PBLE = self._gates(x_PBLD)
        return self._project(diagonal_scan(keep_PBLE, update_PBLE * candidate_PBLE))

    def start(self, batch: int) -> State:
        return {"state": self.into.weight.new_zeros(self.site.population, batch, self.inner)}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        keep_PBE, update_PBE, candidate_PBE = self._gates(x_PBD)
        h_PBE = torch.addcmul(update_PBE * candidate_PBE, keep_PBE, state["state"])
        return self._project(h_PBE), {"state": h_PBE}

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        """Return one matrix per inner channel: z_j (1 - z_{j+1}) ... (1 - z_i). Column j is the
        scan of an impulse at j.
        """
        keep_PBLE, update_PBLE, candidate_PBLE = self._gates(x_PBLD)
        impulses_PBLEL = torch.diag_embed(update_PBLE.transpose(2, 3)).transpose(2, 3)
        weights_PBLEL = diagonal_scan(
            keep_PBLE[..., None].expand_as(impulses_PBLEL), impulses_PBLEL
        )
        values_PBEL1 = candidate_PBLE.transpose(2, 3)[..., None]
        return EffectiveAttention(
            weights_PBLEL.transpose(2, 3),
            values_PBEL1,
            lambda h_PBEL1: self._project(h_PBEL1.squeeze(-1).transpose(2, 3)),
        )

    def _gates(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return 1 - z, z and the candidate. 1 - z is not computed as a difference, which would
        round to 0 where z is near 1.
        """
        candidate, gate = self.into(x).chunk(2, dim=-1)
        candidate = torch.where(candidate >= 0, candidate + 0.5, candidate.sigmoid())
        return torch.sigmoid(-gate), gate.sigmoid(), candidate

    def _project(self, h: Tensor) -> Tensor:
        return h if self.out is None else self.out(h)

    def state_size(self) -> int:
        return self.inner

    def operations_per_token(self) -> int:
        projections = 2 if self.out is None else 3
        return projections * self.site.width * self.inner + 2 * self.inner
