"""A run goes on under the environment it was begun under; under another one it is refused, or its
row says so for good.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_workers import outcome, sweep
from test_run_misfits import SAVED_AT, SMALL, files

from recollect.errors import SpecError, Stopped
from recollect.running import engine
from recollect.running.events import Remark
from recollect.store import Store
from recollect.training import environment
from recollect.training.environment import Environment

OTHER = "torch {then} -> 9.9"
Patch = pytest.MonkeyPatch


def train(folder: Path, steps: int | None = None, **more: Any) -> list[str]:
    """All there is to do, or so many steps; what was said on the way."""
    asked, said = itertools.count(), []
    new = [] if (folder / "recollect.db").exists() else [sweep(SMALL)]
    engine.train(
        folder,
        new,
        device="cpu",
        stop=lambda: 143 if steps is not None and next(asked) > steps else 0,
        listen=lambda event: said.append(event.text) if isinstance(event, Remark) else None,
        **more,
    )
    return said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("whole")
    train(folder)
    return outcome(folder)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    with pytest.raises(Stopped):
        train(tmp_path, SAVED_AT)
    return tmp_path


@pytest.fixture
def other(monkeypatch: Patch) -> str:
    """From here on another torch computes, by what it says of itself."""
    then = environment.versions()
    monkeypatch.setattr(environment, "_installed", lambda: then | {"torch": "9.9"})
    return f"torch {then['torch']} -> 9.9"


def rows_drift(folder: Path) -> list[tuple[str, ...]]:
    with Store.open(folder, read_only=True) as store:
        return [row.drift for row in store.rows()]


def test_another_environment_is_refused_and_changes_nothing(
    begun: Path, other: str, whole: dict[str, str], monkeypatch: Patch
) -> None:
    before = {path: path.read_bytes() for path in files(begun)}
    with pytest.raises(SpecError) as refused:
        train(begun)
    message = str(refused.value)
    assert f"was saved under another environment ({other})" in message
    assert "--allow-drift" in message
    assert str(files(begun)[-1].parent) in message
    assert len(message.splitlines()) <= 3
    assert {path: path.read_bytes() for path in files(begun)} == before
    with Store.open(begun, read_only=True) as store:
        assert store.counts()["todo"] == 2
    monkeypatch.undo()  # the first environment again
    assert train(begun) == []
    assert outcome(begun) == whole
    assert rows_drift(begun) == [(), ()]


def test_what_the_message_says_helps(begun: Path, other: str, whole: dict[str, str]) -> None:
    """Without its checkpoint a run starts over, under one environment."""
    for path in files(begun):
        path.unlink()
    train(begun)
    assert rows_drift(begun) == [(), ()]
    assert outcome(begun) == whole


def test_drift_that_is_allowed_stands_in_the_rows_and_is_shown(
    begun: Path, other: str, monkeypatch: Patch, command: Callable[..., Any]
) -> None:
    with pytest.raises(Stopped):
        train(begun, 2, allow_drift=True)
    # Under the second environment again: nothing new, but what was stays.
    said = train(begun)
    assert not any("drift" in text for text in said)
    line = f"from step {SAVED_AT}: {other}"
    assert rows_drift(begun) == [(line,), (line,)]
    monkeypatch.undo()
    assert f"drift: 2 runs trained under more than one environment, the first {line}" in (
        command("status", begun).out
    )
    assert line in command("export", begun).out
    assert line in command("export", begun, "--format", "json").out
    page = begun / "page.html"
    assert command("report", begun, "-o", page).code == 0
    assert f"drift {line}".replace(">", "&gt;") in page.read_text()


def test_every_change_on_the_way_is_listed(begun: Path, monkeypatch: Patch) -> None:
    def capability(name: str) -> None:
        monkeypatch.setattr(environment.torch.backends.cpu, "get_cpu_capability", lambda: name)

    first = Environment.here().cpu
    capability("OTHER")
    with pytest.raises(Stopped):
        train(begun, 2, allow_drift=True)
    capability("THIRD")
    said = train(begun, allow_drift=True)
    changes = [
        f"from step {SAVED_AT}: CPU capability {first} -> OTHER",
        f"from step {SAVED_AT + 2}: CPU capability OTHER -> THIRD",
    ]
    assert rows_drift(begun) == [tuple(changes)] * 2
    assert f"2 runs drift {changes[1]}" in said


def test_the_command_line_refuses_and_allows_it(
    begun: Path, other: str, command: Callable[..., Any]
) -> None:
    said = command("resume", begun, "--device", "cpu", "--workers", "1")
    assert said.code == 2
    assert other in said.err
    assert len(said.err.splitlines()) <= 3
    said = command("resume", begun, "--device", "cpu", "--workers", "1", "--allow-drift")
    assert (said.code, said.err) == (0, "")
    assert all(rows_drift(begun))
