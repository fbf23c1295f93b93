"""The simulator: nothing lost, nothing doubled, the same for the same seed."""

from dataclasses import replace
from pathlib import Path

import pytest

from recollect.running.cluster.simulate import Scenario, simulate

SMALL = Scenario(runs=200, devices=8, runs_per_pack=10, points=4, save_every_s=10.0)
ROUGH = replace(SMALL, failures=5.0, preemptions=10.0, straggling=0.3)


@pytest.mark.parametrize("scenario", [SMALL, ROUGH], ids=["usual", "rough"])
def test_every_run_once(tmp_path: Path, scenario: Scenario):
    found = simulate(scenario, tmp_path / "out")
    assert (found.packs, found.lost, found.doubled) == (20, 0, 0)
    assert found.makespan_s >= found.ideal_s
    assert found.busy_s >= found.ideal_s * scenario.devices


def test_trouble_costs_time_and_attempts(tmp_path: Path):
    calm = simulate(replace(SMALL, failures=0, preemptions=0, straggling=0), tmp_path / "calm")
    rough = simulate(ROUGH, tmp_path / "rough")
    assert calm.attempts == calm.packs
    assert calm.redone_s == 0.0
    assert rough.attempts > calm.attempts
    assert rough.makespan_s > calm.makespan_s
    assert rough.redone_s > 0.0


def test_a_seed_repeats(tmp_path: Path):
    one, two = (simulate(ROUGH, tmp_path / name) for name in ("one", "two"))
    assert (one.makespan_s, one.attempts) == (two.makespan_s, two.attempts)
