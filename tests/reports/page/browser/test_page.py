"""The page as a reader meets it: pictures that answer to pointing and choosing,
on a desk and on a phone, offline.
"""

import base64
import hashlib
import re

import pytest
from rows_made import HOSTILE, make_curve, make_row, make_sweep

from recollect.plotting.colours import DARK_PAGE, mixer_style, on_dark
from recollect.plotting.text import plain
from recollect.reports.page import Context, render

TASK = "mqar, length 64, pairs 4"


def rows_and_curves():
    rows = []
    for width in (64, 128):
        rows += make_sweep({1e-4: [0.3, 0.4], 1e-3: [1.0, 0.9], 1e-2: [0.5, 0.3]}, width=width)
        rows += make_sweep(
            {1e-4: [0.3, 0.3], 1e-3: [0.4, 0.4], 1e-2: [0.3, 0.3]}, "hyena", width=width
        )
        rows += make_sweep(
            {1e-4: [0.3, 0.3], 1e-3: [0.3, 0.3], 1e-2: [0.95, 0.9]}, "mamba", width=width, depth=1
        )
    rows.append(make_row("mamba", 1e-1, 1, status="diverged", diverged_step=5, model={"depth": 1}))
    return rows, {row.run_id: make_curve([0.1, 0.2, row.score or 0.0]) for row in rows}


@pytest.fixture(scope="module")
def page():
    rows, curves = rows_and_curves()
    commands = {
        "rates": ["recollect figure fig1 'my out' -o fig1.pdf"],
        "runs": ["recollect export out"],
    }
    return render(rows, curves, Context(commands=commands))


@pytest.fixture(scope="module")
def window(shared_desk, page):
    return shared_desk.open(page, permissions=["clipboard-read", "clipboard-write"])


@pytest.fixture
def tab(window):
    """The page with nothing chosen."""
    for choice in (
        "rates-width",
        "rates-depth",
        "rates-band",
        "maps-depth",
        "maps-measure",
        "curves-cell",
        "curves-rate",
    ):
        if window.locator(f"#{choice}").evaluate(
            "(select) => select.selectedIndex"
        ):  # each choice draws a section again
            window.select_option(f"#{choice}", index=0)
    return window


def plots(tab, section="rates"):
    """The plots of a section, all drawn."""
    tab.locator(f"#{section} h2").scroll_into_view_if_needed()
    tab.wait_for_selector(f"#{section}-plots .plot .main-svg")
    return tab.locator(f"#{section}-plots figure")


def titles(tab, section="rates"):
    return plots(tab, section).locator("figcaption").all_text_contents()


def hover(tab, figure, name, point, words):
    """Point at a mark of a mixer's line; what is shown there once it has `words` in it."""
    plot = figure.locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    x, y = plot.evaluate(
        "(plot, [name, point]) => { const {_fullLayout: l, data} = "
        "plot; const "
        "t = data.find((one) => one.name === name);"
        " return [l.xaxis._offset + l.xaxis.d2p(t.x[point]), "
        "l.yaxis._offset + "
        "l.yaxis.d2p(t.y[point])]; }",
        [name, point],
    )
    label = figure.locator(".hoverlayer .hovertext", has_text=re.compile(re.escape(words)))
    for off in (40, 1, 0):
        tab.mouse.move(box["x"] + x + off, box["y"] + y + off)
    label.first.wait_for()
    return label.first.text_content()


def names(figure):
    """The mixers that a plot has a line for."""
    return figure.locator(".plot").evaluate(
        "(plot) => plot.data.filter((t) => t.name).map((t) => t.name)"
    )


def test_pointing_at_a_mean_shows_its_runs_and_seeds(tab):
    text = hover(tab, plots(tab).first, "attention", 1, "attention at 1e-3: mean 0.950")
    rows, _ = rows_and_curves()
    runs = [
        row
        for row in rows
        if row.spec["model"] == {"mixer": {"name": "attention"}, "width": 64, "depth": 2}
    ]
    for row, score in zip(
        [row for row in runs if row.spec["train"]["lr"] == 1e-3], ("1.000", "0.900"), strict=True
    ):
        assert f"seed {row.spec['seed']}: {score}" in text
        assert row.run_id in text


def test_a_choice_changes_what_is_drawn(tab):
    assert titles(tab) == [
        f"{TASK} · width {width} · {layers}"
        for width in (64, 128)
        for layers in ("2 layers", "1 layer")
    ]
    assert tab.locator("#rates-task").is_hidden(), "one task is no choice"
    tab.select_option("#rates-width", "128")
    assert titles(tab) == [f"{TASK} · width 128 · 2 layers", f"{TASK} · width 128 · 1 layer"]
    tab.select_option("#rates-depth", "1")
    assert titles(tab) == [f"{TASK} · width 128 · 1 layer"]
    assert names(plots(tab).first) == ["mamba"]


def test_the_band_changes_and_can_be_taken_away(tab):
    figure = plots(tab).first
    bands = (
        "(plot) => plot.data.filter((t) => t.fill === 'toself').map((t) => t.y.map((y) => "
        "Math.round(1000 * y) / 1000))"
    )
    found = {}
    for index, kind in enumerate(("min-max", "std", "interval")):
        tab.select_option("#rates-band", str(index))
        found[kind] = figure.locator(".plot").evaluate(bands)[0]
    assert found["min-max"] == [0.4, 1, 0.5, 0.3, 0.9, 0.3]
    assert found["std"][0] == pytest.approx(0.35 + 0.1 / 2**0.5, abs=1e-3)
    assert found["interval"] == [0.985, 1, 1, 0, 0.315, 0]
    tab.select_option("#rates-band", "none")
    assert figure.locator(".plot").evaluate(bands) == []


def test_the_legend_hides_and_isolates(tab):
    figure, button = plots(tab).first, tab.locator("#rates .legend button")
    assert button.all_text_contents() == ["attention", "hyena", "mamba"]
    assert names(figure) == ["attention", "hyena"]
    button.nth(1).click()
    assert names(figure) == ["attention"]
    assert button.nth(1).get_attribute("aria-pressed") == "false"
    button.nth(1).click()
    button.nth(1).dblclick()
    assert names(figure) == ["hyena"]
    button.nth(0).click()
    button.nth(2).click()
    assert names(figure) == ["attention", "hyena"]


def test_a_plot_offers_to_save_and_zoom_and_to_send_nothing_away(tab):
    plots(tab)
    offered = (
        "(all) => [...new Set(all.map((one) => one.dataset.title ?? "
        "one.getAttribute('aria-label')))]"
    )
    found = tab.locator("#rates-plots .modebar-btn").evaluate_all(offered)
    assert found == ["Download plot", "Zoom", "Pan", "Reset axes"]


def test_maps_show_scores_windows_and_rates(tab):
    assert titles(tab, "maps") == ["mamba"], "of one layer, the first choice"
    tab.select_option("#maps-depth", "2")
    assert titles(tab, "maps") == ["attention", "hyena"]
    plot, shown = plots(tab, "maps").first.locator(".plot"), "(plot) => plot.data[0].text"
    assert plot.evaluate(shown) == ["0.950", "0.950"]
    tab.select_option("#maps-measure", "window")
    assert plot.evaluate(shown) == ["0.17", "0.17"]
    tab.select_option("#maps-measure", "rate")
    assert plot.evaluate(shown) == ["1e-3", "1e-3"]


def test_lines_grow_with_width(tab):
    plot = plots(tab, "scaling").locator(".plot")
    assert plot.evaluate(
        "(plot) => plot.data.filter((t) => t.name).map((t) => [t.name, t.x, t.line.dash])"
    ) == [
        ["attention", [64, 128], "dash"],
        ["hyena", [64, 128], "dash"],
        ["mamba", [64, 128], "solid"],
    ]
    assert "1 layer: solid" in tab.locator("#scaling-depths").text_content()


def test_curves_have_levels_and_rates_to_choose(tab):
    plot, lines = (
        plots(tab, "curves").locator(".plot"),
        "(plot) => plot.data.filter((t) => t.line).length",
    )
    assert tab.locator("#curves .annotation-text").all_text_contents() == [
        "ln 2K = 2.08",
        "ln K = 1.39",
    ]
    assert plot.evaluate(lines) == 2 * 6
    tab.select_option("#curves-rate", "best")
    assert plot.evaluate(lines) == 2 * 2
    tab.select_option("#curves-cell", label="mamba, width 64")
    assert titles(tab, "curves") == ["mamba, width 64"]


def test_a_command_is_copied(tab):
    tab.locator("#rates-commands button.copy").click()
    tab.locator("#rates-commands button.copy", has_text="Copied").wait_for()
    assert (
        tab.evaluate("navigator.clipboard.readText()")
        == "recollect figure fig1 'my out' -o fig1.pdf"
    )


def test_tables_sort_by_what_their_numbers_are(tab):
    column = (
        "() => [...document.querySelectorAll('#runs-lines tr')].map((row) => "
        "row.cells[2].textContent)"
    )
    tab.locator("#runs th button", has_text="rate").click()
    assert tab.evaluate(column) == sorted(tab.evaluate(column), key=float)
    tab.locator("#runs th button", has_text="rate").click()
    assert tab.evaluate(column)[0] == "1e-1"


def test_a_phone_can_read_it(desk, page):
    tab = desk.open(page, width=390, is_phone=True)
    for section in ("rates", "taus", "best", "maps", "scaling", "curves"):
        plots(tab, section)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    inside = "(box) => box.scrollWidth <= box.clientWidth"
    assert tab.locator("#windows .fitting").evaluate(inside), "no column is cut"
    wide = (
        "(all) => all.filter((one) => "
        "one.getBoundingClientRect().right > "
        "390).map((one) => one.textContent)"
    )
    assert (
        tab.locator(
            ".plot, figcaption, select, .legend button, h2, .findings li, .command"
        ).evaluate_all(wide)
        == []
    )
    sizes = "(all) => Math.min(...all.map((one) => parseFloat(getComputedStyle(one).fontSize)))"
    assert tab.locator(".plot text").evaluate_all(sizes) >= 11
    assert tab.locator("p, li, td, select, button").evaluate_all(sizes) >= 12


def test_hostile_names_are_shown_and_do_nothing(desk):
    texts = [*HOSTILE, '<a href="javascript:alert(1)">x</a>', "<b>bold</b><br>%{y}"]
    rows = [
        make_row(text, lr, score=index / 20, run_id=f"{text}{lr}", model=model)
        for index, text in enumerate(texts)
        for lr in (1e-3, 1e-2)
        for model in ({}, {"depth": text, "width": text})
    ]
    tab = desk.open(render(rows, {row.run_id: make_curve([0.1, 0.5]) for row in rows}))
    figure = plots(tab).first
    shown = [plain(text, 160).replace("\ud800", "\ufffd") for text in texts]
    assert tab.locator("#rates .legend button").all_text_contents() == shown
    for index, text in enumerate(shown):
        found = hover(tab, figure, text, 0, f" at 1e-3: mean {index / 20:.3f}")
        assert found.startswith(f"{text} at 1e-3: mean")
    for section in ("maps", "curves"):
        plots(tab, section)
    assert tab.locator("img, a, iframe, figcaption *, h1 *, option *, .legend b").count() == 0
    assert tab.locator("script").count() == 4, "data, packed library, library, our own"


def test_the_policy_holds_in_the_browser(desk, page):
    tab = desk.open(page, may_complain=True)
    tab.evaluate(
        "() => { const one = document.createElement('script'); "
        "one.textContent "
        "= 'window.broken = 1';"
        " document.body.append(one);"
        " "
        "document.body.insertAdjacentHTML('beforeend', '<p "
        'onclick="window.broken = 1" id=bait>x</p>\'); }'
    )
    tab.locator("#bait").click()
    assert tab.evaluate("window.broken") is None
    assert (
        tab.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'stopped')")
        == "stopped"
    )


def test_without_scripts_the_words_and_tables_stand(desk, page):
    tab = desk.open(page, java_script_enabled=False)
    assert tab.locator("#findings noscript").is_visible()
    assert tab.locator("#findings-list li").count() == 3
    assert tab.locator("#windows-lines tr").count() == 6
    assert tab.locator("#rates").is_hidden()


def test_who_can_draw_is_not_told_about_old_browsers(tab):
    plots(tab)
    assert tab.locator("#too-old").is_hidden()


def test_windows_against_tau_and_curves_at_the_best_rate_have_a_line_per_mixer(tab):
    assert names(plots(tab, "taus").first) == ["attention"]
    assert titles(tab, "best")[:3] == [
        f"{TASK} · width 64 · 2 layers: {part}" for part in ("train loss", "test loss", "accuracy")
    ]
    assert names(plots(tab, "best").first) == ["attention", "hyena"]


def test_the_page_compares_mixers_first_and_explains_its_words(tab):
    order = "(all) => all.map((one) => one.id)"
    assert tab.locator("main section").evaluate_all(order) == [
        *("findings", "rates", "windows", "best", "taus"),
        *("maps", "scaling", "curves", "runs", "provenance"),
    ]
    verdict = tab.locator(".verdict").first.text_content()
    assert f"{TASK} · width 64 · 2 layers" in verdict
    assert "The widest window is that of attention" in verdict
    assert "hyena (best 0.400) stays below 0.9 at every rate tried." in verdict
    for word in ("cell", "window"):
        assert tab.locator("#findings .first b", has_text=word).count() == 1
    for word in ("W(0.9)", "G(4)", "Chance"):
        assert tab.locator("#windows .first b", has_text=word).count() == 1


def test_an_old_browser_is_told_where_the_numbers_are(desk, page):
    """One that cannot unpack the library."""
    old = page.replace("DecompressionStream", "NoSuchStream")
    own = re.search(r"<script>(.*?)</script>", old, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
    tab = desk.open(re.sub(r" (&#39;sha256-)[^&]*(&#39;);", rf" \g<1>{digest}\g<2>;", old))
    assert tab.locator("#too-old").is_visible()
    assert tab.locator("#rates").is_hidden()
    assert tab.locator("#windows-lines tr").count() == 6


def test_dark_readers_get_a_dark_page_with_lines_that_show(desk, page):
    tab = desk.open(page, color_scheme="dark")
    plots(tab)
    paper = "() => getComputedStyle(document.body).backgroundColor"
    assert tab.evaluate(paper) == "rgb(21, 24, 28)"
    drawn = tab.locator("#rates-plots .plot").first
    colours = "(plot) => plot.data.filter((t) => t.name).map((t) => t.line.color)"
    own = [mixer_style(mixer).colour for mixer in ("attention", "hyena")]
    assert drawn.evaluate(colours) == [on_dark(colour) for colour in own]
    assert drawn.evaluate("(plot) => plot.layout.paper_bgcolor") == DARK_PAGE["paper"]
    tab.emulate_media(color_scheme="light")
    tab.wait_for_function(
        "() => document.querySelector('#rates-plots .plot').layout.paper_bgcolor === '#ffffff'"
    )
    assert drawn.evaluate(colours) == own


def test_room_is_kept_before_a_script_runs(desk, page):
    bare = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    quiet, drawn = desk.open(bare), desk.open(page)
    plots(drawn)
    top = "() => document.getElementById('windows').getBoundingClientRect().top + scrollY"
    assert quiet.evaluate(top) == pytest.approx(drawn.evaluate(top), abs=120)


@pytest.mark.parametrize(
    "rows", [[], [make_row(score=None, status="todo")]], ids=["empty", "waiting"]
)
def test_a_page_without_results_draws_nothing_and_does_not_mind(desk, rows):
    tab = desk.open(render(rows, {}))
    assert tab.locator("#rates").is_hidden()
    assert tab.locator("#windows").is_visible()
