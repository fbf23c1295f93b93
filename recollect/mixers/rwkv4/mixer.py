"""RWKV-4's time mix (Peng et al. 2023): every channel is a mean of values whose weights decay with
the distance.

    x'_t = x_{t-1}, x'_0 = 0        k = W_k (mu_k x + (1 - mu_k) x'), v and r likewise
    y_t =   (sum_{i<t} e^{(t-1-i) w + k_i} v_i + e^{u + k_t} v_t)
          / (sum_{i<t} e^{(t-1-i) w + k_i}     + e^{u + k_t})
    out = W_o (sigmoid(r) * y)

Glossary: P population, B batch, L length, D width, H = D channels with a matrix each. x' is the
token shift, mu the weight of the present token in a branch, k keys, v values, r the receptance (a
gate), w = -exp(time_decay) the decay, u = time_first the bonus of the present token.
Initialisation in layer l of n, channel c of D, with rho = l / (n - 1) and eta = 1 - l / n:

    time_decay = -5 + 8 (c / (D - 1))^(0.7 + 1.3 rho)
    time_first = ln 0.3 + 0.5 ((c + 1) mod 3 - 1)
    mu_k = (c / D)^eta          mu_v = mu_k + 0.3 rho          mu_r = (c / D)^(eta / 2)

n is 12 whatever the depth, as in Zoology, or the depth (`ratio_layers`); a single layer has rho =
0. The linear layers have no biases and start as PyTorch's default (Zoology) or, with `init`, as in
RWKV-LM: W_k, W_r and W_o zero, W_v orthogonal.
The function does not differ from RWKV-LM's. Zoology rounds y and the gradients of k, v, w and u to
bfloat16; here nothing is rounded. RWKV-LM's norm after the embedding is left out; its channel mix
is the block "mixer+channel-mix".
"""

import math
from collections.abc import Mapping

import torch
from torch import Generator, Tensor, nn

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.rwkv4.options import RWKV4Spec
from recollect.model.layers import Init, Kind, Linear, fan_in_uniform, token_shift, zeros
from recollect.ops.layout import at_positions
from recollect.ops.wkv import wkv, wkv_step

ZOOLOGY_LAYERS = 12


class RWKV4(Mixer):
    kinds: Mapping[str, Kind] = {"time_decay_PD": "dynamics", "time_first_PD": "dynamics"}

    def __init__(self, spec: RWKV4Spec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        shape = (site.population, site.width)
        self.time_decay_PD = nn.Parameter(torch.empty(shape))
        self.time_first_PD = nn.Parameter(torch.empty(shape))
        self.mix_key_PD = nn.Parameter(torch.empty(shape))
        self.mix_value_PD = nn.Parameter(torch.empty(shape))
        self.mix_receptance_PD = nn.Parameter(torch.empty(shape))
        default = fan_in_uniform(site.width)
        rest, value = (zeros, _orthogonal) if spec.init == "official" else (default, default)
        self.key, self.receptance, self.out = (self._linear(rest) for _ in range(3))
        self.value = self._linear(value)

    def _linear(self, init: Init) -> Linear:
        return Linear(self.site.population, self.site.width, self.site.width, init=init, bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        width, layer = self.site.width, self.site.layer
        layers = ZOOLOGY_LAYERS if self.spec.ratio_layers == "twelve" else self.site.depth
        rho, eta = layer / max(1, layers - 1), 1 - layer / layers
        channel_D = torch.arange(width)
        share_D = channel_D / width
        return {
            "time_decay_PD": -5 + 8 * (channel_D / max(1, width - 1)) ** (0.7 + 1.3 * rho),
            "time_first_PD": math.log(0.3) + 0.5 * ((channel_D + 1) % 3 - 1),
            "mix_key_PD": share_D**eta,
            "mix_value_PD": share_D**eta + 0.3 * rho,
            "mix_receptance_PD": share_D ** (eta / 2),
        }

    def _branches(self, x_PBLD: Tensor, before_PBLD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return keys, values and the gate."""

        def mixed(mu_PD: Tensor) -> Tensor:
            return torch.lerp(before_PBLD, x_PBLD, mu_PD[:, None, None].to(x_PBLD.dtype))

        gate_PBLD = torch.sigmoid(self.receptance(mixed(self.mix_receptance_PD)))
        return self.key(mixed(self.mix_key_PD)), self.value(mixed(self.mix_value_PD)), gate_PBLD

    def forward(self, x_PBLD: Tensor) -> Tensor:
        k_PBLD, v_PBLD, gate_PBLD = self._branches(x_PBLD, token_shift(x_PBLD))
        return self.out(
            gate_PBLD * wkv(k_PBLD, v_PBLD, -self.time_decay_PD.exp(), self.time_first_PD)
        )

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute the output projection only at the requested positions."""
        k_PBLD, v_PBLD, gate_PBLD = self._branches(x_PBLD, token_shift(x_PBLD))
        y_PBLD = wkv(k_PBLD, v_PBLD, -self.time_decay_PD.exp(), self.time_first_PD)
        return self.out(at_positions(gate_PBLD, where_BK) * at_positions(y_PBLD, where_BK))

    def start(self, batch: int) -> State:
        zeros_PBD = self.time_decay_PD.new_zeros(self.site.population, batch, self.site.width)
        return {
            "before": zeros_PBD,
            "num": zeros_PBD,
            "den": zeros_PBD,
            "exponent": zeros_PBD - math.inf,
        }

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        branches = self._branches(x_PBD[:, :, None], state["before"][:, :, None])
        k_PBD, v_PBD, gate_PBD = (branch.squeeze(2) for branch in branches)
        past = state["num"], state["den"], state["exponent"]
        y_PBD, (num, den, exponent) = wkv_step(
            k_PBD, v_PBD, -self.time_decay_PD.exp(), self.time_first_PD, past
        )
        return self.out(gate_PBD * y_PBD), {
            "before": x_PBD,
            "num": num,
            "den": den,
            "exponent": exponent,
        }

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        k_PBLD, v_PBLD, gate_PBLD = self._branches(x_PBLD, token_shift(x_PBLD))
        position_L = torch.arange(x_PBLD.shape[2], device=x_PBLD.device)
        distance_LL = position_L[:, None] - position_L
        decays_PDLL = -self.time_decay_PD.exp()[:, :, None, None] * (distance_LL - 1)
        bonus_PDLL = torch.where(
            distance_LL == 0, self.time_first_PD[:, :, None, None], decays_PDLL
        )
        scores_PBDLL = (
            k_PBLD.transpose(2, 3)[..., None, :]
            + bonus_PDLL.masked_fill(distance_LL < 0, -math.inf)[:, None]
        )

        def finish(mixed_PBHLD: Tensor) -> Tensor:
            return self.out(gate_PBLD * mixed_PBHLD.squeeze(-1).transpose(2, 3))

        return EffectiveAttention(
            scores_PBDLL.softmax(-1), v_PBLD.transpose(2, 3)[..., None], finish
        )

    def state_size(self) -> int:
        return 4 * self.site.width

    def operations_per_token(self) -> int:
        width = self.site.width
        # In addition to the products: three mixes, two sums of two terms, the gate.
        return 4 * width**2 + 8 * width


def _orthogonal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw in float64 and round: the last bits of the decomposition depend on the thread count."""
    matrix = torch.empty(shape, dtype=torch.float64)
    return nn.init.orthogonal_(matrix, generator=generator).float()
