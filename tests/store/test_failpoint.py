"""Failpoints: silent when not armed, closed to unknown names, deadly at the passing asked for;
more deaths in tests/faults.
"""

import subprocess
import sys

import pytest

from recollect.errors import SpecError
from recollect.store import failpoint


def test_an_unarmed_failpoint_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(failpoint.VARIABLE, raising=False)
    for name in failpoint.NAMES:
        failpoint.failpoint(name)


def test_a_name_nobody_declared_is_refused() -> None:
    with pytest.raises(SpecError, match=r"failpoint 'store\.typo': unknown; add it to NAMES"):
        failpoint.failpoint("store.typo")


@pytest.mark.parametrize(
    "wanted",
    ["", "store.written", "store.written:0", "store.written:x", "nowhere:1", "store.written:-1"],
)
def test_a_wrong_wish_is_refused(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setenv(failpoint.VARIABLE, wanted)
    with pytest.raises(SpecError, match="must be NAME:N with N >= 1"):
        failpoint.failpoint("store.written")


def test_death_comes_at_the_passing_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(failpoint.VARIABLE, "file.synced:3")
    passing = "print(failpoint('file.renamed'), failpoint('file.synced'), flush=True)"
    code = f"from recollect.store.failpoint import failpoint\nfor _ in range(9): {passing}"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -9
    assert ended.stdout.count("\n") == 2
