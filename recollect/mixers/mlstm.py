"""mLSTM: xLSTM's matrix memory with exponential gates, in the block that the paper puts around it (Beck et al. 2024).

    [u, z] = W_up x      c = SiLU(conv(u))      q = W_q c      k = W_k c      v = W_v u      [i, f] = W_g [q, k, v] + b
    C_t = sigmoid(f_t) C_{t-1} + exp(i_t) k_t v_t^T / sqrt(D)      n_t = sigmoid(f_t) n_{t-1} + exp(i_t) k_t / sqrt(D)
    h_t = C_t^T q_t / max(|n_t . q_t|, 1)                          y = W_down ((norm(h) * scale + skip * c) * SiLU(z))

All at once, with F_t = log sigmoid(f_1) + ... + log sigmoid(f_t), every row divided by its largest gate if that exceeds 1:
    G_ij = F_i - F_j + i_j         m_i = max(0, max_{j<=i} G_ij)   S_ij = q_i . k_j exp(G_ij - m_i) / sqrt(D) for j <= i
    h_i = sum_j S_ij v_j / (max(|sum_j S_ij|, exp(-m_i)) + eps)

Glossary: P population, B batch, L length, E inner channels (expand * width), H heads, D = E / H channels of a head, R blocks of
O = `qkv_block` channels (0: one of all E) on the diagonals of W_q, W_k and W_v. C is the memory, n its normaliser, m the
logarithm of what both are scaled down by; i and f are a head's input and forget gate before exp and sigmoid, z the output gate;
norm is a layer norm over a head, without shift. Without a convolution c = u, no SiLU.
Differs from the official code in that m is never negative: there exp(-m) overflows once all input gates of a row are small.
This changes h by at most eps of it. And `scale` is stored itself, not its difference from 1.
Initialisation as there: W_up, W_q, W_k, W_v N(0, 2 / (5 width)), W_down N(0, (2 / depth)^2 / width), W_g 0, the bias of i
N(0, 0.1^2), that of f from 3 to 6 in equal steps over the heads, scale and skip 1, the convolution PyTorch's default.
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.nn import Init, Kind, Linear, ShortConv, at_positions, normal, zeros
from recollect.ops.gated_scores import gated_scores
from recollect.ops.heads import merge_heads, split_heads
from recollect.ops.kernels import use_kernel
from recollect.ops.norm import norm
from recollect.ops.silu_gate import silu_gate
from recollect.spec.mixers.recurrent import MLSTMSpec

EPS, NORM_EPS = 1e-6, 1e-5


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
            population, 3 * inner, 2 * spec.heads, init=zeros, bias_init=_gate_bias(spec.heads), bias_kind="dynamics"
        )
        self.scale_PE = nn.Parameter(torch.empty(population, inner))
        self.skip_PE = nn.Parameter(torch.empty(population, inner))
        self.down = Linear(population, inner, width, init=normal(2 / site.depth / math.sqrt(width)), bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        blocks = (self.inner // self.block, self.block, self.block)
        projections = {name: self.small(blocks, generator) for name in ("query_PROO", "key_PROO", "value_PROO")}
        return projections | {"scale_PE": torch.ones(self.inner), "skip_PE": torch.ones(self.inner)}

    def forward(self, x_PBLD: Tensor) -> Tensor:
        return self._read(x_PBLD, None) if use_kernel(x_PBLD) else self.effective_attention(x_PBLD).output()

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Only the rows of the matrix that are asked for, and norm, gate and projection there."""
        return self._read(x_PBLD, where_BK)

    def _read(self, x_PBLD: Tensor, where_BK: Tensor | None) -> Tensor:
        """The output at K positions, or everywhere, with the matrix as a product of scores and gates of rows and columns."""
        u_PBLE = self.up.columns(x_PBLD, 0, self.inner)
        asked_PBKD = x_PBLD if where_BK is None else at_positions(x_PBLD, where_BK)
        z_PBKE = self.up.columns(asked_PBKD, self.inner, 2 * self.inner)
        c_PBLE = u_PBLE if self.conv is None else self.conv(u_PBLE, silu=True)
        q_PBHKD, k_PBHLD, v_PBHLD, i_PBHL, f_PBHL = (x.transpose(2, 3) for x in self._heads(c_PBLE, u_PBLE))
        past_PBHL = F.logsigmoid(f_PBHL).double().cumsum(-1)
        column_PBHL = i_PBHL.double() - past_PBHL
        m_PBHK = (past_PBHL + column_PBHL.cummax(-1).values).clamp(min=0)
        row_PBHK = past_PBHL - m_PBHK
        if where_BK is not None:
            index = where_BK[None, :, None].expand(*m_PBHK.shape[:3], -1)
            m_PBHK, row_PBHK = m_PBHK.gather(3, index), row_PBHK.gather(3, index)
            q_PBHKD = split_heads(at_positions(merge_heads(q_PBHKD), where_BK), self.spec.heads)
            c_PBLE = at_positions(c_PBLE, where_BK)
        sum_PBHKD, total_PBHK = gated_scores(q_PBHKD, k_PBHLD, v_PBHLD, row_PBHK, column_PBHL, None, where_BK)
        divisor_PBHK = _divisor(total_PBHK, m_PBHK.to(total_PBHK.dtype))
        h_PBHKD = (sum_PBHKD / divisor_PBHK[..., None]).to(v_PBHLD.dtype)
        return self._finish(h_PBHKD.transpose(2, 3), c_PBLE, z_PBKE)

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        u_PBLE, z_PBLE = self.up(x_PBLD).chunk(2, dim=-1)
        c_PBLE = u_PBLE if self.conv is None else self.conv(u_PBLE, silu=True)
        q_PBHLD, k_PBHLD, v_PBHLD, i_PBHL, f_PBHL = (x.transpose(2, 3) for x in self._heads(c_PBLE, u_PBLE))
        weights_PBHLL = _weights(q_PBHLD @ k_PBHLD.transpose(-1, -2), i_PBHL, f_PBHL)
        return EffectiveAttention(weights_PBHLL, v_PBHLD, lambda h_PBHLD: self._finish(h_PBHLD.transpose(2, 3), c_PBLE, z_PBLE))

    def start(self, batch: int) -> State:
        population, heads, channels = self.site.population, self.spec.heads, self.inner // self.spec.heads
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
        q_PBHD, k_PBHD, v_PBHD, i_PBH, f_PBH = self._heads(c_PBE, u_PBE)
        kept_PBH = F.logsigmoid(f_PBH) + state["logarithm"]
        m_PBH = torch.maximum(kept_PBH, i_PBH).clamp(min=0)
        keep_PBH1, write_PBH1 = (kept_PBH - m_PBH).exp()[..., None], (i_PBH - m_PBH).exp()[..., None]
        k_PBHD = write_PBH1 * k_PBHD
        memory_PBHDD = keep_PBH1[..., None] * state["memory"] + k_PBHD[..., None] * v_PBHD[..., None, :]
        normaliser_PBHD = keep_PBH1 * state["normaliser"] + k_PBHD
        read_PBHD = (q_PBHD[..., None, :] @ memory_PBHDD).squeeze(-2)
        h_PBHD = read_PBHD / _divisor((q_PBHD * normaliser_PBHD).sum(-1), m_PBH)[..., None]
        after |= {"memory": memory_PBHDD, "normaliser": normaliser_PBHD, "logarithm": m_PBH}
        return self._finish(h_PBHD, c_PBE, z_PBE), after

    def _heads(self, c: Tensor, u: Tensor) -> tuple[Tensor, ...]:
        """q, k / sqrt(D), v as (P, B, ..., H, D), and i and f as (P, B, ..., H)."""
        q, k, v = (_by_blocks(x, weight) for x, weight in ((c, self.query_PROO), (c, self.key_PROO), (u, self.value_PROO)))
        i, f = self._gates(q, k, v).chunk(2, dim=-1)
        q, k, v = (x.unflatten(-1, (self.spec.heads, -1)) for x in (q, k, v))
        return q, k / math.sqrt(k.shape[-1]), v, i, f

    def _gates(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """i and f beside each other."""
        if not use_kernel(q):
            return self.gates(torch.cat((q, k, v), dim=-1))
        # Three products with a part of the weights each: q, k and v need not be copied into one tensor.
        assert self.gates.bias is not None
        parts = zip((q, k, v), self.gates.weight.split(self.inner, dim=1), strict=True)
        products = [torch.bmm(part.flatten(1, -2), weight).float() for part, weight in parts]
        total_PMO = products[0] + products[1] + products[2] + self.gates.bias[:, None]
        return total_PMO.view(*q.shape[:-1], -1)

    def _finish(self, h: Tensor, c: Tensor, z: Tensor) -> Tensor:
        """Norm, direct path, gate and projection of what the heads (P, B, ..., H, D) read."""
        if use_kernel(h):
            ones_PD = torch.ones(h.shape[0], h.shape[-1], device=h.device)
            normed = norm(h, ones_PD, None, NORM_EPS, "layer").flatten(-2)
        else:
            normed = F.layer_norm(h, h.shape[-1:], eps=NORM_EPS).flatten(-2)
        members = (slice(None), *[None] * (c.dim() - 2))
        return self.down(silu_gate(torch.addcmul(normed * self.scale_PE[members], self.skip_PE[members], c), z))

    def state_size(self) -> int:
        heads, conv = self.spec.heads, self.inner * max(0, self.spec.kernel - 1)
        return self.inner**2 // heads + self.inner + heads + conv

    def operations_per_token(self) -> int:
        width, inner = self.site.width, self.inner
        projections = 3 * width * inner + 3 * inner * self.block + 6 * inner * self.spec.heads
        memory = self.site.length * inner  # scores and values over on average half the positions each
        return projections + inner * self.spec.kernel + memory


def _by_blocks(x: Tensor, weight_PROO: Tensor) -> Tensor:
    """x (P, B, ..., E) times a block-diagonal matrix per member."""
    population, blocks, size, _ = weight_PROO.shape
    if use_kernel(x) and blocks > 1:
        # Tensor cores make nothing of blocks of four: the zeros around them cost less.
        dense_PROSO = torch.diag_embed(weight_PROO.permute(0, 2, 3, 1), dim1=1, dim2=3)
        return torch.bmm(x.flatten(1, -2), dense_PROSO.reshape(population, blocks * size, -1)).view(x.shape)
    y_PMRO = torch.einsum("pmri,prio->pmro", x.reshape(population, -1, blocks, size), weight_PROO)
    return y_PMRO.reshape(x.shape)


def _weights(scores_PBHLL: Tensor, i_PBHL: Tensor, f_PBHL: Tensor) -> Tensor:
    """The normalised S of the equations above."""
    length = scores_PBHLL.shape[-1]
    past_PBHL = F.logsigmoid(f_PBHL).cumsum(-1)
    future_LL = torch.ones(length, length, dtype=torch.bool, device=scores_PBHLL.device).triu(1)
    # In this order the diagonal is exactly i, however large the sums of forget gates have become.
    log_PBHLL = past_PBHL[..., None] - past_PBHL[..., None, :] + i_PBHL[..., None, :]
    log_PBHLL = log_PBHLL.masked_fill(future_LL, -math.inf)
    m_PBHL = log_PBHLL.amax(-1).clamp(min=0)
    gated_PBHLL = scores_PBHLL * (log_PBHLL - m_PBHL[..., None]).exp()
    return gated_PBHLL / _divisor(gated_PBHLL.sum(-1), m_PBHL)[..., None]


def _divisor(total: Tensor, m: Tensor) -> Tensor:
    """What the scaled read is divided by: at least exp(-m), which is 1 before scaling."""
    return torch.maximum(total.abs(), torch.exp(-m)) + EPS


def _gate_bias(heads: int) -> Init:
    return lambda shape, generator: torch.cat((normal(0.1)((heads,), generator), torch.linspace(3, 6, heads)))
