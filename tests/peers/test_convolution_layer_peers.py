"""Whole layers of convolutions against layers put together from torch.nn, with copied weights.

No package that installs without CUDA has BaseConv, Hyena or H3: here they are nn.Linear and
nn.Conv1d, their long convolutions direct sums by conv1d. All in float64.
"""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo import Case, inputs, spread

from recollect.mixers.base import Mixer

DOUBLE = torch.float64
WIDTH, LENGTH, ROWS, MEMBERS = 12, 37, 3, 2
EXACT = 1e-12


def causal_conv1d(u_BLD: Tensor, taps_DL: Tensor) -> Tensor:
    """A direct sum by PyTorch's convolution, which is a correlation: newest tap last."""
    width, taps = taps_DL.shape
    u_BDL = F.pad(u_BLD.transpose(1, 2), (taps - 1, 0))
    return F.conv1d(u_BDL, taps_DL.flip(-1)[:, None], groups=width).transpose(1, 2)


class PlainShort(nn.Module):
    """A depthwise nn.Conv1d that sees no future."""

    def __init__(self, width: int, taps: int):
        super().__init__()
        self.conv = nn.Conv1d(width, width, taps, groups=width, padding=taps - 1)

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.conv(x_BLD.transpose(1, 2))[..., : x_BLD.shape[1]].transpose(1, 2)


class PlainBaseConv(nn.Module):
    def __init__(self, width: int, taps: int | None, lags_L3: Tensor | None):
        super().__init__()
        self.gate, self.lags_L3 = nn.Linear(width, width), lags_L3
        if taps is None:
            self.network = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, width))
        else:
            self.short = PlainShort(width, taps)

    def forward(self, u_BLD: Tensor) -> Tensor:
        mixed = (
            self.short(u_BLD)
            if self.lags_L3 is None
            else causal_conv1d(u_BLD, self.network(self.lags_L3).T) + u_BLD
        )
        return mixed * self.gate(u_BLD) + u_BLD


class Sine(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.frequency = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.frequency * x)


class PlainHyena(nn.Module):
    def __init__(self, width: int, taps: int, hidden: int, lags_LZ: Tensor, trained: bool):
        super().__init__()
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.short = PlainShort(3 * width, taps)
        self.lags = nn.Parameter(lags_LZ) if trained else lags_LZ
        sine, numbers = Sine(hidden), lags_LZ.shape[1]
        self.network = nn.Sequential(
            nn.Linear(numbers, hidden),
            sine,
            nn.Linear(hidden, hidden),
            sine,
            nn.Linear(hidden, hidden),
            sine,
        )
        self.last = nn.Linear(hidden, width, bias=False)
        self.direct = nn.Parameter(torch.ones(width))

    def forward(self, x_BLD: Tensor) -> Tensor:
        length, width = x_BLD.shape[1], x_BLD.shape[2]
        first, second, v = self.short(self.into(x_BLD)).split(width, dim=-1)
        rates = torch.linspace(math.log(0.01) / 1.5, math.log(0.01) / 0.3, width)
        # The envelope is a float32 table in the mixer; this is the same table.
        envelope_LD = torch.exp(-torch.linspace(0, 1, length)[:, None] * rates.abs()).double()
        taps_LD = self.last(self.network(self.lags)) * envelope_LD
        return self.out((causal_conv1d(v * first, taps_LD.T) + self.direct * v * first) * second)


class PlainH3(nn.Module):
    """In the official order of channels: head by head up to the products, and all heads' first
    channels first after them.
    """

    def __init__(self, width: int, state: int, head: int):
        super().__init__()
        heads = width // head
        self.head, self.state = head, state
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        for name, shape in {
            "shift_b": (width, state),
            "shift_c": (width, state),
            "shift_d": (width,),
            "log_dt": (heads,),
        }.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))
        for name, shape in {"rate": (), "turn": (), "b": (2,), "c": (2,)}.items():
            self.register_parameter(name, nn.Parameter(torch.empty(heads, state // 2, *shape)))
        self.direct = nn.Parameter(torch.empty(heads))

    def kernels(self, length: int) -> tuple[Tensor, Tensor]:
        padded_DN = F.pad(self.shift_c, (0, self.state))
        lags = torch.arange(length)[:, None] + torch.arange(self.state)
        shift_DL = torch.einsum(
            "dn,dln->dl", self.shift_b, padded_DN[:, lags.clamp(max=2 * self.state - 1)]
        )
        dt_H1, a_HN = self.log_dt.exp()[:, None], torch.complex(-self.rate.exp(), self.turn)
        b_HN, c_HN = torch.view_as_complex(self.b), torch.view_as_complex(self.c)
        discrete_HN = (1 + dt_H1 * a_HN / 2) / (1 - dt_H1 * a_HN / 2)
        powers_HNL = torch.exp(torch.log(discrete_HN)[..., None] * torch.arange(length))
        diagonal_HL = (
            2
            * torch.einsum(
                "hn,hnl->hl", c_HN * b_HN * dt_H1 / (1 - dt_H1 * a_HN / 2), powers_HNL
            ).real
        )
        return shift_DL, diagonal_HL

    def forward(self, x_BLD: Tensor) -> Tensor:
        length, head = x_BLD.shape[1], self.head
        shift_DL, diagonal_HL = self.kernels(length)
        k_BLD = self.k(x_BLD)
        k_BLD = causal_conv1d(k_BLD, shift_DL) + self.shift_d * k_BLD
        q, k, v = (
            values.unflatten(-1, (-1, head)) for values in (self.q(x_BLD), k_BLD, self.v(x_BLD))
        )
        products = torch.einsum("blhi,blhj->blhij", k, v)
        flat = products.permute(0, 3, 4, 1, 2).flatten(0, 2)
        mixed = (causal_conv1d(flat, diagonal_HL) + self.direct * flat).view(
            x_BLD.shape[0], head, head, length, -1
        )
        y = torch.einsum("blhi,bijlh->bljh", q, mixed)
        return self.out(y.flatten(2))


def as_linear(value: Tensor) -> Tensor:
    return value.T


def as_conv1d(value: Tensor) -> Tensor:
    return value.T[:, None]


def same(value: Tensor) -> Tensor:
    return value


# Of each plain parameter: the mixer's name for it, and how to turn the mixer's values, or their
# gradients, into it.
Names = dict[str, tuple[str, Callable[[Tensor], Tensor]]]


def linears(**names: str) -> Names:
    names = {plain.replace("_at_", "."): own for plain, own in names.items()}
    return {f"{plain}.weight": (f"{own}.weight", as_linear) for plain, own in names.items()} | {
        f"{plain}.bias": (f"{own}.bias", same) for plain, own in names.items()
    }


def compare(
    agree,
    name: str,
    mixer: Mixer,
    make_plain: Callable[[int], nn.Module],
    names: Names,
    length: int = LENGTH,
) -> None:
    x_PBLD = inputs(MEMBERS, ROWS, length, WIDTH, dtype=DOUBLE).requires_grad_()
    outer_PBLD = inputs(MEMBERS, ROWS, length, WIDTH, dtype=DOUBLE, seed=2)
    y_PBLD = mixer(x_PBLD)
    own = dict(mixer.named_parameters())
    assert {own_name for own_name, _ in names.values()} == own.keys()
    gradients = torch.autograd.grad((y_PBLD * outer_PBLD).sum(), [x_PBLD, *own.values()])
    found = dict(zip(own, gradients[1:], strict=True))
    for p in range(MEMBERS):
        plain = make_plain(p).double()
        plain.load_state_dict(
            {key: turn(own[own_name][p].detach()) for key, (own_name, turn) in names.items()}
        )
        x_BLD = x_PBLD[p].detach().clone().requires_grad_()
        y_BLD = plain(x_BLD)
        parameters = dict(plain.named_parameters())
        wanted = torch.autograd.grad((y_BLD * outer_PBLD[p]).sum(), [x_BLD, *parameters.values()])
        against = "the equations, written for the test in torch.nn, float64"
        agree(name, against, [y_PBLD[p].detach()], [y_BLD.detach()], EXACT)
        turned = [turn(found[own_name][p]) for own_name, turn in (names[key] for key in parameters)]
        agree(name, against, [gradients[0][p], *turned], wanted, EXACT, kind="gradients")


@pytest.mark.parametrize("kernel", [2, 3])
def test_short_base_conv_is_a_layer_of_torch_nn(agree, kernel):
    mixer = spread(
        Case("base_conv", {"filter": "short", "kernel": kernel}).build(
            MEMBERS, WIDTH, LENGTH, DOUBLE
        )
    )
    short: Names = {
        "short.conv.weight": ("conv.weight", as_conv1d),
        "short.conv.bias": ("conv.bias", same),
    }
    compare(
        agree,
        "base_conv",
        mixer,
        lambda p: PlainBaseConv(WIDTH, kernel, None),
        linears(gate="gate") | short,
    )


@pytest.mark.parametrize("length", [LENGTH, 150])
def test_long_base_conv_is_a_layer_of_torch_nn(agree, length):
    mixer = spread(Case("base_conv", {"filter": "long"}).build(MEMBERS, WIDTH, length, DOUBLE))
    names = linears(gate="gate", network_at_0="filter_into", network_at_2="filter_out")
    compare(
        agree,
        "base_conv",
        mixer,
        lambda p: PlainBaseConv(WIDTH, None, mixer.get_buffer("lags_L3")),
        names,
        length,
    )


@pytest.mark.parametrize("length", [LENGTH, 150])
@pytest.mark.parametrize("filter_", ["zoology", "safari"])
def test_hyena_is_a_layer_of_torch_nn(agree, filter_, length):
    mixer = spread(
        Case("hyena", {"filter": filter_, "filter_width": 16}).build(MEMBERS, WIDTH, length, DOUBLE)
    )
    trained = filter_ == "zoology"
    names = linears(
        into="into",
        out="out",
        network_at_0="filter_into",
        network_at_2="filter_inner.0",
        network_at_4="filter_inner.1",
    ) | {
        "short.conv.weight": ("short.weight", as_conv1d),
        "short.conv.bias": ("short.bias", same),
        "last.weight": ("filter_out.weight", as_linear),
        "direct": ("skip_PD", same),
    }
    if trained:
        names["lags"] = ("lags_PLZ", same)
    frequencies: Names = {
        f"network.{place}.frequency": ("omega_PF", same) for place in (1, 3, 5)
    }  # one vector, three places

    def make_plain(p: int) -> nn.Module:
        lags_LZ = mixer.lags_PLZ[p].detach().clone() if trained else mixer.get_buffer("lags_LZ")
        return PlainHyena(WIDTH, 3, 16, lags_LZ, trained)

    compare(agree, "hyena", mixer, make_plain, names | frequencies, length)


@pytest.mark.parametrize(("state", "length"), [(8, LENGTH), (64, LENGTH), (150, 150)])
@pytest.mark.parametrize("head", [1, 2, 4])
def test_h3_is_a_layer_of_torch_nn(agree, head, state, length):
    mixer = spread(Case("h3", {"head": head, "state": state}).build(MEMBERS, WIDTH, length, DOUBLE))

    def officially_ordered(weight_IO: Tensor) -> Tensor:
        """The output layer's inputs: ours go through one head after the other, the official ones
        through all heads at once.
        """
        return weight_IO.unflatten(0, (-1, head)).transpose(0, 1).flatten(0, 1).T

    plain_own = {
        "shift_b": "shift_b_PDN",
        "shift_c": "shift_c_PDN",
        "shift_d": "shift_skip_PD",
        "log_dt": "log_dt_PH",
        "rate": "a_PHM",
        "turn": "omega_PHM",
        "b": "b_PHM2",
        "c": "c_PHM2",
        "direct": "skip_PH",
    }
    names = linears(q="query", k="key", v="value", out="out") | {
        plain: (own, same) for plain, own in plain_own.items()
    }
    names["out.weight"] = ("out.weight", officially_ordered)
    compare(agree, "h3", mixer, lambda p: PlainH3(WIDTH, state, head), names, length)
