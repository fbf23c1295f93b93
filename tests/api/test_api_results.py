"""What results say in Python is what the command line exports, and what is reckoned here by other
means.
"""

import csv
import json
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from matplotlib import pyplot
from rows_made import HOSTILE, make_row, make_sweep
from stores_made import make_store

import recollect
from recollect import Results
from recollect.analysis import group_cells
from recollect.analysis.export import RESULT_COLUMNS, TIMING_COLUMNS
from recollect.api.card import MOST_CELLS
from recollect.errors import SpecError

SCORES = {"attention": (0.25, 0.96, 0.95), "mamba": (0.5, 0.92, 0.25)}
RATES = (1e-4, 1e-3, 1e-2)


# ---- tables ----


def test_a_frame_of_runs_is_the_csv_export(out: Path, command):
    frame = Results.load(out).to_pandas()
    assert command("export", out, "-o", "runs.csv").code == 0
    header, *lines = csv.reader(Path("runs.csv").read_text().splitlines())
    assert list(frame.columns) == header
    assert header[0] == "run_id"
    assert set(header) >= {"score", "recipe", "train.lr", *RESULT_COLUMNS, *TIMING_COLUMNS}
    for line, (_, entry) in zip(lines, frame.iterrows(), strict=True):
        for column, text in zip(header, line, strict=True):
            _same(text, entry[column])


def _same(text: str, value: Any) -> None:
    """A cell of the export and the value in the frame."""
    if text == "":
        assert value is None or (isinstance(value, float) and math.isnan(value))
    elif isinstance(value, (dict, tuple)):
        assert json.loads(text) == (list(value) if isinstance(value, tuple) else value)
    elif isinstance(value, str):
        assert text == value
    else:
        assert float(text) == value


def test_a_setting_that_only_some_runs_have_is_missing_in_the_others(tmp_path: Path):
    make_store(tmp_path, [make_row(), make_row("mamba", model={"norm": "rms"})])
    found = Results.load(tmp_path).to_pandas()["model.norm"]
    assert found.isna().tolist() == [True, False]


def test_a_frame_of_curves_is_the_json_export(out: Path, command):
    frame = Results.load(out).curves()
    assert command("export", out, "--format", "json", "--curves", "-o", "runs.json").code == 0
    runs = json.loads(Path("runs.json").read_text())
    told = {(run["run_id"], point["step"]): point for run in runs for point in run["curve"]}
    assert len(frame) == len(told) == 2 * 18
    by_id = {run["run_id"]: run for run in runs}
    for entry in frame.to_dict("records"):
        run, point = by_id[entry["run_id"]], told[entry["run_id"], entry["step"]]
        assert (entry["lr"], entry["seed"]) == (run["spec"]["train"]["lr"], run["spec"]["seed"])
        assert entry["mixer"] == run["spec"]["model"]["mixer"]["name"]
        for key in ("train_loss", "test_loss", "accuracy", "exact"):
            assert entry[key] == point[key]
        assert entry["score"] == point["accuracy"]


@pytest.mark.parametrize("tau", [0.3, 0.6, 0.9, 0.955])
def test_windows_are_where_the_interpolated_score_is_high_enough(out: Path, tau: float):
    """On a grid so fine that its steps are the tolerance, without a formula for an edge."""
    frame = Results.load(out).windows(tau).set_index("mixer")
    logs = np.linspace(-4, -2, 200_001)
    for mixer, scores in SCORES.items():
        inside = np.interp(logs, np.log10(RATES), scores) >= tau
        expected = logs[inside].max() - logs[inside].min() if inside.any() else 0.0
        found = frame.loc[mixer]
        assert found["decades"] == pytest.approx(expected, abs=3e-5)
        assert bool(found["open_high"]) == (scores[-1] >= tau)
        assert bool(found["open_low"]) == (scores[0] >= tau)
        if inside.any():
            assert math.log10(found["low"]) == pytest.approx(logs[inside].min(), abs=3e-5)
        else:
            assert math.isnan(found["low"])
        assert found["decades_low"] <= found["decades_high"]


def test_windows_are_those_of_the_analysis(out: Path):
    results = Results.load(out)
    found = results.windows(0.9)
    for cell, (_, line) in zip(group_cells(results.rows), found.iterrows(), strict=True):
        window = cell.window(0.9)
        assert window is not None
        assert (line["low"], line["high"]) == (window.low, window.high)
        assert (line["cell"], line["rates"], line["seeds"]) == (cell.name, 3, 3)


def test_the_best_rates_are_those_of_a_mean_by_pandas(out: Path):
    results = Results.load(out)
    runs, best = results.to_pandas(), results.best().set_index("mixer")
    for mixer, own in runs.groupby("model.mixer.name"):
        means = own.groupby("train.lr")["score"].mean()
        found = best.loc[mixer]
        there = own[own["train.lr"] == means.idxmax()]
        assert (found["lr"], found["score"]) == (means.idxmax(), pytest.approx(means.max()))
        assert (found["lowest"], found["highest"]) == (there["score"].min(), there["score"].max())
        assert found["run_id"] == there.loc[there["score"].idxmax(), "run_id"]
        assert found["solved_seeds"] == (there["score"] >= 0.9).sum()
        assert found["steps_to_solve"] == 100


def test_claims_are_those_of_the_command(out: Path, command):
    frame = Results.load(out).claims(only=["C1", "C3"])
    said = command("claims", out, "--json", "--only", "C1,C3")
    told = json.loads(said.out)
    assert frame.to_dict("records") == [
        {column: record[column] for column in frame.columns} for record in told
    ]
    assert set(frame.columns) == set(told[0])
    assert list(frame["claim"].unique()) == ["C1", "C3"]


def test_results_without_a_run_have_the_same_columns(tmp_path: Path):
    make_store(tmp_path, [])
    empty = Results.load(tmp_path)
    make_store(tmp_path / "full", make_sweep({1e-3: (1.0,)}))
    full = Results.load(tmp_path / "full")
    for name in ("curves", "windows", "best"):
        frame = getattr(empty, name)()
        assert isinstance(frame, pandas.DataFrame)
        assert frame.empty
        assert list(frame.columns) == list(getattr(full, name)().columns)
    assert list(empty.to_pandas().columns)[1:] == [*RESULT_COLUMNS, *TIMING_COLUMNS]
    assert "0 runs; 0 cells" in repr(empty)
    assert "0 runs" in empty._repr_html_()


def test_runs_that_are_not_done_leave_their_cells_empty(tmp_path: Path):
    make_store(tmp_path, [make_row(status="todo", score=None)])
    results = Results.load(tmp_path)
    (window,), (best,) = (frame.to_dict("records") for frame in (results.windows(), results.best()))
    assert math.isnan(window["decades"])
    assert (window["rates"], window["seeds"], best["seeds"]) == (0, 0, 0)
    assert pandas.isna(best["score"])
    assert pandas.isna(best["run_id"])
    assert "1 run, 1 todo; 1 cell" in repr(results)
    assert "0 of 1" in results._repr_html_()
    with pytest.raises(SpecError, match="none of 1 runs has a result yet"):
        results.plot()


# ---- a part of them, and several folders ----


def test_where_keeps_runs_and_their_curves(out: Path):
    some = Results.load(out).where("train.lr=1e-3", "seed=[1, 2]")
    assert {(row.spec["train"]["lr"], row.spec["seed"]) for row in some.rows} == {
        (1e-3, 1),
        (1e-3, 2),
    }
    assert set(some.runs.curves) == {row.run_id for row in some.rows}
    assert len(some.rows) == 4
    assert some.report("some.html") == Path("some.html")
    left_out = next(row.run_id for row in Results.load(out).rows if row.spec["seed"] == 3)
    page = Path("some.html").read_text()
    assert some.rows[0].run_id in page
    assert left_out not in page


def test_several_folders_are_one(out: Path):
    make_store(Path("more"), make_sweep({1e-3: (0.5,)}, "hyena"))
    both = Results.load(out, "more")
    assert repr(both) == "Results('out, more': 19 runs, 19 done; 3 cells)"
    assert both.best()["mixer"].tolist() == ["attention", "mamba", "hyena"]


def test_folders_that_disagree_are_told_of(out: Path):
    make_store(Path("other"), make_sweep({1e-3: (0.1, 0.1, 0.1)}))
    both = Results.load(out, "other")
    assert len(both.problems) == 3
    assert "3 problems" in repr(both)
    assert both.problems[0] in _Texts.of(both._repr_html_())


# ---- pictures ----


@pytest.mark.parametrize(("kind", "panels"), [("rates", 1), ("windows", 1), ("curves", 3)])
def test_a_plot_returns_its_panels_and_is_pyplots(out: Path, kind: str, panels: int):
    axes = Results.load(out).plot(kind)
    assert len(axes) == panels
    assert pyplot.gcf() is axes[0].figure
    assert len(pyplot.get_fignums()) == 1


def test_a_plot_draws_the_means(out: Path):
    (ax,) = Results.load(out).plot("rates", size=(5, 4), title=False)
    drawn = {line.get_label(): list(line.get_ydata()) for line in ax.get_lines()}
    assert drawn["Attention"] == pytest.approx(SCORES["attention"])
    assert drawn["Mamba"] == pytest.approx(SCORES["mamba"])
    assert ax.figure.get_size_inches().tolist() == [5, 4]


def test_two_results_are_drawn_over_each_other(out: Path):
    make_store(Path("other"), make_sweep({1e-3: (0.1,), 1e-2: (0.3,)}, width=32))
    (first, *_) = Results.load(out).plot("rates", compare=Results.load("other"))
    named = [text.get_text() for text in first.figure.legends[0].get_texts()]
    assert {"out", "other"} <= set(named)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"kind": "rate"}, "'rate': no picture; did you mean rates?"),
        ({"tau": 2.0}, "tau 2: must be above 0 and at most 1"),
        ({"band": "sd"}, "band 'sd': did you mean std?"),
        ({"size": (500, 2)}, "size '500x2': give WIDTH or WIDTHxHEIGHT in inches from 1 to 60"),
        ({"size": (5, 1)}, "size: 1 inches of height leave 0 for the panels"),
        ({"kind": "scaling", "against": "colour"}, "against colour: known: depth, length"),
    ],
)
def test_what_cannot_be_drawn_leaves_no_figure(out: Path, arguments, problem):
    with pytest.raises(SpecError) as caught:
        Results.load(out).plot(**arguments)
    assert problem in str(caught.value)
    assert pyplot.get_fignums() == []


# ---- the page ----


def test_the_report_is_the_commands(out: Path, command):
    page = Results.load(out).report()
    assert page == out / "report.html"
    assert command("report", out, "-o", "said.html").code == 0
    assert page.read_bytes() == Path("said.html").read_bytes()


def test_a_report_that_cannot_be_written_leaves_nothing(out: Path):
    before = sorted(Path().rglob("*"))
    with pytest.raises(SpecError, match=r"cannot be written .*; choose a folder"):
        Results.load(out).report("nowhere/page.html")
    assert sorted(Path().rglob("*")) == before


# ---- how they look ----


class _Texts(HTMLParser):
    """The texts of a piece of HTML, and its tags, which must be closed in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []

    @classmethod
    def of(cls, html: str) -> list[str]:
        return cls.read(html).texts

    @classmethod
    def read(cls, html: str) -> "_Texts":
        found = cls()
        found.feed(html)
        found.close()
        assert not found._open
        return found

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append(data.strip().removeprefix("left out: "))


def test_the_card_has_a_line_per_cell(out: Path):
    found = _Texts.read(Results.load(out)._repr_html_())
    texts = found.texts
    start = texts.index("attention")
    assert texts[start : start + 5] == [
        *("attention", "9", "0.960", "1e-3"),
        "at least 1.1 decades (8.23e-4 to 1e-2)",  # 10 ** (-3 - 0.06 / 0.71)
    ]
    assert (found.tags.count("svg"), found.tags.count("circle")) == (2, 6)
    assert (
        {"div", "table", "svg"}
        <= set(found.tags)
        <= {
            *("div", "strong", "table", "thead", "tbody", "tr", "th", "td"),
            *("svg", "rect", "line", "polyline", "circle"),
        }
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_the_card_shows_any_name_as_it_is(tmp_path: Path, name: str):
    rows = [make_row(name.encode("utf-8", "replace").decode())]
    make_store(tmp_path, rows)
    known = set(_Texts.read(Results.load(tmp_path)._repr_html_()).tags)
    assert not known & {"script", "img", "body"}


def test_a_card_of_many_cells_is_cut(tmp_path: Path):
    rows = [make_row(model={"width": width}) for width in range(8, 8 + MOST_CELLS + 5)]
    make_store(tmp_path, rows)
    html = Results.load(tmp_path)._repr_html_()
    assert html.count("<svg") == MOST_CELLS
    assert "and 5 more cells" in html


def test_cells_with_a_result_come_first(tmp_path: Path):
    planned = [make_row(status="todo", model={"width": 8 + n}) for n in range(MOST_CELLS)]
    make_store(tmp_path, [*planned, make_row(model={"width": 7})])
    first = re.findall(r"<td[^>]*>([^<]*width \d+[^<]*)</td>", Results.load(tmp_path)._repr_html_())
    assert len(first) == MOST_CELLS
    assert "width 7" in first[0]


# ---- refusals ----


@pytest.mark.parametrize("name", ["to_pandas", "curves", "windows", "best", "claims"])
def test_without_pandas_a_frame_says_how_to_get_it(out: Path, name: str, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    results = Results.load(out)
    with pytest.raises(SpecError) as caught:
        getattr(results, name)()
    assert str(caught.value) == (
        "a data frame needs pandas, which is not installed; `pip install 'recollect[pandas]'`\n"
        "brings it, and `results.rows` holds the same numbers without it"
    )
    assert "18 runs" in repr(results)
    assert "18 runs" in results._repr_html_()


@pytest.mark.parametrize("name", ["windows", "best"])
@pytest.mark.parametrize("tau", [0.0, 1.5, math.nan])
def test_a_level_that_is_none_is_refused(out: Path, name: str, tau: float):
    with pytest.raises(SpecError, match=r"^tau = .*: must be above 0 and at most 1"):
        getattr(Results.load(out), name)(tau)


def test_what_is_not_there_is_refused(out: Path):
    with pytest.raises(SpecError, match=r"^no results in nowhere; "):
        Results.load("nowhere")
    with pytest.raises(SpecError, match=r"model.wdth=3.*did you mean model.width\?"):
        Results.load(out).where("model.wdth=3")
    with pytest.raises(SpecError, match="C99 is no claim"):
        Results.load(out).claims("C99")
    assert not Path("nowhere").exists()


def test_dir_lists_the_public_names():
    assert set(recollect.__all__) <= set(dir(recollect))
    assert {"run", "Results", "mixer"} <= set(dir(recollect))
    wanted = {"to_pandas", "curves", "windows", "best", "plot", "report", "claims", "where", "load"}
    assert wanted <= set(dir(Results))


def test_a_folder_is_loaded_not_made_into_results():
    with pytest.raises(SpecError) as refused:
        Results("out")  # type: ignore[arg-type]
    assert str(refused.value) == (
        "Results('out'): is made of runs that were read; `Results.load(FOLDER)` reads a folder"
    )
