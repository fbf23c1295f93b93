"""The pages under docs/ that are generated are what their scripts write:
nothing in them was typed by hand.
"""

import json
import runpy
from pathlib import Path

from recollect.mixers.registry import MIXERS

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_generated_and_true():
    assert (DOCS / "mixers.md").read_text() == runpy.run_path(str(DOCS / "mixers.py"))["page"]()


def test_every_mixer_was_compared_with_something():
    rows = json.loads((DOCS / "deviations.json").read_text())
    made_of_others = {
        name
        for name, options in MIXERS.items()
        if len(options.model_validate({"name": name}).kinds()) > 1
    }
    assert {row["mixer"] for row in rows if "gradients" in row} >= set(MIXERS) - made_of_others
    assert all(row["outputs"] < 1e-5 and row.get("gradients", 0) < 1e-5 for row in rows)


def test_the_page_on_speed_is_generated():
    assert (DOCS / "speed.md").read_text() == runpy.run_path(str(DOCS / "speed.py"))["page"]()


def test_the_page_on_the_python_interface_is_generated():
    assert (DOCS / "api.md").read_text() == runpy.run_path(str(DOCS / "api.py"))["page"]()
