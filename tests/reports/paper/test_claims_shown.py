"""How verdicts are shown: a table for a terminal, lines for a pipe, JSON, and the command."""

import io
import json
import re
import runpy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claims_made import BY_NAME, WIDE, made_row, made_rows, study_score, wanted_runs, within
from rich.console import Console
from rows_made import make_row, make_sweep

from recollect import api
from recollect.reports.paper.claims import CLAIMS, Verdict, check
from recollect.reports.paper.claims.verdicts import commands, records, table, to_json, to_lines
from recollect.running import engine
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep
from recollect.store import Store

NAMES = [claim.name for claim in CLAIMS]


def shown(verdicts: Sequence[Verdict], width: int = 100) -> str:
    page = io.StringIO()
    Console(width=width, file=page).print(table(verdicts))
    return page.getvalue()


@pytest.fixture(scope="module")
def mixed() -> list[Verdict]:
    """C2 and C7 reproduced, C25 and C26 not, the others open."""
    rows = made_rows(BY_NAME["C7"], study_score) + made_rows(
        BY_NAME["C25"], lambda run: within(run, WIDE, 0.97, 0.02)
    )
    return check({row.run_id: row for row in rows}.values(), {})


def test_the_table_is_readable_at_100_columns(mixed):
    text = shown(mixed)
    lines = text.splitlines()
    assert lines[0].strip() == "26 claims: 2 reproduced, 2 not reproduced, 22 not enough data"
    assert max(map(len, lines)) <= 100
    assert "…" not in text
    blocks = [line.split()[0] for line in lines if re.match(r"C\d+ ", line)]
    assert blocks == NAMES


def test_a_pipe_gets_whole_lines(mixed):
    lines = to_lines(mixed).splitlines()
    assert lines[0] == "26 claims: 2 reproduced, 2 not reproduced, 22 not enough data"
    assert [line.split()[0] for line in lines[1:]] == NAMES
    assert lines[7].startswith(
        "C7   reproduced       Even tuned, 2-layer Hyena stays clearly below attention at small "
        "widths | "
    )
    assert "3 seeds" in lines[7]
    assert lines[7].endswith(" | figure: fig2")
    assert lines[3].endswith("run: recollect run paper:fig1 --out out")


def test_commands_are_told_once_with_their_claims(mixed):
    told = commands(mixed)
    assert "recollect run paper:fig6 --out out  # C18, C19" in told
    assert len({line.split("  #")[0] for line in told}) == len(told)
    assert not [line for line in told if "C7" in line.split("#")[1]]


def test_records_hold_everything(mixed):
    found = {record["claim"]: record for record in json.loads(to_json(mixed))}
    assert list(found) == NAMES
    assert found["C7"]["verdict"] == "reproduced"
    assert found["C7"]["thresholds"] == {"gap": 0.1}
    assert found["C7"]["rule"].startswith(
        "At width 64 Hyena's best score is at least 0.1 below attention's"
    )
    assert found["C7"]["what_to_run"] == []
    assert len(found["C7"]["comparisons"]) == 3
    assert found["C3"]["what_to_run"] == ["recollect run paper:fig1 --out out"]
    assert found["C1"]["comparisons"]
    assert records([]) == []


def test_the_page_on_claims_is_generated():
    docs = Path(__file__).parents[3] / "docs"
    assert (docs / "claims.md").read_text() == runpy.run_path(str(docs / "claims.py"))["page"]()


def test_hostile_names_do_no_harm():
    names = [
        "\x1b[31mred",
        "<script>alert(1)</script>",
        "[bold]x[/bold]",
        "attention\nC1   reproduced",
        "\\textbf{x}",
    ]
    rows = [make_row(name) for name in names] + make_sweep({1e-3: [1.0], 1e-2: [0.2], 1e-1: [0.1]})
    rows[-1].spec["model"]["mixer"]["heads\n[red]"] = "\x1b[2J"
    verdicts = check(rows, {})
    for text in (to_lines(verdicts), shown(verdicts)):
        assert "\x1b" not in text
        assert "script" not in text
        assert sum(line.startswith("C1 ") for line in text.splitlines()) == 1
    assert len(json.loads(to_json(verdicts))) == 26
    hostile = [replace(verdict, numbers="a\x1b[2J\nC1 b [red]c[/red]") for verdict in verdicts]
    for text in (to_lines(hostile), shown(hostile)):
        assert "a?[2J?C1 b [red]c[/red]" in text
        assert "\x1b" not in text


# ---- command line ----


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_folder(tmp_path / "out", wanted_runs(BY_NAME["C7"].what_to_run)[:30])


def made_folder(path: Path, runs: Sequence[RunSpec]) -> Path:
    with Store.create(path) as store:
        engine.plan(store, Sweep("made", "", tuple(runs)))
    return path


def test_command(command, folder: Path):
    said = command("claims", folder)
    assert (said.code, said.err) == (0, "")
    assert (
        said.out.splitlines()[0] == "26 claims: 0 reproduced, 0 not reproduced, 26 not enough data"
    )
    assert len(said.out.splitlines()) == 27


def test_command_with_several_folders_and_json(command, folder: Path, tmp_path: Path, monkeypatch):
    other = made_folder(tmp_path / "other", wanted_runs(BY_NAME["C7"].what_to_run))
    loaded = api.Results.load_all([folder, other])
    assert len(loaded.rows) == len(wanted_runs(BY_NAME["C7"].what_to_run))
    rows = [made_row(RunSpec.from_json(json.dumps(row.spec)), 0.5) for row in loaded.rows]
    scored = [
        replace(row, accuracy=study_score(RunSpec.from_json(json.dumps(row.spec)))) for row in rows
    ]
    monkeypatch.setattr(api.Results, "load_all", classmethod(lambda cls, folders: cls(scored, {})))
    said = command("claims", folder, other, "--json")
    assert said.code == 0
    found: list[dict[str, Any]] = json.loads(said.out)
    assert [record["verdict"] for record in found if record["claim"] == "C7"] == ["reproduced"]


def test_command_into_a_file(command, folder: Path, tmp_path: Path):
    said = command("claims", folder, "--json", "-o", tmp_path / "claims.json")
    assert said.out == (
        "26 claims: 0 reproduced, 0 not reproduced, 26 not enough data; written to "
        f"{tmp_path / 'claims.json'}\n"
    )
    assert len(json.loads((tmp_path / "claims.json").read_text())) == 26


def test_command_refuses_what_is_no_folder(command, tmp_path: Path):
    said = command("claims", tmp_path / "none")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(
        f"recollect: no results in {tmp_path / 'none'}; run `recollect run SPEC"
    )
    assert command("claims").err == "recollect: Missing argument 'DIR'; see `recollect --help`\n"
    said = command(
        "claims", made_folder(tmp_path / "out", []), "-o", tmp_path / "none" / "claims.txt"
    )
    assert said.code == 2
    assert "cannot be written" in said.err
