"""The recurrent networks against torch.nn, transformers' xLSTM, fla's HGRN and a minGRU in
logarithms, with copied weights.

Every peer gets one member's weights as leaves of its own and computes one member's output from
them.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from fla.ops.hgrn.naive import naive_recurrent_hgrn
from torch import Tensor
from transformers.models.xlstm import modeling_xlstm as xlstm
from zoo import Case, inputs, spread

from recollect.mixers.base import Mixer
from recollect.mixers.mlstm.mixer import NORM_EPS

P, B, L, D = 3, 2, 32, 12
DOUBLE, OUTPUTS, GRADIENTS = (
    torch.float64,
    1e-13,
    1e-12,
)  # all in float64, so the tolerances are rounding's
Peer = Callable[[dict[str, Tensor], Tensor], Tensor]  # weights by our names, x_BLD -> y_BLD


def mixer_with_signal(name: str, **options: int) -> Mixer:
    return spread(Case(name, options).build(population=P, width=D, length=L, dtype=DOUBLE))


def compare(agree, name: str, against: str, ours: Mixer, peer: Peer) -> None:
    """Outputs, and gradients of the input and every weight, of all members."""
    x_PBLD, direction = (
        inputs(P, B, L, D, dtype=DOUBLE).requires_grad_(),
        inputs(P, B, L, D, dtype=DOUBLE, seed=2),
    )
    y_PBLD = ours(x_PBLD)
    gradients = torch.autograd.grad((y_PBLD * direction).sum(), [x_PBLD, *ours.parameters()])
    for p in range(P):
        weights = {
            key: value[p].detach().clone().requires_grad_()
            for key, value in ours.named_parameters()
        }
        x_BLD = x_PBLD[p].detach().clone().requires_grad_()
        y_BLD = peer(weights, x_BLD)
        agree(name, against, [y_PBLD[p].detach()], [y_BLD.detach()], OUTPUTS)
        wanted = torch.autograd.grad((y_BLD * direction[p]).sum(), [x_BLD, *weights.values()])
        agree(
            name,
            against,
            [value[p] for value in gradients],
            list(wanted),
            GRADIENTS,
            kind="gradients",
        )


# ---- LSTM and GRU ----


@pytest.mark.parametrize(("name", "module"), [("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU)])
def test_lstm_and_gru_are_those_of_torch(agree, name, module):
    theirs = module(D, D, batch_first=True, dtype=DOUBLE)

    def peer(weights: dict[str, Tensor], x_BLD: Tensor) -> Tensor:
        renamed = {
            "weight_ih_l0": weights["into.weight"].T,
            "weight_hh_l0": weights["recur.weight"].T,
            "bias_ih_l0": weights["into.bias"],
            "bias_hh_l0": weights["recur.bias"],
        }
        return torch.func.functional_call(theirs, renamed, (x_BLD,))[0]

    compare(agree, name, f"torch.nn.{module.__name__}, float64", mixer_with_signal(name), peer)


# ---- minGRU ----


def project(weights: dict[str, Tensor], h_BLE: Tensor) -> Tensor:
    return h_BLE @ weights["out.weight"] if "out.weight" in weights else h_BLE


@pytest.mark.parametrize("expand", [1, 2])
def test_min_gru_is_the_scan_of_fla(agree, monkeypatch, expand):
    """fla casts to float32 whatever it is given;
    with that cast made one to float64 the rest is compared in full.
    """
    monkeypatch.setattr(Tensor, "float", Tensor.double)

    def peer(weights: dict[str, Tensor], x_BLD: Tensor) -> Tensor:
        n, gate = (x_BLD @ weights["into.weight"]).chunk(2, -1)
        positive = torch.where(n >= 0, n + 0.5, n.sigmoid())
        return project(
            weights, naive_recurrent_hgrn(gate.sigmoid() * positive, F.logsigmoid(-gate))[0]
        )

    compare(
        agree,
        "min_gru",
        "fla.ops.hgrn naive, float64",
        mixer_with_signal("min_gru", expand=expand),
        peer,
    )


@pytest.mark.parametrize("expand", [1, 2])
def test_min_gru_is_its_form_in_logarithms(agree, expand):
    """The paper's way: log h from log g and a logcumsumexp, from h_0 = 0."""

    def peer(weights: dict[str, Tensor], x_BLD: Tensor) -> Tensor:
        n, gate = (x_BLD @ weights["into.weight"]).chunk(2, -1)
        log_candidate = torch.where(n >= 0, (F.relu(n) + 0.5).log(), -F.softplus(-n))
        log_kept = -F.softplus(gate).cumsum(1)
        log_input = log_candidate - F.softplus(-gate)
        return project(weights, (log_kept + torch.logcumsumexp(log_input - log_kept, 1)).exp())

    mixer = mixer_with_signal("min_gru", expand=expand)
    compare(agree, "min_gru", "torch.logcumsumexp in log space, float64", mixer, peer)


# ---- mLSTM ----


def mlstm_of_transformers(kernel: Callable[..., Tensor], heads: int, **settings: object) -> Peer:
    """xLSTM's block from transformers' memory and norm and torch's own layers."""

    def peer(weights: dict[str, Tensor], x_BLD: Tensor) -> Tensor:
        u, z = F.linear(x_BLD, weights["up.weight"].T).chunk(2, -1)
        c, inner = u, u.shape[-1]
        if "conv.weight" in weights:
            taps = weights["conv.weight"].T[:, None]
            padded = F.pad(u.transpose(1, 2), (taps.shape[-1] - 1, 0))
            c = F.silu(F.conv1d(padded, taps, weights["conv.bias"], groups=inner).transpose(1, 2))
        q, k, v = (
            x @ torch.block_diag(*weights[name])
            for x, name in ((c, "query_PROO"), (c, "key_PROO"), (u, "value_PROO"))
        )
        gates = F.linear(torch.cat((q, k, v), -1), weights["gates.weight"].T, weights["gates.bias"])
        i, f = gates.transpose(1, 2).contiguous().chunk(2, 1)
        q, k, v = (x.view(B, L, heads, -1).transpose(1, 2).contiguous() for x in (q, k, v))
        h = kernel(query=q, key=k, value=v, igate=i.contiguous(), fgate=f.contiguous(), **settings)
        norm = xlstm.xLSTMMultiHeadLayerNorm(
            heads, inner // heads, eps=NORM_EPS, use_weight=False, force_float32_reductions=False
        )
        y = norm(h.transpose(1, 2)) * weights["scale_PE"] + weights["skip_PE"] * c
        return F.linear(y * F.silu(z), weights["down.weight"].T)

    return peer


KERNELS = [
    ("chunkwise", xlstm.mlstm_chunkwise_native_autograd, {"chunk_size": L}),
    ("chunkwise", xlstm.mlstm_chunkwise_native_autograd, {"chunk_size": 8}),
    ("recurrent", xlstm.mlstm_recurrent_sequence_native, {"dtype_state": DOUBLE}),
]


@pytest.mark.parametrize(
    ("form", "kernel", "settings"), KERNELS, ids=["one chunk", "chunks", "recurrent"]
)
@pytest.mark.parametrize(
    "options", [{"heads": 1}, {"heads": 3}, {"heads": 2, "kernel": 0, "qkv_block": 0}], ids=str
)
def test_mlstm_is_that_of_transformers(agree, form, kernel, settings, options):
    """With open input gates m is positive on both sides, so eps weighs the same in all forms."""
    mixer = mixer_with_signal("mlstm", **options)
    with torch.no_grad():
        mixer.gates.bias[:, : options["heads"]] += 4
    peer = mlstm_of_transformers(kernel, options["heads"], **settings)
    compare(agree, "mlstm", f"transformers xLSTM native {form}, float64", mixer, peer)


@pytest.mark.parametrize(
    ("form", "kernel", "settings"), KERNELS, ids=["one chunk", "chunks", "recurrent"]
)
def test_mlstm_is_that_of_transformers_at_any_gates(agree, monkeypatch, form, kernel, settings):
    """Where m is negative the forms differ by eps, so here eps is 0 on both sides."""
    monkeypatch.setattr("recollect.ops.matrix_memory.plain.EPS", 0.0)
    mixer = mixer_with_signal("mlstm", heads=2)
    with torch.no_grad():
        mixer.gates.bias[:, :2] -= 2
    peer = mlstm_of_transformers(kernel, 2, eps=0.0, **settings)
    compare(agree, "mlstm", f"transformers xLSTM native {form}, float64", mixer, peer)
