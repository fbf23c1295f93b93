"""Based beyond the contract: the equations written out, the features behind the kernel, and its
numbers at the start.
"""

import itertools
import math
from functools import partial

import pytest
import torch
from zoo import build_as, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.based.mixer import Based, taylor_features
from recollect.mixers.registry import MIXERS
from recollect.model.layers import parameter_kinds
from recollect.spec.model import ModelSpec

P, B, L, D = 2, 2, 11, 12
DOUBLE = torch.float64
based = partial(build_as, Based, "based", population=P, length=L)


@pytest.mark.parametrize(("heads", "features"), [(1, 8), (3, 5), (2, 1)])
def test_it_is_the_equations(heads, features):
    mixer = spread(based(heads=heads, features=features))
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    wanted = torch.zeros_like(x_PBLD)
    size = D // heads
    for p, b, t, h in itertools.product(range(P), range(B), range(L), range(heads)):
        values, keys = slice(h * size, (h + 1) * size), slice(h * features, (h + 1) * features)
        query = x_PBLD[p, b, t] @ mixer.query.weight.detach()[p, :, keys]
        numerator, denominator = torch.zeros(size, dtype=DOUBLE), 0.0
        for j in range(t + 1):
            s = float(
                query @ (x_PBLD[p, b, j] @ mixer.key.weight.detach()[p, :, keys])
            ) / math.sqrt(features)
            numerator += (1 + s + s**2 / 2) * (
                x_PBLD[p, b, j] @ mixer.value.weight.detach()[p, :, values]
            )
            denominator += 1 + s + s**2 / 2
        wanted[p, b, t, values] = numerator / denominator
    wanted = torch.einsum("pbld,pde->pble", wanted, mixer.out.weight.detach())
    torch.testing.assert_close(mixer(x_PBLD).detach(), wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("width", [1, 2, 8, 16])
def test_products_of_features_are_the_kernel(width):
    q, k = inputs(5, width, dtype=DOUBLE), inputs(5, width, dtype=DOUBLE, seed=2)
    s = (q * k).sum(-1) / math.sqrt(width)
    assert taylor_features(q).shape[-1] == 1 + width + width * (width + 1) // 2
    torch.testing.assert_close(
        (taylor_features(q) * taylor_features(k)).sum(-1), 1 + s + s**2 / 2, rtol=1e-13, atol=1e-13
    )


def test_no_weight_is_negative_and_they_sum_to_one():
    mixer = spread(based(heads=2))
    with torch.no_grad():
        # s far below zero, where exp would be zero and a first-order series negative
        mixer.query.weight.mul_(-30)
    weights = mixer.effective_attention(inputs(P, B, L, D, dtype=DOUBLE)).weights_PBHLL
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_large_scores_stay_finite_in_single_precision():
    mixer = based(population=1, dtype=torch.float32)
    with torch.no_grad():
        mixer.query.weight.mul_(1e5)
        mixer.key.weight.mul_(1e5)
    x_PBLD = inputs(1, B, L, D).requires_grad_()
    y_PBLD = mixer(x_PBLD)
    y_PBLD.square().sum().backward()
    assert y_PBLD.isfinite().all()
    assert all(tensor.grad.isfinite().all() for tensor in (x_PBLD, *mixer.parameters()))


# ---- numbers ----


@pytest.mark.parametrize("width", [64, 128])
def test_parameters_and_state_are_as_published(width):
    mixer = based(width, population=1)
    assert sum(value.numel() for value in mixer.parameters()) == 2 * width * 8 + 2 * width**2
    assert mixer.state_size() == 45 * (width + 1)
    many = based(width, population=1, heads=4, features=16)
    assert sum(value.numel() for value in many.parameters()) == 2 * width * 4 * 16 + 2 * width**2
    assert many.state_size() == 4 * 153 * (width // 4 + 1)
    assert many.operations_per_token() == 2 * width * (width + 64) + L * (width + 64) // 2


def test_the_start_is_zoologys_and_a_running_mean():
    mixer = based(64, dtype=torch.float32, length=64)
    for part in (mixer.query, mixer.key, mixer.value, mixer.out):
        assert float(part.weight.detach().std()) == pytest.approx(0.02, rel=0.04)
        assert not torch.equal(part.weight[0], part.weight[1])
    assert set(parameter_kinds(mixer).values()) == {"weight"}
    weights = mixer.effective_attention(inputs(P, B, 64, 64)).weights_PBHLL.detach()
    uniform = torch.ones(64, 64).tril() / torch.arange(1, 65)[:, None]
    later = torch.ones(64, 64, dtype=torch.bool).tril(-1)
    # A channel of q and of k has variance 64 * 0.02^2, so s = q . k / sqrt(8) has a standard
    # deviation of 0.0256.
    assert float((weights / uniform)[..., later].std()) == pytest.approx(0.0256, rel=0.2)


def test_positions_are_learnt_as_in_the_study():
    assert MIXERS["based"].positions == "learned"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"heads": 5}, "mixer.heads = 5: must divide width = 64"),
        ({"features": 0}, "features"),
        ({"features": 257}, "features"),
    ],
)
def test_what_is_no_option_is_refused(options, text):
    with pytest.raises(SpecError) as refusal:
        ModelSpec.parse({"mixer": {"name": "based", **options}, "width": 64})
    assert text in str(refusal.value)
