"""Writes results/commits.csv: with which commit the stored rows were trained.

python docs/commits.py [ROOT]

Run it in a clone with its whole history after rows were added. A row names its code by a digest;
its commit is the newest one before it began whose package has this digest. Rows of before that
digest was recorded, and rows of code that was never committed, have the newest commit before they
began, and the table says so.
"""

import csv
import io
import subprocess
import sys
import tarfile
import tempfile
from bisect import bisect_right
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from recollect.store import Store
from recollect.store.joining.folders import find_stores
from recollect.training.environment import code_digest

ROOT = Path(__file__).parent.parent
NAME = "commits.csv"
BY_CODE, BY_TIME = "code", "time"
MOST_TRIED = 20  # commits whose package is compared with a row's


class Trained(NamedTuple):
    """Runs of one store that were trained with one commit."""

    store: str
    commit: str
    known_by: str  # the digest of the code, or the time at which the first run began
    runs: int
    began: str
    ended: str


def trained(store, runs, commits, code_of):
    """The lines of one store.

    `runs` are (began, ended, digest or None), `commits` (time, id) from old to new; `code_of` gives
    the digest of a commit.
    """
    found = []
    for began, ended, code in runs:
        newest = bisect_right(commits, began, key=lambda commit: commit[0])
        if not newest:
            sys.exit(
                f"{store}: a run began before the oldest commit known here; use a clone with its "
                "whole history (git fetch --unshallow)"
            )
        before = [commit for _, commit in commits[max(0, newest - MOST_TRIED) : newest]][::-1]
        same = code and next((commit for commit in before if code_of(commit) == code), None)
        found.append((same or before[0], BY_CODE if same else BY_TIME, began, ended))
    lines = []
    for (commit, known_by), own in groupby(sorted(found), key=lambda each: each[:2]):
        times = [each[2:] for each in own]
        began, ended = min(times)[0], max(ended for _, ended in times)
        lines.append(
            (began, Trained(store, commit, known_by, len(times), *map(day, (began, ended))))
        )
    return [line for _, line in sorted(lines)]


def day(time):
    """A moment as text, in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stored_runs(folder):
    """(began, ended, digest) of the runs with a result."""
    with Store.open(folder, read_only=True) as store:
        rows, times = store.rows(), store.times()
    return [(*times[row.run_id], row.versions.get("code")) for row in rows if row.has_result]


def all_commits():
    """(time, id) of the history, from old to new."""
    log = _git("log", "--format=%ct %h").decode()
    return sorted((int(time), commit) for time, commit in map(str.split, log.splitlines()))


@cache
def committed_code(commit):
    """The digest of a commit's package."""
    with tempfile.TemporaryDirectory() as folder:
        files = io.BytesIO(_git("archive", commit, "recollect"))
        with tarfile.open(fileobj=files) as archive:
            archive.extractall(folder, filter="data")
        return code_digest(Path(folder) / "recollect")


def _git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


@cache
def commits_by_store(root=ROOT / "results"):
    """The lines of the file, by store; empty where there is none."""
    path = root / NAME
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        lines = [Trained(**{**line, "runs": int(line["runs"])}) for line in csv.DictReader(file)]
    return {root / store: list(own) for store, own in groupby(lines, lambda line: line.store)}


def table_of(root, commits, code_of):
    """The whole file as text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Trained._fields)
    for folder in find_stores([root]):
        store = folder.relative_to(root).as_posix()
        writer.writerows(trained(store, stored_runs(folder), commits, code_of))
    return out.getvalue()


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results"
    (root / NAME).write_text(table_of(root, all_commits(), committed_code))
