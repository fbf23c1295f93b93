"""results/commits.csv: every stored row has the commit it was trained with."""

import runpy
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from recollect.store.joining.folders import find_stores
from recollect.training.environment import code_digest

ROOT = Path(__file__).parent.parent
SCRIPT = runpy.run_path(str(ROOT / "docs" / "commits.py"))
HISTORY = [(100, "old"), (200, "mid"), (300, "new")]


def code_of(commit: str) -> str:
    return {"old": "a", "mid": "b", "new": "b"}[commit]


def lines(*runs: tuple[float, float, str | None]) -> list[tuple[str, str, int]]:
    found = SCRIPT["trained"]("store", runs, HISTORY, code_of)
    return [(line.commit, line.known_by, line.runs) for line in found]


def test_a_row_that_names_its_code_has_its_commit():
    assert lines((350, 360, "b")) == [("new", "code", 1)]
    assert lines((250, 360, "b")) == [("mid", "code", 1)]  # there was no newer one yet
    assert lines((350, 360, "a")) == [("old", "code", 1)]


def test_another_row_has_the_newest_commit_before_it_began():
    assert lines((250, 260, None), (299, 400, None), (300, 310, None)) == [
        ("mid", "time", 2),
        ("new", "time", 1),
    ]
    assert lines((350, 360, "never committed")) == [("new", "time", 1)]


def test_lines_tell_when_the_runs_were_trained():
    (line,) = SCRIPT["trained"]("store", [(260, 270, None), (250, 255, None)], HISTORY, code_of)
    assert (line.began, line.ended) == ("1970-01-01T00:04:10Z", "1970-01-01T00:04:30Z")


def test_a_history_that_is_too_short_is_refused():
    with pytest.raises(SystemExit) as refused:
        lines((50, 60, None))
    assert "git fetch --unshallow" in str(refused.value)


def test_the_digest_is_that_of_the_sources_alone(tmp_path: Path):
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("x = 1\n")
    (tmp_path / "two" / "notes.txt").write_text("no source")
    (tmp_path / "three" / "b.py").write_text("")
    one, two, three = (code_digest(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two
    assert len({one, three, code_digest()}) == 3


def test_every_stored_row_is_covered():
    """If rows were added: python docs/commits.py"""
    told = SCRIPT["commits_by_store"]()
    stores = find_stores([ROOT / "results"])
    assert set(told) == set(stores)
    for folder in stores:
        with closing(sqlite3.connect(f"file:{folder}/recollect.db?immutable=1", uri=True)) as found:
            rows = found.execute(
                "SELECT started, finished FROM runs WHERE status IN ('done', 'diverged')"
            ).fetchall()
        assert sum(line.runs for line in told[folder]) == len(rows), folder
        days = Counter(SCRIPT["day"](moment) for row in rows for moment in row)
        assert all(line.began in days and line.ended in days for line in told[folder]), folder
