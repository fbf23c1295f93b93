"""The delta rule (Schlag et al. 2021), with or without decay (Yang et al. 2025):
exact, in chunks, by triangular solves.

    S_t = exp(g_t) (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T          o_t = S_t^T q_t

Shapes: P population, B batch, H heads, L length, D channels of a key, E of a value, T positions of
one chunk; other leading axes than P, B and H work as well. g <= 0 is the logarithm of the decay;
without it nothing decays.

With S_t = sum_{j<=t} exp(g_{j+1} + ... + g_t) k_j u_j^T, the rule determines u_t, the correction
written at t:

    u_t = beta_t (v_t - exp(g_t) S_{t-1}^T k_t)        so
    (I + strictly_lower(diag(beta) K K^T * decay)) U = diag(beta) V

inside a chunk, after the read of the state before the chunk is subtracted from V. U comes from
forward substitution, never from an inverse. Where one key fills three quarters of 512 positions,
float32 is accurate to 1e-6 for beta up to 1, and to 3e-5 for beta up to 2 without decay.
"""

import math

import torch
from torch import Tensor

# Length 512, width 64, 16 rows, forward and backward on one CPU core: 53 ms in chunks of 64, 171 ms
# by one solve over the whole length; with decay 64 and 231 ms. Chunks of 32 are equally fast,
# chunks of 128 slower. A length up to 64 is a single chunk.
CHUNK = 64


def delta_rule(
    q_PBHLD: Tensor,
    k_PBHLD: Tensor,
    v_PBHLE: Tensor,
    beta_PBHL: Tensor,
    g_PBHL: Tensor | None = None,
) -> Tensor:
    """Return o_PBHLE of the rule from an empty state, differentiable in all; linear in v."""
    chunks = zip(
        *(x.split(CHUNK, dim=-2) for x in (q_PBHLD, k_PBHLD, v_PBHLE, beta_PBHL[..., None])),
        strict=True,
    )
    logs = (
        [None] * math.ceil(q_PBHLD.shape[-2] / CHUNK)
        if g_PBHL is None
        else g_PBHL.split(CHUNK, dim=-1)
    )
    outputs: list[Tensor] = []
    state_PBHDE: Tensor | None = None
    for (q, k, v, beta), g in zip(chunks, logs, strict=True):
        output, state_PBHDE = _chunk(q, k, v, beta, g, state_PBHDE)
        outputs.append(output)
    return torch.cat(outputs, dim=-2)


def unit_delta_rule(
    qkv_PBLF: Tensor, beta_PBLH: Tensor, g_PBLH: Tensor | None, keys: int, heads: int, eps: float
) -> Tensor:
    """Return o_PBLHE of the rule on queries and keys of length one, from their raw channels."""
    q, k, v = unit_heads(qkv_PBLF, keys, heads, eps)
    q, k, v, beta_PBHL = (x.transpose(2, 3) for x in (q, k, v, beta_PBLH))
    return delta_rule(
        q, k, v, beta_PBHL, None if g_PBLH is None else g_PBLH.transpose(2, 3)
    ).transpose(2, 3)


def unit_heads(qkv: Tensor, keys: int, heads: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return q / sqrt(D), k and v, (..., H, D or E), with q and k divided by sqrt(|.|^2 + eps). The
    channels of `qkv` are all of q, then all of k, then all of v.
    """
    parts = qkv.split((heads * keys, heads * keys, qkv.shape[-1] - 2 * heads * keys), dim=-1)
    q, k, v = (part.unflatten(-1, (heads, -1)) for part in parts)
    return _unit(q, eps) * keys**-0.5, _unit(k, eps), v


def _unit(x: Tensor, eps: float) -> Tensor:
    return x * (x.square().sum(-1, keepdim=True) + eps).rsqrt()


def delta_rule_step(
    q_PBHD: Tensor,
    k_PBHD: Tensor,
    v_PBHE: Tensor,
    beta_PBH: Tensor,
    state_PBHDE: Tensor,
    g_PBH: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the output at one more position and the state after it."""
    if g_PBH is not None:
        state_PBHDE = state_PBHDE * g_PBH.exp()[..., None, None]
    correction_PBHE = beta_PBH[..., None] * (v_PBHE - _recall(state_PBHDE, k_PBHD))
    state_PBHDE = state_PBHDE + k_PBHD[..., :, None] * correction_PBHE[..., None, :]
    return _recall(state_PBHDE, q_PBHD), state_PBHDE


def _recall(state_PBHDE: Tensor, key_PBHD: Tensor) -> Tensor:
    return (key_PBHD[..., None, :] @ state_PBHDE).squeeze(-2)


def _chunk(
    q_PBHTD: Tensor,
    k_PBHTD: Tensor,
    v_PBHTE: Tensor,
    beta_PBHT1: Tensor,
    g_PBHT: Tensor | None,
    state_PBHDE: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the outputs of one chunk and the state after it; None is an empty state."""
    keys_PBHDT = k_PBHTD.transpose(-1, -2)
    decay_TT, since_start_T1, until_end_T1 = _decays(g_PBHT, like=q_PBHTD)
    if state_PBHDE is not None:
        v_PBHTE = v_PBHTE - since_start_T1 * (k_PBHTD @ state_PBHDE)
    # The solve reads only what is below the diagonal of this matrix, and assumes ones on it.
    overlap_PBHTT = (beta_PBHT1 * k_PBHTD) @ keys_PBHDT * decay_TT
    u_PBHTE = torch.linalg.solve_triangular(
        overlap_PBHTT, beta_PBHT1 * v_PBHTE, upper=False, unitriangular=True
    )
    o_PBHTE = (q_PBHTD @ keys_PBHDT * decay_TT) @ u_PBHTE
    written_PBHDE = (k_PBHTD * until_end_T1).transpose(-1, -2) @ u_PBHTE
    if state_PBHDE is None:
        return o_PBHTE, written_PBHDE
    o_PBHTE = o_PBHTE + since_start_T1 * (q_PBHTD @ state_PBHDE)
    return o_PBHTE, state_PBHDE * since_start_T1[..., -1:, :] + written_PBHDE


def _decays(g_PBHT: Tensor | None, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the fractions that remain: at i of a write at j (0 for j > i), at i of the chunk's
    initial state, and at the chunk's end of a write at j.
    """
    steps = like.shape[-2]
    lower_TT = like.new_ones(steps, steps).tril()
    if g_PBHT is None:
        one_T1 = like.new_ones(steps, 1)
        return lower_TT, one_T1, one_T1
    # Sums over j+1..i, each added up separately: a difference of sums from the start would cancel
    # where the decay is strong.
    sums_PBHTT = (g_PBHT[..., None] * lower_TT.tril(-1)).cumsum(dim=-2)
    decay_PBHTT = sums_PBHTT.masked_fill(
        lower_TT == 0, -math.inf
    ).exp()  # masked before exp, which could overflow
    return decay_PBHTT, g_PBHT.cumsum(dim=-1).exp()[..., None], decay_PBHTT[..., -1, :, None]
