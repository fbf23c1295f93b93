"""What Slurm is handed: a script a person would have written, arrays it accepts."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_made import make_plan

from recollect.errors import SpecError
from recollect.running.cluster import slurm
from recollect.running.cluster.jobs import SubmittedJob, ranges, record_job, recorded_jobs
from recollect.running.cluster.slurm import (
    SlurmOptions,
    chunks,
    parse_other,
    parse_time,
    script,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 600), ("10:30", 630), ("04:00:00", 14_400), ("1-0", 86_400), ("1-12:30", 131_400),
        ("2-01:02:03", 176_523),
    ],
)  # fmt: skip
def test_limits_as_slurm_writes_them(text: str, seconds: int):
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "4h", "1:2:3:4", "-5", "01:00"])
def test_other_limits_are_refused(text: str):
    with pytest.raises(SpecError, match="--time"):
        parse_time(text)


def test_ranges():
    assert ranges([0, 1, 2, 7, 9, 10]) == "0-2,7,9-10"
    assert ranges([]) == ""


def test_arrays_stay_below_what_slurm_accepts():
    assert chunks([0, 999, 1000, 2500]) == [(0, [0, 999]), (1000, [0]), (2000, [500])]


def test_the_script_is_sound_shell_and_says_what_was_asked(tmp_path: Path):
    plan = make_plan(tmp_path / "a folder")
    options = SlurmOptions(
        partition="gpu", account="lab", array_limit=8, setup=("module load cuda",), memory="32G",
        others=(parse_other("mail-type=END"),),
    )  # fmt: skip
    text = script(plan, 1000, [0, 1], options)
    for line in (
        "#SBATCH --array=0-1%8", "#SBATCH --partition=gpu", "#SBATCH --account=lab",
        "#SBATCH --gres=gpu:1", "#SBATCH --mem=32G", "#SBATCH --signal=USR2@180",
        "#SBATCH --requeue", "module load cuda", "#SBATCH --mail-type=END",
        f"#SBATCH --output='{plan.folder}/log/%A_%a.out'",
    ):  # fmt: skip
        assert line in text.splitlines()
    assert "srun --cpus-per-task=4 python " in text
    assert '--pack "$((1000 + SLURM_ARRAY_TASK_ID))"' in text
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    if shutil.which("shellcheck"):
        checked = subprocess.run(
            ["shellcheck", "-"], input=text, capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout


def test_the_page_shows_the_script_as_it_is(tmp_path: Path):
    page = (Path(__file__).parents[3] / "docs/clusters.md").read_text()
    plan = replace(make_plan(tmp_path / "out"), folder=Path("/shared/mqar"), name="mqar")
    setup = ("module load cuda", "source /shared/venv/bin/activate")
    options = SlurmOptions(
        partition="gpu", account="lab", array_limit=8, setup=setup, device="cuda"
    )
    assert f"```bash\n{script(plan, 0, range(4), options)}```\n" in page


@pytest.mark.parametrize("text", ["mail-type", "array=0-9", "=x", "--mail-type=END", "a=b\nexit"])
def test_other_options_are_names_and_values(text: str):
    with pytest.raises(SpecError, match="must be NAME=VALUE as sbatch knows it"):
        parse_other(text)


def test_jobs_are_remembered(tmp_path: Path):
    jobs = [SubmittedJob("slurm", f"{number}", 0, (number, number + 1)) for number in (3, 4)]
    for job in jobs:
        record_job(tmp_path, job)
    assert recorded_jobs(tmp_path) == jobs


def test_without_slurm_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = make_plan(tmp_path / "out")
    with pytest.raises(SpecError, match="sbatch: not found"):
        slurm.submit(plan, [0], SlurmOptions())
    assert not (tmp_path / "out/jobs").exists()


def answering(folder: Path, name: str, answer: str, code: int = 0) -> None:
    """A command that says something."""
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat >&{2 if code else 1} <<'END'\n{answer}\nEND\nexit {code}\n")
    path.chmod(0o755)


def test_tasks_are_asked_for_by_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    answering(
        tmp_path,
        "squeue",
        "5_0|RUNNING|None|n0|3:00\n5_1|COMPLETED|None|n1|0:00\n5_2|PENDING|Priority||4:00",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    states = slurm.task_states([SubmittedJob("slurm", "5", 1000, (1000, 1001, 1002))])
    assert states is not None
    assert {pack: state.state for pack, state in states.items()} == {
        1000: "RUNNING",
        1002: "PENDING",
    }


@pytest.mark.parametrize(
    ("said", "states"), [("slurm_load_jobs error: Invalid job id specified", {}), ("down", None)]
)
def test_unknown_is_not_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, states: dict[int, object] | None
):
    answering(tmp_path, "squeue", said, 1)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert slurm.task_states([SubmittedJob("slurm", "5", 0, (0,))]) == states
