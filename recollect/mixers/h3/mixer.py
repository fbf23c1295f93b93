"""H3: a shift state space on the keys,
a diagonal one on the products of keys and values (Fu et al. 2023).

    q, k, v = W x + b        k~ = s * k + D_k k
    Y = K * (k~ (x) v) + D (k~ (x) v)        out = W_o (q^T Y) + b_o
    shift:     s[t] = sum_j B[j] C[j+t] for t < N, else 0
               as a state: x_t[n] = x_{t-1}[n-1] + B[n] k_t
    diagonal:  K[t] = 2 Re sum_n C_n Bd_n Ad_n^t, A = -exp(a) + i omega
               as a state: h_t = Ad h_{t-1} + Bd (k~ (x) v)_t
               Ad = (1 + dt A / 2) / (1 - dt A / 2), Bd = B dt / (1 - dt A / 2): the bilinear rule

Glossary: P population, B batch, L length, D width, H heads, I and E channels of a head (of keys, of
values), N size of both states, M = N / 2 complex numbers, each standing for itself and its
conjugate. q queries, k keys, v values, s and K kernels of the two state spaces, dt the step size of
a head, D_k and D (`shift_skip`, `skip`) direct paths, (x) the outer product within a head, * the
causal convolution. All of A, B, C, dt, D are trained; a complex number is two real ones.
Differs from the official and Zoology's layers in the order of the channels before the output layer
(head by head here), which is a permutation of its weights, and from the official training, which
gives A, B and dt a smaller learning rate.
Initialisation as there: linear layers N(0, 0.02) with zero biases; shift B = (1, 0, 0, ...), C
U(-1/sqrt(N), 1/sqrt(N)); diagonal A_n = -1/2 + i pi n, B = 1, C complex normal of variance 1, dt
log-uniform in [0.001, 0.1]; direct paths N(0, 1).
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.h3.options import H3Spec
from recollect.model.layers import Kind, Linear, normal, uniform, weight_and_bias
from recollect.ops.h3 import (
    Diagonal,
    Shift,
    diagonal_filter,
    discretise,
    h3,
    shift_filter,
    shift_keys,
)
from recollect.ops.h3.power_sums import Pair
from recollect.ops.layout import merge_heads, split_heads
from recollect.ops.long_conv import operations, toeplitz

DT_MIN, DT_MAX = 1e-3, 1e-1


class H3(Mixer):
    kinds: Mapping[str, Kind] = dict.fromkeys(
        ("shift_b_PDN", "shift_skip_PD", "a_PHM", "omega_PHM", "b_PHM2", "log_dt_PH", "skip_PH"),
        "dynamics",
    )

    def __init__(self, spec: H3Spec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        population, width = site.population, site.width
        self.heads = heads = width // spec.head
        self.state = state = spec.state or site.length + site.length % 2
        pairs = state // 2
        self.query, self.key, self.value, self.out = (
            Linear(population, width, width, init=normal(0.02)) for _ in range(4)
        )
        self.shift_b_PDN = nn.Parameter(torch.empty(population, width, state))
        self.shift_c_PDN = nn.Parameter(torch.empty(population, width, state))
        self.shift_skip_PD = nn.Parameter(torch.empty(population, width))
        self.a_PHM = nn.Parameter(torch.empty(population, heads, pairs))
        self.omega_PHM = nn.Parameter(torch.empty(population, heads, pairs))
        self.b_PHM2 = nn.Parameter(torch.empty(population, heads, pairs, 2))
        self.c_PHM2 = nn.Parameter(torch.empty(population, heads, pairs, 2))
        self.log_dt_PH = nn.Parameter(torch.empty(population, heads))
        self.skip_PH = nn.Parameter(torch.empty(population, heads))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        width, heads, state = self.site.width, self.heads, self.state
        return {
            "shift_b_PDN": F.one_hot(torch.zeros(width, dtype=torch.int64), state).float(),
            "shift_c_PDN": uniform(state**-0.5)((width, state), generator),
            "shift_skip_PD": normal(1.0)((width,), generator),
            "a_PHM": torch.full((heads, state // 2), math.log(0.5)),
            "omega_PHM": (math.pi * torch.arange(state // 2)).repeat(heads, 1),
            "b_PHM2": torch.tensor([1.0, 0.0]).repeat(heads, state // 2, 1),
            "c_PHM2": normal(0.5**0.5)((heads, state // 2, 2), generator),
            "log_dt_PH": torch.rand(heads, generator=generator) * math.log(DT_MAX / DT_MIN)
            + math.log(DT_MIN),
            "skip_PH": normal(1.0)((heads,), generator),
        }

    def _shift(self) -> Shift:
        return Shift(self.shift_b_PDN, self.shift_c_PDN, self.shift_skip_PD)

    def _diagonal(self) -> Diagonal:
        return Diagonal(
            self.a_PHM, self.omega_PHM, self.b_PHM2, self.c_PHM2, self.log_dt_PH, self.skip_PH
        )

    def _shift_kernel(self, length: int) -> Tensor:
        """Return s as (P, D, L)."""
        return shift_filter(self._shift(), length)

    def _discrete(self) -> tuple[Pair, Pair]:
        """Return Ad and Bd, (P, H, M)."""
        return discretise(self._diagonal())

    def _diagonal_kernel(self, length: int) -> Tensor:
        """Return K as (P, H, L)."""
        return diagonal_filter(self._diagonal(), length)

    def forward(self, x_PBLD: Tensor) -> Tensor:
        return self._mix(x_PBLD, None)

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute the output projection only at the requested positions; a convolution costs the
        same for few positions as for all.
        """
        return self._mix(x_PBLD, where_BK)

    def _mix(self, x_PBLD: Tensor, where_BK: Tensor | None) -> Tensor:
        query, key, value, out = (
            weight_and_bias(layer) for layer in (self.query, self.key, self.value, self.out)
        )
        return h3(x_PBLD, (query, key, value), self._shift(), self._diagonal(), out, where_BK)

    def start(self, batch: int) -> State:
        size, heads, head = (self.site.population, batch), self.heads, self.spec.head
        diagonal_PBHIEM2 = self.b_PHM2.new_zeros(*size, heads, head, head, self.state // 2, 2)
        shift_PBDN = self.shift_b_PDN.new_zeros(*size, self.site.width, self.state)
        return {"shift": shift_PBDN, "diagonal": torch.view_as_complex(diagonal_PBHIEM2)}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        k_PBD = self.key(x_PBD)
        shift_PBDN = (
            F.pad(state["shift"], (1, 0))[..., :-1] + self.shift_b_PDN[:, None] * k_PBD[..., None]
        )
        k_PBD = (shift_PBDN * self.shift_c_PDN[:, None]).sum(-1) + self.shift_skip_PD[
            :, None
        ] * k_PBD
        q_PBHI, k_PBHI, v_PBHE = (
            y_PBD.unflatten(-1, (self.heads, -1))
            for y_PBD in (self.query(x_PBD), k_PBD, self.value(x_PBD))
        )
        product_PBHIE = k_PBHI[..., None] * v_PBHE[..., None, :]
        pairs = (*self._discrete(), self.c_PHM2.unbind(-1))
        ad, bd, c = (torch.complex(*pair)[:, None, :, None, None] for pair in pairs)
        diagonal_PBHIEM = ad * state["diagonal"] + bd * product_PBHIE[..., None]
        mixed_PBHIE = (
            2 * (c * diagonal_PBHIEM).real.sum(-1)
            + self.skip_PH[:, None, :, None, None] * product_PBHIE
        )
        y_PBD = (q_PBHI[..., None] * mixed_PBHIE).sum(-2).flatten(2)
        return self.out(y_PBD), {"shift": shift_PBDN, "diagonal": diagonal_PBHIEM}

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        """Return a matrix per head, (q_i . k~_j) (K[i-j] + D at i = j), acting on the head's
        values.
        """
        q_PBHLD, k_PBHLD, v_PBHLD = (
            split_heads(y, self.heads)
            for y in (
                self.query(x_PBLD),
                shift_keys(self.key(x_PBLD), self._shift()),
                self.value(x_PBLD),
            )
        )
        matrix_PHLL = toeplitz(self._diagonal_kernel(x_PBLD.shape[2]))
        matrix_PHLL = matrix_PHLL + torch.diag_embed(
            self.skip_PH[..., None].expand_as(matrix_PHLL[..., 0])
        )
        weights_PBHLL = (q_PBHLD @ k_PBHLD.transpose(-1, -2)) * matrix_PHLL[:, None]
        return EffectiveAttention(
            weights_PBHLL, v_PBHLD, lambda mixed: self.out(merge_heads(mixed))
        )

    def state_size(self) -> int:
        return self.site.width * self.state * (1 + self.spec.head)

    def operations_per_token(self) -> int:
        width, conv = self.site.width, operations(self.site.length)
        return 4 * width**2 + width * (conv + 1) + self.spec.head * width * (conv + 3)
