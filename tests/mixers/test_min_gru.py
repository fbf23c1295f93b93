"""minGRU beyond the contract: the equations written out, its size, its numbers at the start,
saturated gates, `expand`.
"""

import math

import pytest
import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.min_gru.mixer import MinGRU

DOUBLE = torch.float64


def min_gru(
    width: int = 12, dtype: torch.dtype = torch.float32, length: int = 37, **options: int
) -> MinGRU:
    mixer = Case("min_gru", options).build(population=2, width=width, length=length, dtype=dtype)
    assert isinstance(mixer, MinGRU)
    return mixer


def candidate(u: float) -> float:
    return u + 0.5 if u >= 0 else 1 / (1 + math.exp(-u))


def by_hand(mixer: MinGRU, p: int, x_LD: Tensor) -> Tensor:
    """Channel by channel, from the equations."""
    weights = {name: value[p] for name, value in mixer.state_dict().items()}
    inner = weights["into.weight"].shape[1] // 2
    inside_LE = x_LD @ weights["into.weight"]
    h_LE = torch.zeros(len(x_LD), inner, dtype=x_LD.dtype)
    for channel in range(inner):
        h = 0.0
        for t in range(len(x_LD)):
            z = 1 / (1 + math.exp(-float(inside_LE[t, inner + channel])))
            h = (1 - z) * h + z * candidate(float(inside_LE[t, channel]))
            h_LE[t, channel] = h
    return h_LE @ weights["out.weight"] if "out.weight" in weights else h_LE


@pytest.mark.parametrize("expand", [1, 3])
def test_it_is_the_recurrence_of_the_equations(expand):
    mixer, x_PBLD = spread(min_gru(dtype=DOUBLE, expand=expand)), inputs(2, 2, 19, 12, dtype=DOUBLE)
    y_PBLD = mixer(x_PBLD)
    for p in range(2):
        for b in range(2):
            torch.testing.assert_close(
                y_PBLD[p, b], by_hand(mixer, p, x_PBLD[p, b]), rtol=1e-12, atol=1e-13
            )


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("expand", [1, 2])
def test_parameters_and_state_are_those_of_the_formulas(width, expand):
    mixer = min_gru(width, expand=expand)
    out = expand * width**2 if expand > 1 else 0
    assert sum(value[0].numel() for value in mixer.parameters()) == 2 * expand * width**2 + out
    assert mixer.state_size() == expand * width


def test_a_wider_state_is_still_what_the_contract_says():
    mixer, x_PBLD = spread(min_gru(dtype=DOUBLE, expand=2)), inputs(2, 2, 37, 12, dtype=DOUBLE)
    state, outputs = mixer.start(2), []
    for x_PBD in x_PBLD.unbind(2):
        y_PBD, state = mixer.step(x_PBD, state)
        outputs.append(y_PBD)
    assert state["state"].shape == (2, 2, 24)
    torch.testing.assert_close(torch.stack(outputs, 2), mixer(x_PBLD), rtol=1e-12, atol=1e-12)
    effective = mixer.effective_attention(x_PBLD)
    assert effective.weights_PBHLL.shape == (2, 2, 24, 37, 37)
    torch.testing.assert_close(effective.output(), mixer(x_PBLD), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("expand", [1, 2])
def test_projections_start_as_those_of_pytorch(expand):
    mixer = min_gru(64, expand=expand)
    for name, value in mixer.named_parameters():
        bound = 1 / math.sqrt(value.shape[1])
        assert value.abs().max() <= bound, name
        assert value.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05), name


def test_at_the_start_half_of_the_state_is_replaced_at_every_token():
    mixer, x_PBLD = min_gru(64), inputs(2, 4, 37, 64)
    weights = mixer.effective_attention(x_PBLD).weights_PBHLL
    diagonal = weights.diagonal(dim1=-2, dim2=-1)
    assert diagonal.mean().item() == pytest.approx(0.5, abs=0.02)
    assert (weights >= 0).all()
    assert (weights.sum(-1) <= 1 + 1e-6).all()


@pytest.mark.parametrize("gate", [-80.0, 80.0, -1e4, 1e4])
def test_saturated_gates_keep_or_replace_all_and_stay_finite(gate):
    """In float32, 512 tokens long: keeping is a sum of almost nothing,
    replacing is the candidate itself.
    """
    mixer = min_gru(length=512)
    with torch.no_grad():
        mixer.into.weight[:, 0, 12:] = gate
    x_PBLD = inputs(2, 1, 512, 12)
    x_PBLD[..., 0] = 1
    x_PBLD.requires_grad_()
    y_PBLD = mixer(x_PBLD)
    y_PBLD.sum().backward()
    assert x_PBLD.grad is not None
    assert x_PBLD.grad.isfinite().all()
    candidate_PBLD = (x_PBLD @ mixer.into.weight[:, None])[..., :12]
    wanted = torch.where(candidate_PBLD >= 0, candidate_PBLD + 0.5, candidate_PBLD.sigmoid())
    if gate > 0:
        torch.testing.assert_close(y_PBLD, wanted, rtol=1e-5, atol=1e-5)
    else:
        assert y_PBLD.abs().max() < 1e-20


def test_the_kept_share_is_not_rounded_away():
    """1 - sigmoid(30) is 0 in float32, yet e^-30 of the past is there."""
    mixer = min_gru()
    with torch.no_grad():
        mixer.into.weight.zero_()
        mixer.into.weight[:, 0, 12:] = 30
    keep_PBLE, _, _ = mixer._gates(torch.ones(2, 1, 1, 12))
    torch.testing.assert_close(
        keep_PBLE, torch.full_like(keep_PBLE, math.exp(-30)), rtol=1e-4, atol=0
    )


def test_no_channels_at_all_are_refused(make_run):
    with pytest.raises(SpecError, match=r"mixer\.expand = 0"):
        make_run({"model.mixer": {"name": "min_gru", "expand": 0}})
