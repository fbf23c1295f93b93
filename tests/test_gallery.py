"""The gallery: every picture there is or a line that says why not, small, each with its command."""

import runpy
from pathlib import Path

from study_made import study_rows

from recollect.api import Results
from recollect.reports.paper.presets import NAMES

DOCS = Path(__file__).parent.parent / "docs"


def test_the_gallery_shows_what_can_be_drawn_and_says_what_cannot(tmp_path, monkeypatch):
    rows = study_rows(("attention", "mamba"), depths=(12,), rates=(1e-3, 1e-2), seeds=(1,))
    monkeypatch.setattr(Results, "load", classmethod(lambda cls, folder: Results(rows, {})))
    gallery = runpy.run_path(str(DOCS / "gallery.py"))
    root = tmp_path / "made-up"
    for folder in ("fig13", "fig1", "fig1.small", "table1"):
        (root / folder).mkdir(parents=True)
    gallery["write"](root, tmp_path)
    page = (tmp_path / "gallery.md").read_text()
    shown = gallery["shown"](root)
    assert f"```\nrecollect figure fig13 {shown}/fig13 -o fig13.png\n```" in page
    assert (
        f"```\nrecollect figure fig1 {shown}/fig1 {shown}/fig1.small -o fig1.png\n```" in page
    )  # and not those of fig13
    assert f"```\nrecollect figure table1 {shown}/table1 -o table1.md\n```" in page
    assert "![fig13](gallery/fig13.png)" in page
    assert page.count("Not drawn: ") == 2
    assert "Not drawn: fig1: none of 4 runs fits" in page
    assert page.count("No rows: `recollect run paper:") == len(NAMES) - 3
    assert "4 planned = 4 done" in page
    [picture] = (tmp_path / "gallery").iterdir()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < gallery["MOST_BYTES"]
