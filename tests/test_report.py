"""The page: complete, self-contained, safe to open whatever the names, and there even when results are not."""

import base64
import hashlib
import math
import re
from html.parser import HTMLParser
from io import BytesIO

import pytest
from rows_made import make_curve, make_row, make_sweep

from recollect.analysis import group_cells
from recollect.report import curve_figure, rate_figure, render, write_report
from recollect.report.curve_figures import MAX_LINES, drawn_runs
from recollect.report.figures import line_styles, panels
from recollect.report.page import MAX_CELL_LINES, MAX_RUN_LINES
from recollect.report.style import plain, to_svg

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "{{7*7}}{% raw %}",
    "\" onload='alert(1)'",
    "$\\frac{1}{0}$ $",
    "_hidden",
    "-->]]>&lt;",
    "<svg/onload=alert(1)>",
    "名前 \U0001f40d \x00\x1b\n\ud800",
]


class Elements(HTMLParser):
    """Collects every element with its attributes, and all text outside of styles and scripts."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def count(self, tag):
        return sum(name == tag for name, _ in self.found)


def sweep_with_curves():
    rows = make_sweep({1e-4: [0.3, 0.4], 1e-3: [1.0, 0.98], 1e-2: [0.5, 0.3]})
    rows += make_sweep({1e-4: [0.3, 0.3], 1e-3: [0.3, 0.3], 1e-2: [0.95, 0.9]}, "mamba")
    rows.append(make_row("mamba", 1e-1, 1, status="diverged", diverged_step=1234))
    rows.append(make_row("mamba", 1e-1, 2, score=None, status="failed", failure="oom: 3 GB asked"))
    return rows, {row.run_id: make_curve([0.1, 0.2, row.score or 0.0]) for row in rows}


def assert_self_contained(page):
    elements = Elements(page)
    assert elements.count("script") == 1
    assert not {"img", "iframe", "link", "object", "embed", "form", "base"} & {tag for tag, _ in elements.found}
    for tag, attributes in elements.found:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        for name in ("src", "href", "xlink:href", "action", "data"):
            value = attributes.get(name) or ""
            assert value.startswith(("#", "data:image/png;base64,")) or not value, (tag, name, value)
    assert not re.search(r"url\((?!#)|@import", page.replace('"', ""))
    return elements


def test_the_page_says_what_was_found_and_how():
    rows, curves = sweep_with_curves()
    elements = assert_self_contained(render(rows, curves, "[task]\nname = 'mqar'", ["A note."]))
    for words in (
        "attention, mamba on mqar",
        "14 planned = 12 done + 1 diverged + 1 failed + 0 running + 0 todo",
        "attention solves it (best 0.990 at 1e-3)",
        "mamba solves it (best 0.925 at 1e-2)",
        "diverged at step 1,234",
        "oom: 3 GB asked",
        "name = 'mqar'",
        "A note.",
        "steps 1000, weight decay 0.1",
    ):
        assert words in elements.text
    assert elements.count("svg") == 3  # one figure of rates, two of curves


def test_the_policy_allows_our_script_and_nothing_else():
    page = render(*sweep_with_curves())
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(a["content"] for tag, a in Elements(page).found if tag == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}'" in policy


def page_full_of(text):
    rows = [
        make_row(text, 1e-3, 1, 0.5, model={"extra": text}, device=text, versions={"torch": text}, run_id="0"),
        make_row(text, 1e-2, 1, 0.5, model={"extra": text}, run_id="1"),
        make_row(text, 1e-3, 1, 1.0, model={"width": text}, run_id="2"),
        make_row("other", status="failed", failure=text, score=None, run_id=text),
    ]
    return render(rows, {row.run_id: make_curve([0.1, 0.5]) for row in rows}, text, [text])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    def outside_figures(page):
        return Elements(re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)).text

    page = page_full_of(text)
    assert_self_contained(page)
    # Whatever stands where a harmless name would stand is the text itself, letter for letter.
    shown = outside_figures(page_full_of("harmless"))
    assert shown.count("harmless") > 10
    assert outside_figures(page) == shown.replace("harmless", text)


def test_hostile_keys_do_no_harm():
    for text in HOSTILE:
        assert_self_contained(render([make_row(model={text: value}, versions={text: text}) for value in (1, 2)], {}))


def test_hostile_text_in_a_figure_is_written_out():
    cells = group_cells([make_row("$x$ <b>", model={"width": "_w"}), make_row("$x$ <b>", model={"width": "$"})])
    svg = to_svg(rate_figure(cells), "salt")
    assert "$x$ &lt;b&gt;, width _w" in svg
    assert "<b>" not in svg


def test_the_same_rows_give_the_same_page():
    assert render(*sweep_with_curves()) == render(*sweep_with_curves())


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "Nothing is planned in this store."),
        ([make_row(score=None, status="todo")], "attention has no result yet (1 todo)."),
        ([make_row(score=None, status="failed", failure="lost: no word for 10 minutes")], "lost: no word for 10 minutes"),
        ([make_row(status="diverged", accuracy=math.nan)], "attention diverged in every run (1 run)"),
        ([make_row()], "with a single rate tried"),
        ([make_row(lr=1e-3, score=0.4), make_row(lr=1e-2, score=0.5, status="running")], "has not solved it yet"),
    ],
)
@pytest.mark.parametrize("loss", [2.0, math.nan, math.inf, 0.0])
def test_the_page_stands_with_few_or_no_results(rows, words, loss):
    curves = {row.run_id: make_curve([0.3], loss=loss) for row in rows if row.status not in ("todo", "failed")}
    assert words in assert_self_contained(render(rows, curves)).text


def test_ten_thousand_runs_stay_readable():
    rates = [10 ** (-5 + 0.2 * step) for step in range(20)]
    rows = [
        make_row(mixer, lr, seed, min(1.0, width * lr), model={"width": width, "depth": depth})
        for depth in range(5)
        for width in range(64, 84)
        for mixer in ("attention", "mamba", "hyena", "h3", "rwkv")
        for lr in rates
        for seed in (1,)
    ]
    page = render(rows, {row.run_id: make_curve([0.1, 0.2] * 20) for row in rows})
    assert len(rows) == 10_000
    assert len(page.encode()) < 15_000_000
    assert "The first 24 of 100 panels are drawn." in page
    assert "The first 12 of 500 cells are drawn." in page
    assert f"{MAX_RUN_LINES:,} of 10,000 runs are listed" in page


def test_a_cut_table_keeps_the_failed_runs():
    rows = [make_row(seed=seed) for seed in range(MAX_RUN_LINES)] + [
        make_row(seed=MAX_RUN_LINES, status="failed", failure="oom: here")
    ]
    assert "oom: here" in render(rows, {})


def test_many_cells_are_cut_and_counted():
    rows = [make_row(model={"width": width}, score=None, status="todo") for width in range(MAX_CELL_LINES + 1)]
    assert f"The first {MAX_CELL_LINES} of {MAX_CELL_LINES + 1} cells are listed." in render(rows, {})


# --- figures


def test_cells_that_can_be_compared_share_a_panel():
    rows = [make_row(mixer, model={"width": width}) for width in (64, 128) for mixer in ("attention", "mamba")]
    drawn = panels(group_cells(rows))
    assert [(panel.title, [label for label, _ in panel.lines]) for panel in drawn] == [
        ("width 64", ["attention", "mamba"]),
        ("width 128", ["attention", "mamba"]),
    ]
    alone = panels(group_cells([make_row(model={"width": width}) for width in (64, 128)]))
    assert [label for label, _ in alone[0].lines] == ["attention, width 64", "attention, width 128"]
    assert panels(group_cells([make_row(score=None, status="todo")])) == []


def test_no_two_lines_of_a_figure_look_alike():
    drawn = panels(group_cells([make_row(f"mixer{index}") for index in range(20)]))
    styles = line_styles(drawn)
    assert len(set(styles.values())) == 20
    assert all(len(panel.lines) <= 7 for panel in drawn)


def test_the_rate_figure_shows_means_seeds_crosses_and_guides():
    rows, _ = sweep_with_curves()
    (ax,) = rate_figure(group_cells(rows)).axes
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]
    assert ([1e-4, 1e-3, 1e-2], pytest.approx([0.35, 0.99, 0.4])) in lines
    crosses = [line for line in ax.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in crosses] == [([1e-1], [0.25])]
    upright = [
        line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 2 and line.get_xdata()[0] == line.get_xdata()[1]
    ]
    assert set(upright) >= {1e-4, 1e-2}


def test_figures_can_be_saved_as_pictures():
    rows, curves = sweep_with_curves()
    cells = group_cells(rows)
    for figure in (rate_figure(cells), rate_figure([]), curve_figure(cells[0], curves)):
        out = BytesIO()
        figure.savefig(out, format="png")
        assert out.getvalue().startswith(b"\x89PNG")


def test_a_full_curve_figure_takes_every_rate_before_a_second_seed():
    rows = make_sweep({10**-step: [1.0] * 30 for step in (1, 2, 3)})
    drawn = drawn_runs(group_cells(rows)[0], {row.run_id: make_curve([0.5]) for row in rows})
    assert len(drawn) == MAX_LINES
    assert [row.spec["train"]["lr"] for row in drawn[:3]] == [10**-3, 10**-2, 10**-1]


def test_labels_are_one_short_printable_line():
    assert plain("a\n\tb\x00") == "a b"
    assert len(plain("x" * 500)) == 48


# --- writing


def test_the_page_is_written_whole_to_a_file_or_into_a_folder(tmp_path):
    rows, curves = sweep_with_curves()
    assert write_report(tmp_path, rows, curves) == tmp_path / "report.html"
    assert write_report(tmp_path / "x.html", rows, curves) == tmp_path / "x.html"
    assert (tmp_path / "x.html").read_text(encoding="utf-8") == render(rows, curves)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "x.html"]


def test_a_name_without_utf8_form_does_not_stop_the_report(tmp_path):
    path = write_report(tmp_path, [make_row("\ud800")], {})
    assert "? on mqar" in path.read_text(encoding="utf-8")
