"""What a tracker is told of a stored run, before any tracker is asked."""

import math
from dataclasses import replace

import pytest
from rows_made import HOSTILE, make_curve, make_row

from recollect.reports.exports.replay import one_by_one, plain_name, replays


def only(row, curve=()):
    (run,) = replays([row], {row.run_id: list(curve)})
    return run


def test_only_runs_with_a_result_are_replayed():
    statuses = ("todo", "running", "done", "diverged", "failed")
    rows = [make_row(seed=seed, status=status) for seed, status in enumerate(statuses)]
    assert [run.run_id for run in replays(rows, {})] == [rows[2].run_id, rows[3].run_id]


def test_a_run_is_counted_once_it_is_written():
    runs = replays([make_row(seed=seed) for seed in range(3)], {})
    heard: list[tuple[int, int]] = []
    for number, run in enumerate(one_by_one(runs, lambda *counts: heard.append(counts))):
        assert run is runs[number]
        assert len(heard) == number
    assert heard == [(1, 3), (2, 3), (3, 3)]


def test_what_is_told_of_a_run_depends_on_nothing_else():
    rows = [make_row(mixer, lr, seed=7) for mixer in ("mamba", "hyena") for lr in (1e-3, 1e-2)]
    together = replays(rows, {})
    assert together == [only(row) for row in rows]
    assert len({run.group for run in together}) == 2
    assert together[0].group == together[1].group
    assert [run.name for run in together[:2]] == ["mamba lr=0.001 seed=7", "mamba lr=0.01 seed=7"]


def test_settings_are_flat_and_texts_among_the_results_stand_beside_them():
    run = only(make_row(device="cpu", versions={"torch": "2"}, model={"kinds": ["a", 1]}))
    assert run.config["task.length"] == 64
    assert run.config["model.kinds"] == '["a", 1]'
    assert run.config["result.device"] == "cpu"
    assert run.config["result.versions.torch"] == "2"
    assert "result.failure" not in run.config
    assert all(isinstance(value, bool | int | float | str) for value in run.config.values())


def test_results_are_numbers_and_none_is_left_out():
    run = only(make_row(score=0.5, parameters=12, wall_s=3.5))
    assert (run.results["result/score"], run.results["result/parameters"]) == (0.5, 12)
    assert "result/exact" not in run.results
    assert "result/diverged_step" not in run.results


def test_the_clock_is_the_runs_share_of_the_time():
    run = only(make_row(steps=400, wall_s=8.0), make_curve([0.1, 0.2]))
    assert [(moment.step, moment.elapsed_s) for moment in run.moments] == [(100, 2.0), (200, 4.0)]
    assert (run.last_step, run.wall_s) == (400, 8.0)
    unknown = only(make_row(), make_curve([0.1]))
    assert (unknown.last_step, unknown.wall_s, unknown.moments[0].elapsed_s) == (100, 0.0, 0.0)


def test_every_number_of_an_evaluation_is_told():
    (point,) = make_curve([0.5])
    point = replace(
        point, train_score=0.25, slices={"length=8": {"test_loss": math.nan, "exact": 0.0}}
    )
    (moment,) = only(make_row(), [point]).moments
    assert moment.metrics.keys() == {
        *("train/loss", "test/loss", "test/accuracy", "test/exact", "train/score"),
        *("test/length_8/loss", "test/length_8/exact"),
    }
    assert math.isnan(moment.metrics["test/length_8/loss"])


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_plain_to_a_tracker(name):
    run = only(make_row(name))
    assert plain_name(run.group) == run.group
    assert run.group.isascii()
    assert not set(run.name) & {"\n", "\x1b", "\x00"}
