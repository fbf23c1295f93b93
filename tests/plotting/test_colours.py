"""One colour per mixer, on the page and in every figure; and how lines of one picture differ."""

import itertools
import re

import numpy as np
import pytest
from rows_made import make_row
from study_made import study_rows

from recollect.analysis import group_cells, summarise
from recollect.mixers.registry import MIXERS
from recollect.plotting.colours import (
    DARK_PAGE,
    DASHES,
    MARKERS,
    MIXER_STYLES,
    PAGE,
    PALETTE,
    SHADES,
    contrast,
    line_styles,
    mixer_style,
    on_dark,
    series_style,
    shade,
)
from recollect.plotting.coordinates import find_coordinates
from recollect.reports.page.plot_data import SYMBOLS, plot_data
from recollect.reports.page.rendering import HERE
from recollect.reports.paper.figures import FIGURES

NINE = (
    "attention",
    "based",
    "h3",
    "hyena",
    "mamba",
    "mamba2",
    "rwkv4",
    "delta_net",
    "gated_delta_net",
)


# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as the colour-blind see it.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
# Ottosson's OKLab: distances in it are about as large as they look.
TO_CONES = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
TO_LAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]


def linear(colour):
    """Linear RGB of a hexadecimal colour."""
    parts = np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def seen(colour, sight):
    """Where a colour lies in OKLab for a kind of sight."""
    return TO_LAB @ np.cbrt(TO_CONES @ np.clip(SIGHT[sight] @ linear(colour), 0, 1))


def least_distance(colours, sight):
    pairs = itertools.combinations([seen(colour, sight) for colour in colours], 2)
    return min(np.linalg.norm(first - second) for first, second in pairs)


def page_labels(mixers):
    cells = group_cells([make_row(mixer) for mixer in mixers])
    data = plot_data(summarise(cells, {}), find_coordinates(cells), {}, 0.9)
    return {label["name"]: label for label in data["labels"]}


# --- mixers


def test_the_table_names_mixers_of_the_registry_alone():
    """One that is not in it has a style by its name, as a plug-in has."""
    assert set(MIXER_STYLES) <= set(MIXERS)
    assert set(NINE) <= set(MIXER_STYLES)


def test_no_two_mixers_share_a_colour_or_look_alike_without_it():
    styles = MIXER_STYLES.values()
    assert len({style.colour for style in styles}) == len(styles)
    assert len({(style.marker, style.dashes) for style in styles}) == len(styles)


def test_the_study_models_differ_in_colour_marker_and_dashes_each():
    styles = [mixer_style(mixer) for mixer in NINE]
    for aspect in ("colour", "marker", "dashes"):
        assert len({getattr(style, aspect) for style in styles}) == len(NINE)


@pytest.mark.parametrize("sight", SIGHT)
def test_the_study_models_are_told_apart_by_the_colour_blind(sight):
    """As well as the palette made for that."""
    colours = [mixer_style(mixer).colour for mixer in NINE]
    assert least_distance(colours, sight) >= least_distance(PALETTE, sight)
    every = [style.colour for style in MIXER_STYLES.values()]
    assert least_distance(every, sight) > 0.05


@pytest.mark.parametrize("mixer", MIXERS)
def test_colours_show_on_white(mixer):
    luminance = linear(mixer_style(mixer).colour) @ [0.2126, 0.7152, 0.0722]
    assert 1.05 / (luminance + 0.05) > 2


def test_an_unknown_mixer_has_a_colour_of_its_own_by_name():
    names = ["mine", "gru+mamba", "fla:gsa", "", "\ud800", "<b>"]
    styles = [mixer_style(name) for name in names]
    assert [mixer_style(name) for name in names] == styles
    assert len({style.colour for style in styles}) == len(names)
    assert mixer_style("mine").colour == "#21C20A"  # in every process and version
    assert line_styles([("a", "mine")])["a"] == line_styles([("b", "mine"), ("a", "x")])["b"]


# --- lines of one picture


def test_an_unknown_mixer_is_told_from_the_models_of_the_study():
    """Nearly as far from each as those are from one another, for normal sight."""
    study = [seen(mixer_style(name).colour, "normal") for name in (*NINE, "based_hybrid")]
    for number in range(200):
        own = seen(mixer_style(f"mixer {number}").colour, "normal")
        assert min(np.linalg.norm(own - colour) for colour in study) > 0.125


def test_variants_of_a_mixer_have_shades_of_its_colour_and_free_marks():
    styles = line_styles([("conv 4", "mamba"), ("attention", "attention"), ("conv 0", "mamba")])
    assert list(styles) == ["conv 4", "attention", "conv 0"]
    assert styles["conv 4"] == mixer_style("mamba")
    assert styles["attention"] == mixer_style("attention")
    assert styles["conv 0"].colour == shade(mixer_style("mamba").colour, SHADES[1])
    assert len({(style.marker, style.dashes) for style in styles.values()}) == 3


def test_the_variant_of_most_cells_has_the_style_of_its_mixer():
    cells = [("conv 0", "mamba"), ("conv 4", "mamba"), ("mine", "mine"), ("conv 4", "mamba")]
    styles = line_styles(cells)
    assert list(styles) == ["conv 0", "conv 4", "mine"]  # as they came
    assert styles["conv 4"] == mixer_style("mamba")
    assert styles["conv 0"].colour == shade(mixer_style("mamba").colour, SHADES[1])
    assert styles["mine"] == mixer_style("mine")


def test_a_variant_does_not_take_the_marks_of_a_mixer_that_follows():
    labels = {f"mamba {number}": "mamba" for number in range(20)} | {name: name for name in NINE}
    styles = line_styles(labels.items())
    assert all(styles[name] == mixer_style(name) for name in NINE if name != "mamba")


def test_lines_look_alike_only_if_there_are_more_than_marks_can_tell():
    most = len(MARKERS) * len(DASHES)
    styles = line_styles((str(number), f"mixer{number}") for number in range(most))
    assert len({(style.marker, style.dashes) for style in styles.values()}) == most
    assert len(line_styles((str(number), "mamba") for number in range(2 * most))) == 2 * most


def test_shades_go_to_white_and_to_black():
    assert shade("#804020", 1) == "#FFFFFF"
    assert shade("#804020", -1) == "#000000"
    assert shade("#804020", 0.5) == "#C0A090"


def test_lines_that_are_no_mixers_have_the_palette():
    assert len({series_style(index) for index in range(7)}) == 7
    assert series_style(0).stroke == "-"


# --- page and figures


def test_page_and_figures_use_the_same_colours():
    labels = page_labels(["hyena", "mamba", "attention"])
    assert {name: label["light"] for name, label in labels.items()} == {
        name: mixer_style(name).colour for name in ("hyena", "mamba", "attention")
    }
    rows = study_rows(("attention", "hyena", "mamba"), seeds=(1,), rates=(1e-3, 1e-2))
    figure = FIGURES["fig1"](rows, {}, "min-max")
    drawn = {line.get_label(): line for ax in figure.axes for line in ax.get_lines()}
    for name in ("attention", "hyena", "mamba"):
        line, style = drawn[name.title()], mixer_style(name)
        assert (line.get_color(), line.get_marker()) == (style.colour, style.marker)
        assert labels[name]["symbol"] == SYMBOLS[style.marker]


def test_the_page_knows_every_marker():
    assert set(SYMBOLS) == set(MARKERS)
    shapes = (HERE / "scripts" / "2_plots.js").read_text(encoding="utf-8")
    assert all(
        f"  {symbol}: " in shapes or f'"{symbol}": ' in shapes for symbol in SYMBOLS.values()
    )


def test_the_page_has_no_colours_of_its_own():
    for path in [*(HERE / "scripts").glob("*.js"), HERE / "page.css", HERE / "page.html"]:
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3})\b(?=[\"';, )])", text), path
        assert "rgba(" not in text
    used = set(re.findall(r"var\(--(\w+)\)", (HERE / "page.css").read_text(encoding="utf-8")))
    assert used <= set(PAGE)


# --- on a dark page


@pytest.mark.parametrize("mixer", MIXER_STYLES)
def test_a_mixer_shows_on_the_dark_page_and_keeps_its_hue(mixer):
    colour = mixer_style(mixer).colour
    dark = on_dark(colour)
    assert contrast(dark, DARK_PAGE["paper"]) >= 4
    if colour != "#000000":
        order = sorted(range(3), key=lambda at: colour[1 + 2 * at : 3 + 2 * at])
        parts = [int(dark[1 + 2 * at : 3 + 2 * at], 16) for at in order]
        assert parts == sorted(parts)


def test_both_pages_have_the_same_names_and_text_that_can_be_read():
    assert DARK_PAGE.keys() == PAGE.keys()
    for page in (PAGE, DARK_PAGE):
        for name in ("ink", "soft", "good", "warn"):
            assert contrast(page[name], page["paper"]) >= 4.5, name


def test_contrast_is_that_of_wcag():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)
    assert contrast("#123456", "#123456") == 1
