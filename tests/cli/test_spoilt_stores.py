"""Every command that reads results, on stores as nobody should have made them: a bad row costs that
row, it is named, and the exit code says so; no traceback, no internal error, nothing written.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stores_spoilt import spoil, spoilt_stores

from recollect.store import Store
from recollect.store.database import FILE

OLD = Path(__file__).parents[1] / "store" / "fixtures" / "6d0e802.db"
SPOILT = dict(spoilt_stores())
READING = {
    "status": ["status", "DIR"],
    "export": ["export", "DIR", "--format", "json", "--curves"],
    "salvage": ["export", "DIR", "--salvage"],
    "report": ["report", "DIR", "-o", "PAGE"],
}
# Slower ones, each for some of the stores.
MORE = {
    "claims": ["claims", "DIR"],
    "csv": ["export", "DIR"],
    "inspect": ["inspect", "DIR", "ffff"],
    "figure": ["figure", "rates", "DIR", "-o", "PAGE.svg"],
    "resume": ["resume", "DIR", "--device", "cpu"],
}
ALWAYS_RESUMED = ("runs-spec-json-empty", "runs-spec-json-types", "ids-swapped", "no-evaluations")
# Bits of a terminal's own language, and of a traceback.
NEVER = ("Traceback", "internal error", "\x1b", "\x07", "\x00", "\u202e", "None:")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    shutil.copyfile(OLD, folder / FILE)
    with Store.open(folder) as store:  # brings it up to date
        store.reclaim(lambda owner: True)  # nobody should wait to see whether its owner lives
    return folder / FILE


@pytest.mark.parametrize("name", SPOILT)
def test_every_command_reads_a_spoilt_store(
    tmp_path: Path, sound: Path, name: str, command: Callable[..., Any]
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    shutil.copyfile(sound, folder / FILE)
    spoil(folder / FILE, SPOILT[name])
    before = (folder / FILE).read_bytes()
    more = list(MORE)[list(SPOILT).index(name) % len(MORE)]
    verbs = READING | {more: MORE[more]}
    if name in ALWAYS_RESUMED:
        verbs["resume"] = MORE["resume"]
    for verb, words in verbs.items():
        page = str(tmp_path / "page")
        said = command(*(word.replace("DIR", str(folder)).replace("PAGE", page) for word in words))
        for bad in NEVER:
            assert bad not in said.out + said.err, (verb, said)
        assert said.code in {"resume": (0, 3, 4), "inspect": (2, 3), "figure": (0, 2, 3)}.get(
            verb, (0, 3)
        ), said
        for message in re.split("^recollect: ", said.err, flags=re.MULTILINE):
            assert len(message.splitlines()) <= 3, (verb, said.err)
        assert (said.code == 3) <= ("recollect check" in said.err or "--salvage" in said.err)
        if verb != "resume":
            assert (folder / FILE).read_bytes() == before, verb


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("runs-spec-json-deep", 5),
        ("runs-spec-json-digits", 5),
        ("runs-spec-blob", 5),
        ("runs-spec-json-empty", 5),
        ("runs-score_name-huge", 5),
        ("runs-status-nul", 5),
        ("evaluations-accuracy-escape", 6),
        ("ids-swapped", 0),
        ("path-as-id", 0),
    ],
)
def test_a_bad_row_costs_that_row_and_is_named(
    tmp_path: Path, sound: Path, name: str, left: int, command: Callable[..., Any]
) -> None:
    shutil.copyfile(sound, tmp_path / FILE)
    spoil(tmp_path / FILE, SPOILT[name])
    said = command("export", tmp_path, "--format", "json", "--curves")
    assert said.code == 3
    assert len(json.loads(said.out)) == left
    assert f"{tmp_path}: " in said.err
    assert "run " in said.err
    if left == 5:
        assert "071fb24560b383e5" in said.err


def test_check_says_what_it_cannot_verify(
    tmp_path: Path, sound: Path, command: Callable[..., Any]
) -> None:
    shutil.copyfile(OLD, tmp_path / FILE)
    said = command("check", tmp_path)
    assert said.code == 0
    assert "6 runs older than checksums: a changed number would not be noticed" in said.out
    assert "\nall else is as it was written" in said.out
    shutil.copyfile(sound, tmp_path / FILE)  # has been written to since
    said = command("check", tmp_path)
    assert said.code == 0
    assert "checksums" not in said.out
    assert "\nall as it was written" in said.out


def test_there_are_many_of_them() -> None:
    assert len(SPOILT) >= 150
