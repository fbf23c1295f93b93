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
from claims_made import (
    BY_NAME,
    WIDE,
    made_row,
    made_rows,
    recipe_label,
    study_score,
    wanted_runs,
    within,
)
from rich.console import Console
from rows_made import make_row, make_sweep

from recollect.reports.paper.claims import CLAIMS, Verdict, check
from recollect.reports.paper.claims.coverage import Tally
from recollect.reports.paper.claims.verdicts import (
    commands,
    records,
    steps_text,
    table,
    tables,
    to_json,
    to_lines,
    undecided,
)
from recollect.running import engine
from recollect.running.results import RunSet
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep
from recollect.store import Store

NAMES = [claim.name for claim in CLAIMS]


COUNTS = re.compile(
    r"(?P<recipe>.+): 32 claims: "
    r"(?P<counts>(, )?\d+ (reproduced|holds in part|fails in part|contradicted|not enough data))+"
)


def shown(*tables: Any, width: int = 100) -> str:
    page = io.StringIO()
    for part in tables:
        Console(width=width, file=page).print(part)
    return page.getvalue()


@pytest.fixture(scope="module")
def mixed() -> list[Verdict]:
    """C7 reproduced, C1 and C25 contradicted, others in part or open."""
    rows = made_rows(BY_NAME["C7"], study_score) + made_rows(
        BY_NAME["C25"], lambda run: within(run, WIDE, 0.91, 0.02)
    )
    distinct = list({row.run_id: row for row in rows}.values())
    return check(distinct, {}, recipe_label(distinct))


def test_the_table_is_readable_at_100_columns(mixed):
    text = shown(table(mixed))
    lines = text.splitlines()
    assert COUNTS.fullmatch(lines[0].strip())
    assert max(map(len, lines)) <= 100
    assert "…" not in text
    blocks = [line.split()[0] for line in lines if re.match(r"C\d+ ", line)]
    assert blocks == NAMES


def test_recipes_stand_beside_one_another(mixed):
    other = [
        replace(verdict, recipe="zoology", tally=Tally("not enough data", 0, 0, 0), resampled=())
        for verdict in mixed
    ]
    found = {mixed[0].recipe: mixed, "zoology": other}
    text = shown(*tables(found, by_recipe=True))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert [bool(COUNTS.match(line)) for line in lines[:2]] == [True, True]
    line = next(line for line in lines if line.startswith("C7 "))
    assert re.search(r"reproduced \(>99 %\) +not enough data", line)
    # What nobody can decide yet is named, not listed.
    assert "C11" in undecided(found)
    assert not any(line.startswith("C11 ") for line in lines)
    assert re.search(r"not enough data: .*C11", text)
    assert "train next" in text
    alone = shown(*tables({"zoology": other}, by_recipe=False))
    assert "C11" in alone
    # No heading stands over nothing.
    none = shown(*tables({"zoology": other}, by_recipe=True)).splitlines()
    assert COUNTS.match(none[0])
    assert none[1].startswith("not enough data: C1, ")


def test_a_pipe_gets_whole_lines(mixed):
    lines = to_lines(mixed).splitlines()
    assert COUNTS.fullmatch(lines[0])
    assert [line.split()[0] for line in lines[1:]] == NAMES
    assert lines[7].startswith(
        "C7   reproduced             Even tuned, 2-layer Hyena stays clearly below attention at "
        "small widths | "
    )
    assert "3 seeds" in lines[7]
    assert lines[7].endswith(" | figure: fig2")
    assert "the same verdict in >99 % of resampled seeds" in lines[7]
    assert re.search(
        r"run: recollect run paper:\S+ .* --out out  # at most \S+ [kM] run-steps$", lines[12]
    )
    assert "not in the study's words: ours" in lines[8]


def test_commands_are_told_once_with_their_claims(mixed):
    told = commands(mixed)
    assert any(re.search(r"paper:fig6 .*  # .*C18, C19.*: \d+ k run-steps", line) for line in told)
    assert len({line.split("  #")[0] for line in told}) == len(told)
    assert not [line for line in told if "C7" in line.split("#")[1]]


def test_records_hold_everything(mixed):
    found = {record["claim"]: record for record in json.loads(to_json({"plain": mixed}))}
    assert list(found) == NAMES
    assert found["C7"]["verdict"] == "reproduced"
    assert found["C7"]["cells"] == {"named": 3, "hold": 3, "fail": 0}
    assert found["C7"]["firmness"] == 1
    assert found["C7"]["thresholds"] == {"gap": 0.1}
    assert found["C7"]["rule"].startswith(
        "At width 64 Hyena's best score is at least 0.1 below attention's"
    )
    assert found["C7"]["what_to_run"] == []
    assert len(found["C7"]["comparisons"]) == 3
    assert found["C2"]["by_tau"]["0.9"] == found["C2"]["words"]
    assert found["C3"]["what_to_run"][0].startswith("recollect run paper:fig2 ")
    assert found["C3"]["run_steps"] > 0
    assert found["C8"]["origin"] == "ours"
    assert records([]) == []


@pytest.mark.parametrize(
    ("steps", "text"), [(390, "390"), (380_250, "380 k"), (1_140_750, "1.14 M")]
)
def test_steps_are_told_with_three_digits(steps, text):
    assert steps_text(steps) == text


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
    for text in (to_lines(verdicts), shown(table(verdicts))):
        assert "\x1b" not in text
        assert "script" not in text
        assert sum(line.startswith("C1 ") for line in text.splitlines()) == 1
    assert len(json.loads(to_json({"study": verdicts}))) == len(NAMES)
    hostile = [replace(verdict, numbers="a\x1b[2J\nC1 b [red]c[/red]") for verdict in verdicts]
    for text in (to_lines(hostile), shown(table(hostile))):
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
    found = COUNTS.match(said.out.splitlines()[0])
    assert found
    assert (found["recipe"], found["counts"]) == ("study", "32 not enough data")
    assert len(said.out.splitlines()) == 33


def test_command_with_several_folders_and_json(command, folder: Path, tmp_path: Path, monkeypatch):
    other = made_folder(tmp_path / "other", wanted_runs(BY_NAME["C7"].what_to_run))
    loaded = RunSet.load_all([folder, other])
    assert len(loaded.rows) == len(wanted_runs(BY_NAME["C7"].what_to_run))
    rows = [made_row(RunSpec.from_json(json.dumps(row.spec)), 0.5) for row in loaded.rows]
    scored = [
        replace(row, accuracy=study_score(RunSpec.from_json(json.dumps(row.spec)))) for row in rows
    ]
    monkeypatch.setattr(RunSet, "load_all", classmethod(lambda cls, folders: cls(scored, {})))
    recipe = recipe_label(scored)
    said = command("claims", folder, other, "--json", "--recipe", recipe, "--only", "c7, C1")
    assert said.code == 0
    found: list[dict[str, Any]] = json.loads(said.out)
    assert [(record["claim"], record["recipe"]) for record in found] == [
        ("C1", recipe),
        ("C7", recipe),
    ]
    assert [record["verdict"] for record in found] == ["holds in part", "reproduced"]


def test_command_into_a_file(command, folder: Path, tmp_path: Path):
    said = command("claims", folder, "--json", "-o", tmp_path / "claims.json")
    assert said.out == (
        f"study: 32 claims: 32 not enough data; written to {tmp_path / 'claims.json'}\n"
    )
    assert len(json.loads((tmp_path / "claims.json").read_text())) == 32


def test_command_refuses_what_is_no_folder(command, tmp_path: Path):
    said = command("claims", tmp_path / "none")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(
        f"recollect: no results in {tmp_path / 'none'}; run `recollect run SPEC"
    )
    assert command("claims").err == (
        "recollect: Missing argument 'DIR'; see `recollect claims --help`\n"
    )
    said = command(
        "claims", made_folder(tmp_path / "out", []), "-o", tmp_path / "none" / "claims.txt"
    )
    assert said.code == 2
    assert "cannot be written" in said.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--only", "C99"], "--only 'C99': C99 is no claim; they are C1 to C32, as in --only"),
        (["--only", " ,"], "--only ' ,': nothing is no claim; they are C1 to C32"),
        (["--recipe", "stdy"], "--recipe 'stdy': did you mean study?"),
    ],
)
def test_command_refuses_what_it_does_not_know(command, folder: Path, options, told):
    said = command("claims", folder, *options)
    assert (said.code, said.out) == (2, "")
    assert told in said.err
