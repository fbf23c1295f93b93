"""The gallery: every picture there is or a line that says why not, small, each with its command."""

import runpy
from pathlib import Path

from study_made import study_rows

from recollect.api import Results
from recollect.paper.presets import NAMES

DOCS = Path(__file__).parent.parent / "docs"


def test_the_gallery_shows_what_can_be_drawn_and_says_what_cannot(tmp_path, monkeypatch):
    rows = study_rows(("attention", "mamba"), depths=(12,), rates=(1e-3, 1e-2), seeds=(1,))
    monkeypatch.setattr(Results, "load", classmethod(lambda cls, folder: Results(rows, {})))
    gallery = runpy.run_path(str(DOCS / "gallery.py"))
    gallery["write"]([DOCS.parent / "results" / "made-up"], tmp_path)
    page = (tmp_path / "gallery.md").read_text()
    for name in NAMES:
        assert (
            f"```\nrecollect figure {name} results/made-up -o {name}.{'md' if name.startswith('table') else 'png'}\n```" in page
        )
    assert "![fig13](gallery/fig13.png)" in page
    assert page.count("Not drawn: ") == len(NAMES) - 1
    assert "Not drawn: fig1: none of 4 runs fits" in page
    assert "4 planned = 4 done" in page
    [picture] = (tmp_path / "gallery").iterdir()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < gallery["MOST_BYTES"]
