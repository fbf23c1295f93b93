"""Event files, read by TensorBoard's own accumulator."""

from pathlib import Path

import pytest
from exported_runs import DIVERGED, DONE, told

from recollect.rows import RunRow

pytest.importorskip("tensorboard")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import parse_session_start_info_plugin_data

SESSION = "_hparams_/session_start_info"


@pytest.fixture(scope="module")
def logs(results, tmp_path_factory, command) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    said = command("export", results, "--to", "tensorboard", "-o", folder)
    assert said.code == 0, said.err
    assert said.out == (
        f"2 runs added to {folder / 'recall'}, 0 there already, 2 without a result left out\n"
        f"show them with `tensorboard --logdir {folder}`\n"
    )
    return folder


def read(logs: Path, run: RunRow) -> EventAccumulator:
    (folder,) = logs.glob(f"recall/* {run.run_id}")
    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def contents(logs: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in logs.rglob("*") if path.is_file()}


@pytest.mark.parametrize("run", [DONE, DIVERGED], ids=["done", "diverged"])
def test_scalars_are_the_stored_numbers_to_32_bits(logs, run):
    found = read(logs, run)
    scalars = {tag: found.Scalars(tag) for tag in found.Tags()["scalars"]}
    curves = {tag: events for tag, events in scalars.items() if not tag.startswith("result/")}
    assert curves.keys() == told(run).keys()
    for tag, wanted in told(run).items():
        assert [event.step for event in curves[tag]] == [step for step, _ in wanted]
        assert [event.value for event in curves[tag]] == pytest.approx(
            [value for _, value in wanted], rel=1e-7, nan_ok=True
        )


def test_results_stand_at_the_last_step_and_the_clock_is_the_runs_own(logs):
    found = read(logs, DONE)
    (score,) = found.Scalars("result/score")
    assert (score.step, score.value, score.wall_time) == (100, 0.875, 4.0)
    assert [event.wall_time for event in found.Scalars("test/loss")] == [2.0, 4.0]
    (diverged,) = read(logs, DIVERGED).Scalars("result/diverged_step")
    assert (diverged.step, diverged.value) == (70, 61)


def test_settings_are_hyperparameters_under_the_runs_id(logs):
    content = read(logs, DONE).PluginTagToContent("hparams")[SESSION]
    session = parse_session_start_info_plugin_data(content)
    assert session.group_name == DONE.run_id
    assert session.hparams["train.lr"].number_value == 1e-3
    assert session.hparams["model.mixer.name"].string_value == "attention"
    assert session.hparams["result.status"].string_value == "done"


def test_a_folder_is_named_after_mixer_rate_and_seed(logs):
    assert sorted(path.name for path in (logs / "recall").iterdir()) == [
        f"attention lr=0.001 seed=1 {DONE.run_id}",
        f"fla_GatedDeltaNet lr=0.3 seed=2 {DIVERGED.run_id}",
    ]


def test_a_second_export_changes_no_byte_and_a_fresh_one_writes_the_same(
    logs, results, command, tmp_path
):
    before = contents(logs)
    said = command("export", results, "--to", "tensorboard", "-o", logs)
    assert said.out.startswith(f"0 runs added to {logs / 'recall'}, 2 there already")
    assert contents(logs) == before
    command("export", results, "--to", "tensorboard", "-o", tmp_path)
    assert sorted(contents(tmp_path).values()) == sorted(before.values())


def test_a_seed_too_large_for_a_double_is_kept_as_text(tmp_path):
    from rows_made import make_row

    from recollect.reports.exports.replay import replays
    from recollect.reports.exports.to_tensorboard import export_runs

    run = make_row(seed=2**62 + 1)
    export_runs(replays([run], {}), "recall", tmp_path, lambda written, of: None)
    content = read(tmp_path, run).PluginTagToContent("hparams")[SESSION]
    hparams = parse_session_start_info_plugin_data(content).hparams
    assert hparams["seed"].string_value == str(2**62 + 1)
