"""The study's figures: what is drawn, from full, partial, failed and hostile rows; and the files
they are written to.
"""

from dataclasses import replace
from functools import cache

import pytest
from matplotlib.text import Text
from study_made import RATES, SEEDS, SIZES, study_curve, study_row, study_rows

from recollect.analysis import ZOOLOGY_RATES, band, group_cells
from recollect.errors import SpecError
from recollect.reports.paper.figures import FIGURES, TABLES, to_bytes, write_figure
from recollect.reports.paper.figures.catalogue import QUESTIONS
from recollect.reports.paper.figures.dynamics import choose
from recollect.reports.paper.figures.looks import looks
from recollect.reports.paper.figures.places import locate
from recollect.reports.paper.figures.question import ask
from recollect.reports.paper.figures.sheet import HATCH
from recollect.reports.paper.presets import NAMES
from recollect.reports.paper.zoology import star

THREE = ("attention", "hyena", "mamba")
COPY = {"name": "copying"}
FEW = RATES[1:6]  # with all of Zoology's four


@cache
def rows_for(name):
    """Small but complete rows for a figure or table."""
    made = {
        "fig1": lambda: study_rows(THREE, SIZES[:2], (64, 128)),
        "fig2": lambda: study_rows(THREE, SIZES[:2], (64, 128), rates=FEW),
        "fig3": lambda: study_rows(THREE, SIZES[:2], (64, 128), (1,), FEW),
        "fig4": lambda: study_rows(THREE, SIZES[:1], (64, 128), (1, 2), FEW[:2]),
        "fig5": lambda: (
            study_rows(["attention"], task=COPY, positions="rope", depths=(3,))
            + study_rows(["mamba"], task=COPY, depths=(3,), widths=(64, 96))
        ),
        "fig6": lambda: study_rows(THREE, SIZES[:1], (64, 128), (1,), (1e-3,)),
        "fig7": lambda: study_rows(("mamba", "mamba2", "delta_net"), widths=(64, 128), depths=(1,)),
        "fig13": lambda: study_rows(("attention", "mamba"), depths=(12,)),
        "table2": lambda: study_rows(
            [
                "attention",
                {"name": "attention", "conv": "qkv"},
                "mamba",
                {"name": "mamba", "kernel": 0},
                "s6",
            ],
            depths=(1,),
            rates=(1e-3,),
        ),
        "table4": lambda: [
            row
            for pe in ("none", "learned")
            for row in study_rows(("mamba", "h3"), rates=(1e-3,), positions=pe)
        ],
    }
    same = {"fig11": "fig2", "fig12": "fig3", "table1": "fig5", "table3": "table2"}
    return tuple(made[same.get(name, name)]())


def curves_for(rows):
    return {row.run_id: study_curve(row) for row in rows}


def draw(name, rows=None, kind="min-max"):
    rows = rows_for(name) if rows is None else rows
    return FIGURES[name](rows, curves_for(rows) if name == "fig6" else {}, kind)


def drawn(ax, label):
    """The points of all lines of that label."""
    return [
        list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for line in ax.get_lines()
        if line.get_label() == label
    ]


def hatched(figure):
    return sum(patch.get_hatch() == HATCH for ax in figure.axes for patch in ax.patches)


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def lose(row, status):
    """The same run with another end."""
    ended = status == "diverged"
    return replace(
        row,
        status=status,
        accuracy=row.accuracy if ended else None,
        exact=row.exact if ended else None,
    )


def test_every_preset_has_its_picture():
    assert set(FIGURES) | set(TABLES) == set(NAMES)


PANELS = {
    "fig1": 4,
    "fig2": 6,
    "fig3": 3 + 1,
    "fig4": 1,
    "fig5": 1,
    "fig6": 6,
    "fig7": 2,
    "fig11": 12,
    "fig12": 6 + 1,
    "fig13": 1,
}


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
    assert hatched(figure) == {"fig11": 6 * 2, "fig12": 12}.get(
        name, 0
    )  # Based, H3 and RWKV were not run


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("status", ["diverged", "failed"])
def test_runs_that_went_wrong_are_shown_or_refused(name, status):
    lost = [lose(row, status) for row in rows_for(name)]
    if status == "failed":
        with pytest.raises(
            SpecError, match=f"{name}: {len(lost)} runs fit but none has a result yet"
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


def test_rates_lines_are_means_and_bands_the_kind_asked_for():
    for kind in ("min-max", "std", "interval"):
        figure = draw("fig1", kind=kind)
        ax = figure.axes[0]
        [cell] = group_cells([r for r in rows_for("fig1") if _is(r, "mamba", 64, 64)])
        [points] = drawn(ax, "Mamba")
        assert points == [(rate.lr, rate.mean) for rate in cell.scored_rates]
        area = [area for area in ax.collections if area.get_label() == "band"][2]
        expected = {
            round(edge, 9) for rate in cell.scored_rates for edge in band(rate.scores, kind)
        }
        assert {round(y, 9) for y in area.get_paths()[0].vertices[:, 1]} == expected
    assert "95 % interval" in " ".join(texts(figure))


def _is(row, mixer, length, width):
    return (
        row.spec["model"]["mixer"]["name"],
        row.spec["task"]["length"],
        row.spec["model"]["width"],
    ) == (
        mixer,
        length,
        width,
    )


def test_the_sparse_grid_is_dashed_in_every_panel():
    for ax in draw("fig1").axes:
        lines = [line for line in ax.get_lines() if line.get_label() == "sparse rate"]
        assert [line.get_xdata()[0] for line in lines] == list(ZOOLOGY_RATES)
        assert all(line.is_dashed() for line in lines)


def test_a_diverged_run_is_a_cross_at_chance_in_its_colour():
    rows = list(rows_for("fig1"))
    figure = draw("fig1", rows)
    diverged = [row for row in rows if row.status == "diverged" and _is(row, "mamba", 64, 64)]
    assert diverged
    ax = figure.axes[0]
    style = looks(ask(QUESTIONS["fig1"], rows))["Mamba"]
    crosses = [
        line
        for line in ax.get_lines()
        if line.get_label() == "diverged" and line.get_color() == style.colour
    ]
    assert [tuple(point) for line in crosses for point in line.get_xydata()] == [(0.1, 0.25)] * len(
        diverged
    )


def test_rates_without_a_result_are_rings_and_panels_without_runs_are_hatched():
    rows = [
        lose(row, "todo") if row.spec["train"]["lr"] == 1e-2 else row for row in rows_for("fig1")
    ]
    rows = [
        row
        for row in rows
        if not (row.spec["task"]["length"] == 128 and row.spec["model"]["width"] == 128)
    ]
    rows = [row for row in rows if not _is(row, "hyena", 64, 64)]
    figure = draw("fig1", rows)
    first, *_, last = figure.axes
    assert [x for points in drawn(first, "waiting") for x, _ in points] == [1e-2, 1e-2]
    assert "no result: Hyena" in [text.get_text() for text in first.texts]
    assert "not run" in [text.get_text() for text in last.texts]
    assert hatched(figure) == 1
    assert {"planned, no result", "not run, or no result"} <= set(legend(figure))


def test_no_two_models_look_alike_in_grey():
    styles = (
        list(looks(ask(QUESTIONS["fig1"], rows_for("fig1"))).values())
        + list(looks(ask(QUESTIONS["fig7"], rows_for("fig7"))).values())[1:]
    )
    assert (
        len({style.marker for style in styles})
        == len({str(style.stroke) for style in styles})
        == len(styles)
        == 5
    )


def test_panels_of_one_model_alone_give_way_to_those_that_compare():
    more = study_rows(["mamba"], SIZES[2:3], (64, 512), (1,), (1e-3,))
    figure = draw("fig7", [*rows_for("fig7"), *more])
    assert len(figure.axes) == 2
    assert "Left out: 2 combinations" in " ".join(texts(figure))
    alone = draw("fig7", more)
    assert len(alone.axes) == 2
    assert "Not run: Mamba2, DeltaNet." in " ".join(texts(alone))


def test_copying_names_sizes_and_positions():
    assert legend(draw("fig5"))[:3] == [
        "Attention (RoPE), 3 x 64",
        "Mamba, 3 x 64",
        "Mamba, 3 x 96",
    ]


def test_width_shows_the_fine_grid_the_sparse_one_and_the_official_value():
    figure = draw("fig2")
    ax = figure.axes[PANELS["fig2"] // 3]  # Hyena, length 64
    rows = [
        row
        for row in rows_for("fig2")
        if row.spec["model"]["mixer"]["name"] == "hyena" and row.spec["task"]["length"] == 64
    ]
    best, sparse = [], []
    for cell in sorted(group_cells(rows), key=lambda cell: cell.rows[0].spec["model"]["width"]):
        best.append(max(rate.mean for rate in cell.rates))
        sparse.append(max(rate.mean for rate in cell.rates if rate.lr != 1e-3))
    assert drawn(ax, "fine") == [list(enumerate(best))]
    assert drawn(ax, "sparse") == [list(enumerate(sparse))]
    assert drawn(ax, "official") == [
        [(0, star("hyena", 64, 4, 64).accuracy), (1, star("hyena", 64, 4, 128).accuracy)]
    ]


def test_width_without_all_four_rates_or_with_another_vocabulary():
    small = {"name": "mqar", "length": 64, "pairs": 4, "vocabulary": 64}
    figure = draw("fig2", study_rows(THREE, widths=(64, 128), rates=FEW[:-1], task=small))
    assert not any(
        points
        for ax in figure.axes
        for label in ("sparse", "official")
        for line in drawn(ax, label)
        for points in line
    )
    assert "no dotted line" in " ".join(texts(figure))


def test_width_breaks_a_line_where_a_width_is_missing():
    rows = study_rows(THREE, widths=(64, 128, 256), rates=(1e-3,), seeds=(1,))
    rows = [row for row in rows if not _is(row, "mamba", 64, 128)]
    figure = draw("fig2", rows)
    [points] = drawn(figure.axes[2], "fine")
    assert [x for x, y in points if y == y] == [0, 2]
    assert hatched(figure) == 1


def test_the_map_writes_every_number_and_marks_every_hole():
    rows = [row for row in rows_for("fig3") if not _is(row, "hyena", 128, 128)]
    rows = [lose(row, "failed") if _is(row, "mamba", 128, 128) else row for row in rows]
    figure = draw("fig3", rows)
    for number, mixer in enumerate(THREE):
        ax = figure.axes[number]
        squares = [patch for patch in ax.patches if patch.get_label() == "score"]
        assert len(squares) == (4 if mixer == "attention" else 3)
    found = [text.get_text() for text in figure.axes[1].texts + figure.axes[2].texts]
    assert found.count("not\nrun") == found.count("no\nresult") == 1
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "(64, 4)",
        "(128, 8)",
    ]


def test_a_square_of_the_map_shows_mean_band_and_losses():
    rows = study_rows(["mamba"], depths=(1,), rates=(1e-3,))
    rows = [
        replace(row, accuracy=score) for row, score in zip(rows, (0.5, 0.75, 0.997), strict=True)
    ]
    figure = draw("fig3", [replace(rows[0], status="diverged"), *rows[1:]])
    ax = next(ax for ax in figure.axes if ax.get_title(loc="left") == "Mamba")
    assert [text.get_text() for text in ax.texts] == ["0.67", "0.25-0.99", "1"]
    assert len(drawn(ax, "diverged")) == 1


def test_scaling_draws_a_line_per_model_and_depth():
    figure = draw("fig4")
    [ax] = figure.axes
    for depth, dashed in (("1", True), ("2", False)):
        lines = [line for line in ax.get_lines() if line.get_label() == depth]
        assert len(lines) == 3
        assert all(line.is_dashed() == dashed and len(line.get_xdata()) == 2 for line in lines)
    counts = sorted({row.parameters for row in rows_for("fig4")})
    assert (
        sorted({x for line in ax.get_lines() if line.get_label() in "12" for x in line.get_xdata()})
        == counts
    )
    partial = [
        row
        for row in rows_for("fig4")
        if not (row.spec["model"]["depth"] == 2 and _is(row, "hyena", 64, 64))
    ]
    partial = [
        row
        for row in partial
        if not (row.spec["model"]["depth"] == 2 and _is(row, "hyena", 64, 128))
    ]
    assert "no result (layers): Hyena (2)" in texts(draw("fig4", partial))


def test_dynamics_draws_the_narrowest_that_solves_or_the_widest_tried():
    rows = study_rows(["attention"], widths=(64, 128, 256), depths=(1,), rates=(1e-3,), seeds=(1,))
    scored = [
        replace(row, accuracy=score) for row, score in zip(rows, (0.5, 0.97, 1.0), strict=True)
    ]
    assert choose(locate(group_cells(scored))).width == 128
    assert choose(locate(group_cells([replace(row, accuracy=0.3) for row in rows]))).width == 256
    assert choose(locate(group_cells([lose(row, "todo") for row in rows]))) is None


def test_dynamics_draws_curves_levels_and_bumps():
    rows = rows_for("fig6")
    figure = draw("fig6", rows)
    attention, score = figure.axes[0], figure.axes[3]
    assert [len(drawn(attention, label)) for label in ("test", "train", "other")] == [1, 1, 2]
    assert {text.get_text() for text in attention.texts} == {"ln V", "ln 2K", "ln K"}
    spans = [patch for patch in attention.patches if patch.get_label() == "bump"]
    assert len(spans) == 1
    assert spans[0].get_hatch()  # attention gains nothing from it
    assert [points[-1][1] for points in drawn(score, "test")] == [pytest.approx(0.26, abs=0.02)]
    mamba = [
        replace(row, accuracy=end)
        for row, end in zip(rows_for("fig6")[-3:], (1.0, 0.5, 0.75), strict=True)
    ]
    ends = {
        label: [points[-1][1] for points in drawn(draw("fig6", mamba).axes[5], label)]
        for label in ("test", "other")
    }
    assert ends["test"] == [pytest.approx(0.75, abs=0.01)]  # the median seed
    assert sorted(ends["other"]) == pytest.approx([0.5, 1.0], abs=0.01)
    without = FIGURES["fig6"](rows, {}, "min-max")
    assert hatched(without) == 6
    assert "no curve" in texts(without)


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
    [place] = ask(
        QUESTIONS["fig1"],
        [*once, *often],
        curves_for(once) | {often[0].run_id: study_curve(often[0], 80)},
    )
    assert [row.run_id for row in place.cell.rows] == [often[0].run_id]


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
    assert legend(figure)[:2] == ["Mamba, init official", "Mamba, init zoology"]


def test_ablations_stay_out_of_the_figures():
    rows = [study_row({"name": "mamba", "kernel": 0}), study_row({"name": "mamba", "gate": False}),
            study_row("mamba", positions="learned"), study_row({"name": "attention", "conv": "k"})]  # fmt: skip
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
