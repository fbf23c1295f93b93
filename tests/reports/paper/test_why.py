"""The ranked changes of a recipe: what is drawn and written is what the rows say."""

import json
import math
from pathlib import Path

import pytest

from recollect.errors import SpecError
from recollect.reports.paper.figures import write_figure
from recollect.reports.paper.figures.why import draw, table
from recollect.reports.paper.presets import read_preset
from recollect.rows import RunRow
from recollect.spec.recipes import recipe_of

RATES = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
SMALLER = [f"sweep.train.lr={RATES}", "sweep.seed=[1,2,3]", "task.length=64", "task.pairs=4"]
# The rates that are solved; all others: BASE.
BASE = (3e-4, 1e-2)
SOLVED = {
    "study but dropout=0": (3e-4, 3e-3),
    "study but clip=1": (3e-4, 3e-2),
    "study but no MLP": (1.0, 0.1),
}


def made_rows(mixer: str = "attention", seeds: str = "[1,2,3]") -> list[RunRow]:
    """All that paper:why trains of one model at one size."""
    overrides = [*SMALLER, f"model.mixer={mixer}", f"sweep.seed={seeds}"]
    rows = []
    for run in read_preset("why", "full", overrides).runs:
        spec = json.loads(run.canonical_json())
        low, high = SOLVED.get(recipe_of(spec), BASE)
        score = 1.0 if low <= run.train.lr <= high else 0.1
        rows.append(RunRow(run.run_id, spec, "done", "accuracy", 0.25, accuracy=score))
    return rows


def test_changes_are_ranked_by_what_they_gain():
    made = table(made_rows(), {}, "min-max")
    assert made.head[:3] == ("model", "task", "change")
    assert {line[:2] for line in made.lines} == {("Attention", "(64, 4), 2 layers, width 64")}
    changes = [line[2] for line in made.lines]
    assert (changes[0], changes[-2:]) == (
        "clip 0 to 1",
        ["dropout 0.1 to 0", "block mixer+mlp to mixer"],
    )
    assert len(changes) == 11
    assert "qk norm off to on" in changes
    gains = [float(line[5].split()[0]) for line in made.lines]
    assert gains == sorted(gains, reverse=True)
    before, after = (float(made.lines[0][column]) for column in (3, 4))
    assert math.isclose(after - before, gains[0], abs_tol=0.011)
    assert math.isclose(gains[0], math.log10(3), abs_tol=0.05)


def test_seeds_that_agree_leave_no_doubt_and_too_few_are_said():
    lines = table(made_rows(), {}, "min-max").lines
    assert lines[0][5].endswith("]")
    few = table(made_rows(seeds="[1,2]"), {}, "min-max").lines
    assert not any("[" in cell for line in few for cell in line)


def test_the_picture_has_a_panel_for_every_model_and_a_point_for_every_change():
    figure = draw(made_rows() + made_rows("mamba"), {}, "min-max")
    panels = {ax.get_title(loc="left"): ax for ax in figure.axes if ax.axison}
    assert list(panels) == ["Attention, (64, 4)", "Mamba, (64, 4)"]
    for title, changes in (("Attention, (64, 4)", 11), ("Mamba, (64, 4)", 13)):
        points = [line for line in panels[title].lines if line.get_label() == "gain"]
        assert len(points) == changes
        xs = [line.get_xdata()[0] for line in points]
        assert xs == sorted(xs, reverse=True)
        labels = [label.get_text() for label in panels[title].get_yticklabels()]
        assert labels[0] == "clip 0 to 1"
    spans = {ax.get_xlim() for ax in panels.values()}
    assert len(spans) == 1
    hollow = [
        line.get_markerfacecolor() == "white"
        for line in panels["Attention, (64, 4)"].lines
        if line.get_label() == "gain"
    ]
    # Half a decade is one step of the grid, which other seeds may shift an edge by.
    assert hollow == [True] * 10 + [False]


def test_nothing_in_the_picture_lies_on_anything_else():
    """A panel may be as low as one change: what is said above it must not touch its line."""
    few = ("study", "study but clip=1")
    rows = [
        row
        for mixer in ("attention", "delta_net", "mamba")
        for row in made_rows(mixer)
        if mixer == "mamba" or recipe_of(row.spec) in few
    ]
    figure = draw(rows, {}, "min-max")
    figure.draw_without_rendering()
    panels = [ax for ax in figure.axes if ax.axison]
    for ax in panels:
        [note] = [text for text in ax.texts if text.get_label() == "note"]
        here, panel = note.get_window_extent(), ax.get_window_extent()
        assert here.y0 > panel.y1
        assert here.x1 <= figure.bbox.x1
    labelled = [bool(ax.get_xlabel()) for ax in panels]
    assert labelled == [False, True, True], "once in each column"
    apart = [ax.get_window_extent().height / (ax.get_ylim()[0] - ax.get_ylim()[1]) for ax in panels]
    assert max(apart) == pytest.approx(min(apart), rel=0.25), "all lines have about equal room"


def test_a_window_that_the_grid_cuts_off_is_a_bound():
    rows = [
        row
        for row in made_rows()
        if row.spec["train"]["lr"] <= 1e-2 or recipe_of(row.spec) != "study but clip=1"
    ]
    bounds = [line[2] for line in table(rows, {}, "min-max").lines if "(bound)" in line[5]]
    assert bounds == ["clip 0 to 1"]


@pytest.mark.parametrize("name", ["why.png", "why.svg", "why.md", "why.tex"])
def test_it_is_written_as_a_picture_or_as_a_table(tmp_path: Path, name):
    first, again = (tmp_path / place / name for place in ("a", "b"))
    for path in (first, again):
        path.parent.mkdir()
        assert write_figure("why", made_rows(), {}, path) == path
    assert first.read_bytes() == again.read_bytes()


def test_rows_without_a_change_are_refused():
    rows = [row for row in made_rows() if recipe_of(row.spec) == "study but clip=1"]
    with pytest.raises(SpecError) as caught:
        draw(rows, {}, "min-max")
    assert str(caught.value) == (
        f"why: none of {len(rows)} runs is one change away from a recipe that was trained too;\n"
        "run `recollect run paper:why --out DIR`, small: paper:why:small"
    )
