"""What others wrote is shown, not obeyed: control characters in tables, notes and tracebacks."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from rows_made import make_row

from recollect.cli.printing import fit_columns, notes_below, render, show_written
from recollect.cli.tables import mixer_table, plain_table
from recollect.mixers.registry import MIXERS
from recollect.reports.live.progress import Progress
from recollect.reports.live.terminal import Printable
from recollect.store import PlannedRun, Result, Store

# A new title of the window, a cleared screen, a line over the one before, text from right to left.
ESCAPES = "\x1b]0;mine\x07 \x1b[2J\x9b2J \r\u202e"
SPELT = ("\\x1b]0;mine", "\\x1b[2J", "\\x9b2J", "\\u202e")  # rich itself drops \x07 and \r


def drawn(renderable: object, terminal: bool = True) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("cell", [ESCAPES, Text(ESCAPES)], ids=["text", "rich"])
def test_a_table_spells_control_characters_out_and_keeps_its_own_colours(cell: Any) -> None:
    table = plain_table("name")
    table.add_row(cell)
    table.add_row(Text("coloured", style="red"))
    said = drawn(Printable(table))
    assert all(text in said for text in SPELT)
    assert "\x1b[31mcoloured" in said
    assert "\x1b]0" not in said
    assert "\x1b[2J" not in said
    assert "\x9b" not in said


def test_brackets_of_a_docstring_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table = plain_table("what it is")
    table.add_row("sums x[t] over [batch] :smile: [/red]")
    render(table)
    assert "sums x[t] over [batch] :smile: [/red]" in capsys.readouterr().out


def test_the_live_view_shows_a_name_as_it_is() -> None:
    row = make_row(f"[red]{ESCAPES}", score=0.5)
    said = drawn(Printable(Progress([row])))
    assert "[red]" in said, "a name is no markup"
    assert all(text in said for text in SPELT)


def test_rendering_goes_through_it(capsys: pytest.CaptureFixture[str]) -> None:
    render(Text(ESCAPES))
    assert "\x1b" not in capsys.readouterr().out


def test_no_verb_prints_a_stored_escape(tmp_path: Path, command: Callable[..., Any]) -> None:
    row = make_row(f"evil{ESCAPES}", score=1.0)
    text = json.dumps(row.spec, sort_keys=True, separators=(",", ":"))
    with Store.create(tmp_path) as store:
        store.plan([PlannedRun(row.run_id, text, "accuracy", 0.25)], f"sweep{ESCAPES}", "")
        (attempt,) = store.claim([row.run_id], "nobody", 60).values()
        store.note("error", f"runs {row.run_id}\n{ESCAPES}: boom\n")
        failure = f"error: {ESCAPES}: boom"
        store.finish([Result(row.run_id, attempt, "failed", 0, 0.0, failure=failure)])
    for verb in (["status"], ["failures"], ["export"], ["export", "--format", "json"]):
        said = command(verb[0], tmp_path, *verb[1:])
        assert said.code == 0, said
        assert "boom" in said.out or verb[0] == "status"
        for letter in "\x1b\x07\x9b\r\u202e":
            assert letter not in said.out + said.err, verb


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_no_name_or_number_of_a_table_is_cut_off(columns: int) -> None:
    table = plain_table("mixer", "steps to solve", "between rates", "what it is")
    table.add_row("linear_attention", "150", "3.82e-4 .. 1.39e-1", "a feature map in its place")
    console = Console(file=io.StringIO(), force_terminal=False, width=columns)
    assert fit_columns(table, console) <= columns
    console.print(table)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in said
    for word in ("linear_attention", "150", "3.82e-4", "1.39e-1", "feature", "solve"):
        assert word in said
    assert max(map(len, said.splitlines())) <= columns
    assert ("3.82e-4 .. 1.39e-1" in said) == (columns > 50)


def test_a_table_that_cannot_fit_is_wider_than_the_terminal() -> None:
    table = plain_table("mixer", "rate")
    table.add_row("linear_attention", "3.82e-4")
    console = Console(file=io.StringIO(), width=10)
    assert fit_columns(table, console) == len("linear_attention") + len("3.82e-4") + 2 * 2


def test_a_narrow_terminal_shows_each_mixer_in_two_lines_and_a_pipe_in_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = mixer_table(64, 64)
    render(mixer_table(64, 64))
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(MIXERS)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    render(table)
    said = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, said)) <= 80
    rows = said[-2 * len(MIXERS) :]
    assert [line.split()[0] for line in rows[::2]] == list(MIXERS)
    assert rows[1::2] == [f"  {options.summary}" for options in MIXERS.values()]
    console = Console(file=io.StringIO(), width=200)
    assert notes_below(table, console) == [table]


def test_an_export_counts_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show_written(1, 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    show_written(1, 2)
    show_written(2, 2)
    assert capsys.readouterr() == ("", "\r1 of 2 runs written\r2 of 2 runs written\n")
