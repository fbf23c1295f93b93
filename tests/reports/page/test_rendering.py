"""The page: complete, self-contained, safe to open whatever the names,
and there even when results are not.
"""

import base64
import hashlib
import json
import math
import re
import zlib
from html.parser import HTMLParser

import pytest
from rows_made import HOSTILE, make_curve, make_row, make_sweep

from recollect.analysis import group_cells
from recollect.errors import printable
from recollect.plotting.text import plain
from recollect.reports.page import Context, render, write_report
from recollect.reports.page.context import EmbeddedPicture, InspectedRun, ShownClaim, Source
from recollect.reports.page.rendering import (
    HERE,
    MAX_CELL_LINES,
    MAX_RUN_LINES,
    render_bare,
    to_bytes,
)
from recollect.reports.page.tables import UNDECIDED, run_lines

LIBRARY = HERE / "plotly" / "plotly-basic.min.js"


class Elements(HTMLParser):
    """Collects every element with its attributes, all text outside of styles and scripts,
    and the scripts.
    """

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.cdata_elem == "script":
            self.scripts.append(data)
        elif self.cdata_elem is None:
            self.text += data

    def count(self, tag):
        return sum(name == tag for name, _ in self.found)

    @property
    def data(self):
        """What the pictures are drawn from."""
        assert self.found[-1] == ("script", {"type": "application/json", "id": "data"}), (
            "the data stand last"
        )
        (text,) = self.scripts
        assert not set("<>&\u2028\u2029") & set(text)
        return json.loads(text)


def sweep_with_curves():
    rows = make_sweep({1e-4: [0.3, 0.4], 1e-3: [1.0, 0.98], 1e-2: [0.5, 0.3]})
    rows += make_sweep({1e-4: [0.3, 0.3], 1e-3: [0.3, 0.3], 1e-2: [0.95, 0.9]}, "mamba")
    rows.append(make_row("mamba", 1e-1, 1, status="diverged", diverged_step=1234))
    rows.append(make_row("mamba", 1e-1, 2, score=None, status="failed", failure="oom: 3 GB asked"))
    return rows, {row.run_id: make_curve([0.1, 0.2, row.score or 0.0]) for row in rows}


def assert_self_contained(bare):
    elements = Elements(bare)
    assert elements.count("script") == 1
    assert not {"iframe", "link", "object", "embed", "form", "base", "svg"} & {
        tag for tag, _ in elements.found
    }
    for tag, attributes in elements.found:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        for name in ("src", "href", "xlink:href", "action", "data"):
            value = attributes.get(name) or ""
            assert value.startswith("data:image/png;base64,") or not value, (tag, name, value)
    assert not re.search(r"url\(|@import", bare.replace('"', ""))
    return elements


def test_the_page_says_what_was_found_and_how():
    rows, curves = sweep_with_curves()
    context = Context(
        sources=[Source("tiny", "[task]\nname = 'mqar'")],
        notes=["A note."],
        facts=[("folder", "out/here")],
    )
    elements = assert_self_contained(render_bare(rows, curves, context))
    for words in (
        "attention, mamba on mqar",
        "14 planned = 12 done + 1 diverged + 1 failed + 0 running + 0 todo",
        "attention solves it (best 0.990 at 1e-3)",
        "mamba solves it (best 0.925 at 1e-2)",
        "diverged at step 1,234",
        "oom: 3 GB asked",
        "The specification (TOML) of tiny",
        "name = 'mqar'",
        "A note.",
        "out/here",
        "steps 1000, weight decay 0.1",
    ):
        assert words in elements.text
    assert [cell["name"] for cell in elements.data["cells"]] == ["attention", "mamba"]


def library_of(page):
    """What the page's script unpacks and runs."""
    packed = re.search(r'<script type="text/plain" id="library">([^<]*)</script>\n', page).group(1)
    return zlib.decompress(base64.b64decode(packed))


def test_scripts_are_added_to_a_page_that_stands_without_them():
    rows, curves = sweep_with_curves()
    bare, page = render_bare(rows, curves), render(rows, curves)
    assert re.findall(r"<script[^>]*>", bare) == ['<script type="application/json" id="data">']
    assert re.findall(r"<script[^>]*>", page) == [
        '<script type="application/json" id="data">',
        '<script type="text/plain" id="library">',
        "<script>",
    ]
    start = bare.index("</body>")
    assert page.startswith(bare[:start])
    assert page.endswith(bare[start:])
    assert library_of(page) == LIBRARY.read_bytes(), "as it was published"
    assert "<noscript>" in bare


def test_the_policy_allows_our_two_scripts_and_nothing_else():
    page = render(*sweep_with_curves())
    (own,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [
        base64.b64encode(hashlib.sha256(script).digest()).decode()
        for script in (library_of(page), own.encode())
    ]
    policy = (
        re.search(r'Content-Security-Policy" content="([^"]*)"', page)
        .group(1)
        .replace("&#39;", "'")
    )
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}';" in policy
    assert "connect-src 'none'" in policy
    assert "connect-src 'self'" in render_bare(*sweep_with_curves(), is_live=True).replace(
        "&#39;", "'"
    )


def page_full_of(text):
    rows = [
        make_row(
            text,
            1e-3,
            1,
            0.5,
            model={"extra": text},
            device=text,
            versions={"torch": text},
            run_id="0",
        ),
        make_row(text, 1e-2, 1, 0.5, model={"extra": text}, run_id="1"),
        make_row(text, 1e-3, 1, 1.0, model={"width": text}, run_id="2"),
        make_row("other", status="failed", failure=text, score=None, run_id=text),
    ]
    context = Context(
        sources=[Source(text, text)],
        notes=[text],
        facts=[(text, text)],
        insides=[
            InspectedRun(
                text, text, text, (EmbeddedPicture(text, text, "data:image/png;base64,AAAA"),)
            )
        ],
        claims=[
            ShownClaim("C1", text, "reproduced", text, text, text, text),
            ShownClaim("C2", text, "not enough data", text, text, text, text),
        ],
        commands={"rates": [text], "runs": [text]},
    )
    return render_bare(rows, {row.run_id: make_curve([0.1, 0.5]) for row in rows}, context)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    elements = assert_self_contained(page_full_of(text))
    # Whatever stands where a harmless name would stand is the text itself, letter for letter, but
    # for what cannot be seen.
    shown = Elements(page_full_of("harmless"))
    assert shown.text.count("harmless") > 20
    # A recipe's label spells what cannot be printed as question marks.
    label = "".join(letter if letter.isprintable() else "?" for letter in text)
    expected = shown.text.replace("but extra harmless", f"but extra {label}")
    assert elements.text == expected.replace("harmless", printable(text))
    assert elements.data["labels"][0]["name"] == plain(text, 160)
    assert [label["name"] for label in shown.data["labels"]] == ["harmless", "other"]


def test_what_a_terminal_or_a_reader_would_obey_is_spelt_out():
    rows, curves = sweep_with_curves()
    text = "\x1b[31mred\x07 \u202eback\twards\nnext"
    page = render_bare(rows, curves, Context(sources=[Source("tiny", text)], notes=[text]))
    assert not set("\x1b\x07\u202e") & set(page)
    assert page.count(r"\x1b[31mred\x07 \u202eback\twards".replace(r"\t", "\t") + "\nnext") == 2


def test_hostile_keys_do_no_harm():
    for text in HOSTILE:
        assert_self_contained(
            render_bare(
                [make_row(model={text: value}, versions={text: text}) for value in (1, 2)], {}
            )
        )


def test_the_same_rows_give_the_same_page():
    assert render(*sweep_with_curves()) == render(*sweep_with_curves())


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "Nothing is planned in this store."),
        ([make_row(score=None, status="todo")], "attention has no result yet (1 todo)."),
        (
            [make_row(score=None, status="failed", failure="lost: no word for 10 minutes")],
            "lost: no word for 10 minutes",
        ),
        (
            [make_row(status="diverged", accuracy=math.nan)],
            "attention diverged in every run (1 run)",
        ),
        ([make_row(status="diverged", accuracy=math.nan)], "every run diverged"),
        ([make_row()], "with a single rate tried"),
        (
            [make_row(lr=1e-3, score=0.4), make_row(lr=1e-2, score=0.5, status="running")],
            "does not solve it, 1 of 2 runs done",
        ),
    ],
)
@pytest.mark.parametrize("loss", [2.0, math.nan, math.inf, 0.0])
def test_the_page_stands_with_few_or_no_results(rows, words, loss):
    curves = {
        row.run_id: make_curve([0.3], loss=loss)
        for row in rows
        if row.status not in ("todo", "failed")
    }
    assert words in assert_self_contained(render_bare(rows, curves)).text


def test_ten_thousand_runs_stay_one_page_that_can_be_mailed():
    rates = [10 ** (-5 + 0.2 * step) for step in range(20)]
    rows = [
        make_row(mixer, lr, 1, min(1.0, width * lr), model={"width": width, "depth": depth})
        for depth in range(5)
        for width in range(64, 84)
        for mixer in ("attention", "mamba", "hyena", "h3", "rwkv")
        for lr in rates
    ]
    curve = make_curve([0.1, 0.2345] * 30, loss=2.3456)
    page = render(rows, {row.run_id: curve for row in rows})
    assert len(rows) == 10_000
    assert len(page.encode()) < 15_000_000
    assert f"{MAX_RUN_LINES:,} of 10,000 runs are listed" in page


def test_a_failed_run_is_listed_without_a_score():
    row = make_row(score=0.5, status="failed", failure="oom: here", steps=20)
    (line,) = run_lines(group_cells([row]), 1)
    assert [entry.text for entry in line[4:8]] == ["failed", "–", "20", "–"]


def test_a_cut_table_keeps_the_failed_runs():
    rows = [
        make_row(seed=1),
        make_row(seed=2),
        make_row(seed=3, status="failed", failure="oom: here"),
    ]
    lines = run_lines(group_cells(rows), 2)
    assert [(line[3].text, line[-1].text) for line in lines] == [("3", "oom: here"), ("1", "")]


def test_many_cells_are_cut_and_counted():
    rows = [
        make_row(model={"width": width}, score=None, status="todo")
        for width in range(MAX_CELL_LINES + 1)
    ]
    assert f"The first {MAX_CELL_LINES} of {MAX_CELL_LINES + 1} cells are listed." in render_bare(
        rows, {}
    )


# --- what was made of the rows elsewhere


def test_claims_are_told_only_where_the_rows_say_something():
    silent = ShownClaim(
        "C3", "third", UNDECIDED, UNDECIDED, "missing", "fig1", "", to_train="two cells"
    )
    page = Elements(render_bare([make_row()], {}, Context(claims=[silent])))
    assert "Claims of the study" not in page.text
    hint = ShownClaim(
        "C1", "first", UNDECIDED, UNDECIDED, "missing", "fig1", "", reduced="holds (2 seeds)"
    )
    decided = ShownClaim("C2", "second", "contradicted", "contradicted", "0.4", "fig2", "a remark")
    page = Elements(
        render_bare(
            [make_row()],
            {},
            Context(claims=[hint, decided, silent], commands={"claims": ["recollect claims out"]}),
        )
    )
    told = page.text[page.text.index("Claims of the study") :]
    assert "3 claims: 1 contradicted, 2 not enough data." in told
    assert told.index("second") < told.index("first")
    assert "not enough data (at reduced scale: holds)" in told
    # What the rows do not decide lies behind a fold, with what would.
    fold = told[told.index("Claims that these rows do not decide: 1") :]
    assert "third" in fold
    assert "two cells" in fold
    assert "third" not in told.removesuffix(fold)
    assert "recollect claims out" in told


def test_claims_stand_by_recipe():
    claims = [
        ShownClaim(
            "C10", "ten", "holds in part", "holds in 2 of 4 cells", ".9", "fig3", "", recipe="study"
        ),
        ShownClaim(
            "C2", "two", "reproduced", "reproduced", ".9", "fig1", "", recipe="study", firm="97 %"
        ),
        ShownClaim("C2", "two", "contradicted", "contradicted", ".9", "fig1", "", recipe="plain"),
    ]
    page = Elements(render_bare([make_row()], {}, Context(claims=claims)))
    told = page.text[page.text.index("Claims of the study") :]
    assert "study, 2 claims: 1 holds in part, 1 reproduced. plain, 1 claim: 1 contradicted." in told
    assert told.index("reproduced", told.index("remarks")) < told.index("holds in 2 of 4 cells")
    assert "97 %" in told
    assert "do not decide" not in told


def test_pictures_of_models_stand_in_the_page():
    inside = InspectedRun(
        "ab12",
        "mamba, width 64",
        "recollect inspect out ab12",
        (EmbeddedPicture("Maps", "What they show.", "data:image/png;base64,QQ=="),),
    )
    elements = assert_self_contained(render_bare([make_row()], {}, Context(insides=[inside])))
    assert [attributes["src"] for tag, attributes in elements.found if tag == "img"] == [
        "data:image/png;base64,QQ=="
    ]
    for words in (
        "mamba, width 64",
        " run ab12",
        "Maps",
        "What they show.",
        "recollect inspect out ab12",
    ):
        assert words in elements.text
    assert "Inside trained models" not in render_bare([make_row()], {})


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


def test_the_page_is_small_enough_to_mail():
    rows, curves = sweep_with_curves()
    assert len(to_bytes(render(rows, curves))) < 700_000, "its library has 530,000 of them"


def test_the_library_on_the_page_comes_with_its_licence():
    page = render(*sweep_with_curves())
    notice = page[: page.index('id="library"')].rpartition("<!--")[2]
    assert re.search(r"plotly.js \(basic - minified\) v\d", notice)
    assert "Licensed under the MIT license" in notice
    assert "MIT License" in (LIBRARY.parent / "LICENSE").read_text(encoding="utf-8")
