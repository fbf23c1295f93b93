"""The demo: a sweep in miniature for any CPU. Its page shows, beside it, the same mixers at the
study's size: the rows of the GPU card, measured on a GPU and stored in this package.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from recollect.reports.score.baselines import Baselines, stored_baselines
from recollect.spec.sweep import Sweep, read_sweep

_SPECIFICATION = Path(__file__).with_name("demo.toml")


def demo_sweep() -> Sweep:
    return read_sweep(_SPECIFICATION)


def is_demo(source: str) -> bool:
    """Whether this is the text of the demo's specification."""
    return source == _SPECIFICATION.read_text(encoding="utf-8")


def at_study_size(mixers: Collection[str]) -> Baselines | None:
    """The stored rows of these mixers at the study's size; None if there are none."""
    known = stored_baselines("gpu")
    if known is None:
        return None
    rows = {
        label: own
        for label, own in known.rows.items()
        if own[0].spec["model"]["mixer"]["name"] in mixers
    }
    return replace(known, rows=rows) if rows else None
