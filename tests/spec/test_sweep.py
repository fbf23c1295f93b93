"""From a specification file to runs: what a recipe fills in, files, and packing by shape.

Axes: test_axes.py. Overrides: test_overrides.py. Refusals: test_sweep_refusals.py.
"""

from pathlib import Path

import pytest

from recollect.errors import SpecError
from recollect.spec.sweep import build_sweep, group_by_shape, parse_sweep, read_sweep

BASE = 'task = "mqar"\nmodel.mixer = "attention"\n'


# ---- recipes ----


def test_a_recipe_fills_what_the_file_leaves_open():
    text = f'recipe = "study"\n{BASE}'
    sweep = parse_sweep(text)
    assert sweep.recipe == "study"
    assert sweep.runs[0].task.vocabulary_split == "halves"
    assert sweep.runs[0].model.dropout == 0.1
    assert parse_sweep(text, ["model.dropout=0.3"]).runs[0].model.dropout == 0.3
    assert parse_sweep("model.dropout = 0.2\n" + text).runs[0].model.dropout == 0.2


def test_without_a_recipe_nothing_is_filled_in():
    assert parse_sweep(BASE).recipe is None
    assert (
        parse_sweep(BASE).runs
        == parse_sweep(
            f'recipe = "plain"\n{BASE}', ["train.evaluations=20", "train.stop_solved=0.0"]
        ).runs
    )


def test_a_recipe_from_outside_takes_the_place_of_the_files():
    text = f'recipe = "study"\n{BASE}'
    sweep = parse_sweep(text, ["recipe=zoology"], "plain")
    assert (sweep.recipe, sweep.runs[0].task.vocabulary_split) == ("plain", "shared")
    assert sweep.source == f"{text}\n# --set recipe=zoology\n# --recipe plain"
    assert parse_sweep(text, ["recipe=zoology"]).runs[0].train.precision == "fp32"


def test_a_recipe_goes_by_the_mixer_of_each_run():
    text = 'recipe = "zoology"\ntask = "mqar"\n[sweep]\nmodel.mixer = ["hyena", "mamba"]\n'
    assert [run.model.block for run in parse_sweep(text).runs] == ["mixer+identity", "mixer"]


# ---- files ----


def test_a_file_gives_its_name_to_the_sweep(tmp_path: Path):
    (tmp_path / "first light.toml").write_text(BASE)
    assert read_sweep(tmp_path / "first light.toml").name == "first light"
    (tmp_path / "named.toml").write_text('name = "other"\n' + BASE)
    assert read_sweep(tmp_path / "named.toml").name == "other"


def test_a_byte_order_mark_is_accepted(tmp_path: Path):
    path = tmp_path / "from an editor.toml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.encode())
    assert read_sweep(path).runs == parse_sweep(BASE).runs
    assert read_sweep(path).source == BASE


def test_unreadable_files_are_refused(tmp_path: Path):
    with pytest.raises(
        SpecError,
        match=r"none\.toml: cannot be read \(No such file or directory\); "
        "give the path of a TOML file",
    ):
        read_sweep(tmp_path / "none.toml")
    with pytest.raises(SpecError, match=r"cannot be read \(Is a directory\)"):
        read_sweep(tmp_path)
    path = tmp_path / "bad.toml"
    path.write_bytes(b'name = "\xff"')
    with pytest.raises(
        SpecError, match=r"bad\.toml: not UTF-8 at byte 8; save the file as UTF-8 text"
    ):
        read_sweep(path)
    path.write_text("a = = 1")
    with pytest.raises(SpecError, match=r"bad\.toml: not TOML: .*line 1, column 5"):
        read_sweep(path)
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(
        SpecError, match=r"more than 1,000,000 bytes; a specification has at most that many"
    ):
        read_sweep(path)


@pytest.mark.parametrize("name", ["examples/mqar.toml", "recollect/reports/demo.toml"])
def test_what_is_shipped_is_sound(name):
    sweep = read_sweep(Path(__file__).parents[2] / name)
    assert len({run.run_id for run in sweep.runs}) == len(sweep.runs) > 1


# ---- packing ----


def test_runs_of_one_shape_are_packed_in_the_order_of_their_first():
    table = {
        "task": "mqar",
        "model": {"depth": 1},
        "sweep": {
            "model": {"mixer": ["attention", "mamba"], "width": [32, 64]},
            "train": {"lr": [0.5, 0.25]},
            "seed": [1, 2],
        },
    }
    runs = build_sweep(table).runs
    shuffled = runs[1::2] + runs[0::2]
    packs = group_by_shape(shuffled)
    assert [(group[0].model.mixer.name, group[0].model.width, len(group)) for group in packs] == [
        ("attention", 32, 4),
        ("attention", 64, 4),
        ("mamba", 32, 4),
        ("mamba", 64, 4),
    ]
    assert sorted(run.run_id for group in packs for run in group) == sorted(
        run.run_id for run in runs
    )
    for group in packs:
        assert [run for run in shuffled if run in group] == list(group)


def test_the_base_is_not_changed_by_building_runs():
    table = {
        "task": {"name": "mqar"},
        "model": {"mixer": "attention"},
        "sweep": {"task": {"pairs": [2, 3]}},
    }
    before = repr(table)
    build_sweep(table)
    assert repr(table) == before
