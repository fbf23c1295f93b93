"""mLSTM: xLSTM's matrix memory with exponential gates, in the paper's block (Beck et al. 2024).

    [u, z] = W_up x        c = SiLU(conv(u))
    q = W_q c        k = W_k c        v = W_v u        [i, f] = W_g [q, k, v] + b
    C_t = sigmoid(f_t) C_{t-1} + exp(i_t) k_t v_t^T / sqrt(D)
    n_t = sigmoid(f_t) n_{t-1} + exp(i_t) k_t / sqrt(D)
    h_t = C_t^T q_t / max(|n_t . q_t|, 1)
    y = W_down ((norm(h) * scale + skip * c) * SiLU(z))

All at once, with F_t = log sigmoid(f_1) + ... + log sigmoid(f_t), every row divided by its largest
gate if that exceeds 1:
    G_ij = F_i - F_j + i_j        m_i = max(0, max_{j<=i} G_ij)
    S_ij = q_i . k_j exp(G_ij - m_i) / sqrt(D) for j <= i
    h_i = sum_j S_ij v_j / (max(|sum_j S_ij|, exp(-m_i)) + eps)

Glossary: P population, B batch, L length, E inner channels (expand * width), H heads, D = E / H
channels of a head, R blocks of O = `qkv_block` channels (0: one of all E) on the diagonals of W_q,
W_k and W_v. C is the memory, n its normaliser, m the logarithm of the factor by which both are
scaled down; i and f are a head's input and forget gate before exp and sigmoid, z the output gate;
norm is a layer norm over a head, without shift. Without a convolution c = u, no SiLU.
Differs from the official code in that m is never negative: there exp(-m) overflows once all input
gates of a row are small.
This changes h by at most a relative eps. Also, `scale` itself is stored, not its difference from 1.
Initialisation as there: W_up, W_q, W_k, W_v N(0, 2 / (5 width)), W_down N(0, (2 / depth)^2 /
width), W_g 0, the bias of i N(0, 0.1^2), the bias of f from 3 to 6 in equal steps over the heads,
scale and skip 1, the convolution PyTorch's default.
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.mlstm.options import MLSTMSpec
from recollect.model.layers import Init, Kind, Linear, ShortConv, normal, zeros
from recollect.ops.block_heads import block_heads, heads_and_gates
from recollect.ops.layout import at_positions
from recollect.ops.linear_parts import linear_parts
from recollect.ops.matrix_memory import divisor, matrix_memory, normalised_scores
from recollect.ops.read_out import read_out

NORM_EPS = 1e-5


class MLSTM(Mixer):
    kinds: Mapping[str, Kind] = {"scale_PE": "norm", "skip_PE": "dynamics"}

    def __init__(self, spec: MLSTMSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        population, width = site.population, site.width
        self.inner = inner = spec.expand * width
        self.block = block = spec.qkv_block or inner
        self.small = normal(math.sqrt(2 / (5 * width)))
        self.up = Linear(population, width, 2 * inner, init=self.small, bias=False)
        self.conv = ShortConv(population, inner, spec.kernel) if spec.kernel else None
        self.query_PROO, self.key_PROO, self.value_PROO = (
            nn.Parameter(torch.empty(population, inner // block, block, block)) for _ in range(3)
        )
        self.gates = Linear(
            population,
            3 * inner,
            2 * spec.heads,
            init=zeros,
            bias_init=_gate_bias(spec.heads),
            bias_kind="dynamics",
        )
        self.scale_PE = nn.Parameter(torch.empty(population, inner))
        self.skip_PE = nn.Parameter(torch.empty(population, inner))
        self.down = Linear(
            population, inner, width, init=normal(2 / site.depth / math.sqrt(width)), bias=False
        )

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        blocks = (self.inner // self.block, self.block, self.block)
        projections = {
            name: self.small(blocks, generator) for name in ("query_PROO", "key_PROO", "value_PROO")
        }
        return projections | {"scale_PE": torch.ones(self.inner), "skip_PE": torch.ones(self.inner)}

    def forward(self, x_PBLD: Tensor) -> Tensor:
        u_PBLE, z_PBLE = linear_parts(x_PBLD, self.up.weight, (self.inner, self.inner))
        return self._read(u_PBLE, z_PBLE, None)

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute only the requested rows of the matrix, and norm, gate and projection there."""
        u_PBLE = self.up.columns(x_PBLD, 0, self.inner)
        z_PBKE = self.up.columns(at_positions(x_PBLD, where_BK), self.inner, 2 * self.inner)
        return self._read(u_PBLE, z_PBKE, where_BK)

    def _read(self, u_PBLE: Tensor, z_PBKE: Tensor, where_BK: Tensor | None) -> Tensor:
        """Return the output at K positions, or at all."""
        q_PBKHD, k_PBLHD, v_PBLHD, i_PBLH, f_PBLH, c_PBKE = block_heads(
            self._convolved(u_PBLE), u_PBLE, *self._projections(), where_BK=where_BK
        )
        q_PBHKD, k_PBHLD, v_PBHLD = (x.transpose(2, 3) for x in (q_PBKHD, k_PBLHD, v_PBLHD))
        i_PBHL, f_PBHL = i_PBLH.transpose(2, 3), f_PBLH.transpose(2, 3)
        h_PBHKD, divisor_PBHK = matrix_memory(q_PBHKD, k_PBHLD, v_PBHLD, i_PBHL, f_PBHL, where_BK)
        divisor_PBKH = None if divisor_PBHK is None else divisor_PBHK.transpose(2, 3)
        return self._finish(h_PBHKD.transpose(2, 3), divisor_PBKH, c_PBKE, z_PBKE)

    def _convolved(self, u_PBLE: Tensor) -> Tensor:
        return u_PBLE if self.conv is None else self.conv(u_PBLE, silu=True)

    def _projections(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return W_q, W_k, W_v, W_g and b."""
        assert self.gates.bias is not None
        blocks = self.query_PROO, self.key_PROO, self.value_PROO
        return *blocks, self.gates.weight, self.gates.bias

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        u_PBLE, z_PBLE = self.up(x_PBLD).chunk(2, dim=-1)
        c_PBLE = self._convolved(u_PBLE)
        q_PBHLD, k_PBHLD, v_PBHLD, i_PBHL, f_PBHL = (
            x.transpose(2, 3) for x in heads_and_gates(c_PBLE, u_PBLE, *self._projections())
        )
        return EffectiveAttention(
            normalised_scores(q_PBHLD, k_PBHLD, i_PBHL, f_PBHL),
            v_PBHLD,
            lambda h_PBHLD: self._finish(h_PBHLD.transpose(2, 3), None, c_PBLE, z_PBLE),
        )

    def start(self, batch: int) -> State:
        population, heads, channels = (
            self.site.population,
            self.spec.heads,
            self.inner // self.spec.heads,
        )
        like = self.up.weight
        state = {
            "memory": like.new_zeros(population, batch, heads, channels, channels),
            "normaliser": like.new_zeros(population, batch, heads, channels),
            "logarithm": like.new_zeros(population, batch, heads),
        }
        return state if self.conv is None else state | {"conv": self.conv.start(batch)}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        u_PBE, z_PBE = self.up(x_PBD).chunk(2, dim=-1)
        after, c_PBE = {}, u_PBE
        if self.conv is not None:
            convolved_PBE, after["conv"] = self.conv.step(u_PBE, state["conv"])
            c_PBE = F.silu(convolved_PBE)
        q_PBHD, k_PBHD, v_PBHD, i_PBH, f_PBH = heads_and_gates(c_PBE, u_PBE, *self._projections())
        kept_PBH = F.logsigmoid(f_PBH) + state["logarithm"]
        m_PBH = torch.maximum(kept_PBH, i_PBH).clamp(min=0)
        keep_PBH1, write_PBH1 = (
            (kept_PBH - m_PBH).exp()[..., None],
            (i_PBH - m_PBH).exp()[..., None],
        )
        k_PBHD = write_PBH1 * k_PBHD
        memory_PBHDD = (
            keep_PBH1[..., None] * state["memory"] + k_PBHD[..., None] * v_PBHD[..., None, :]
        )
        normaliser_PBHD = keep_PBH1 * state["normaliser"] + k_PBHD
        read_PBHD = (q_PBHD[..., None, :] @ memory_PBHDD).squeeze(-2)
        h_PBHD = read_PBHD / divisor((q_PBHD * normaliser_PBHD).sum(-1), m_PBH)[..., None]
        after |= {"memory": memory_PBHDD, "normaliser": normaliser_PBHD, "logarithm": m_PBH}
        return self._finish(h_PBHD, None, c_PBE, z_PBE), after

    def _finish(self, h: Tensor, divisor: Tensor | None, c: Tensor, z: Tensor) -> Tensor:
        """Apply norm, direct path, gate and projection to the heads' reads, (P, B, ..., H, D)."""
        return self.down(read_out(h, divisor, c, z, self.scale_PE, self.skip_PE, NORM_EPS))

    def state_size(self) -> int:
        heads, conv = self.spec.heads, self.inner * max(0, self.spec.kernel - 1)
        return self.inner**2 // heads + self.inner + heads + conv

    def operations_per_token(self) -> int:
        width, inner = self.site.width, self.inner
        projections = 3 * width * inner + 3 * inner * self.block + 6 * inner * self.spec.heads
        memory = self.site.length * inner  # scores and values over half the positions on average
        return projections + inner * self.spec.kernel + memory


def _gate_bias(heads: int) -> Init:
    return lambda shape, generator: torch.cat(
        (normal(0.1)((heads,), generator), torch.linspace(3, 6, heads))
    )
