"""submit, work and collect as a user types them; no scheduler needed."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_made import ended, make_attempt, make_plan, name
from rows_made import make_row
from stores_made import make_store

from recollect.cli.cluster.asking import choose_request, ray_options
from recollect.cli.cluster.following import following
from recollect.running.cluster import slurm
from recollect.running.cluster.jobs import Request, remember_request
from recollect.running.cluster.ray_tasks import RayOptions
from recollect.running.cluster.slurm import SlurmOptions, TaskState
from recollect.running.results import RunSet

SWEEP = """
[task]
name = "mqar"
vocabulary = 32
length = 16
pairs = 2
train_rows = 64
test_rows = 32
[model]
mixer = "attention"
width = 8
depth = 1
[train]
steps = 8
batch = 16
evaluations = 2
[sweep]
seed = [1, 2, 3, 4]
"""


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def test_a_dry_run_shows_the_script_and_writes_nothing(command, sweep: Path, tmp_path: Path):
    code, out, _ = command(
        *("submit", sweep, "--out", tmp_path / "out", "--slurm", "--dry-run"),
        *("--partition", "gpu", "--array-limit", "8", "--runs-per-pack", "2"),
    )
    assert code == 0
    assert "4 runs in 2 packs" in out
    assert "#SBATCH --partition=gpu" in out
    assert "#SBATCH --array=0-1%8" in out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "out"], "--slurm or --ray: give one of the two"),
        (["--out", "out", "--slurm", "--ray"], "--slurm or --ray: give one of the two"),
        (["--slurm"], "say where its results go: --out DIR"),
        (["--out", "out", "--slurm", "--time", "soon"], "--time 'soon': must be a limit as Slurm"),
        (["--out", "out", "--slurm", "--time", "2"], "at least 6 minutes are needed"),
        (["--out", "out", "--slurm", "--device", "gpu"], "--device 'gpu': must be auto, cpu or"),
        (["--out", "out", "--slurm", "--gpus", "1"], "--gpus: is for --ray alone; leave it out"),
        (["--out", "out", "--ray", "--mem", "8G"], "--mem: is for --slurm alone; leave it out"),
        (["--out", "out", "--ray", "--sbatch", "a=b"], "--sbatch: is for --slurm alone"),
    ],
)
def test_bad_requests_are_refused(command, sweep: Path, arguments: list[str], said: str):
    code, _, error = command("submit", sweep, *arguments)
    assert code == 2
    assert said in error
    assert len(error.strip().splitlines()) <= 3


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[SlurmOptions]:
    """What would have been asked of Slurm."""
    asked: list[SlurmOptions] = []
    monkeypatch.setattr(slurm, "require_sbatch", lambda: None)
    monkeypatch.setattr(slurm, "submit", lambda plan, packs, options: asked.append(options) or [])
    return asked


def test_what_was_asked_for_need_not_be_said_again(command, sweep, tmp_path, handed_over):
    out = tmp_path / "two words"
    first = [
        *("--partition", "gpu", "--account", "lab", "--time", "1-00:00:00", "--gres", ""),
        *("--cpus", "8", "--array-limit", "2", "--device", "cpu", "--setup", "module load x"),
        *("--sbatch", "mail-type=END"),
    ]
    code, said, _ = command("submit", sweep, "--out", out, "--slurm", *first)
    assert code == 0
    assert f"see `recollect status '{out}'`, then `recollect collect '{out}'`" in said
    assert command("submit", out)[0] == 0
    again = ("--time", "02:00:00", "--account", "", "--gres", "gpu:2", "--setup", "module load y")
    assert command("submit", out, "--slurm", *again)[0] == 0
    assert command("submit", out, "--dry-run", "--partition", "tried")[0] == 0
    assert command("submit", out)[0] == 0
    then = SlurmOptions(
        *("1-00:00:00", "gpu", "lab"),
        gres=None,
        cpus=8,
        array_limit=2,
        setup=("module load x",),
        device="cpu",
        others=(("mail-type", "END"),),
    )
    later = replace(then, time="02:00:00", account=None, gres="gpu:2", setup=("module load y",))
    assert handed_over == [then, then, later, later]
    assert command("submit", out, "--setup", "", "--sbatch", "")[0] == 0
    assert handed_over[-1] == replace(later, setup=(), others=())


def test_without_slurm_or_ray_nothing_is_planned(command, sweep, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, error = command("submit", sweep, "--out", tmp_path / "out", "--slurm")
    assert (code, "sbatch: not found" in error, "--dry-run" in error) == (2, True, True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, error = command("submit", sweep, "--out", tmp_path / "out", "--ray")
    assert (code, "pip install 'recollect[ray]'" in error) == (2, True)
    assert not (tmp_path / "out").exists()


def test_without_slurm_a_planned_folder_stays_as_it_is(command, tmp_path, monkeypatch):
    plan = make_plan(tmp_path / "out", packs=1)
    before = sorted(plan.folder.rglob("*"))
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, error = command("submit", plan.folder, "--slurm", "--account", "lab")
    assert (code, "sbatch: not found" in error) == (2, True)
    assert sorted(plan.folder.rglob("*")) == before


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_folder_of_one_machine_is_gone_on_with_by_resume(command, sweep, tmp_path, dry):
    out = tmp_path / "out"
    make_store(out, [make_row()])
    for what in ((sweep, "--out", out), (out,)):
        code, _, error = command("submit", *what, "--ray", *dry)
        assert code == 2
        assert f"`recollect resume {out}`" in error
    assert not (out / "plan.recollect").exists()


AHEAD = """
import recollect
from torch import nn

@recollect.mixer("ahead")
class Ahead(nn.Linear):
    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x):
        return super().forward(x.flip(1))
"""


def test_a_plugin_that_looks_ahead_is_refused_by_submit_and_by_its_tasks(
    command, sweep, tmp_path, handed_over, plugins, monkeypatch
):
    path, out = tmp_path / "ahead.py", tmp_path / "out"
    path.write_text(AHEAD)
    asked = ("submit", sweep, "--out", out, "--plugin", path, "--set", "model.mixer=ahead")
    code, _, error = command(*asked, "--slurm", "--device", "cpu")
    assert (code, "a mixer may see its own past alone" in error) == (2, True)
    assert not out.exists()
    monkeypatch.setattr("recollect.cli.cluster.drafting.try_plugins", lambda sweep, device: None)
    assert command(*asked, "--slurm", "--device", "cpu").code == 0
    code, said, error = command("work", out, "--device", "cpu", "--plugin", path)
    assert (code, "a mixer may see its own past alone" in error) == (2, True)
    assert "trained here" not in said
    assert not list(out.glob("spool/*"))
    code, _, error = command("work", out, "--device", "cpu")
    assert code == 2
    assert f"whose code runs only if you name them: add --plugin {path}" in error


def test_another_scheduler_is_asked_anew(tmp_path: Path):
    given = {"slurm": {"cpus": None, "setup": []}, "ray": {"cpus": None, "address": None}}
    remember_request(tmp_path, Request("slurm", {"cpus": 8, "time": "05:00:00"}))
    assert choose_request(tmp_path, False, False, given).options == {"cpus": 8, "time": "05:00:00"}
    given["ray"]["address"] = "auto"
    ray = choose_request(tmp_path, False, True, given)
    assert (ray.scheduler, ray.options) == ("ray", {"address": "auto"})
    assert ray_options(tmp_path, ray.options, True) == RayOptions("auto", retry_failed=True)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"scheduler": "slurm"}', '{"scheduler": "slurm", "options": {"x": 1}}']
)
def test_a_request_that_nobody_wrote_is_refused(command, tmp_path: Path, text: str):
    plan = make_plan(tmp_path / "out", packs=1)
    (plan.folder / "request.json").write_text(text)
    code, _, error = command("submit", plan.folder, "--dry-run")
    assert code == 3
    assert "request.json: not as `recollect submit` writes it" in error
    assert "remove it, and give the options again" in error


def test_a_figure_of_what_is_still_at_work_says_how_it_goes_on(command, tmp_path: Path):
    plan = make_plan(tmp_path / "two words", packs=1)
    code, _, error = command("figure", "windows", plan.folder)
    assert code == 2
    assert f"train some with `recollect submit '{plan.folder}'`" in error


def test_work_without_a_scheduler_trains_all_packs(command, sweep: Path, tmp_path: Path):
    from recollect.running.cluster.draft import draft_packs, draft_sweep
    from recollect.spec.sweep import read_sweep

    read = read_sweep(sweep)
    out = tmp_path / "out"
    draft_sweep(out, read, draft_packs(read.runs, "cpu", most_runs=2)).write()
    code, said, _ = command("work", out, "--device", "cpu")
    assert code == 0
    assert "pack 1: complete, 2 runs trained here" in said
    code, said, _ = command("status", out)
    assert "4 runs = 4 done + 0 failed + 0 to do; 2 of 2 packs complete" in said
    code, said, _ = command("export", out)
    assert code == 0
    assert len(said.strip().splitlines()) == 5
    assert {row.status for row in RunSet.load(out).rows} == {"done"}


def test_status_says_where_packs_are(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plan = make_plan(tmp_path / "out", packs=7, runs=1)
    make_attempt(plan, 0, "1-made-a", [ended(name(0, 0))])
    make_attempt(plan, 1, "1-made-a", [], end="stopped")
    make_attempt(plan, 6, "1-made-a", [], end="")
    tasks = {
        **{pack: TaskState("RUNNING", "None", f"n{pack}", "3:00:00") for pack in (2, 3)},
        4: TaskState("PENDING", "Priority", "", "4:00:00"),
    }
    monkeypatch.setattr("recollect.cli.cluster.view.task_states", lambda jobs: tasks)
    code, said, _ = command("status", plan.folder)
    assert code == 0
    lines = said.splitlines()
    assert lines[0] == "7 runs = 1 done + 0 failed + 6 to do; 1 of 7 packs complete"
    assert lines[1] == (
        "packs: 2 running, 1 complete, 1 stopped, 1 pending, 1 waiting, 1 begun; on n2, n3"
    )
    assert "pending (Priority)" in said
    assert "left by forecast: 6 min 0 s of one device" in said


def test_collect_reports_attempts_that_differ(command, tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=1, runs=1)
    make_attempt(plan, 0, "1-made-a", [ended(name(0, 0))])
    make_attempt(plan, 0, "2-made-b", [ended(name(0, 0), 0.01)], 0.01)
    code, out, _ = command("collect", plan.folder)
    assert code == 3
    assert "ended differently in 1-made-a and 2-made-b" in out
    assert "--settle first" in out
    code, out, _ = command("collect", plan.folder, "--settle", "first")
    assert code == 0
    assert "1 run = 1 done" in out
    code, _, error = command("collect", plan.folder, "--settle", "middle")
    assert (code, "must be first or last" in error) == (2, True)


def test_a_folder_without_a_plan(command, tmp_path: Path):
    code, _, error = command("collect", tmp_path)
    assert code == 2
    assert "no plan.recollect in it; `recollect submit SPEC --out" in error


def test_run_leaves_a_planned_folder_alone(command, sweep: Path, tmp_path: Path):
    plan = make_plan(tmp_path / "out", packs=1)
    code, _, error = command("run", sweep, "--out", plan.folder, "--device", "cpu")
    assert code == 2
    assert "planned for many machines" in error


def test_a_folder_is_collected_while_it_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("recollect.running.cluster.collect.FOLLOW_EVERY_S", 0.01)
    plan = make_plan(tmp_path / "out", packs=1, runs=1)
    other = tmp_path / "other"
    other.mkdir()
    (other / "plan.recollect").write_bytes(b"torn")
    end = time.monotonic() + 60
    with following([plan.folder, tmp_path, other]):
        make_attempt(plan, 0, "1-made-a", [ended(name(0, 0))])
        while not (plan.folder / "recollect.db").exists() or (
            RunSet.load(plan.folder).rows[0].status != "done"
        ):
            assert time.monotonic() < end
            time.sleep(0.01)
    assert "other: no longer collected: " in capsys.readouterr().err
