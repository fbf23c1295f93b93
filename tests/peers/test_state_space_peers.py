"""The selective state spaces against transformers and fla, with copied weights:
outputs and all gradients.

Both packages compute parts in float32 whatever they are given. As they are, they are compared at
float32's precision; and once more with these casts turned into casts to float64, which shows that
rounding is all that is left.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

import pytest
import torch
from fla.layers.mamba import Mamba as FlaMamba
from fla.ops.simple_gla.naive import naive_recurrent_simple_gla
from torch import Tensor, nn
from transformers import Mamba2Config, MambaConfig
from transformers.models.mamba.modeling_mamba import MambaMixer
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer
from zoo import Case, inputs, spread

from recollect.mixers.base import Mixer

WIDTH, LENGTH, ROWS = 24, 37, 3
EXACT, ROUNDED = 1e-13, 2e-6  # of float64, and of float32 after sums over 37 positions
SILU_IS_ONE = 1.2784645427610738
MAMBA_NAMES = {
    "in_proj.weight": "into.weight",
    "conv1d.weight": "conv.weight",
    "conv1d.bias": "conv.bias",
    "x_proj.weight": "select.weight",
    "dt_proj.weight": "delta.weight",
    "dt_proj.bias": "delta.bias",
    "A_log": "a_log_PEN",
    "D": "skip_PE",
    "out_proj.weight": "out.weight",
}
MAMBA2_NAMES = {
    "in_proj.weight": "into.weight",
    "conv1d.weight": "conv.weight",
    "conv1d.bias": "conv.bias",
    "dt_bias": "delta_bias_PH",
    "A_log": "a_log_PH",
    "D": "skip_PH",
    "norm.weight": "norm.weight",
    "out_proj.weight": "out.weight",
}
widths = pytest.mark.parametrize(
    ("wide", "tolerance"), [(False, ROUNDED), (True, EXACT)], ids=["float32", "float64"]
)


@contextmanager
def widened() -> Iterator[None]:
    """Casts to float32 become casts to float64."""
    with (
        patch.object(torch.Tensor, "float", torch.Tensor.double),
        patch.object(torch, "float32", torch.float64),
    ):
        yield


def label(peer: str, wide: bool) -> str:
    return f"{peer}, {'float64 in place of its float32' if wide else 'float32'}"


def as_theirs(name: str, value: Tensor) -> Tensor:
    """One member's tensor in the layout of PyTorch:

    Linear (out, in), Conv1d (channels, 1, taps).
    """
    if name.startswith("conv.weight"):
        return value.T[:, None]
    return value.T if name.endswith("weight") and value.dim() == 2 else value


def built(name: str, wide: bool, **options) -> Mixer:
    dtype = torch.float64 if wide else torch.float32
    return spread(Case(name, options).build(population=1, width=WIDTH, dtype=dtype))


def copied(mixer: Mixer, names: dict[str, str]) -> dict[str, Tensor]:
    """The mixer's weights as a state dict of the other side."""
    ours = {key: value.detach()[0] for key, value in mixer.named_parameters()}
    assert sorted(names.values()) == sorted(ours)
    return {theirs: as_theirs(key, ours[key]) for theirs, key in names.items()}


def compare(
    agree,
    mixer: Mixer,
    twin: nn.Module,
    names: dict[str, str],
    peer: str,
    wide: bool,
    tolerance: float,
) -> None:
    dtype = next(mixer.parameters()).dtype
    x_PBLD = inputs(1, ROWS, LENGTH, WIDTH, dtype=dtype).requires_grad_()
    x_BLD = x_PBLD.detach()[0].clone().requires_grad_()
    weights = inputs(ROWS, LENGTH, WIDTH, dtype=dtype, seed=2)
    y_PBLD = mixer(x_PBLD)
    with widened() if wide else nullcontext():
        found = twin.eval()(x_BLD)
    y_BLD = found[0] if isinstance(found, tuple) else found
    (y_PBLD[0] * weights).sum().backward()
    (y_BLD * weights).sum().backward()
    agree(mixer.spec.name, label(peer, wide), [y_PBLD[0].detach()], [y_BLD.detach()], tolerance)
    ours, theirs = dict(mixer.named_parameters()), dict(twin.named_parameters())
    found = [x_PBLD.grad[0], *(as_theirs(key, ours[key].grad[0]) for key in names.values())]
    # Rows beyond ours belong to a gate that is not there.
    wanted = [
        grad[: len(one)]
        for one, grad in zip(found, (x_BLD.grad, *(theirs[key].grad for key in names)), strict=True)
    ]
    agree(mixer.spec.name, label(peer, wide), found, wanted, tolerance, "gradients")


def transformers_mamba(mixer: Mixer, use_bias: bool = False) -> MambaMixer:
    config = MambaConfig(
        hidden_size=WIDTH,
        state_size=16,
        conv_kernel=4,
        expand=2,
        time_step_rank=2,
        num_hidden_layers=1,
        use_bias=use_bias,
    )
    return MambaMixer(config, layer_idx=0).to(mixer.skip_PE.dtype)


@widths
def test_mamba_is_that_of_transformers(agree, wide, tolerance):
    mixer = built("mamba", wide)
    twin = transformers_mamba(mixer)
    twin.load_state_dict(copied(mixer, MAMBA_NAMES))
    compare(agree, mixer, twin, MAMBA_NAMES, "transformers MambaMixer", wide, tolerance)


@widths
def test_s6_is_mamba_with_a_gate_of_one(agree, wide, tolerance):
    """Their gate cannot be left out, but a bias can hold it where SiLU is 1."""
    mixer = built("s6", wide)
    twin, values = transformers_mamba(mixer, use_bias=True), copied(mixer, MAMBA_NAMES)
    values["in_proj.weight"] = torch.cat(
        (values["in_proj.weight"], torch.zeros_like(values["in_proj.weight"]))
    )
    values["in_proj.bias"] = torch.cat(
        (torch.zeros(2 * WIDTH), torch.full((2 * WIDTH,), SILU_IS_ONE, dtype=torch.float64))
    )
    twin.load_state_dict(values | {"out_proj.bias": torch.zeros(WIDTH)})
    compare(
        agree, mixer, twin, MAMBA_NAMES, "transformers MambaMixer with a gate of 1", wide, tolerance
    )


@widths
def test_mamba_is_that_of_fla(agree, wide, tolerance):
    mixer = built("mamba", wide)
    twin = FlaMamba(hidden_size=WIDTH, state_size=16, intermediate_size=2 * WIDTH, layer_idx=0).to(
        mixer.skip_PE.dtype
    )
    twin.act = nn.SiLU()  # theirs needs a GPU
    twin.load_state_dict(copied(mixer, MAMBA_NAMES))
    compare(agree, mixer, twin, MAMBA_NAMES, "fla Mamba.slow_forward", wide, tolerance)


@widths
@pytest.mark.parametrize("chunk", [16, 64], ids=["three chunks", "one chunk"])
def test_mamba2_is_that_of_transformers(agree, chunk, wide, tolerance):
    config = Mamba2Config(
        hidden_size=WIDTH,
        state_size=32,
        expand=2,
        head_dim=12,
        num_heads=4,
        n_groups=1,
        conv_kernel=4,
        chunk_size=chunk,
        layer_norm_epsilon=1e-5,
        num_hidden_layers=1,
    )
    mixer = built("mamba2", wide, state=32, head=12)
    twin = Mamba2Mixer(config, layer_idx=0).to(mixer.skip_PH.dtype)
    twin.load_state_dict(copied(mixer, MAMBA2_NAMES))
    compare(agree, mixer, twin, MAMBA2_NAMES, "transformers Mamba2Mixer", wide, tolerance)


@widths
def test_mamba2_is_simple_gated_linear_attention(agree, wide, tolerance):
    """q = C, k = B, v = delta v and the gate delta A give its matrices, column by column."""
    mixer = built("mamba2", wide, state=32, head=12)
    dtype = mixer.skip_PH.dtype
    x_PBLD = inputs(1, ROWS, LENGTH, WIDTH, dtype=dtype)
    with torch.no_grad():
        weights_BHLL = mixer.effective_attention(x_PBLD).weights_PBHLL[0]
        _, _, b_PBLN, c_PBLN, delta_PBHL, _ = mixer._projected(x_PBLD)
    q_BLHN, k_BLHN = (value[0, :, :, None].expand(-1, -1, 4, -1) for value in (c_PBLN, b_PBLN))
    delta_BLH = delta_PBHL[0].transpose(1, 2)
    v_BLHL = delta_BLH[..., None] * torch.eye(LENGTH, dtype=dtype)[None, :, None]
    with widened() if wide else nullcontext():
        decay_BLH = delta_BLH * -mixer.a_log_PH.detach()[0].exp()
        theirs_BLHL, _ = naive_recurrent_simple_gla(q_BLHN, k_BLHN, v_BLHL, decay_BLH, scale=1.0)
    direct_HLL = mixer.skip_PH.detach()[0, :, None, None] * torch.eye(LENGTH, dtype=dtype)
    against = label("fla.ops.simple_gla naive recurrent, its matrices", wide)
    agree("mamba2", against, [weights_BHLL], [theirs_BLHL.transpose(1, 2) + direct_HLL], tolerance)
