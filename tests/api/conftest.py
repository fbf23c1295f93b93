"""A folder named `out` with known scores, in a place of its own that is the current one."""

from collections.abc import Iterator
from pathlib import Path

import matplotlib
import pytest
from rows_made import make_sweep
from stores_made import make_store

ATTENTION = {1e-4: (0.25, 0.25, 0.25), 1e-3: (0.94, 0.96, 0.98), 1e-2: (0.95, 0.95, 0.95)}
MAMBA = {1e-4: (0.4, 0.5, 0.6), 1e-3: (0.88, 0.92, 0.96), 1e-2: (0.25, 0.25, 0.25)}


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_store(Path("out"), [*make_sweep(ATTENTION), *make_sweep(MAMBA, "mamba")])
    return Path("out")


@pytest.fixture(autouse=True)
def _no_windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """pyplot must not look for a screen; figures do not outlive a test."""
    from matplotlib import pyplot

    with matplotlib.rc_context({"backend": "Agg"}):
        pyplot.switch_backend("Agg")
        yield
    pyplot.close("all")
