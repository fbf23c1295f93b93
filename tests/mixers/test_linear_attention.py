"""Linear attention beyond the contract: the equations written out, its numbers at the start, and
what each option does.
"""

import itertools
import math

import pytest
import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.linear_attention.mixer import LinearAttention
from recollect.model.layers import parameter_kinds
from recollect.spec.model import ModelSpec

P, B, L, D = 2, 2, 11, 12
DOUBLE = torch.float64
FEATURE_MAPS = {
    "elu+1": lambda x: x + 1 if x > 0 else math.exp(x),
    "relu": lambda x: max(x, 0.0),
    "identity": lambda x: x,
}
every_option = pytest.mark.parametrize(
    ("feature_map", "normaliser"),
    list(itertools.product(FEATURE_MAPS, ["sum", "rms"])),
    ids=lambda value: value,
)


def linear_attention(
    width: int = D, dtype: torch.dtype = DOUBLE, population: int = P, **options: object
) -> LinearAttention:
    mixer = Case("linear_attention", options).build(population=population, width=width, dtype=dtype)
    assert isinstance(mixer, LinearAttention)
    return mixer


def by_hand(mixer: LinearAttention, p: int, x_LD: Tensor) -> Tensor:
    """One member and row, as a sum over the past of every position, from the equations."""
    heads, weights = (
        mixer.spec.heads,
        {name: value[p] for name, value in mixer.state_dict().items()},
    )
    size = D // heads
    q_LD, k_LD, v_LD = (x_LD @ weights[f"{part}.weight"] for part in ("query", "key", "value"))
    q_LD, k_LD = (x.clone().apply_(FEATURE_MAPS[mixer.spec.feature_map]) for x in (q_LD, k_LD))
    y_LD = torch.zeros_like(x_LD)
    for t, h in itertools.product(range(len(x_LD)), range(heads)):
        part = slice(h * size, (h + 1) * size)
        score = [q_LD[t, part] @ k_LD[j, part] for j in range(t + 1)]
        mixed = sum(score[j] * v_LD[j, part] for j in range(t + 1))
        if mixer.spec.normaliser == "sum":
            mixed /= max(abs(sum(score)), 1.0 if mixer.spec.feature_map == "identity" else 1e-6)
        else:
            mixed /= math.sqrt(size)
            mixed *= weights["norm.weight"] / math.sqrt(mixed.square().mean() + 1e-5)
        y_LD[t, part] = mixed
    return y_LD @ weights["out.weight"]


@every_option
@pytest.mark.parametrize("heads", [1, 3])
def test_it_is_the_equations(feature_map, normaliser, heads):
    mixer = spread(linear_attention(heads=heads, feature_map=feature_map, normaliser=normaliser))
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    with torch.no_grad():
        y_PBLD = mixer(x_PBLD)
        for p, b in itertools.product(range(P), range(B)):
            torch.testing.assert_close(
                y_PBLD[p, b], by_hand(mixer, p, x_PBLD[p, b]), rtol=0, atol=1e-13
            )


# ---- sums that are no divisor ----


@pytest.mark.parametrize("feature_map", FEATURE_MAPS)
def test_a_query_that_meets_no_key_reads_nothing(feature_map):
    """relu: a key below zero in every channel; identity: an orthogonal one; elu + 1:
    features that underflow.
    """
    mixer = linear_attention(feature_map=feature_map, population=1)
    mixed, sums = torch.zeros(1, 1, 1, 1, 1, dtype=DOUBLE), torch.zeros(1, 1, 1, 1, 1, dtype=DOUBLE)
    assert (mixed / mixer._denominator(sums)).item() == 0
    x_PBLD = torch.zeros(1, 1, L, D, dtype=DOUBLE, requires_grad=True)
    y_PBLD = mixer(x_PBLD)
    y_PBLD.sum().backward()
    assert not y_PBLD.any()
    assert all(tensor.grad.isfinite().all() for tensor in (x_PBLD, *mixer.parameters()))


def test_weights_of_both_signs_are_bounded_where_their_sum_is_not():
    """q . k of +1 and -1 + 1e-9 would be divided by 1e-9;
    and the output is continuous as the sum crosses zero.
    """
    mixer = linear_attention(feature_map="identity", population=1, heads=D)
    with torch.no_grad():
        for part in (mixer.query, mixer.key, mixer.value, mixer.out):
            part.weight.copy_(torch.eye(D, dtype=DOUBLE))

    def last_output(first: float) -> float:
        x_PBLD = torch.ones(1, 1, 2, D, dtype=DOUBLE)
        x_PBLD[:, :, 0] = first
        return float(mixer(x_PBLD).detach()[0, 0, 1, 0])

    # (-1)(-1) + 1 * 1 over the floor of 1
    assert last_output(-1 + 1e-9) == pytest.approx(2, abs=1e-8)
    assert last_output(-1 - 1e-9) == pytest.approx(last_output(-1 + 1e-9), abs=1e-7)
    assert last_output(3.0) == pytest.approx((9 + 1) / 4)  # sums above the floor divide as they are


def test_weights_without_a_sign_are_a_mean():
    for feature_map in ("elu+1", "relu"):
        mixer = spread(linear_attention(feature_map=feature_map))
        weights = mixer.effective_attention(inputs(P, B, L, D, dtype=DOUBLE)).weights_PBHLL
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_elu_keeps_its_digits_far_below_zero():
    mixer = linear_attention(dtype=torch.float32)
    x = torch.tensor([-80.0, -20.0, -1e-3, 0.0, 2.0], requires_grad=True)
    below = [math.exp(-80), math.exp(-20), math.exp(-1e-3)]
    features = mixer._feature_map(x)
    features.sum().backward()
    torch.testing.assert_close(features.detach(), torch.tensor([*below, 1, 3]), rtol=1e-5, atol=0)
    torch.testing.assert_close(x.grad, torch.tensor([*below, 1, 1]), rtol=1e-5, atol=0)


def test_the_scale_changes_a_norm_and_no_quotient():
    """A scale of queries: gone in the quotient,
    but eps = 1e-5 of the norm sees it while outputs are small.
    """
    for normaliser, same in (("sum", True), ("rms", False)):
        mixer = linear_attention(feature_map="relu", normaliser=normaliser)
        x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
        y_PBLD = mixer(x_PBLD)
        with torch.no_grad():
            mixer.query.weight.mul_(4)
        assert torch.allclose(mixer(x_PBLD), y_PBLD, rtol=1e-9, atol=1e-12) == same


# ---- numbers ----


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("heads", [1, 4])
def test_parameters_and_state_are_as_published(width, heads):
    for normaliser, extra, sums in (("sum", 0, width), ("rms", width // heads, 0)):
        mixer = linear_attention(width, heads=heads, normaliser=normaliser, population=1)
        assert sum(value.numel() for value in mixer.parameters()) == 4 * width**2 + extra
        assert mixer.state_size() == width**2 // heads + sums
        assert mixer.operations_per_token() == 4 * width**2 + mixer.site.length * width


def test_the_start_is_zoologys():
    mixer = linear_attention(128, normaliser="rms", dtype=torch.float32)
    for part in (mixer.query, mixer.key, mixer.value, mixer.out):
        assert float(part.weight.detach().std()) == pytest.approx(0.02, rel=0.02)
        assert abs(float(part.weight.detach().mean())) < 4e-4
        assert not torch.equal(part.weight[0], part.weight[1])
    assert (mixer.norm.weight == 1).all()
    assert mixer.norm.eps == 1e-5
    assert {name for name, kind in parameter_kinds(mixer).items() if kind != "weight"} == {
        "norm.weight"
    }


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"heads": 5}, "mixer.heads = 5: must divide width = 64"),
        ({"feature_map": "softmax"}, "elu+1"),
        ({"normaliser": "none"}, "sum"),
    ],
)
def test_what_is_no_option_is_refused(options, text):
    with pytest.raises(SpecError) as refusal:
        ModelSpec.parse({"mixer": {"name": "linear_attention", **options}, "width": 64})
    assert text in str(refusal.value)
