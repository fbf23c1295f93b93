"""Comparison with what other people wrote:
`agree` asserts, and remembers the largest deviation for docs/mixers.md.

These packages are heavy and in an extra of their own: `make peers` installs and runs them.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore"
    )  # they say at import that there is no GPU, which is why only their plain PyTorch is used
    import fla.ops  # noqa: F401
    import transformers  # noqa: F401

_FOUND: dict[tuple[str, str], dict[str, float]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--deviations",
        metavar="FILE",
        help="write the largest deviation of each comparison here, as JSON",
    )


@pytest.fixture
def agree() -> Callable[..., None]:
    """agree(mixer, against, outputs, wanted, tolerance):
    each pair of tensors, relative to the largest value wanted.

    `kind` is "outputs" or "gradients"; `against` names the package, the class or function, and the
    dtype it computes in.
    """

    def check(
        mixer: str,
        against: str,
        found: Sequence[Tensor],
        wanted: Sequence[Tensor],
        tolerance: float,
        kind: str = "outputs",
    ) -> None:
        worst = 0.0
        for one, other in zip(found, wanted, strict=True):
            assert one.shape == other.shape
            one, other = one.detach(), other.detach()
            largest = other.abs().max()
            assert largest > 0, "a comparison of zeros shows nothing"
            worst = max(worst, float((one - other).abs().max() / largest))
        entry = _FOUND.setdefault((mixer, against), {})
        entry[kind] = max(entry.get(kind, 0.0), worst)
        assert worst < tolerance

    return check


@pytest.fixture(scope="session", autouse=True)
def _write_deviations(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    target = request.config.getoption("--deviations")
    if target:
        rows = [
            {"mixer": mixer, "against": against, **kinds}
            for (mixer, against), kinds in sorted(_FOUND.items())
        ]
        Path(target).write_text(json.dumps(rows, indent=1) + "\n")


@pytest.fixture(autouse=True)
def _gradients_wanted() -> Iterator[None]:
    """Some of these packages switch gradients off on import of a model; a comparison needs them."""
    with torch.enable_grad():
        yield
