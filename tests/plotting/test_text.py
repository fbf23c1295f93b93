"""Names from outside: one short printable line, and no meaning to any letter."""

import pytest
from matplotlib.text import Text

from recollect.plotting.text import plain, wrapped, write, write_wrapped


def test_names_are_one_short_printable_line():
    assert plain("a\n\tb\x00") == "a b"
    assert len(plain("x" * 500)) == 48
    assert plain("x" * 500, 10) == "xxxxxxxxx…"


def test_a_name_is_written_as_it_is():
    label = Text()
    write(label, "$x$ _y")
    assert (label.get_text(), label.get_parse_math()) == ("$x$ _y", False)
    write_wrapped(label, "one two three four five", 0.1)
    assert label.get_text() == "one two\nthree four\nfive"
    assert not label.get_parse_math()


@pytest.mark.parametrize(
    ("text", "letters", "lines"),
    [
        ("mqar, length 64, pairs 4, width 256, 1 layer", 31,
         ["mqar, length 64, pairs 4,", "width 256, 1 layer"]),
        ("mqar, length 64, pairs 4, 1 layer", 26, ["mqar, length 64, pairs 4,", "1 layer"]),
        ("train loss: width 64, 1 layer", 18, ["train loss:", "width 64, 1 layer"]),
        ("Mamba, positions sinusoidal", 21, ["Mamba,", "positions sinusoidal"]),
        ("Mamba, positions sinusoidal", 16, ["Mamba, positions", "sinusoidal"]),
        ("a_name_without_a_single_blank", 5, ["a_name_witho", "ut_a_single_", "blank"]),
        ("short", 40, ["short"]),
        ("", 40, []),
    ],
)  # fmt: skip
def test_a_title_breaks_between_its_parts(text, letters, lines):
    assert wrapped(text, letters) == lines


def test_a_title_says_all_that_sets_a_panel_apart():
    label, title = Text(), "train loss: mqar, length 64, pairs 4, width 64, 1 layer"
    assert len(title) > 48
    write_wrapped(label, title, 1.84)
    assert label.get_text().replace("\n", " ") == title
