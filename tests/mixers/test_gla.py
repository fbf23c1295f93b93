"""Gated linear attention beyond the contract: the equations written out, decays of any strength,
numbers at the start.
"""

import itertools
import math
from functools import partial

import pytest
import torch
from torch import Tensor
from zoo import Case, build_as, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.base import Site
from recollect.mixers.build import build_mixer
from recollect.mixers.gla.mixer import GLA
from recollect.model.layers import parameter_kinds
from recollect.ops.gla import decayed_scores
from recollect.spec.model import ModelSpec

P, B, L, D = 2, 2, 11, 12
DOUBLE = torch.float64
gla = partial(build_as, GLA, "gla", population=P, length=L)


def by_hand(mixer: GLA, p: int, x_LD: Tensor) -> Tensor:
    """One member and row, position by position, from the recurrence."""
    heads, weights = (
        mixer.spec.heads,
        {name: value[p] for name, value in mixer.state_dict().items()},
    )
    keys, values = D // 2 // heads, D // heads
    q_LC, k_LC, v_LE, g_LE = (
        x_LD @ weights[f"{part}.weight"] for part in ("query", "key", "value", "gate")
    )
    alpha_LC = torch.sigmoid(
        x_LD @ weights["low.weight"] @ weights["decay.weight"] + weights["decay.bias"]
    ) ** (1 / 16)
    o_LE = torch.zeros_like(v_LE)
    for h in range(heads):
        part, out = slice(h * keys, (h + 1) * keys), slice(h * values, (h + 1) * values)
        memory = torch.zeros(keys, values, dtype=DOUBLE)
        for t in range(len(x_LD)):
            memory = alpha_LC[t, part, None] * memory + torch.outer(k_LC[t, part], v_LE[t, out])
            mixed = q_LC[t, part] @ memory / math.sqrt(keys)
            o_LE[t, out] = mixed / math.sqrt(mixed.square().mean() + 1e-5) * weights["norm.weight"]
    return (o_LE * g_LE * torch.sigmoid(g_LE)) @ weights["out.weight"]


@pytest.mark.parametrize("options", [{}, {"heads": 3}, {"heads": 2, "rank": 3}], ids=str)
def test_it_is_the_equations(options):
    mixer = spread(gla(**options))
    with torch.no_grad():
        mixer.decay.bias.mul_(20)  # decays from almost none to a tenth of the memory left
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    with torch.no_grad():
        y_PBLD = mixer(x_PBLD)
        for p, b in itertools.product(range(P), range(B)):
            torch.testing.assert_close(
                y_PBLD[p, b], by_hand(mixer, p, x_PBLD[p, b]), rtol=0, atol=1e-13
            )


# ---- the scores under a decay ----


def scores_by_hand(q_LD: Tensor, k_LD: Tensor, g_LD: Tensor) -> Tensor:
    length = len(q_LD)
    rows = [
        torch.stack(
            [
                (q_LD[i] * k_LD[j] * g_LD[j + 1 : i + 1].sum(0).exp()).sum()
                if j <= i
                else q_LD.new_zeros(())
                for j in range(length)
            ]
        )
        for i in range(length)
    ]
    return torch.stack(rows)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13])
def test_scores_and_their_gradients_are_the_sum_over_channels(length):
    q, k, gate = (
        inputs(2, length, 5, dtype=DOUBLE, seed=seed).requires_grad_() for seed in range(3)
    )
    g, weights = -gate.square(), inputs(2, length, length, dtype=DOUBLE, seed=4)
    found = decayed_scores(q, k, g)
    wanted = torch.stack([scores_by_hand(*each) for each in zip(q, k, g, strict=True)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-13)
    slopes = [
        torch.autograd.grad((y * weights).sum(), [q, k, gate], retain_graph=True, allow_unused=True)
        for y in (found, wanted)
    ]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(
            one, torch.zeros_like(one) if other is None else other, rtol=0, atol=1e-12
        )


def test_gradients_pass_gradcheck():
    q, k, gate = (inputs(2, 6, 3, dtype=DOUBLE, seed=seed).requires_grad_() for seed in range(3))
    assert torch.autograd.gradcheck(
        lambda q, k, gate: decayed_scores(q, k, -gate.exp()), (q, k, gate)
    )


@pytest.mark.parametrize("strength", [1e-3, 1.0, 30.0, 1e4])
def test_no_decay_is_too_strong_for_single_precision(strength):
    """Outputs and gradients in float32 are those in float64 up to rounding, from no forgetting to
    none left after a step.
    """
    results = []
    for dtype in (torch.float32, DOUBLE):
        q, k, gate = (inputs(2, 200, 8, seed=seed).to(dtype).requires_grad_() for seed in range(3))
        scores = decayed_scores(q, k, -strength * gate.square())
        slopes = torch.autograd.grad(
            (scores * inputs(2, 200, 200, seed=4).to(dtype)).sum(), [q, k, gate]
        )
        results.append((scores.detach(), *slopes))
    for single, double in zip(*results, strict=True):
        assert single.isfinite().all()
        assert float((single - double).abs().max() / double.abs().max()) < 2e-6


def test_a_weak_gradient_of_a_decay_is_not_lost_beside_strong_ones():
    """The last position forgets everything before it but 1e-6; what it is to blame for is not
    hidden by rounding elsewhere.
    """
    slopes = []
    for dtype in (torch.float32, DOUBLE):
        q, k = (inputs(1, 64, 4, seed=seed).to(dtype) * 30 for seed in range(2))
        g = torch.full_like(q, -0.01)
        g[:, -1] = math.log(1e-6)
        (slope,) = torch.autograd.grad(decayed_scores(q, k, g.requires_grad_()).sum(), g)
        slopes.append(slope)
    torch.testing.assert_close(slopes[0][:, -1].double(), slopes[1][:, -1], rtol=1e-4, atol=0)


@pytest.mark.parametrize("sign", [1, -1], ids=["keep", "forget"])
def test_gate_logits_of_eighty_times_the_usual(sign):
    mixer = spread(gla(dtype=torch.float32, population=1, length=256))
    with torch.no_grad():
        mixer.decay.weight.mul_(80)
        mixer.decay.bias.fill_(sign * 80)
    x_PBLD = (inputs(1, B, 256, D) * 3).requires_grad_()
    y_PBLD = mixer(x_PBLD)
    y_PBLD.square().sum().backward()
    assert y_PBLD.isfinite().all()
    assert all(tensor.grad.isfinite().all() for tensor in (x_PBLD, *mixer.parameters()))
    with torch.no_grad():
        exact = mixer.double()(x_PBLD.detach().double())
    assert float((y_PBLD.detach() - exact).abs().max() / exact.abs().max()) < 1e-5


def test_only_queries_keys_and_decays_are_kept_for_the_backward():
    kept = []
    q, k, g = (inputs(2, 64, 8, seed=seed).requires_grad_() for seed in range(3))
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()), lambda x: x):
        decayed_scores(q, k, g)
    assert sum(kept) == 3 * q.numel()


def test_it_builds_and_runs_where_nothing_is_computed():
    with torch.device("meta"):
        y_PBLD = build_mixer(Case("gla").spec(), Site(2, D, 37, 1, "none"))(
            torch.empty(2, 3, 37, D)
        )
    assert y_PBLD.shape == (2, 3, 37, D)
    assert y_PBLD.device.type == "meta"


# ---- numbers ----


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("heads", [1, 4])
def test_parameters_and_state_are_as_published(width, heads):
    mixer = gla(width, population=1, heads=heads)
    assert (
        sum(value.numel() for value in mixer.parameters())
        == 4 * width**2 + 24.5 * width + width // heads
    )
    assert mixer.state_size() == width**2 // (2 * heads)
    rank_four = gla(width, population=1, heads=heads, rank=4)
    assert (
        sum(value.numel() for value in rank_four.parameters())
        == 4 * width**2 + 6.5 * width + width // heads
    )
    assert mixer.operations_per_token() - rank_four.operations_per_token() == 12 * 3 * width // 2


def test_the_start_is_zoologys_and_keeps_0_958_of_the_memory():
    mixer = gla(64, dtype=torch.float32, length=64)
    for part in (
        mixer.query,
        mixer.key,
        mixer.value,
        mixer.gate,
        mixer.low,
        mixer.decay,
        mixer.out,
    ):
        assert float(part.weight.detach().std()) == pytest.approx(0.02, rel=0.06)
        assert not torch.equal(part.weight[0], part.weight[1])
    assert not mixer.decay.bias.any()
    assert (mixer.norm.weight == 1).all()
    assert mixer.norm.eps == 1e-5
    kept = mixer._project(inputs(P, B, 64, 64))[3].detach().exp()
    assert float(kept.mean()) == pytest.approx(0.5 ** (1 / 16), abs=2e-4)
    assert float(kept.std()) < 1e-3


def test_the_bias_of_the_decay_is_dynamics():
    kinds = parameter_kinds(gla())
    assert {name: kind for name, kind in kinds.items() if kind != "weight"} == {
        "decay.bias": "dynamics",
        "norm.weight": "norm",
    }


@pytest.mark.parametrize(
    ("width", "options", "text"),
    [
        (64, {"heads": 5}, "mixer.heads = 5: must divide width = 64"),
        (64, {"heads": 64}, "2 * mixer.heads = 128 must divide it; for example width = 128"),
        (17, {}, "2 * mixer.heads = 2 must divide it; for example width = 16"),
        (64, {"rank": 0}, "rank"),
    ],
)
def test_what_is_no_option_is_refused(width, options, text):
    with pytest.raises(SpecError) as refusal:
        ModelSpec.parse({"mixer": {"name": "gla", **options}, "width": width})
    assert text in str(refusal.value)
