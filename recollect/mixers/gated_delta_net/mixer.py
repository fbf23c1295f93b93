"""Gated DeltaNet: the delta rule with a learnt decay of the whole memory (Yang et al. 2025).

    g_t = -exp(a_log) softplus(w_a x_t + b_dt) per head
    S_t = exp(g_t) (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T

and everything else as in DeltaNet (recollect/mixers/delta_net).

Glossary: P population, H heads, D channels of a head's key, E = expand_v D of its value; S is the
memory of a head, g the log of its decay, A = exp(a_log) the rate, softplus(...) the step size, beta
how much of the old value a write replaces.
Initialisation as DeltaNet's, with fla's for the other parameters: A uniform in (0, 16], b_dt such
that the step size is log-uniform in [0.001, 0.1] where w_a x is 0.
The median head then keeps 0.94 of its memory a step.
Differs from Zoology's layer: there is no unused parameter D, and beta and g are never rounded to
bfloat16. From fla's: the keys of all heads make up the width, as in Zoology's configurations, not
0.75 of it.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.mixers.base import Site
from recollect.mixers.delta_net.mixer import STD, DeltaNet
from recollect.mixers.gated_delta_net.options import GatedDeltaNetSpec
from recollect.model.layers import Kind, Linear, log_uniform_step, normal
from recollect.ops.few_columns import project_per_head

RATE_MAX = 16


class GatedDeltaNet(DeltaNet):
    kinds: Mapping[str, Kind] = {"a_log_PH": "dynamics"}

    def __init__(self, spec: GatedDeltaNetSpec, site: Site):
        super().__init__(spec, site, spec.expand_v)
        self.forget = Linear(
            site.population,
            site.width,
            spec.heads,
            init=normal(STD),
            bias_init=log_uniform_step,
            bias_kind="dynamics",
        )
        self.a_log_PH = nn.Parameter(torch.empty(site.population, spec.heads))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        # Drawn in (0, 1] before scaling: a rate of 0 has no logarithm.
        rates_H = RATE_MAX * (1 - torch.rand(self.spec.heads, generator=generator))
        return {"a_log_PH": rates_H.log()}

    def strengths(self, x: Tensor) -> tuple[Tensor, Tensor]:
        layers = [(layer.weight, layer.bias) for layer in (self.write, self.forget)]
        write, forget = project_per_head(x, layers)
        rates = self.a_log_PH.exp().view(
            self.site.population, *[1] * (x.dim() - 2), self.spec.heads
        )
        return self._beta(write), -rates * F.softplus(forget)

    def operations_per_token(self) -> int:
        return super().operations_per_token() + self.site.width * self.spec.heads
