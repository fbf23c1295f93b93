"""Tables of the results database, and the rules that the tables enforce themselves.

values.py converts rows to Python values.

The rules are in the database and not only in Python, so that not even a program with a bug can
change a finished run. Measured numbers have type ANY, because SQLite would turn NaN into NULL and
-0.0 into 0.0 in a REAL column. NaN is stored as the text 'nan'.
"""

import sqlite3
from collections.abc import Iterator

APPLICATION_ID = 0x5245434F  # "RECO"

# Keys in `meta`, by how a sweep is trained (running/planning/order.py); each value is a JSON list
# of names of sweeps.
TRAINED_AS = {"edges": "search", "best": "search for best", "all": "search in full"}
# Such a list, too: the sweeps whose search has ended. The folder remembers the search itself as
# well, so that their other runs are known not to be needed.
SEARCH_ENDED = "search ended"
SWEEP_LISTS = (*TRAINED_AS.values(), SEARCH_ENDED)

# Version 1. SQLite stores the text of each statement in the database, and salvage.py relies on all
# files having the same pages for it. So no byte inside a statement may change. (A backslash at the
# end of a line joins it to the next one.) ADDITIONS holds the statements of later versions.
SCHEMA = """
CREATE TABLE runs (
    run_id        TEXT PRIMARY KEY,
    spec          TEXT NOT NULL,
    score_name    TEXT NOT NULL CHECK (score_name IN ('accuracy', 'exact')),
    chance        ANY NOT NULL,
    status        TEXT NOT NULL DEFAULT 'todo' CHECK (status IN (\
'todo', 'running', 'done', 'diverged', 'failed')),
    attempt       INTEGER NOT NULL DEFAULT 0,
    owner         TEXT,                          -- who runs it, see ownership.py
    renewed       ANY,                           -- the lease, on the machine's steady clock
    lease_until   ANY,
    pack_size     INTEGER,                       -- how many runs were claimed together with it, \
itself included
    pack_limit    INTEGER,                       -- it may not train beside more than this
    furthest      INTEGER NOT NULL DEFAULT -1,   -- the highest step any attempt has evaluated \
or saved
    progressed    INTEGER NOT NULL DEFAULT 0,    -- this attempt went beyond it
    lost          INTEGER NOT NULL DEFAULT 0,    -- attempts in a row that ended without progress
    started       REAL,
    finished      REAL,
    steps         INTEGER,
    wall_s        ANY,
    stopped_early INTEGER NOT NULL DEFAULT 0,    -- before its last step, see STOPS
    diverged_step INTEGER,
    failure       TEXT,
    parameters    INTEGER,
    state_size    INTEGER,
    device        TEXT,
    threads       INTEGER,
    versions      TEXT NOT NULL DEFAULT '{}',
    CHECK ((status = 'running') = (owner IS NOT NULL)),
    CHECK ((status IN ('done', 'diverged', 'failed')) = (finished IS NOT NULL)),
    CHECK ((status = 'diverged') = (diverged_step IS NOT NULL)),
    CHECK ((status = 'failed') = (failure IS NOT NULL))
) STRICT;
CREATE INDEX runs_by_status ON runs (status);

CREATE TABLE evaluations (
    run_id     TEXT NOT NULL REFERENCES runs (run_id),
    step       INTEGER NOT NULL,
    train_loss ANY NOT NULL,
    test_loss  ANY NOT NULL,
    accuracy   ANY NOT NULL,
    exact      ANY NOT NULL,
    slices     TEXT NOT NULL,
    PRIMARY KEY (run_id, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE sweeps (
    sweep_id INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    source   TEXT NOT NULL,
    created  REAL NOT NULL,
    UNIQUE (name, source)
) STRICT;
CREATE TABLE planned (
    sweep_id INTEGER NOT NULL REFERENCES sweeps (sweep_id),
    run_id   TEXT NOT NULL REFERENCES runs (run_id),
    PRIMARY KEY (sweep_id, run_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE notes (time REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL) STRICT;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TRIGGER identity_is_fixed BEFORE UPDATE OF run_id, spec, score_name, chance ON runs
BEGIN SELECT RAISE(ABORT, 'what a run is cannot change'); END;

-- The one way out of a finished state is failed -> todo: a lack of memory is no result and may be
-- tried again.
CREATE TRIGGER finished_is_for_ever BEFORE UPDATE ON runs
WHEN OLD.status IN ('done', 'diverged') OR (OLD.status = 'failed' AND NEW.status <> 'todo')
BEGIN SELECT RAISE(ABORT, 'a finished run cannot change'); END;

CREATE TRIGGER runs_are_kept BEFORE DELETE ON runs
BEGIN SELECT RAISE(ABORT, 'a planned run cannot be deleted'); END;

CREATE TRIGGER points_while_running BEFORE INSERT ON evaluations
WHEN (SELECT status FROM runs WHERE run_id = NEW.run_id) IS NOT 'running'
BEGIN SELECT RAISE(ABORT, 'only a running run has new evaluations'); END;
CREATE TRIGGER points_change_while_running BEFORE UPDATE ON evaluations
WHEN (SELECT status FROM runs WHERE run_id = OLD.run_id) IS NOT 'running'
BEGIN SELECT RAISE(ABORT, 'only a running run has its evaluations changed'); END;
CREATE TRIGGER points_leave_while_running BEFORE DELETE ON evaluations
WHEN (SELECT status FROM runs WHERE run_id = OLD.run_id) IS NOT 'running'
BEGIN SELECT RAISE(ABORT, 'only a running run has its evaluations deleted'); END;
"""

# What each version from 2 on adds. These texts must not change either; the list only grows. A new
# file gets all of them. An older file gets the missing ones when it is next opened for writing. A
# reader writes nothing, so it must work without what a file lacks (see `columns`).
ADDITIONS: tuple[str, ...] = (
    "ALTER TABLE evaluations ADD COLUMN train_score ANY;\n",
    # Checksums of the values that readers use. Triggers maintain those of runs, in a separate table
    # because the row of a finished run cannot change. NULL: the run was stored before there were
    # checksums; before version 5 its points may lack them too. checksums.py defines recollect_sum.
    """
ALTER TABLE evaluations ADD COLUMN checksum INTEGER;
ALTER TABLE runs ADD COLUMN drift TEXT;
CREATE TABLE sums (
    run_id   TEXT PRIMARY KEY,
    checksum INTEGER,
    is_older INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
INSERT INTO sums SELECT run_id, NULL, 1 FROM runs;
CREATE TRIGGER new_run_is_summed AFTER INSERT ON runs BEGIN
    INSERT INTO sums (run_id, checksum) VALUES (NEW.run_id, recollect_sum(NEW.run_id, NEW.spec,
    NEW.status, NEW.score_name, NEW.chance, NEW.attempt, NEW.steps, NEW.wall_s, NEW.stopped_early,
    NEW.diverged_step, NEW.failure, NEW.parameters, NEW.state_size, NEW.device, NEW.threads,
    NEW.versions, NEW.started, NEW.finished, NEW.drift)); END;
CREATE TRIGGER changed_run_is_summed AFTER UPDATE OF status, attempt, steps, wall_s, stopped_early,
diverged_step, failure, parameters, state_size, device, threads, versions, started, finished, drift
ON runs BEGIN
    UPDATE sums SET checksum = recollect_sum(NEW.run_id, NEW.spec,
    NEW.status, NEW.score_name, NEW.chance, NEW.attempt, NEW.steps, NEW.wall_s, NEW.stopped_early,
    NEW.diverged_step, NEW.failure, NEW.parameters, NEW.state_size, NEW.device, NEW.threads,
    NEW.versions, NEW.started, NEW.finished, NEW.drift) WHERE run_id = NEW.run_id; END;
""",
    # The key that seals the checkpoints of this store, and the number of commits (commits.py).
    """
INSERT INTO meta VALUES ('key', lower(hex(randomblob(32))));
INSERT INTO meta VALUES ('commits', '0');
""",
    # No statements: from version 5 on, rows stored before there were checksums have them too
    # (checksums.py).
    "",
    # A run that nobody has begun may be taken back (Store.unplan).
    """
DROP TRIGGER runs_are_kept;
CREATE TRIGGER begun_runs_are_kept BEFORE DELETE ON runs
WHEN OLD.status <> 'todo' OR OLD.attempt > 0
BEGIN SELECT RAISE(ABORT, 'a run that has begun cannot be deleted'); END;
CREATE TRIGGER unplanned_run_is_not_summed AFTER DELETE ON runs
BEGIN DELETE FROM sums WHERE run_id = OLD.run_id; END;
""",
)
VERSION = 1 + len(ADDITIONS)

# Each column with the version that added it. Checksums take the values in this order.
RUN_COLUMNS = dict.fromkeys(
    (
        *("run_id", "spec", "status", "score_name", "chance", "attempt", "steps", "wall_s"),
        *("stopped_early", "diverged_step", "failure", "parameters", "state_size", "device"),
        *("threads", "versions", "started", "finished"),
    ),
    1,
) | {"drift": 3}
POINT_COLUMNS = dict.fromkeys(
    ("step", "train_loss", "test_loss", "accuracy", "exact", "slices"), 1
) | {"train_score": 2, "checksum": 3}
SUMS = {"checksum": 3, "is_older": 3}
PUT_POINT = (
    f"INSERT INTO evaluations (run_id, {', '.join(POINT_COLUMNS)}) "
    f"VALUES (?{', ?' * len(POINT_COLUMNS)}) ON CONFLICT DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in POINT_COLUMNS if name != "step")
)


def columns(wanted: dict[str, int], version: int, table: str = "") -> str:
    """Column list for a SELECT from a file of `version`, with NULL for columns it lacks."""
    prefix = f"{table}." if table else ""
    return ", ".join(
        f"{prefix}{name}" if since <= version else "NULL" for name, since in wanted.items()
    )


def rows_query(version: int, which: str = "") -> str:
    """Query for every run with the last point of its curve, or NULLs if there is none.

    It is one statement, so its result is one snapshot. `which` is a WHERE clause.
    """
    joined = "LEFT JOIN sums AS s ON s.run_id = r.run_id " if version >= SUMS["checksum"] else ""
    return (
        f"SELECT {columns(RUN_COLUMNS, version, 'r')}, {columns(SUMS, version, 's')}, "
        f"{columns(POINT_COLUMNS, version, 'e')} FROM runs AS r {joined}LEFT JOIN evaluations AS e "
        "ON e.run_id = r.run_id AND e.step = (SELECT max(step) FROM evaluations WHERE run_id = "
        f"r.run_id) {which} ORDER BY r.rowid"
    )


def statements(since: int = 0, version: int = VERSION) -> Iterator[str]:
    """Statements that upgrade a file from version `since` (0: empty) to `version`.

    Execute them one by one in one transaction.
    """
    text = ""
    for line in "".join((SCHEMA, *ADDITIONS)[since:version]).splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""
    yield f"PRAGMA application_id = {APPLICATION_ID}"
    yield f"PRAGMA user_version = {version}"
