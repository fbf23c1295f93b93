"""Figures as files: the same bytes for the same figure, without a date or a version in them."""

import subprocess
import sys

import pytest
from matplotlib.figure import Figure

from recollect.plotting.settings import SCREEN, print_style, screen_style, to_bytes


def drawn(style):
    with style():
        figure = Figure()
        figure.subplots().set_title("中 $")
    return figure


@pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?")])
def test_the_same_figure_gives_the_same_bytes(form, start):
    data = to_bytes(drawn(print_style), form)
    assert data.startswith(start)
    assert data == to_bytes(drawn(print_style), form)
    assert b"matplotlib v" not in data.lower()


def test_a_figure_for_the_screen_keeps_its_text():
    data = to_bytes(drawn(screen_style), "svg", settings=SCREEN)
    assert "中 $".encode() in data


@pytest.mark.parametrize("module", ["colours", "text"])
def test_colours_and_text_need_no_matplotlib(module):
    code = f"import sys, recollect.plotting.{module}; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
