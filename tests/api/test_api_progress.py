"""What is seen of a training that Python started: nothing in a pipe, lines if they are asked for, a
bar on a terminal, one output in a notebook.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import recollect
from recollect.api import showing
from recollect.api.showing import EVERY_S, MOST_LINES, NotebookScreen, in_notebook
from recollect.running.engine import plan
from recollect.running.events import RunEnded
from recollect.spec.sweep import build_sweep
from recollect.store import Store

TABLE: dict[str, Any] = {
    "name": "tiny",
    "task": {"name": "mqar", "vocabulary": 32, "length": 16, "train_rows": 64, "test_rows": 32},
    "model": {"mixer": "attention", "width": 8, "depth": 1},
    "train": {"batch": 32, "steps": 4, "evaluations": 2},
    "sweep": {"train": {"lr": [1e-3, 1e-2]}},
}


@pytest.mark.parametrize("progress", [None, False])
def test_in_a_pipe_there_is_nothing_to_see(tmp_path: Path, capfd, progress):
    recollect.run(TABLE, tmp_path, device="cpu", progress=progress)
    assert capfd.readouterr() == ("", "")


def test_lines_if_they_are_asked_for_and_the_listener_still_hears(tmp_path: Path, capsys):
    heard: list[Any] = []
    recollect.run(TABLE, tmp_path, device="cpu", progress=True, listen=heard.append)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"tiny: 2 runs, 2 new -> {tmp_path}"
    assert [line.split(" ")[:2] for line in lines[1:]] == [["[1/2]", "done"], ["[2/2]", "done"]]
    assert sum(isinstance(event, RunEnded) for event in heard) == 2


def test_what_another_process_plans_meanwhile_is_counted_too(tmp_path: Path, capsys):
    """It is trained here, like all that the folder holds."""
    more = build_sweep(TABLE | {"model": TABLE["model"] | {"mixer": "mamba"}}, source="")

    def plan_more(event: object) -> None:
        if isinstance(event, RunEnded):
            with Store.open(tmp_path) as other:
                plan(other, more)

    recollect.run(TABLE, tmp_path, device="cpu", progress=True, listen=plan_more)
    lines = capsys.readouterr().out.splitlines()
    counts = [line.split(" ")[0] for line in lines if line.startswith("[")]
    assert counts == ["[1/2]", "[2/2]", "[3/4]", "[4/4]"]


def test_a_terminal_has_a_bar(tmp_path: Path):
    master, slave = os.openpty()
    code = f"import recollect; recollect.run({TABLE!r}, {str(tmp_path / 'out')!r}, device='cpu')"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=slave, stderr=slave)
    os.close(slave)  # the child's is the only one now: reading ends when the child does
    seen = b""
    with contextlib.suppress(OSError):  # how Linux says that nobody writes any more
        while part := os.read(master, 65_536):
            seen += part
    os.close(master)
    text = seen.decode()
    assert child.wait() == 0, text
    assert "tiny: 2 runs, 2 new -> " in text
    assert "2 of 2 runs" in text
    assert "best score so far" in text


# ---- notebooks ----


class FakeDisplay:
    """IPython's display: what each output shows, and how often it was drawn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.shown: list[str] = []
        self.draws = 0
        module = ModuleType("IPython.display")
        module.HTML = lambda text: text  # type: ignore[attr-defined]
        module.display = self._display  # type: ignore[attr-defined]
        package = ModuleType("IPython")
        package.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
        package.display = module  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", module)

    def _display(self, html: str, display_id: bool) -> Any:
        assert display_id
        place = len(self.shown)
        self.shown.append(html)
        self.draws += 1
        return SimpleNamespace(update=lambda text: self._update(place, text))

    def _update(self, place: int, html: str) -> None:
        self.shown[place] = html
        self.draws += 1


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> FakeDisplay:
    return FakeDisplay(monkeypatch)


def test_a_notebook_has_one_output_that_ends_complete(display: FakeDisplay, tmp_path: Path, capfd):
    assert in_notebook()
    recollect.run(TABLE, tmp_path / "out", device="cpu")
    (html,) = display.shown
    assert html.startswith("<pre ")
    assert "tiny: 2 runs, 2 new" in html
    assert "2 of 2 runs" in html
    assert "100%" in html
    assert "best score so far" in html
    assert capfd.readouterr() == ("", "")
    recollect.run(TABLE, tmp_path / "out", device="cpu", progress=False)
    assert len(display.shown) == 1


def test_a_notebook_is_not_drawn_at_every_step(display: FakeDisplay):
    now = 0.0
    screen = NotebookScreen(clock=lambda: now)
    screen.show("a bar")
    for _ in range(1000):
        now += EVERY_S / 100
        screen.refresh()
    assert display.draws == pytest.approx(1 + 10, abs=1)
    before = display.draws
    screen.close()
    assert display.draws == before + 1


def test_a_notebook_keeps_the_last_lines_and_shows_them_as_they_are(display: FakeDisplay):
    screen = NotebookScreen()
    for number in range(MOST_LINES + 3):
        screen.say(f"<b>line {number}</b> \x1b[31m [bold]")
    (html,) = display.shown
    assert "&lt;b&gt;line 22&lt;/b&gt;" in html
    assert "line 2&" not in html
    assert "<b>" not in html
    assert "\x1b" not in html
    assert "[bold]" in html


def test_nothing_is_drawn_where_nothing_was_said(display: FakeDisplay):
    NotebookScreen().close()
    assert display.shown == []


def test_ipython_on_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch):
    package = ModuleType("IPython")
    package.get_ipython = lambda: SimpleNamespace()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    assert not showing.in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not showing.in_notebook()
