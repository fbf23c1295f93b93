"""Hostile specifications and files through the command line:
exit code 2 or 3, three lines at most, nothing made.
"""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch  # noqa: F401 (its import is not counted)

from recollect.cli import app as cli
from recollect.store import PlannedRun, Store

LIMIT_S, LIMIT_KB = 1.0, 300_000

GOOD = """
[task]
name = "mqar"
[model]
mixer = "attention"
[train]
steps = 10
"""
DEEP = 20_000

HOSTILE_SPECS = {
    "empty": "",
    "only a name": 'name = "x"',
    "unknown table": GOOD + "[optimizer]\nlr = 1",
    "unknown key": GOOD + "ler = 0.1",
    "misspelt task": GOOD.replace("mqar", "mqra"),
    "task is code": GOOD.replace("mqar", "os.system"),
    "mixer is code": GOOD.replace("attention", "__import__('os').system('id')"),
    "mixer is a path": GOOD.replace("attention", "../../etc/passwd"),
    "mixer is a number": GOOD.replace('"attention"', "7"),
    "mixer is a list": GOOD.replace('"attention"', '["attention"]'),
    "mixer option unknown": GOOD.replace(
        '"attention"', '{ name = "attention", _target_ = "os.system" }'
    ),
    "rate nan": GOOD + "lr = nan",
    "rate inf": GOOD + "lr = inf",
    "rate -inf": GOOD + "lr = -inf",
    "rate negative": GOOD + "lr = -1",
    "rate overflows": GOOD + "lr = 1e999",
    "rate is text": GOOD + 'lr = "1e-3"',
    "rate is true": GOOD + "lr = true",
    "rate is a date": GOOD + "lr = 1979-05-27",
    "rate is a table": GOOD + "lr = { a = 1 }",
    "steps 0": GOOD.replace("steps = 10", "steps = 0"),
    "steps a fraction": GOOD.replace("steps = 10", "steps = 10.5"),
    "steps huge": GOOD.replace("steps = 10", "steps = 1_000_000_000_000"),
    "steps of 5000 digits": GOOD.replace("steps = 10", "steps = " + "9" * 5000),
    "steps of 4000 digits": GOOD.replace("steps = 10", "steps = " + "9" * 4000),
    "epochs and steps": GOOD + "epochs = 3",
    "epochs nan": GOOD.replace("steps = 10", "epochs = nan"),
    "epochs of 4000 digits": GOOD.replace("steps = 10", "epochs = " + "9" * 4000),
    "batch 0": GOOD + "batch = 0",
    "batch beyond the rows": GOOD + "batch = 1_000_000",
    "seed negative": "seed = -1" + GOOD,
    "seed 2**63": f"seed = {2**63}" + GOOD,
    "10**12 layers": GOOD.replace("[train]", "depth = 1_000_000_000_000\n[train]"),
    "width 0": GOOD.replace("[train]", "width = 0\n[train]"),
    "heads do not divide": GOOD.replace('"attention"', '{ name = "attention", heads = 7 }'),
    "rope in mamba": GOOD.replace('"attention"', '"mamba"\npositions = "rope"'),
    "more pairs than room": GOOD.replace('"mqar"', '"mqar"\npairs = 60'),
    "10**13 tokens": GOOD.replace('"mqar"', '"mqar"\nlength = 65_536\ntrain_rows = 10_000_000'),
    "task is a list": "task = [1, 2]",
    "train is a text": 'train = "fast"\ntask = "mqar"',
    "name too long": f'name = "{"x" * 100_000}"' + GOOD,
    "name with escapes": 'name = "\\u001b[2J\\u0007"' + GOOD,
    "name of a surrogate": 'name = "\\uD800"' + GOOD,
    "key with newlines": '"a\\nb\\nc\\nd\\ne" = 1' + GOOD,
    "inner key with newlines": GOOD + '"a\\nb\\nc\\nd\\ne" = 1',
    "axis with newlines": GOOD + '[sweep]\n"train.a\\nb\\nc\\nd\\ne" = [1]',
    "key with escapes": '"\\u001b[2J" = 1' + GOOD,
    "key of 100,000 letters": f"{'k' * 100_000} = 1" + GOOD,
    "inner key of 100,000 letters": GOOD + f"{'k' * 100_000} = 1",
    "value of 100,000 letters": GOOD + f'lr = "{"v" * 100_000}"',
    "40,000 unknown keys": GOOD + "\n".join(f"k{i} = 1" for i in range(40_000)),
    "20,000 axes": GOOD + "[sweep]\n" + "\n".join(f"k{i} = [1]" for i in range(20_000)),
    "10**12 runs": GOOD
    + "[sweep]\n"
    + "\n".join(f"train.k{i} = [{', '.join(map(str, range(1000)))}]" for i in range(4)),
    "repeated run": GOOD + "[sweep]\nseed = [1, 1]",
    "empty axis": GOOD + "[sweep]\nseed = []",
    "axis is a number": GOOD + "[sweep]\nseed = 7",
    "axis inside a value": GOOD + "[sweep]\ntrain.steps.inner = [1, 2]",
    "same axis twice": GOOD + '[sweep]\ntrain.lr = [1.0]\n"train.lr" = [2.0]',
    "grid from 0": GOOD + "[sweep]\ntrain.lr = { from = 0, to = 1, points = 3 }",
    "grid to inf": GOOD + "[sweep]\ntrain.lr = { from = 1, to = inf, points = 3 }",
    "grid of 10**9 points": GOOD
    + "[sweep]\ntrain.lr = { from = 1e-4, to = 1, points = 1_000_000_000 }",
    "grid to 10**400": GOOD + f"[sweep]\ntrain.lr = {{ from = 1, to = {10**400}, points = 3 }}",
    "unequal zip": GOOD + "[[sweep.zip]]\nseed = [1, 2]\ntrain.lr = [1.0]",
    "zip is a number": GOOD + "[sweep]\nzip = 3",
    "deep lists": GOOD + "lr = " + "[" * DEEP + "]" * DEEP,
    "deep tables": GOOD + "lr = " + "{a=" * DEEP + "1" + "}" * DEEP,
    "deep dotted key": GOOD + ".".join("a" * DEEP) + " = 1",
    "deep header": GOOD + "[" + ".".join("a" * DEEP) + "]\nb = 1",
    "deep axis": GOOD + "[sweep]\n" + ".".join("a" * DEEP) + " = [1]",
    "deep quoted axis": GOOD + '[sweep]\n"' + ".".join("a" * DEEP) + '" = [1]',
    "deep key of quotes and digits": GOOD + ' . "=" . '.join("1" * (DEEP // 2)) + " = 1",
    "deep table inside a value": GOOD + "lr = {" + ".".join("a" * DEEP) + " = 1}",
    "moderately deep": GOOD + ".".join("a" * 300) + " = 1",
    "not TOML": "{'task': 'mqar'}",
    "half a line": GOOD + "lr =",
    "key twice": GOOD + "lr = 1.0\nlr = 2.0",
    "yaml tag": "!!python/object/apply:os.system ['id']",
    "NUL": GOOD + "lr = \0",
}

HOSTILE_SETS = {
    "no equals sign": "train.lr",
    "no path": "=1",
    "hole in the path": "train..lr=1",
    "unknown": "train.ler=1",
    "inside a value": "train.steps.x=1",
    "deep list": "train.lr=" + "[" * DEEP + "]" * DEEP,
    "deep table": "train.lr={" + ".".join("a" * DEEP) + " = 1}",
    "not printable": "train.lr=\x1b[2J",
    "deep path": ".".join("a" * DEEP) + "=1",
    "5000 digits": "train.steps=" + "9" * 5000,
    "nan": "train.lr=nan",
    "two lines": "train.lr=1.0\ntrain.steps=5",
    "newlines in the path": "train.a\nb\nc\nd\ne=1",
}


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    """The verbs that train take over signals, for a process they take to be theirs."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def command(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: object
) -> tuple[int, str]:
    """The command line in this process; exit code and standard error."""
    monkeypatch.setattr(sys, "argv", ["recollect", *map(str, arguments)])
    began = time.process_time()
    code = cli._exit_code()
    assert time.process_time() - began < LIMIT_S
    return code, capfd.readouterr().err


def assert_refused(code: int, said: str, codes: tuple[int, ...] = (2,)) -> None:
    assert code in codes, said[:2000]
    assert said.startswith("recollect: ")
    assert said.endswith("\n")
    assert 1 <= said.count("\n") <= 3, said[:2000]
    assert len(said) <= 1000, "nobody reads a line of that length"
    assert "Traceback" not in said
    assert "internal error" not in said
    assert all(character.isprintable() or character == "\n" for character in said)


Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("dry", [False, True], ids=["run", "dry-run"])
@pytest.mark.parametrize("name", HOSTILE_SPECS)
def test_a_hostile_specification_is_refused(
    tmp_path: Path, name: str, dry: bool, capfd: Capture, monkeypatch: Patch
) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(HOSTILE_SPECS[name])
    arguments = ["run", spec, "--out", tmp_path / "out", *(["--dry-run"] if dry else [])]
    assert_refused(*command(capfd, monkeypatch, *arguments))
    assert list(tmp_path.iterdir()) == [spec]


@pytest.mark.parametrize("name", HOSTILE_SETS)
def test_a_hostile_override_is_refused(
    tmp_path: Path, name: str, capfd: Capture, monkeypatch: Patch
) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(GOOD)
    assert_refused(
        *command(
            capfd, monkeypatch, "run", spec, "--out", tmp_path / "out", "--set", HOSTILE_SETS[name]
        )
    )
    assert list(tmp_path.iterdir()) == [spec]


def folder_in_place(path: Path) -> None:
    path.mkdir()


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def sparse(path: Path) -> None:
    """50 MB, or what looks like it."""
    with path.open("wb") as file:
        file.truncate(50_000_000)


HOSTILE_FILES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "folder": folder_in_place,
    "link to itself": link_to_itself,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "50 MB": sparse,
    "1 MB of comments": lambda path: path.write_text("#" * 1_000_001),
    "Latin-1": lambda path: path.write_bytes(GOOD.encode() + b"# caf\xe9"),
    "UTF-16": lambda path: path.write_text(GOOD, encoding="utf-16"),
    "random bytes": lambda path: path.write_bytes(bytes(range(256)) * 100),
    "pickle": lambda path: path.write_bytes(b"cos\nsystem\n(S'touch canary'\ntR."),
    "zip": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)),
    "database": lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(4080)),
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_hostile_file_as_specification_is_refused(
    tmp_path: Path, name: str, capfd: Capture, monkeypatch: Patch
) -> None:
    spec = tmp_path / "spec.toml"
    HOSTILE_FILES[name](spec)
    before = list(tmp_path.iterdir())
    assert_refused(*command(capfd, monkeypatch, "run", spec, "--out", tmp_path / "out"))
    assert list(tmp_path.iterdir()) == before


@pytest.mark.parametrize("verb", ["resume", "status", "report", "export"])
@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_hostile_file_as_results_is_refused(
    tmp_path: Path, name: str, verb: str, capfd: Capture, monkeypatch: Patch
) -> None:
    database = tmp_path / "recollect.db"
    HOSTILE_FILES[name](database)
    content = database.read_bytes() if database.is_file() and name != "endless device" else b""
    before = list(tmp_path.iterdir())
    assert_refused(*command(capfd, monkeypatch, verb, tmp_path), codes=(2, 3))
    assert list(tmp_path.iterdir()) == before
    assert not content or database.read_bytes() == content, "not ours to change"


def planned(folder: Path, spec: str) -> None:
    """A results folder of the right form with one run whose specification is `spec`."""
    with Store.create(folder) as store:
        store.plan([PlannedRun("0123456789abcdef", "{}", "accuracy", 0.5)], "sweep", "source")
    connection = sqlite3.connect(folder / "recollect.db")
    connection.execute("DROP TRIGGER identity_is_fixed")
    connection.execute("UPDATE runs SET spec = ?", [spec])
    connection.commit()
    connection.close()


HOSTILE_STORED = {
    "code": '{"task":{"name":"mqar"},"model":{"mixer":{"name":"os.system"}},'
    '"train":{"steps":3,"batch":2,"evaluations":1}}',
    "NaN": '{"task":{"name":"mqar"},"model":{"mixer":{"name":"attention"}},'
    '"train":{"lr":NaN,"steps":3}}',
    "10**12 layers": '{"task":{"name":"mqar"},"model":{"mixer":"mamba","depth":1000000000000},'
    '"train":{"steps":3}}',
}


@pytest.mark.parametrize("name", HOSTILE_STORED)
def test_a_stored_specification_is_checked_like_any_other(
    tmp_path: Path, name: str, capfd: Capture, monkeypatch: Patch
) -> None:
    planned(tmp_path, HOSTILE_STORED[name])
    assert_refused(*command(capfd, monkeypatch, "resume", tmp_path))


@pytest.mark.parametrize(
    "name",
    ["endless device", "50 MB", "deep tables", "20,000 axes", "10**12 layers", "deep override"],
)
def test_a_refusal_costs_little(tmp_path: Path, name: str) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(HOSTILE_SPECS.get(name, GOOD))
    if name in HOSTILE_FILES:
        spec.unlink()
        HOSTILE_FILES[name](spec)
    override = ["--set", HOSTILE_SETS["deep list"]] if name == "deep override" else []
    program = [sys.executable, "-m", "recollect", "run", spec, "--out", tmp_path / "out", *override]
    environment = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])}
    limits = (LIMIT_KB * 1024, LIMIT_KB * 1024)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        program,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limits),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert_refused(ended.returncode, ended.stderr)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2 * LIMIT_S, (
        "with the start of Python"
    )
    assert list(tmp_path.iterdir()) == [spec]
