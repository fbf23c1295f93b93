"""Names from outside: one short printable line, and no meaning to any letter."""

from matplotlib.text import Text

from recollect.plotting.text import plain, write, write_wrapped


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
