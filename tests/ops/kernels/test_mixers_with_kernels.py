"""Every mixer with all kernels on, as on a GPU, against itself without any: outputs, a few
positions, and all gradients.

Each kernel has tests of its own; here it is asked whether the mixers call them rightly.
"""

import sys

import pytest
import torch
from zoo import SINGLE, Case, fitting, inputs, spread

import recollect.mixers.build  # noqa: F401  (loads every module that asks whether to use a kernel)
from recollect.ops import dispatch as kernels

pytest.importorskip("triton", reason="Triton is not installed")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WIDTH, LENGTH = 8, 9
SMALL = {
    "mamba": {"state": 3},
    "s6": {"state": 3},
    "mamba2": {"state": 3},
    "h3": {"state": 4},
}  # the interpreter is slow
CASES = [Case(name, fitting(name, WIDTH) | SMALL.get(name, {})) for name in SINGLE] + [
    Case("attention", {"heads": 2}),
    Case("attention", {}, "rope"),
]
CASES += [
    Case("mamba", {"gate": False, "kernel": 0, "state": 2}),
    Case("mamba2", {"gate": False, "head": 4, "state": 2}),
]


@pytest.fixture
def with_kernels(monkeypatch):
    """Everywhere that `use_triton` was imported to, whatever the device."""

    def switch(on: bool) -> None:
        for name, module in list(sys.modules.items()):
            if (
                name.startswith("recollect.")
                and getattr(module, "use_triton", None) is not None
                and module is not kernels
            ):
                monkeypatch.setattr(module, "use_triton", lambda *tensors: on)

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield switch
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_kernels_change_nothing(case, with_kernels):
    mixer = spread(case.build(population=2, length=LENGTH, width=WIDTH)).to(DEVICE)
    x_PBLD = inputs(2, 1, LENGTH, WIDTH).to(DEVICE).requires_grad_()
    factors = inputs(2, 1, LENGTH, WIDTH, seed=5).to(DEVICE)
    where_BK = torch.tensor([[8, 3]], device=DEVICE)
    found = {}
    for on in (False, True):
        with_kernels(on)
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
