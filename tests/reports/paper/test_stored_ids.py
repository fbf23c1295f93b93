"""Ids stay what they are: of every stored row, and of every run of every preset."""

import hashlib
import json
from pathlib import Path

import pytest

from recollect.errors import SpecError
from recollect.reports.paper.presets import open_sweep
from recollect.spec.recipes import RECIPES
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


# A preset that has more runs than when rows were stored: which of them it had then.
BEFORE = {
    "paper:fig1": lambda run: run.task.length in (64, 256) and run.model.width in (64, 128),
    "paper:fig3": lambda run: run.model.mixer.name in ("attention", "hyena", "mamba"),
    "paper:fig3:small": lambda run: run.model.mixer.name in ("attention", "hyena", "mamba"),
    "paper:why:small": lambda run: run.seed != 777,
}
# One rate and one seed: all shapes of a sweep. What the rates and seeds are, `plain` pins.
ONE_EACH = ["sweep.train.lr=[1e-3]", "sweep.seed=[42]"]


def pinned(runs) -> dict[str, int | str]:
    ids = [run.run_id for run in runs]
    return {"runs": len(ids), "sha256": hashlib.sha256("\n".join(ids).encode()).hexdigest()}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_runs_it_always_had(name):
    """Those of `plain`: what the presets were before there were recipes."""
    runs = open_sweep(name, [], "plain").runs
    assert pinned(runs) == PRESETS[name]["plain"]
    if name in BEFORE:
        assert pinned(filter(BEFORE[name], runs)) == PRESETS[name]["plain before"]


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "plain"])
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_same_runs_under_a_recipe(name, recipe):
    if recipe not in PRESETS[name]:
        with pytest.raises(SpecError, match=f"recipe {recipe} covers .*, not copying"):
            open_sweep(name, ONE_EACH, recipe)
    else:
        assert pinned(open_sweep(name, ONE_EACH, recipe).runs) == PRESETS[name][recipe]


def test_every_preset_is_listed():
    folder = ROOT / "recollect/reports/paper/presets"
    assert {f"paper:{path.stem.replace('.', ':')}" for path in folder.glob("*.toml")} == set(
        PRESETS
    )
