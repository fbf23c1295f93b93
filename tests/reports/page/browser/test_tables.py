"""The page's tables at every width that a reader may have."""

import pytest
from rows_made import make_row, make_sweep

from recollect.reports.page import render


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_table_leaves_its_frame_at_any_width(desk, scheme):
    """With entries as long as they get: bounds, edges of three digits, intervals over seeds."""
    scores = {1.23e-4: [0.1, 0.2, 0.3], 1.23e-3: [0.9, 0.95, 0.99], 1.23e-2: [0.91, 0.95, 0.97]}
    rows = [
        *make_sweep(scores | {0.123: [0.123, 0.456, 0.789]}, parameters=123_456, state_size=65_536),
        *make_sweep(scores, "gated_delta_net", width=128, parameters=12_345_678, state_size=1),
        make_row(status="failed", failure="a long tale of what went wrong " * 9, score=None),
    ]
    tab = desk.open(render(rows, {}), color_scheme=scheme)
    outside = (
        "() => [...document.querySelectorAll('table')].filter((table) => {"
        " const frame = table.parentElement, right = frame.getBoundingClientRect().right;"
        " return right > innerWidth || (getComputedStyle(frame).overflowX === 'visible'"
        " && [...table.querySelectorAll('td, th')].some((one) => one.offsetWidth > 0"
        " && (one.getBoundingClientRect().right > right"
        " || one.scrollWidth > one.clientWidth + 1)));"
        "}).map((table) => table.closest('section').id)"
    )
    for width in (390, 400, 800, 1000, 1040, 1041, 1100, 1200, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate(outside) == [], f"at {width} pixels"
        # Plots follow the window a moment later.
        tab.wait_for_function("(most) => document.documentElement.scrollWidth <= most", arg=width)
