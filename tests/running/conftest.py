"""Runs of several shapes."""

import pytest

from recollect.spec.run import RunSpec


@pytest.fixture
def make_runs(make_run):
    """So many runs of each shape."""

    def make(*sizes: int) -> list[RunSpec]:
        return [
            make_run({"seed": seed, "model.width": 8 * (shape + 1)})
            for shape, size in enumerate(sizes)
            for seed in range(size)
        ]

    return make
