"""All figures: from full, partial, failed and hostile rows; and the files they are written to."""

from dataclasses import replace

import pytest
from figures_made import (
    PANELS,
    curves_for,
    draw,
    hatched,
    legend,
    lose,
    rows_for,
    texts,
)
from matplotlib.text import Text
from study_made import SEEDS, study_curve, study_row, study_rows

from recollect.errors import SpecError
from recollect.plotting.sheet import Frame, framed
from recollect.reports.paper.figures import FIGURES, TABLES, to_bytes, write_figure
from recollect.reports.paper.figures.all_figures import DEFINITIONS
from recollect.reports.paper.figures.definition import select_cells
from recollect.reports.paper.presets import NAMES


def test_every_preset_has_its_picture():
    assert set(FIGURES) | set(TABLES) == set(NAMES)


@pytest.mark.parametrize("name", FIGURES)
def test_full_rows_give_all_panels_and_say_what_they_are(name):
    figure = draw(name)
    assert (
        len([ax for ax in figure.axes if ax.axison]) == PANELS[name]
    )  # a map's last one is its colour bar
    words = " ".join(texts(figure))
    assert f"Figure {name.removeprefix('fig')}." in words
    assert "Recipe: " in words
    assert (
        "up to 20 letters"
        if name == "fig5"
        else "(64, 4)"
        if name in ("fig3", "fig12")
        else "length 64, 4 pairs"
    ) in words
    assert hatched(figure) == {"fig3": 12, "fig11": 6 * 2, "fig12": 12}.get(
        name, 0
    )  # Based, H3 and RWKV were not run


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("status", ["diverged", "failed"])
def test_runs_that_went_wrong_are_shown_or_refused(name, status):
    lost = [lose(row, status) for row in rows_for(name)]
    if status == "failed":
        with pytest.raises(
            SpecError, match=f"{name}: {len(lost)} runs fit but failed; `recollect failures DIR`"
        ):
            draw(name, lost)
        return
    figure = draw(name, lost)
    assert "diverged run" in legend(figure)
    crosses = [
        line
        for ax in figure.axes
        for line in ax.get_lines()
        if line.get_marker() == "x" and len(line.get_xdata())
    ]
    assert crosses


@pytest.mark.parametrize("name", [*FIGURES, *TABLES])
def test_nothing_to_draw_names_the_preset(name):
    unfit = study_rows(["gla"], depths=(2,), rates=(1e-3,), seeds=(1,))
    with pytest.raises(SpecError) as refusal:
        (FIGURES | TABLES)[name](unfit, {}, "min-max")
    message = str(refusal.value)
    assert f"{name}: none of 1 runs fits (wanted: " in message
    assert f"`recollect run paper:{name} --out DIR`" in message
    assert len(message.splitlines()) <= 3


@pytest.mark.parametrize("name", FIGURES)
def test_one_seed_has_no_spread(name):
    figure = draw(name, [row for row in rows_for(name) if row.spec["seed"] == SEEDS[0]])
    if name != "fig6":
        assert "One seed." in " ".join(texts(figure))
    for band_ in [
        area
        for ax in figure.axes
        for area in ax.collections
        if str(area.get_label()).startswith("band")
    ]:
        heights = band_.get_paths()[0].vertices[:, 1]
        assert set(heights) <= {row.score for row in rows_for(name)} | {0.0}


def test_runs_that_were_only_looked_at_differently_are_one_cell():
    once = study_rows(
        ["mamba"],
        rates=(1e-3,),
        seeds=(1,),
        train={"steps": 100, "evaluations": 2, "stop_solved": 0.9},
    )
    often = study_rows(
        ["mamba"], rates=(1e-3,), seeds=(1,), train={"steps": 100, "evaluations": 50}
    )
    [cell], _ = select_cells(
        DEFINITIONS["fig1"],
        [*once, *often],
        curves_for(once) | {often[0].run_id: study_curve(often[0], 80)},
    )
    assert [row.run_id for row in cell.runs.rows] == [often[0].run_id]


def test_other_recipes_get_their_own_panel_and_other_options_their_own_line():
    rows = study_rows(["mamba"], rates=(1e-3, 1e-2), seeds=(1,), train={"steps": 100})
    rows += study_rows(["mamba"], rates=(1e-3, 1e-2), seeds=(1,), train={"steps": 200})
    rows += study_rows(
        [{"name": "mamba", "init": "zoology"}], rates=(1e-3,), seeds=(1,), train={"steps": 200}
    )
    figure = draw("fig1", rows)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "length 64, 4 pairs, steps 100",
        "length 64, 4 pairs, steps 200",
    ]
    assert legend(figure)[:2] == ["Mamba", "Mamba, init zoology"]


def test_ablations_stay_out_of_the_figures():
    rows = [
        study_row({"name": "mamba", "kernel": 0}),
        study_row({"name": "mamba", "gate": False}),
        study_row("mamba", positions="learned"),
        study_row({"name": "attention", "conv": "k"}),
    ]
    with pytest.raises(SpecError, match="fig1: none of 4 runs fits"):
        draw("fig1", rows)


HOSTILE = "$\\frac{1}{0}$ _x <svg/onload=alert(1)> \x1b\ud800 \U0001f40d"


def hostile_rows(name):
    """As if options and recipes had come from a plugin that names them as it likes."""
    rows = []
    for row in rows_for(name):
        for word in ("official", HOSTILE):
            spec = {
                **row.spec,
                "model": {**row.spec["model"], "block": word},
                "train": {**row.spec["train"], "decay": word},
            }
            rows.append(replace(row, spec=spec, run_id=row.run_id + word[:1]))
    return rows


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig3", "fig4", "fig5", "fig6"])
def test_hostile_names_are_drawn_as_they_are(name):
    rows = [
        row
        for row in hostile_rows(name)
        if row.spec["seed"] == SEEDS[0] and row.spec["model"]["width"] == 64
    ]
    rows = [
        row
        for row in rows
        if row.spec["task"].get("length", 64) == 64 and row.spec["train"]["lr"] in (1e-4, 1e-3)
    ]
    figure = draw(name, rows)
    named = [text for text in figure.findobj(Text) if "\\frac{1}{0}" in text.get_text()]
    assert named
    assert not any(text.get_parse_math() for text in named)
    page = to_bytes(figure, "svg", 50).decode()
    assert "<svg/onload" not in page


def test_hostile_names_fit_into_other_forms():
    figure = draw("fig13", [row for row in hostile_rows("fig13") if row.spec["seed"] == SEEDS[0]])
    assert to_bytes(figure, "pdf").startswith(b"%PDF")
    assert to_bytes(figure, "png", 30).startswith(b"\x89PNG")


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_the_same_rows_give_the_same_bytes(form):
    first, second = (to_bytes(draw("fig13"), form, 60) for _ in range(2))
    assert first == second
    assert b"CreationDate" not in first
    assert b"dc:date" not in first
    if form == "pdf":
        assert b"/FontFile2" in first  # TrueType outlines, not Type 3
        assert b"/Type3" not in first


def test_files_have_the_form_of_their_suffix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = list(rows_for("fig13"))
    assert str(write_figure("fig13", rows, {}, dpi=30)) == "fig13.png"
    assert (tmp_path / "fig13.png").read_bytes().startswith(b"\x89PNG")
    assert (
        write_figure("fig13", rows, {}, tmp_path / "A.SVG").read_text().lstrip().startswith("<?xml")
    )
    for wrong in ("fig.jpg", "fig", "fig.md"):
        with pytest.raises(SpecError, match=r"must end in \.png, \.svg or \.pdf"):
            write_figure("fig13", rows, {}, tmp_path / wrong)
    with pytest.raises(SpecError, match=r"no figure of that name; did you mean fig13\?"):
        write_figure("figure13", rows, {})
    with pytest.raises(SpecError, match=r"--band 'minmax': did you mean min-max\?"):
        write_figure("fig13", rows, {}, band="minmax")
    with pytest.raises(SpecError, match="cannot be written"):
        write_figure("fig13", rows, {}, tmp_path / "nowhere" / "fig.png", dpi=30)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["A.SVG", "fig13.png"]


def test_a_frame_sets_the_size_and_leaves_title_and_caption_out(tmp_path):
    rows = list(rows_for("fig13"))
    with framed(Frame(5.0, 4.0, title=False, caption=False)):
        figure = draw("fig13", rows)
    assert tuple(figure.get_size_inches()) == (5.0, 4.0)
    assert figure.texts == []
    assert len(draw("fig13", rows).texts) > 1, "the frame has ended"
    with pytest.raises(SpecError, match="table4: a table has no --size, title or caption"):
        write_figure("table4", rows, {}, tmp_path / "a.md", frame=Frame(5.0))
