"""What a mixer of the package's own kind sees beyond its own past: nothing, or it is told."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from recollect.mixers.base import Mixer, Site
from recollect.mixers.build import build_mixer
from recollect.mixers.plugins.causality import find_leak
from recollect.mixers.registry import MIXERS
from recollect.model.layers import Noise, initialise

WIDTH, LENGTH = 6, 11


def test_the_package_itself_passes_its_own_check():
    """One mixer of each way of computing; the others are checked bit for bit in test_mixers.py."""
    for name in ("attention", "mamba", "hyena", "delta_net", "gru"):
        site = Site(2, 16, LENGTH, 1, "none", noise=Noise(2))
        mixer = build_mixer(MIXERS[name].model_validate({"name": name}), site)
        initialise(mixer, [0, 1])
        assert find_leak(mixer, 16, LENGTH) is None, name


class Leaking(Mixer):
    """A mixer of the package's own kind, which has all members in its hands."""

    def __init__(self, leak: Callable[[Tensor, Tensor], object]):
        super().__init__()
        self.leak = leak

    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {}

    def state_size(self) -> int | None:
        return None

    def operations_per_token(self) -> int:
        return 0

    def forward(self, x_PBLD: Tensor) -> Tensor:
        y_PBLD = x_PBLD.clone()
        self.leak(y_PBLD, x_PBLD)
        return y_PBLD


@pytest.mark.parametrize(
    "leak",
    [
        lambda y, x: y.sub_(x.mean(0)),
        lambda y, x: y[0, -1].add_(x[1, -1]),  # in the last row alone
        lambda y, x: y[0, :, -1, 0].add_(x[1, :, 0, 1]),  # at the last position alone
    ],
)
def test_members_that_see_one_another_are_told(leak):
    found = find_leak(Leaking(leak), WIDTH, LENGTH, "everything")
    assert found is not None
    assert found.kind == "members"
    assert found.text.startswith("the output of member 0 depends on the input of member 1")
    assert find_leak(Leaking(lambda y, x: None), WIDTH, LENGTH) is None


def test_a_layer_that_rounds_inside_has_a_larger_tolerance():
    """A sum in another order differs by more in bf16, and no more than that is let pass."""
    small, large = (
        Leaking(lambda y, x, share=share: y[:, :, 0].add_(share * x[:, :, -1]))
        for share in (1e-3, 0.1)
    )
    assert find_leak(small, WIDTH, LENGTH, is_rounded=True) is None
    assert find_leak(small, WIDTH, LENGTH).kind == "future"
    assert find_leak(large, WIDTH, LENGTH, is_rounded=True).kind == "future"
