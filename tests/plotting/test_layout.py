"""Panels stand at rounded places: the noise of matplotlib's solver is not in a file."""

import pytest
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from recollect.plotting.layout import DIGITS, SteadyLayout
from recollect.plotting.settings import to_bytes


def panels(noise: float, monkeypatch: pytest.MonkeyPatch) -> Figure:
    """Two panels with a colour bar, whose solved places are off by some noise."""
    solve = ConstrainedLayoutEngine.execute

    def solve_noisily(self: ConstrainedLayoutEngine, fig: Figure) -> object:
        solution = solve(self, fig)
        for ax in fig.axes:
            if ax.get_subplotspec() is not None:
                ax.set_position(ax.get_position(original=True).translated(noise, noise))
                ax.set_in_layout(True)
        return solution

    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", solve_noisily)
    figure = Figure(figsize=(4, 2), layout=SteadyLayout())
    first, second = figure.subplots(1, 2)
    first.set_ylabel("accuracy")
    figure.colorbar(second.imshow([[0.0, 1.0]]), ax=second)
    return figure


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_the_solver_may_be_off_by_noise(form, monkeypatch):
    exact, noisy = (to_bytes(panels(noise, monkeypatch), form) for noise in (0.0, 1e-9))
    assert exact == noisy


def test_panels_stay_in_the_layout(monkeypatch):
    figure = panels(0.0, monkeypatch)
    figure.draw_without_rendering()
    before = figure.axes[0].get_position()
    figure.axes[0].set_ylabel("accuracy\nin two lines")
    figure.draw_without_rendering()
    after = figure.axes[0].get_position()
    assert after.x0 > before.x0
    assert [round(x, DIGITS) for x in after.extents] == list(after.extents)
