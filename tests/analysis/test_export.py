"""CSV and JSON of rows, read back by readers that are not ours."""

import csv
import io
import json
import math
import subprocess
import sys
from dataclasses import replace

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_made import make_curve, make_row

from recollect.analysis.export import RESULT_COLUMNS, TIMING_COLUMNS, to_csv, to_json


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_columns_are_id_then_sorted_settings_then_results_then_timings():
    text = to_csv(
        [make_row("attention"), make_row(model={"mixer": {"name": "mamba", "state": 16}})]
    )
    header = next(csv.reader(io.StringIO(text)))
    settings = header[1 : -len(RESULT_COLUMNS) - len(TIMING_COLUMNS)]
    assert header[0] == "run_id"
    assert settings == sorted(settings)
    assert {"model.mixer.name", "model.mixer.state", "task.length", "train.lr", "seed"} <= set(
        settings
    )
    assert tuple(header[-len(TIMING_COLUMNS) :]) == TIMING_COLUMNS
    assert [line["model.mixer.state"] for line in read(text)] == ["", "16"]


def test_timings_aside_two_exports_of_the_same_results_are_equal():
    row = make_row(wall_s=1.0, attempt=1, device="cpu", threads=1, versions={"torch": "2"})
    again = replace(row, wall_s=9.9, attempt=3, device="cuda", threads=8, versions={"torch": "3"})

    def kept(text):
        return [
            {key: value for key, value in line.items() if key not in TIMING_COLUMNS}
            for line in read(text)
        ]

    assert to_csv([row]) != to_csv([again])
    assert kept(to_csv([row])) == kept(to_csv([again]))


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_floats_come_back_as_they_were(value):
    (line,) = read(to_csv([make_row(train_loss=value)]))
    back = float(line["train_loss"])
    assert back == value or (math.isnan(back) and math.isnan(value))


@pytest.mark.parametrize("text", ["=cmd()", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\r\n=1"])
def test_text_that_a_spreadsheet_would_run_is_defused(text):
    (line,) = read(to_csv([make_row(text, failure=text, status="failed")]))
    assert (
        line["failure"]
        == line["model.mixer.name"]
        == "'" + text.replace("\r\n", "\n").replace("\r", "\n")
    )


def test_numbers_and_plain_text_are_left_alone():
    (line,) = read(to_csv([make_row(train_loss=-1.5, failure='a "b", c\nd', steps=-3)]))
    assert (line["train_loss"], line["failure"], line["steps"]) == ("-1.5", 'a "b", c\nd', "-3")
    assert (line["stopped_early"], line["exact"], line["versions"]) == ("", "", "{}")


def test_the_score_on_training_rows_is_told_beside_that_on_test_rows():
    rows = [make_row(score=0.5, train_score=0.75), make_row(score=0.5, seed=1)]
    assert [line["train_score"] for line in read(to_csv(rows))] == ["0.75", ""]
    assert [record["train_score"] for record in json.loads(to_json(rows))] == [0.75, None]
    curves = {rows[0].run_id: [replace(make_curve([0.5])[0], train_score=0.6)]}
    assert json.loads(to_json(rows, curves))[0]["curve"][0]["train_score"] == 0.6


def test_pandas_reads_both():
    rows = [make_row(lr=lr, score=0.1 + lr) for lr in (1e-3, 4.64e-4)]
    scores = [row.score for row in rows]
    assert list(pandas.read_csv(io.StringIO(to_csv(rows)))["score"]) == pytest.approx(
        scores, rel=1e-15
    )
    assert list(pandas.read_json(io.StringIO(to_json(rows)))["run_id"]) == [
        row.run_id for row in rows
    ]


def test_json_is_a_list_of_objects_that_start_with_the_id():
    row = make_row(train_loss=math.nan, test_loss=math.inf, versions={"torch": "2"})
    (record,) = json.loads(
        to_json([row]), parse_constant=lambda name: pytest.fail(f"{name} is not JSON")
    )
    assert next(iter(record)) == "run_id"
    assert record["run_id"] == row.run_id
    assert record["spec"] == row.spec
    assert (record["train_loss"], record["test_loss"], record["score"]) == (None, None, 1.0)
    assert "curve" not in record


def test_json_carries_curves_when_asked():
    row = make_row()
    (record,) = json.loads(to_json([row], {row.run_id: make_curve([0.1, math.nan])}))
    assert [point["step"] for point in record["curve"]] == [100, 200]
    assert record["curve"][1]["accuracy"] is None
    assert json.loads(to_json([row], {}))[0]["curve"] == []


def test_no_rows():
    assert json.loads(to_json([])) == []
    assert read(to_csv([])) == []
    assert to_csv([]).startswith("run_id,recipe,status,")


def test_analysis_and_export_need_no_torch():
    heavy = "{'torch', 'numpy', 'matplotlib'}"
    code = (
        "import sys, recollect.analysis, recollect.analysis.export; "
        f"sys.exit(bool({heavy} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
