"""RetNet beyond the contract: the equations written out, the decays of its heads,
and its numbers at the start.
"""

import cmath
import itertools
import math
from functools import partial

import pytest
import torch
from torch import Tensor
from zoo import build_as, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.retnet.mixer import RetNet
from recollect.model.layers import parameter_kinds
from recollect.spec.model import ModelSpec

P, B, L, D = 2, 2, 11, 12
DOUBLE = torch.float64
retnet = partial(build_as, RetNet, "retnet", population=P, length=L)


def rotated_product(q_D: Tensor, k_D: Tensor, distance: int) -> float:
    """(R^i q) . (R^j k) for i - j = distance: pairs of channels as complex numbers, the real part
    of q conj(k) e^(i angle).
    """
    half = len(q_D) // 2
    total = 0.0
    for c in range(half):
        one, other = complex(q_D[c], q_D[c + half]), complex(k_D[c], k_D[c + half])
        total += (one * other.conjugate() * cmath.exp(1j * distance * 10_000 ** (-c / half))).real
    return total


def by_hand(mixer: RetNet, p: int, x_LD: Tensor) -> Tensor:
    """One member and row, as a sum over the past of every position, from the equations."""
    heads, weights = (
        mixer.spec.heads,
        {name: value[p] for name, value in mixer.state_dict().items()},
    )
    size, values = D // heads, mixer.spec.expand_v * D // heads
    q_LD, k_LD, v_LE, g_LE = (
        x_LD @ weights[f"{part}.weight"] for part in ("query", "key", "value", "gate")
    )
    o_LE = torch.zeros_like(v_LE)
    for t, h in itertools.product(range(len(x_LD)), range(heads)):
        part, out = slice(h * size, (h + 1) * size), slice(h * values, (h + 1) * values)
        mixed = torch.zeros(values, dtype=DOUBLE)
        for j in range(t + 1):
            decay = (1 - 2.0 ** (-5 - h)) ** (t - j)
            mixed += (
                decay
                * rotated_product(q_LD[t, part], k_LD[j, part], t - j)
                / math.sqrt(size)
                * v_LE[j, out]
            )
        o_LE[t, out] = mixed / math.sqrt(mixed.square().mean() + 1e-5) * weights["norm.weight"]
    return (o_LE * g_LE * torch.sigmoid(g_LE)) @ weights["out.weight"]


@pytest.mark.parametrize("options", [{}, {"heads": 3}, {"expand_v": 1, "heads": 2}], ids=str)
def test_it_is_the_equations(options):
    mixer = spread(retnet(**options))
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    with torch.no_grad():
        y_PBLD = mixer(x_PBLD)
        for p, b in itertools.product(range(P), range(B)):
            torch.testing.assert_close(
                y_PBLD[p, b], by_hand(mixer, p, x_PBLD[p, b]), rtol=0, atol=1e-13
            )


def test_a_head_forgets_at_its_own_fixed_rate():
    """The same token everywhere, read through one slow pair of channels: without its known rotation
    only the decay is left.
    """
    heads, length = 4, 180
    mixer = retnet(32, heads=heads, length=length, population=1)
    with torch.no_grad():
        for part in (mixer.query, mixer.key):
            part.weight.zero_()
            # The slowest pair of a head of 8 channels turns by 1e-3 per position.
            part.weight[:, :, 3::8] = 1
    weights_HLL = (
        mixer.effective_attention(torch.ones(1, 1, length, 32, dtype=DOUBLE))
        .weights_PBHLL[0, 0]
        .detach()
    )
    distance = torch.arange(length, dtype=DOUBLE)
    unrotated_HL = weights_HLL[:, -1].flip(-1) / torch.cos(distance * 1e-3)
    kept_HL = unrotated_HL / unrotated_HL[:, :1]
    for head, half_life in enumerate((22, 44, 88, 177)):
        torch.testing.assert_close(
            kept_HL[head], (1 - 2.0 ** (-5 - head)) ** distance, rtol=1e-10, atol=0
        )
        assert kept_HL[head, half_life] == pytest.approx(0.5, abs=0.01)


def test_steps_far_out_are_as_exact_as_near_ones():
    """The memory is turned back 600 times in single precision; no angle grows with the position."""
    mixer = spread(retnet(dtype=torch.float32, population=1, length=600, heads=2))
    x_PBLD = inputs(1, 1, 600, D)
    with torch.no_grad():
        wanted = mixer.double()(x_PBLD.double())
        mixer.float()
        state = mixer.start(1)
        for x_PBD in x_PBLD.unbind(2):
            y_PBD, state = mixer.step(x_PBD, state)
    assert float((y_PBD - wanted[:, :, -1]).abs().max() / wanted.abs().max()) < 1e-5


# ---- numbers ----


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("heads", [1, 4])
def test_parameters_and_state_are_as_published(width, heads):
    mixer = retnet(width, population=1, heads=heads)
    assert sum(value.numel() for value in mixer.parameters()) == 8 * width**2 + 2 * width // heads
    assert mixer.state_size() == 2 * width**2 // heads
    assert mixer.operations_per_token() == 8 * width**2 + L * 3 * width // 2
    narrow = retnet(width, population=1, heads=heads, expand_v=1)
    assert sum(value.numel() for value in narrow.parameters()) == 5 * width**2 + width // heads
    assert narrow.state_size() == width**2 // heads


def test_the_start_is_zoologys():
    mixer = retnet(64, dtype=torch.float32)
    for part in (mixer.query, mixer.key, mixer.value, mixer.gate, mixer.out):
        assert float(part.weight.detach().std()) == pytest.approx(0.02, rel=0.03)
        assert not torch.equal(part.weight[0], part.weight[1])
    assert (mixer.norm.weight == 1).all()
    assert mixer.norm.eps == 1e-5
    assert {name for name, kind in parameter_kinds(mixer).items() if kind != "weight"} == {
        "norm.weight"
    }


@pytest.mark.parametrize(
    ("width", "options", "text"),
    [
        (64, {"heads": 5}, "mixer.heads = 5: must divide width = 64"),
        (64, {"heads": 64}, "width / heads = 1 must be even"),
        (17, {}, "width / heads = 17 must be even"),
        (64, {"expand_v": 0}, "expand_v"),
    ],
)
def test_what_is_no_option_is_refused(width, options, text):
    with pytest.raises(SpecError) as refusal:
        ModelSpec.parse({"mixer": {"name": "retnet", **options}, "width": width})
    assert text in str(refusal.value)
