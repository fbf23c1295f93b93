"""mLSTM beyond the contract: the equations written out, its size, its numbers at the start,
extreme gates, each option.
"""

import math

import pytest
import torch
from torch import Tensor
from zoo import Case, inputs, spread

from recollect.errors import SpecError
from recollect.mixers.mlstm.mixer import MLSTM, NORM_EPS
from recollect.model.layers import parameter_kinds
from recollect.ops.block_heads import heads_and_gates
from recollect.ops.matrix_memory.plain import EPS

DOUBLE = torch.float64
OPTIONS = [
    {},
    {"heads": 3},
    {"kernel": 0},
    {"qkv_block": 0},
    {"qkv_block": 1, "expand": 1, "heads": 2, "kernel": 2},
]


def mlstm(
    width: int = 12,
    dtype: torch.dtype = torch.float32,
    length: int = 37,
    depth: int = 2,
    **options: int,
) -> MLSTM:
    mixer = Case("mlstm", options).build(
        population=2, width=width, length=length, dtype=dtype, depth=depth
    )
    assert isinstance(mixer, MLSTM)
    return mixer


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


def read_by_hand(q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor) -> Tensor:
    """One head's h_LD: the recurrence of C and n as the paper has it, nothing scaled down; in
    float64 that fits here.
    """
    length, channels = q.shape
    memory, normaliser, largest = (
        torch.zeros(channels, channels, dtype=DOUBLE),
        torch.zeros(channels, dtype=DOUBLE),
        1.0,
    )
    outputs = []
    for t in range(length):
        forget, write = sigmoid(f[t]), i[t].exp()
        memory = forget * memory + write * torch.outer(k[t] / math.sqrt(channels), v[t])
        normaliser = forget * normaliser + write * k[t] / math.sqrt(channels)
        largest = max(float(forget * largest), float(write), 1.0)
        divisor = max(abs(float(normaliser @ q[t])), 1.0) + EPS * largest
        outputs.append(memory.T @ q[t] / divisor)
    return torch.stack(outputs)


def by_hand(mixer: MLSTM, p: int, x_LD: Tensor) -> Tensor:
    """The whole block for one row of one member."""
    weights = {name: value[p] for name, value in mixer.state_dict().items()}
    u, z = (x_LD @ weights["up.weight"]).chunk(2, -1)
    c = u
    if "conv.weight" in weights:
        taps = weights["conv.weight"]
        padded = torch.cat((torch.zeros(len(taps) - 1, u.shape[1], dtype=DOUBLE), u))
        c = weights["conv.bias"] + sum(
            taps[tap] * padded[tap : tap + len(u)] for tap in range(len(taps))
        )
        c = c * sigmoid(c)
    q, k, v = (
        x @ torch.block_diag(*weights[name])
        for x, name in ((c, "query_PROO"), (c, "key_PROO"), (u, "value_PROO"))
    )
    gates = torch.cat((q, k, v), -1) @ weights["gates.weight"] + weights["gates.bias"]
    heads, channels = mixer.spec.heads, u.shape[1] // mixer.spec.heads
    normed = []
    for head in range(heads):
        part = slice(head * channels, (head + 1) * channels)
        h = read_by_hand(q[:, part], k[:, part], v[:, part], gates[:, head], gates[:, heads + head])
        centred = h - h.mean(-1, keepdim=True)
        normed.append(centred / (centred.square().mean(-1, keepdim=True) + NORM_EPS).sqrt())
    y = torch.cat(normed, -1) * weights["scale_PE"] + weights["skip_PE"] * c
    return (y * z * sigmoid(z)) @ weights["down.weight"]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_the_recurrence_of_the_equations(options):
    mixer, x_PBLD = spread(mlstm(dtype=DOUBLE, **options)), inputs(2, 2, 19, 12, dtype=DOUBLE)
    y_PBLD = mixer(x_PBLD)
    for p in range(2):
        for b in range(2):
            torch.testing.assert_close(
                y_PBLD[p, b], by_hand(mixer, p, x_PBLD[p, b]), rtol=1e-10, atol=1e-11
            )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_and_effective_attention_agree_with_every_option(options):
    mixer, x_PBLD = spread(mlstm(dtype=DOUBLE, **options)), inputs(2, 2, 37, 12, dtype=DOUBLE)
    state, outputs = mixer.start(2), []
    for x_PBD in x_PBLD.unbind(2):
        y_PBD, state = mixer.step(x_PBD, state)
        outputs.append(y_PBD)
    torch.testing.assert_close(torch.stack(outputs, 2), mixer(x_PBLD), rtol=1e-10, atol=1e-11)
    assert mixer.state_size() == sum(value[0, 0].numel() for value in state.values())
    assert mixer.effective_attention(x_PBLD).weights_PBHLL.shape == (2, 2, mixer.spec.heads, 37, 37)


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize(("heads", "kernel", "block"), [(1, 4, 4), (4, 4, 4), (2, 0, 0)])
def test_parameters_and_state_are_those_of_the_formulas(width, heads, kernel, block):
    mixer, inner = mlstm(width, heads=heads, kernel=kernel, qkv_block=block), 2 * width
    conv = inner * (kernel + 1) if kernel else 0
    gates = 2 * heads * (3 * inner + 1)
    projections = 3 * width * inner + 3 * inner * (block or inner)
    assert (
        sum(value[0].numel() for value in mixer.parameters())
        == projections + conv + gates + 2 * inner
    )
    assert mixer.state_size() == inner**2 // heads + inner + heads + inner * max(0, kernel - 1)


# ---- the start ----


def test_numbers_at_the_start_are_those_of_the_official_code():
    mixer = mlstm(64, heads=4)
    for value in (mixer.up.weight, mixer.query_PROO, mixer.key_PROO, mixer.value_PROO):
        assert value.std().item() == pytest.approx(math.sqrt(2 / (5 * 64)), rel=0.08)
    assert mixer.down.weight.std().item() == pytest.approx(2 / 2 / 8, rel=0.05)
    assert mlstm(64, depth=4).down.weight.std().item() == pytest.approx(2 / 4 / 8, rel=0.05)
    assert not mixer.gates.weight.any()
    assert torch.equal(mixer.gates.bias[:, 4:], torch.tensor([3.0, 4.0, 5.0, 6.0]).expand(2, 4))
    assert (mixer.scale_PE == 1).all()
    assert (mixer.skip_PE == 1).all()
    assert mixer.conv is not None
    assert mixer.conv.weight.abs().max() <= 0.5


def test_the_input_gates_start_near_zero():
    bias = mlstm(256, heads=256).gates.bias[:, :256]
    assert bias.std().item() == pytest.approx(0.1, rel=0.15)
    assert abs(bias.mean().item()) < 0.02


def test_at_the_start_the_memory_lasts_as_long_as_the_forget_bias_says():
    """Relative to no forgetting, a weight shrinks by sigmoid(3) per token in the first head, by
    sigmoid(6) in the last.
    """
    mixer, x_PBLD = mlstm(dtype=DOUBLE, heads=2), inputs(2, 1, 37, 12, dtype=DOUBLE)
    tiny = (
        1e-9  # so small a query that the divisor is its floor, and weights are gates times scores
    )
    with torch.no_grad():
        mixer.query_PROO *= tiny
    decaying = mixer.effective_attention(x_PBLD).weights_PBHLL
    with torch.no_grad():
        mixer.gates.bias[:, 2:] = 1e3
    lasting = mixer.effective_attention(x_PBLD).weights_PBHLL
    ratio = (decaying / lasting)[:, 0, :, 36, 6].log() / 30
    for head, bias in enumerate((3, 6)):
        wanted = torch.full((2,), -math.log1p(math.exp(-bias)), dtype=DOUBLE)
        torch.testing.assert_close(ratio[:, head], wanted, rtol=1e-5, atol=1e-6)


def test_gates_learn_although_their_weights_start_at_zero():
    mixer = mlstm(heads=2)
    mixer(inputs(2, 2, 37, 12)).square().sum().backward()
    assert mixer.gates.weight.grad is not None
    assert (mixer.gates.weight.grad.abs().amax(1) > 0).all()


def test_what_weight_decay_may_spare_is_told_apart():
    kinds = parameter_kinds(mlstm())
    assert kinds["skip_PE"] == kinds["gates.bias"] == "dynamics"
    assert kinds["scale_PE"] == "norm"
    assert kinds["conv.bias"] == "bias"
    assert {name for name, kind in kinds.items() if kind == "weight"} == {
        "up.weight",
        "conv.weight",
        "query_PROO",
        "key_PROO",
        "value_PROO",
        "gates.weight",
        "down.weight",
    }


# ---- extremes ----


@pytest.mark.parametrize("forget", [-200.0, 0.0, 200.0])
@pytest.mark.parametrize("write", [-200.0, 0.0, 200.0])
def test_extreme_gates_stay_finite(forget, write):
    """exp(200) is no float32, and exp(-200) is 0 there;
    in 512 tokens the forget gate multiplies to e^-102400.
    """
    mixer, x_PBLD = mlstm(length=512), inputs(2, 1, 512, 12).requires_grad_()
    with torch.no_grad():
        mixer.gates.bias[:] = torch.tensor([write, forget])
    y_PBLD = mixer(x_PBLD)
    y_PBLD.square().mean().backward()
    assert y_PBLD.isfinite().all()
    for name, tensor in [("input", x_PBLD), *mixer.named_parameters()]:
        assert tensor.grad is not None, name
        assert tensor.grad.isfinite().all(), name


def test_gates_that_jump_do_not_tell_the_two_forms_apart():
    """Input gates from e^-150 to e^150 by turns,
    so that the largest term of a row changes all the time.
    """
    mixer, x_PBLD = mlstm(dtype=DOUBLE, length=64), inputs(2, 2, 64, 12, dtype=DOUBLE)
    with torch.no_grad():
        mixer.gates.weight += 60 * inputs(*mixer.gates.weight.shape, dtype=DOUBLE, seed=3)
    state, outputs, seen = mixer.start(2), [], []
    for x_PBD in x_PBLD.unbind(2):
        y_PBD, state = mixer.step(x_PBD, state)
        outputs.append(y_PBD)
        seen.append(state["logarithm"])
    assert torch.stack(seen).abs().max() > 20
    torch.testing.assert_close(torch.stack(outputs, 2), mixer(x_PBLD), rtol=1e-8, atol=1e-8)


def test_a_memory_of_nothing_reads_nothing():
    """An input gate of e^-200 leaves the direct path: h is 0, and its norm too."""
    mixer, x_PBLD = mlstm(dtype=DOUBLE), inputs(2, 2, 9, 12, dtype=DOUBLE)
    with torch.no_grad():
        mixer.gates.bias[:, 0] = -200
    assert mixer.effective_attention(x_PBLD).weights_PBHLL.abs().max() < 1e-80


# ---- options ----


def test_a_block_sees_its_own_channels_alone():
    mixer = mlstm(dtype=DOUBLE, qkv_block=4, kernel=0)
    u_PBLE = inputs(2, 1, 3, 24, dtype=DOUBLE)
    other_PBLE = u_PBLE.clone()
    other_PBLE[..., 4:8] += 1
    one_qkv, other_qkv = (
        heads_and_gates(x_PBLE, x_PBLE, *mixer._projections())[:3]
        for x_PBLE in (u_PBLE, other_PBLE)
    )
    for one, other in zip(one_qkv, other_qkv, strict=True):
        changed = (one != other).flatten(-2)
        assert changed[..., 4:8].all()
        assert not changed[..., :4].any()
        assert not changed[..., 8:].any()


def test_only_queries_and_keys_see_the_convolution():
    mixer, x_PBLD = mlstm(dtype=DOUBLE), inputs(2, 1, 9, 12, dtype=DOUBLE)
    values = mixer.effective_attention(x_PBLD).values_PBHLD
    with torch.no_grad():
        mixer.conv.weight += 1
    assert torch.equal(mixer.effective_attention(x_PBLD).values_PBHLD, values)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"heads": 5},
            r"mixer\.heads = 5: must divide expand \* width = 32; for example heads = 1",
        ),
        (
            {"qkv_block": 5},
            r"mixer\.qkv_block = 5: must divide expand \* width = 32; for example qkv_block = 1",
        ),
        ({"kernel": -1}, r"mixer\.kernel = -1"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(make_run, options, text):
    with pytest.raises(SpecError, match=text):
        make_run({"model.mixer": {"name": "mlstm", **options}})
