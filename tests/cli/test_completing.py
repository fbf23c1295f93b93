"""What shells complete: verbs, options, names; and bash, which breaks words at colons."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest
import typer
from typer._completion_classes import BashComplete

from recollect.cli import app as cli
from recollect.cli.completing import in_whole_words, join_pieces, sweeps
from recollect.reports.paper.presets import PREFIX, preset_text, split_name

FIG13 = ["fig13", "fig13:small"]


@pytest.fixture
def script(command, monkeypatch) -> str:
    """The one that is installed for bash."""
    # Else the shell is the one that this process runs under, whichever that is; asked when the
    # commands are made.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr(typer.main, "get_command", typer.main.get_command.__wrapped__)
    said = command("--show-completion", "bash")
    assert said.code == 0
    assert "_RECOLLECT_COMPLETE=complete_bash" in said.out
    return said.out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("recollect re", ["resume", "report", "recipes"]),
        ("recollect run --se", ["--set", "--search"]),
        ("recollect run ", []),
        ("recollect run examples/", []),
        ("recollect run paper:fig13", [f"paper:{name}" for name in FIG13]),
        ("recollect run mine.toml paper:fig2:", ["paper:fig2:small"]),
        ("recollect submit paper:w", ["paper:why", "paper:why:small"]),
        ("recollect figure w", ["windows", "why"]),
        ("recollect figure rates out --band m", ["min-max"]),
        ("recollect figure scaling out --against p", ["pairs", "parameters"]),
        ("recollect score mam", ["mamba", "mamba2"]),
        ("recollect score --card ", ["auto", "cpu", "gpu"]),
        ("recollect mixers delta", ["delta_net"]),
        ("recollect tasks cop", ["copying"]),
        ("recollect presets fig13", FIG13),
        ("recollect recipes z", ["zoology"]),
        ("recollect run --recipe s", ["study"]),
        ("recollect run --search ", ["edges", "best", "all"]),
        ("recollect export --format p", ["parquet"]),
        ("recollect export --to w", ["wandb"]),
        ("recollect status ", []),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_shells_offer_what_there_is(typed, offered):
    words = typed.split(" ")
    found = BashComplete(typer.main.get_command(cli.app), {}, "recollect", "_RECOLLECT_COMPLETE")
    said = found.get_completions(words[1:-1], words[-1])
    assert [entry.value for entry in said] == offered


def test_what_is_offered_to_be_run_can_be_run():
    for name in sweeps():
        assert name.startswith(PREFIX)
        assert preset_text(*split_name(name))


# ---- bash ----

# What is typed before the cursor, as bash 5.2 breaks it, and what it lacks. Blanks are not told:
# an empty piece is a word that has just begun.
BROKEN = [
    ("run|paper|:|fig13", FIG13),
    ("run|paper|:", None),
    ("run|paper|:|fig13|:", ["small"]),
    ("run|paper:fig13", [f"paper:{name}" for name in FIG13]),  # where a colon is no break
    ('run|"paper:fig13', [f"paper:{name}" for name in FIG13]),
    ("run|paper|:|fig1|", []),
    ("run|--recipe|=|st", ["study"]),
    ("run|--set|a.b|=|1|paper|:|fig13", FIG13),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_is_told_what_it_lacks(tmp_path, script):
    """The installed script in a real bash, which has set the words as it does for a key press."""
    program = tmp_path / "recollect"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m recollect "$@"\n')
    program.chmod(0o755)
    asked = "".join(
        f"COMP_WORDS=({shlex.join(['recollect', *pieces])}); COMP_CWORD={len(pieces)}\n"
        f"_recollect_completion {shlex.quote(str(program))}\n"
        'echo "${COMPREPLY[*]}"\n'
        for pieces in (line.split("|") for line, _ in BROKEN)
    )
    ended = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{asked}"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.stderr == ""
    for (pieces, expected), said in zip(BROKEN, ended.stdout.splitlines(), strict=True):
        offered = said.split()
        if expected is None:  # all of them, whichever they are
            assert {"fig1", "table1", "why:small"} <= {*offered}
        else:
            assert offered == expected, pieces


@pytest.mark.parametrize(
    ("pieces", "words", "kept"),
    [
        (["a", "b"], ["a", "b"], ""),
        (["a", ""], ["a", ""], ""),
        (["a", "b", ":"], ["a", "b:"], "b:"),
        (["a", "b", "::", "c"], ["a", "b::c"], "b::"),
        (["a", "b", ":", ""], ["a", "b:", ""], ""),
        (["a", "b", "=", "c", "d", ":", "e"], ["a", "b=c", "d:e"], "d:"),
        (["a", "b:c"], ["a", "b:c"], ""),
        ([":"], [":"], ":"),
    ],
)
def test_pieces_are_joined_to_words(pieces, words, kept):
    assert join_pieces(pieces) == (words, kept)


@pytest.mark.parametrize("current", ["9", "-1", "x", ""])
def test_a_place_that_there_is_not_is_left_to_typer(current, monkeypatch):
    monkeypatch.setenv("_RECOLLECT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "recollect\nrun\npaper\n:")
    monkeypatch.setenv("COMP_CWORD", current)
    before = dict(os.environ)
    with in_whole_words():
        assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("shell", "offered"),
    [
        ("zsh", '_arguments \'*: :(("paper\\\\:fig13"\n"paper\\\\:fig13\\\\:small"))\'\n'),
        ("fish", "paper:fig13\npaper:fig13:small\n"),
    ],
)
def test_shells_that_do_not_break_words_are_told_whole_ones(command, monkeypatch, shell, offered):
    monkeypatch.setenv("_RECOLLECT_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "recollect run paper:fig13")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    said = command()
    assert (said.code, said.out, said.err) == (0, offered, "")
