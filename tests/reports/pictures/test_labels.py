"""What lines are called: never two alike, and short where many variants differ in much."""

from pictures_made import NARROW, draw, source
from rows_made import make_sweep

from recollect.plotting.coordinates import Coordinates
from recollect.plotting.text import LONGEST_NAME
from recollect.reports.pictures.labels import Labels, label_places


def place(mixer, **settings):
    told = tuple((key, f"{key} {value}") for key, value in settings.items())
    return Coordinates("mqar", "64", "2", mixer, told)


def test_a_label_that_fits_says_all():
    places = [place("mamba", kernel=0), place("mamba", kernel=4), place("attention")]
    assert label_places(places) == Labels(("Mamba, kernel 0", "Mamba, kernel 4", "Attention"))


def test_of_long_labels_the_usual_values_are_said_once():
    usual = {"block": "mixer and more", "dropout": 0.1, "init": "official", "positions": "none"}
    places = [
        place("mamba", **usual),
        place("mamba", **usual | {"positions": "learned"}),
        place("mamba", **usual | {"dropout": 0, "init": "other"}),
        place("delta_net"),
    ]
    found = label_places(places)
    assert len(f"Mamba, {places[0].variant}") > LONGEST_NAME
    assert found.texts == (
        "Mamba",
        "Mamba, positions learned",
        "Mamba, dropout 0, init other",
        "DeltaNet",
    )
    assert found.unsaid == (
        ("Mamba", "block mixer and more, dropout 0.1, init official, positions none"),
    )


def test_what_a_variant_does_not_have_is_said_of_the_others():
    long = "x" * LONGEST_NAME
    places = [place("mine", a=1, b=long), place("mine", a=1), place("mine", a=2, b=long)]
    found = label_places(places)
    assert len(set(found.texts)) == 3
    assert found.texts[1] == "mine"
    assert found.unsaid == (("mine", "a 1"),)


def test_the_small_print_says_what_labels_leave_out():
    settings = {"a_rather_long_option": 1, "another_one_that_is_long": 2}
    rows = make_sweep(NARROW, "mine", **settings)
    rows += make_sweep(NARROW, "mine", **settings | {"a_rather_long_option": 3})
    rows += make_sweep(NARROW, "mine", **settings | {"another_one_that_is_long": 4})
    figure = draw("rates", source(rows))
    names = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert names[:3] == ["mine", "mine, a rather long option 3", "mine, another one that is long 4"]
    said = " ".join(text.get_text() for text in figure.texts)
    assert (
        "mine: a rather long option 1, another one that is long 2, unless its label says otherwise."
    ) in said
