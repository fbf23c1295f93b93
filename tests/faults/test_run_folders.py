"""Folders as people have them: odd names, links, files in the way, no right to write.

It works or refuses, and stays inside.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import run_workers
from harness import child
from run_workers import M, outcome

Reference = Callable[..., dict[str, str]]
ODD_NAMES = [
    "with blanks and\ttab",
    "quotes ' \" `id` $(id) ; & | *",
    "two\nlines",
    "percent %41 ?mode=ro#fragment",
    "ünïcödé 数据 🗂",
    "-leading-hyphen",
    "x" * 255,
    os.fsdecode(b"not utf-8 \xff\xe9"),
]


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def run(place: Path, work: Callable[..., None], *arguments: object) -> tuple[int, str]:
    """A command in a process of its own; exit code and standard error."""
    beside = place.parent / "streams"
    with child(beside.with_suffix(".journal"), work, beside, *arguments) as running:
        code = running.end()
    said = beside.with_suffix(".err").read_text(errors="surrogateescape")
    for suffix in (".out", ".err"):  # the next command may be another user's
        beside.with_suffix(suffix).unlink()
    return code, said


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a specification in it, and nothing else."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "m.toml").write_text(M)
    return folder


@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
def test_an_odd_name_works_and_nothing_is_written_beside_it(
    place: Path, name: str, reference: Reference
) -> None:
    out = place / name
    assert run(place, run_workers.command, "run", place / "m.toml", "--out", out) == (0, "")
    for verb in ("status", "export", "report", "resume"):
        assert run(place, run_workers.command, verb, out) == (0, "")
    assert outcome(out) == reference(M)
    assert {path.name for path in place.iterdir()} == {"m.toml", name}


@pytest.mark.parametrize(
    "stem", [*ODD_NAMES[:-2], "x" * 250, ODD_NAMES[-1]], ids=range(len(ODD_NAMES))
)
def test_an_odd_name_of_a_specification_works(place: Path, stem: str, reference: Reference) -> None:
    spec = (place / "m.toml").rename(place / f"{stem}.toml")
    assert run(place, run_workers.command, "run", "--out", place / "out", "--", spec) == (0, "")
    assert outcome(place / "out") == reference(M)


def test_a_name_too_long_is_refused_in_one_line(place: Path) -> None:
    before, name = tree(place), "x" * 256
    for arguments in (
        ("run", place / "m.toml", "--out", place / name),
        ("run", place / "m.toml", "--out", place / name, "--dry-run"),
        ("run", place / name, "--out", place / "out"),
        ("run", place / "m.toml", "--out", place / "out", "--plugin", place / name),
        ("resume", place / name),
        ("status", place / name),
        ("report", place / name),
        ("export", place / name),
        ("export", place / name, "--salvage"),
    ):
        code, said = run(place, run_workers.command, *arguments)
        assert code == 2, said
        assert said.count("\n") == 1
        assert said.startswith("recollect: ")
        assert "File name too long" in said or "no results" in said or "no such file" in said
    assert tree(place) == before


def test_parents_are_made_and_links_followed(place: Path, reference: Reference) -> None:
    assert run(
        place, run_workers.command, "run", place / "m.toml", "--out", place / "a" / "b" / "c"
    ) == (0, "")
    assert outcome(place / "a" / "b" / "c") == reference(M)
    (place / "real").mkdir()
    (place / "link").symlink_to(place / "real")
    assert run(place, run_workers.command, "run", place / "m.toml", "--out", place / "link") == (
        0,
        "",
    )
    assert outcome(place / "real") == reference(M)
    assert (place / "link").is_symlink()


@pytest.mark.parametrize("kind", ["file", "dangling link", "link to itself", "file in the middle"])
def test_what_stands_in_the_way_is_refused_in_one_line(place: Path, kind: str) -> None:
    out = place / "out"
    match kind:
        case "file" | "file in the middle":
            out.write_text("mine")
        case "dangling link":
            out.symlink_to(place / "missing" / "far" / "away")
        case "link to itself":
            out.symlink_to(out)
    target = out / "inner" if kind == "file in the middle" else out
    before = tree(place)
    for arguments in (
        ("run", place / "m.toml", "--out", target),
        ("resume", target),
        ("status", target),
        ("report", target),
    ):
        code, said = run(place, run_workers.command, *arguments)
        assert (code, said.count("\n")) == (2, 1), said
        assert str(target) in said
    assert tree(place) == before
    assert not out.is_file() or out.read_text() == "mine"


@pytest.fixture
def locked(place: Path) -> Iterator[Path]:
    """Results that may only be read, and an empty folder of that kind in them."""
    folder = place / "locked"
    assert run(place, run_workers.command, "run", place / "m.toml", "--out", folder) == (0, "")
    (folder / "empty").mkdir()
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)


def test_a_folder_without_the_right_to_write(
    place: Path, locked: Path, reference: Reference
) -> None:
    before = tree(place)
    refused = (
        ["run", place / "m.toml", "--out", locked / "empty"],
        ["run", place / "m.toml", "--out", locked / "empty" / "in"],
    )
    for arguments in (*refused, ["resume", locked], ["report", locked]):
        code, said = run(place, run_workers.without_privileges, *arguments)
        assert (code, said.count("\n")) == (2, 1), said
        assert "choose a folder you may write to" in said
    assert run(place, run_workers.without_privileges, "status", locked) == (0, "")
    assert run(place, run_workers.without_privileges, "export", locked) == (0, "")
    assert tree(place) == before
    assert run(
        place, run_workers.without_privileges, "report", locked, "-o", place / "page.html"
    ) == (0, "")
    assert tree(place) == before | {"page.html"}
    assert outcome(locked) == reference(M)
