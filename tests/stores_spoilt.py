"""Stores as nobody should have made them: values of wrong types, absurd texts, tables that are not
there. Each is a function on a sound one, whose rules are taken away first.
"""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

DEEP = "[" * 200_000 + "]" * 200_000
DEEP_TABLE = '{"a":' * 100_000 + "1" + "}" * 100_000
DIGITS = "9" * 6_000
LONG = "x" * 3_000_000
VALUES = {
    "null": None,
    "blob": b"\xff\x00\xfe",
    "text": "seven",
    "empty": "",
    "nul": "a\x00b",
    "escape": "\x1b]0;owned\x07\x1b[31m\u202e",
    "negative": -7,
    "huge": 2**62,
    "inf": float("inf"),
    "minus-inf": -1e308,
    "long": LONG,
    "utf8": None,  # set as bytes that are no UTF-8, see _put
}
JSONS = {
    "json-deep": DEEP,
    "json-deep-table": DEEP_TABLE,
    "json-digits": f'{{"seed":{DIGITS}}}',
    "json-list": "[1,2]",
    "json-cut": '{"task":',
    "json-nan": '{"train":{"lr":NaN}}',
    "json-empty": "{}",
    "json-types": '{"task":7,"model":[],"train":"x","seed":{}}',
    "json-lr": '{"task":{"name":"mqar"},"model":{"mixer":{"name":"m"}},"train":{"lr":"x"}}',
    "json-null-name": '{"task":{"name":null},"model":{"mixer":null},"train":{"lr":1},"seed":1}',
}
RUN_COLUMNS = (
    *("run_id", "spec", "score_name", "chance", "status", "attempt", "owner", "lease_until"),
    *("started", "finished", "steps", "wall_s", "stopped_early", "diverged_step", "failure"),
    *("parameters", "state_size", "device", "threads", "versions", "pack_limit"),
)
POINT_COLUMNS = (
    *("run_id", "step", "train_loss", "test_loss", "accuracy", "exact", "slices", "train_score"),
)
Spoil = Callable[[sqlite3.Connection], None]


def spoilt_stores() -> Iterator[tuple[str, Spoil]]:
    """A name and what to do to a store without rules."""
    kinds = list(VALUES)
    for place, column in enumerate(RUN_COLUMNS):
        for offset in (0, 3, 5):
            kind = kinds[(place + offset) % len(kinds)]
            yield f"runs-{column}-{kind}", _put("runs", column, kind)
    for place, column in enumerate(POINT_COLUMNS):
        for offset in (1, 4):
            kind = kinds[(place + offset) % len(kinds)]
            yield f"evaluations-{column}-{kind}", _put("evaluations", column, kind)
    for kind in JSONS:
        yield f"runs-spec-{kind}", _put("runs", "spec", kind)
    for kind in ("json-deep", "json-digits", "json-list", "json-types"):
        yield f"runs-versions-{kind}", _put("runs", "versions", kind)
        yield f"evaluations-slices-{kind}", _put("evaluations", "slices", kind)
    for table, column in (
        *(("sweeps", "name"), ("sweeps", "source"), ("sweeps", "created"), ("planned", "run_id")),
        *(("notes", "time"), ("notes", "kind"), ("notes", "text"), ("meta", "value")),
    ):
        for kind in ("blob", "escape", "inf", "utf8"):
            yield f"{table}-{column}-{kind}", _put(table, column, kind)
    for table in ("runs", "evaluations", "sweeps", "planned", "notes", "meta"):
        yield f"no-{table}", _execute(f"DROP TABLE {table}")
        yield f"empty-{table}", _execute(f"DELETE FROM {table}")
    yield "another-runs", _execute("DROP TABLE runs", "CREATE TABLE runs (x)")
    yield "a-view", _execute("DROP TABLE runs", "CREATE VIEW runs AS SELECT 1 AS run_id")
    yield "status-unknown", _execute("UPDATE runs SET status = 'asleep'")
    yield "all-done", _execute("UPDATE runs SET status = 'done'")
    yield "all-diverged", _execute("UPDATE runs SET status = 'diverged', diverged_step = 1")
    yield "score-unknown", _execute("UPDATE runs SET score_name = 'luck'")
    yield "steps-negative", _execute("UPDATE evaluations SET step = -step")
    yield (
        "ids-swapped",
        _execute("UPDATE runs SET run_id = substr(run_id, 9) || substr(run_id, 1, 8)"),
    )
    yield "path-as-id", _execute("UPDATE runs SET run_id = '../../' || run_id")
    yield "version-0", _execute("PRAGMA user_version = 0")
    yield "version-negative", _execute("PRAGMA user_version = -5")
    yield "version-1", _execute("PRAGMA user_version = 1")


def spoil(path: Path, change: Spoil) -> None:
    """Change a sound store as if it never had rules."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("PRAGMA writable_schema = ON")
    # Tables without types and conditions; triggers and the rest go.
    connection.execute("DELETE FROM sqlite_master WHERE type = 'trigger'")
    connection.execute("PRAGMA writable_schema = RESET")
    for table in ("runs", "evaluations", "sweeps", "planned", "notes", "meta"):
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        connection.execute(f"CREATE TABLE plain_{table} ({', '.join(names)})")
        connection.execute(f"INSERT INTO plain_{table} SELECT * FROM {table}")
        connection.execute(f"DROP TABLE {table}")
        connection.execute(f"ALTER TABLE plain_{table} RENAME TO {table}")
    change(connection)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def _put(table: str, column: str, kind: str) -> Spoil:
    def change(connection: sqlite3.Connection) -> None:
        where = f"rowid IN (SELECT rowid FROM {table} ORDER BY rowid LIMIT 1)"
        value = "CAST(x'61ff62' AS TEXT)" if kind == "utf8" else "?"
        given = [] if kind == "utf8" else [(VALUES | JSONS)[kind]]
        connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}", given)

    return change


def _execute(*statements: str) -> Spoil:
    def change(connection: sqlite3.Connection) -> None:
        for statement in statements:
            connection.execute(statement)

    return change
