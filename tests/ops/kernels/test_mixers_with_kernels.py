"""Every mixer with all kernels on, as on a GPU, against itself without any and in float64: outputs,
a few positions, and all gradients.

Each kernel has tests of its own; here it is asked whether the mixers call them rightly.
"""

import contextlib
from collections.abc import Callable

import pytest
import torch
from zoo import SINGLE, Case, fitting, inputs, spread

from recollect.mixers.attention.mixer import Attention
from recollect.mixers.base import Mixer
from recollect.mixers.registry import MIXERS

pytest.importorskip("triton", reason="Triton is not installed")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WIDTH, LENGTH = 8, 9


def kernel_cases() -> list[Case]:
    """Defaults, combinations of options, two heads, and positions on the scores."""
    found = []
    for name in SINGLE:
        options, small = MIXERS[name], fitting(name, WIDTH) | small_state(name)
        found += [Case(name, small), *(Case(name, small | c) for c in options.option_combinations)]
        found += [Case(name, small, positions) for positions in options.positions_inside]
        found += [Case(name, small | {"heads": 2})] if "heads" in options.model_fields else []
    return found


def small_state(name: str) -> dict[str, int]:
    """For the interpreter, which is slow: an odd state where the mixer may have one."""
    if "state" not in MIXERS[name].model_fields:
        return {}
    for state in (3, 4):
        with contextlib.suppress(ValueError):
            table = {"name": name, **fitting(name, WIDTH), "state": state}
            MIXERS[name].model_validate(table).check(WIDTH, 2, "none")
            return {"state": state}
    return {}


@pytest.mark.parametrize("case", kernel_cases(), ids=lambda case: case.id)
def test_kernels_change_nothing(case, switch_kernels):
    compare(case.build(population=2, length=LENGTH, width=WIDTH), switch_kernels)


DROPPING = [case for case in kernel_cases() if case.name in ("attention", "sliding_window")]
# Sequences of one tile, and of several.
LENGTHS = [(case, LENGTH) for case in DROPPING]
LENGTHS += [(case, 70) for case in DROPPING if "conv" not in case.options]


@pytest.mark.parametrize(
    ("case", "length"), LENGTHS, ids=[f"{case.id}-{length}" for case, length in LENGTHS]
)
def test_kernels_drop_what_plain_operations_drop(case, length, switch_kernels):
    mixer = case.build(population=2, length=length, width=WIDTH, dropout=0.3)
    assert isinstance(mixer, Attention)
    assert mixer.dropout is not None
    mixer.dropout.noise.set(torch.tensor([1, 2]), step=4)
    compare(mixer, switch_kernels)


def compare(mixer: Mixer, switch_kernels: Callable[[bool], None]) -> None:
    mixer, length = spread(mixer).to(DEVICE), mixer.site.length
    where_BK = torch.tensor([[8, 3]], device=DEVICE)
    found = {}
    for on, dtype in ((True, torch.float32), (False, torch.float64)):
        switch_kernels(on)
        mixer.to(dtype)
        x_PBLD = inputs(2, 1, length, WIDTH).to(DEVICE, dtype).requires_grad_()
        factors = inputs(2, 1, length, WIDTH, seed=5).to(DEVICE, dtype)
        y_PBLD, y_PBKD = mixer(x_PBLD), mixer.at(x_PBLD, where_BK)
        loss = (y_PBLD * factors).sum() + (y_PBKD * factors[:, :, :2]).sum()
        found[on] = [
            y_PBLD.detach(),
            y_PBKD.detach(),
            *torch.autograd.grad(loss, [x_PBLD, *mixer.parameters()]),
        ]
    largest = max(float(gradient.abs().max()) for gradient in found[False][2:])
    names = ["output", "a few positions", "input", *dict(mixer.named_parameters())]
    for name, one, other in zip(names, found[True], found[False], strict=True):
        # A parameter without effect has a gradient of rounding errors alone, and the terms of a sum
        # over rows may almost cancel: such a gradient is right to the digits of its terms, which
        # are as large as other gradients.
        scale = max(float(other.abs().max()), 3e-2 * largest)
        assert float((one - other).abs().max()) < 2e-5 * scale, name
