"""CPU threads fit the batch, and are put back; how long they wait busily."""

import os
import subprocess
import sys

import pytest
import torch

from recollect.running.planning.threads import threads_for


@pytest.mark.parametrize(
    ("batch", "available", "used"),
    [(512, 16, 16), (512, 7, 4), (64, 16, 2), (96, 4, 1), (32, 8, 1), (21, 8, 1), (512, 1, 1)],
)
def test_threads_are_a_power_of_two_that_divides_the_batch_into_whole_blocks(
    make_run, batch, available, used
):
    run = make_run({"task.train_rows": 512, "train.batch": batch, "model.width": 1024})
    before = torch.get_num_threads()
    with threads_for(run, available) as threads:
        assert threads == torch.get_num_threads() == used
    assert torch.get_num_threads() == before


def test_a_small_step_has_one_thread(make_run):
    with threads_for(make_run({"train.batch": 64}), available=8) as threads:
        assert threads == 1


def test_threads_are_put_back_after_an_error(make_run):
    torch.set_num_threads(4)

    def fail() -> None:
        with threads_for(make_run(), available=8):
            raise ValueError("on the way")

    with pytest.raises(ValueError, match="on the way"):
        fail()
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "1000"),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "active"}, None),  # whoever says how to wait is not overruled
    ],
)
def test_waiting_threads_soon_sleep_unless_told_otherwise(given, found):
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    clean = {name: value for name, value in os.environ.items() if name not in names}
    said = subprocess.run(
        [sys.executable, "-c", f"import recollect, os; print(os.environ.get({names[0]!r}))"],
        env=clean | given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == str(found)
