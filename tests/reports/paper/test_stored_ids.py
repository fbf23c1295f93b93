"""Ids stay what they are: of every stored row, and of every run of every preset."""

import hashlib
import json
from pathlib import Path

import pytest

from recollect.reports.paper.presets import open_sweep
from recollect.spec.run import RunSpec
from recollect.store import Store

ROOT = Path(__file__).parents[3]
STORES = sorted((ROOT / "results").rglob("recollect.db"))
PRESETS = json.loads(Path(__file__).with_name("preset_ids.json").read_text())


@pytest.mark.parametrize("path", STORES, ids=lambda path: path.parent.name)
def test_a_stored_row_has_the_id_of_its_specification(path, tmp_path):
    (tmp_path / path.name).write_bytes(path.read_bytes())  # reading may leave files beside it
    with Store.open(tmp_path, read_only=True) as store:
        rows = store.rows()
    assert rows
    for row in rows:
        assert RunSpec.parse(row.spec).run_id == row.run_id


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_runs_it_always_had(name):
    ids = [run.run_id for run in open_sweep(name, []).runs]
    assert len(ids) == PRESETS[name]["runs"]
    assert hashlib.sha256("\n".join(ids).encode()).hexdigest() == PRESETS[name]["sha256"]


def test_every_preset_is_listed():
    folder = ROOT / "recollect/reports/paper/presets"
    assert {f"paper:{path.stem.replace('.', ':')}" for path in folder.glob("*.toml")} == set(
        PRESETS
    )
