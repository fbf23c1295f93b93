"""The sliding window beyond the contract:
where it ends, and that inside it everything is attention.
"""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.base import Site
from recollect.mixers.build import build_mixer
from recollect.mixers.registry import MIXERS
from recollect.mixers.sliding_window.mixer import SlidingWindow
from recollect.model.layers import Noise
from recollect.spec.model import ModelSpec

P, B, L, D = 2, 3, 23, 12
DOUBLE = torch.float64


def sliding(
    positions: str = "none", width: int = D, length: int = L, **options: object
) -> SlidingWindow:
    mixer = Case("sliding_window", options, positions).build(
        population=P, width=width, length=length, dtype=DOUBLE
    )
    assert isinstance(mixer, SlidingWindow)
    return mixer


def by_hand(mixer: SlidingWindow, x_PBLD: Tensor, window: int) -> Tensor:
    """Each query with the keys and values of its own window, one position at a time; one head."""
    parts = x_PBLD @ mixer.qkv.weight[:, None] + mixer.qkv.bias[:, None, None]
    q, k, v = parts.chunk(3, dim=-1)
    mixed = []
    for i in range(x_PBLD.shape[2]):
        seen = slice(max(0, i - window + 1), i + 1)
        scores_PBT = torch.einsum("pbd,pbtd->pbt", q[:, :, i], k[:, :, seen]) / math.sqrt(
            x_PBLD.shape[-1]
        )
        if mixer.relative_PHL is not None:
            scores_PBT = (
                scores_PBT + mixer.relative_PHL[:, 0, : scores_PBT.shape[-1]].flip(-1)[:, None]
            )
        exponentials_PBT = torch.exp(scores_PBT - scores_PBT.amax(-1, keepdim=True))
        mixed.append(
            torch.einsum(
                "pbt,pbtd->pbd",
                exponentials_PBT / exponentials_PBT.sum(-1, keepdim=True),
                v[:, :, seen],
            )
        )
    return torch.stack(mixed, dim=2) @ mixer.out.weight[:, None] + mixer.out.bias[:, None, None]


@pytest.mark.parametrize("positions", ["none", "relative"])
@pytest.mark.parametrize("window", [1, 2, 7, L - 1, L, 10 * L])
def test_it_is_the_equations_written_out(window, positions):
    mixer, x_PBLD = spread(sliding(positions, window=window)), inputs(P, B, L, D, dtype=DOUBLE)
    torch.testing.assert_close(
        mixer(x_PBLD), by_hand(mixer, x_PBLD, window), rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize("positions", ["none", "rope", "alibi", "relative"])
@pytest.mark.parametrize("window", [1, 4])
def test_a_token_is_seen_from_its_own_position_and_window_minus_one_later_ones(window, positions):
    mixer, x_PBLD = (
        spread(sliding(positions, window=window, heads=2)),
        inputs(P, B, L, D, dtype=DOUBLE),
    )
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, 5] += 1
    changed_L = (mixer(x_PBLD) != mixer(other_PBLD)).any(-1).any(1).any(0)
    assert changed_L.nonzero().flatten().tolist() == list(range(5, 5 + window))


@pytest.mark.parametrize("positions", ["none", "rope", "alibi", "relative"])
def test_a_window_over_everything_is_attention_bit_for_bit(positions):
    mixer = spread(sliding(positions, window=L + 3, heads=2))
    whole = Case("attention", {"heads": 2}, positions).build(
        population=P, width=D, length=L, dtype=DOUBLE
    )
    whole.load_state_dict(mixer.state_dict())
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    assert torch.equal(mixer(x_PBLD), whole(x_PBLD))
    narrow = sliding(positions, window=L - 1, heads=2)
    narrow.load_state_dict(
        {
            name: value[..., : L - 1] if name == "relative_PHL" else value
            for name, value in mixer.state_dict().items()
        }
    )
    assert not torch.allclose(narrow(x_PBLD), whole(x_PBLD))


def test_windows_without_keys_in_whole_blocks_of_a_kernel_stay_finite():
    """A fused kernel walks over blocks of keys, most of which a late query does not see at all."""
    length, window = 1100, 5
    mixer = spread(sliding(length=length, window=window)).float()
    x_PBLD = inputs(P, 1, length, D).requires_grad_()
    found, wanted = mixer(x_PBLD), by_hand(mixer, x_PBLD, window)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    one, other = (
        torch.autograd.grad(y.square().sum(), [x_PBLD, *mixer.parameters()])
        for y in (found, wanted)
    )
    for gradient, expected in zip(one, other, strict=True):
        torch.testing.assert_close(
            gradient, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item()
        )


@pytest.mark.parametrize("positions", ["none", "rope", "alibi", "relative"])
def test_the_state_is_the_window_and_forgets_where_it_is(positions):
    """No count of positions is kept: far behind the window's length the steps are still those
    of the parallel form.
    """
    length, window = 60, 4
    mixer, x_PBLD = (
        spread(sliding(positions, length=length, window=window)),
        inputs(P, B, length, D, dtype=DOUBLE),
    )
    state, outputs = mixer.start(B), []
    for t, x_PBD in enumerate(x_PBLD.unbind(2)):
        y_PBD, state = mixer.step(x_PBD, state)
        outputs.append(y_PBD)
        assert {name: value.shape for name, value in state.items()} == dict.fromkeys(
            "kv", (P, B, min(t + 1, window), D)
        )
    torch.testing.assert_close(torch.stack(outputs, 2), mixer(x_PBLD), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("window", [8, 16, 64, 100])
def test_parameters_and_state_follow_the_formulas(width, window):
    mixer = sliding(width=width, length=64, window=window)
    assert sum(parameter[0].numel() for parameter in mixer.parameters()) == 4 * width**2 + 4 * width
    assert mixer.state_size() == 2 * width * min(window, 64)


@pytest.mark.parametrize("window", [3, L + 1])
def test_relative_positions_end_with_the_window(window):
    assert sliding("relative", window=window, heads=2).relative_PHL.shape == (P, 2, min(window, L))


@pytest.mark.parametrize("window", [1, 6, L, 2 * L])
def test_operations_are_counted_over_the_positions_seen(window):
    seen = sum(min(position, window) for position in range(1, L + 1)) / L
    assert sliding(window=window).operations_per_token() == 4 * D**2 + round(2 * D * seen)


@pytest.mark.parametrize("depth", [1, 8])
def test_it_starts_as_attention(depth):
    mixer = Case("sliding_window").build(width=128, depth=depth)
    assert mixer.qkv.weight.std().item() == pytest.approx(0.02, rel=0.01)
    assert mixer.out.weight.std().item() == pytest.approx(0.02 / math.sqrt(2 * depth), rel=0.015)
    assert not mixer.qkv.bias.any()
    assert not mixer.out.bias.any()


def test_dropout_reaches_the_window():
    noise = Noise(P)
    noise.set(torch.arange(P), 0)
    spec = MIXERS["sliding_window"].model_validate({"name": "sliding_window", "window": 4})
    mixer = build_mixer(spec, Site(P, D, L, 2, "none", dropout=0.5, noise=noise)).to(DOUBLE)
    mixer.load_state_dict(spread(sliding(window=4)).state_dict())
    x_PBLD = inputs(P, B, L, D, dtype=DOUBLE)
    assert not torch.allclose(mixer(x_PBLD), by_hand(mixer, x_PBLD, 4))
    torch.testing.assert_close(
        mixer.eval()(x_PBLD), by_hand(mixer, x_PBLD, 4), rtol=1e-11, atol=1e-11
    )


def test_a_wider_window_costs_and_keeps_more():
    mixers = [sliding(window=window) for window in (1, 2, 8, 20)]
    for smaller, larger in pairwise(mixers):
        assert smaller.state_size() < larger.state_size()
        assert smaller.operations_per_token() < larger.operations_per_token()


REFUSALS = [
    ({"window": 0}, "none", "mixer.window = 0: must be at least 1"),
    ({"heads": 7}, "none", "mixer.heads = 7: must divide width = 64; for example heads = 1"),
    ({"heads": 64}, "rope", "width = 64: rope rotates pairs, so width / heads = 1 must be even"),
]


@pytest.mark.parametrize(
    ("options", "positions", "message"), REFUSALS, ids=[str(row[0]) for row in REFUSALS]
)
def test_bad_options_are_refused_with_a_reason(options, positions, message):
    with pytest.raises(SpecError) as caught:
        ModelSpec.parse(
            {"mixer": {"name": "sliding_window", **options}, "positions": positions, "width": 64}
        )
    assert str(caught.value).startswith(message)
