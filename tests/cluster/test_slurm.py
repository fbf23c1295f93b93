"""A sweep through a real Slurm of two nodes, disturbed in every way a cluster knows.

Whoever is to be disturbed in the middle of a pack is held there (SIGSTOP) until the disturbance has
come: nothing depends on how fast this machine is.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cluster_runs import PACKS, Outcome, compare, look, recollect, spools, trains
from figures import Figures
from slurm_site import Payload, SlurmSite

import recollect as package
from recollect.running.cluster.collect import Collected
from recollect.running.cluster.jobs import recorded_jobs
from recollect.running.results import RunSet

Submit = Callable[..., Path]


def hold(site: SlurmSite, out: Path, number: int, node: str = "") -> list[Payload]:
    """Stop so many payloads in the middle of their packs."""
    held: list[Payload] = []
    end = time.monotonic() + 600
    while len(held) < number:
        assert time.monotonic() < end, f"only {len(held)} packs were met while they trained"
        others = [payload for payload in site.payloads() if payload not in held]
        for payload in others:
            wanted = len(held) < number and node in ("", payload.node)
            if wanted and trains(out, payload.task):
                payload.send(signal.SIGSTOP)
                if trains(out, payload.task):
                    held.append(payload)
                else:  # it ended in that moment
                    payload.send(signal.SIGCONT)
        time.sleep(0.1)
    return held


def release(held: list[Payload]) -> None:
    for payload in held:
        payload.send(signal.SIGCONT)


def finish(
    site: SlurmSite, out: Path, undisturbed: Outcome, figures: Figures, by_itself: bool = False
) -> Collected:
    """Wait for the end; `by_itself`: without a user who submits what is left."""
    site.wait("the end of all tasks", lambda: not site.running())
    if not look(out).is_complete:
        assert not by_itself, "something was left over"
        # The folder remembers what was asked for; no line of set-up is to spoil it again.
        recollect("submit", out, "--setup", "", environment=site.environment)
        site.wait("the end of what was left", lambda: not site.running())
    recollect("collect", out, environment=site.environment)
    return compare(out, undisturbed, figures)


def job_of(out: Path) -> str:
    return recorded_jobs(out)[0].job_id


def test_an_array_over_two_nodes(
    site: SlurmSite, submitted: Submit, undisturbed: Outcome, figures: Figures, tmp_path: Path
):
    """With a collector that follows it, and everything a user may ask meanwhile."""
    out = submitted()
    follower = subprocess.Popen(
        [sys.executable, "-P", "-m", "recollect", "collect", str(out), "--follow"],
        env=site.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    held = hold(site, out, 1)
    said = recollect("status", out, environment=site.environment)
    assert "24 runs = " in said
    assert "running" in said
    assert held[0].node in said
    again = recollect("submit", out, "--slurm", environment=site.environment)
    assert "jobs that wait or run hold " in again
    assert "nothing to submit" in again
    recollect("report", out, "-o", tmp_path / "report.html", environment=site.environment)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    release(held)
    found = finish(site, out, undisturbed, figures, by_itself=True)
    said = follower.communicate(timeout=600)[0]
    assert follower.returncode == 0, said
    assert "24 runs = 24 done" in said
    assert {pack.attempts for pack in found.packs} == {1}
    assert {row.versions["host"] for row in RunSet.load(out).rows} == {"n0", "n1"}
    assert "nothing to submit" in recollect("submit", out, "--slurm", environment=site.environment)


def test_a_node_that_dies_mid_pack(
    site: SlurmSite, submitted: Submit, undisturbed: Outcome, figures: Figures
):
    out = submitted()
    held = hold(site, out, 1, "n1")
    site.kill_node("n1")
    site.wait("the node taken for dead", lambda: "n1" in down(site))
    site.start_node("n1")
    found = finish(site, out, undisturbed, figures, by_itself=True)
    assert found.packs[held[0].task].attempts >= 2
    figures.disturbed = 1


def test_a_zombie_that_wakes_up_late(
    site: SlurmSite, submitted: Submit, undisturbed: Outcome, figures: Figures
):
    """Slurm loses a node whose task sleeps; another attempt ends the pack, then it wakes up."""
    out = submitted()
    (zombie,) = hold(site, out, 1, "n1")
    site.kill_daemon("n1")
    site.wait("the node taken for dead", lambda: "n1" in down(site))
    site.wait("the pack complete elsewhere", lambda: look(out).packs[zombie.task].is_complete)
    assert not zombie.is_gone
    zombie.send(signal.SIGCONT)
    site.wait("the end of the zombie", lambda: zombie.is_gone)
    first, *later = spools(out, zombie.task)
    assert first.ended in ("superseded", "complete")
    assert later[-1].ended == "complete"
    site.start_node("n1")
    finish(site, out, undisturbed, figures, by_itself=True)
    figures.disturbed = 1


@pytest.mark.parametrize("in_a_save", [False, True], ids=["that waits", "that kills in a save"])
def test_a_preemption(
    site: SlurmSite, submitted: Submit, undisturbed: Outcome, figures: Figures, in_a_save: bool
):
    """Tasks are asked to end, save and come back; or die while their second checkpoint is on the
    way to the disk.
    """
    setup = with_python("export RECOLLECT_FAILPOINT=file.written:2") if in_a_save else ()
    out = submitted(*setup)
    held = hold(site, out, 2)
    site.ask("sbatch", "-p", "high", "-N2", "--exclusive", "--wrap", "sleep 3", "-o", "/dev/null")
    for payload in held:
        site.wait("the wish to end", lambda: payload.has_pending(signal.SIGTERM))  # noqa: B023
    release(held)
    found = finish(site, out, undisturbed, figures)
    assert min(found.packs[payload.task].attempts for payload in held) >= 2
    figures.disturbed = len(held)
    if in_a_save:
        torn = [content for pack in range(PACKS) for content in spools(out, pack)]
        figures.disturbed = sum(not content.ended for content in torn)
        assert figures.disturbed > 0


def test_a_time_limit(site: SlurmSite, submitted: Submit, undisturbed: Outcome, figures: Figures):
    """Slurm says that the time is nearly over: save, go back into the queue, go on."""
    out = submitted()
    held = hold(site, out, 2)
    for payload in held:
        name = f"{job_of(out)}_{payload.task}"
        site.ask("scontrol", "update", f"JobId={name}", "TimeLimit=3")
    for payload in held:
        site.wait("the warning", lambda: payload.has_pending(signal.SIGUSR2))  # noqa: B023
    release(held)
    found = finish(site, out, undisturbed, figures, by_itself=True)
    for payload in held:
        assert spools(out, payload.task)[0].ended == "stopped"
        assert found.packs[payload.task].attempts >= 2
    figures.disturbed = len(held)


def test_a_storm_of_requeues(
    site: SlurmSite, submitted: Submit, undisturbed: Outcome, figures: Figures
):
    """Every task is told five times that its time is over; each saves and goes back."""
    out = submitted()
    told: dict[int, set[int]] = {pack: set() for pack in range(PACKS)}

    def all_told() -> bool:
        for payload in site.payloads():
            pids, found = told[payload.task], spools(out, payload.task)
            begun = len(found) > len(pids) and not found[-1].ended
            if begun and payload.pid not in pids and len(pids) < 5:
                payload.send(signal.SIGUSR2)
                pids.add(payload.pid)
        return min(map(len, told.values())) == 5

    site.wait("five requeues of each task", all_told, 1800)
    found = finish(site, out, undisturbed, figures, by_itself=True)
    assert min(pack.attempts for pack in found.packs) >= 6
    figures.disturbed = sum(map(len, told.values()))


def test_a_scheduler_that_does_not_answer(
    site: SlurmSite, submitted: Submit, undisturbed: Outcome, figures: Figures, tmp_path: Path
):
    """Unknown is not dead: nothing is submitted twice."""
    out = submitted()
    deaf = site.environment | {"SLURM_CONF": str(tmp_path / "nowhere.conf")}
    assert "Slurm does not answer" in recollect("status", out, environment=deaf)
    said = recollect("submit", out, "--slurm", environment=deaf, code=4)
    assert "unknown which packs its jobs hold" in said
    finish(site, out, undisturbed, figures, by_itself=True)
    figures.disturbed = 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for sixteen megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"no small disk: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk(
    site: SlurmSite, submitted: Submit, undisturbed: Outcome, figures: Figures, small_disk: Path
):
    """Tasks end with 4 and are not requeued; with room again the sweep goes on."""
    out = submitted(out=small_disk / "out")
    (held,) = hold(site, out, 1)
    # Nobody else is to make room by ending.
    site.ask("scontrol", "update", "PartitionName=low", "State=DOWN")
    site.wait("the end of the others", lambda: running(site) == [held.task])
    fill(small_disk / "filler")
    held.send(signal.SIGCONT)
    site.wait("its end", lambda: not running(site))
    site.ask("scontrol", "update", "PartitionName=low", "State=UP")
    site.wait("the end of all tasks", lambda: not site.running())
    ends = site.ends(job_of(out))
    assert ends[held.task] == ("4:0", 0)
    assert set(ends.values()) <= {("0:0", 0), ("4:0", 0)}
    (small_disk / "filler").unlink()
    finish(site, out, undisturbed, figures)
    figures.disturbed = sum(code == "4:0" for code, _ in ends.values())


def running(site: SlurmSite) -> list[int]:
    """The tasks that do, or are about to end."""
    names = [line.split()[0] for line in site.running() if "PENDING" not in line]
    return [int(name.rpartition("_")[2]) for name in names]


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (65_536, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    assert shutil.disk_usage(path).free == 0


def test_nodes_with_other_code(
    site: SlurmSite, submitted: Submit, undisturbed: Outcome, figures: Figures, tmp_path: Path
):
    """They refuse before anything is written; with the right code the sweep goes on."""
    other = tmp_path / "other"
    shutil.copytree(Path(package.__file__).parent, other / "recollect")
    with (other / "recollect/errors.py").open("a") as file:
        file.write("# changed\n")
    out = submitted(*with_python(f"export PYTHONPATH={other}"))
    site.wait("the end of all tasks", lambda: not site.running())
    assert set(site.ends(job_of(out)).values()) == {("2:0", 0)}
    assert not (out / "spool").exists()
    assert "planned with other code" in next((out / "log").glob("*_0.out")).read_text()
    finish(site, out, undisturbed, figures)
    figures.disturbed = PACKS


def with_python(line: str) -> tuple[str, ...]:
    """A line of set-up; a script with some uses the python that it finds."""
    folder = Path(sys.executable).parent
    return ("--setup", f"export PATH={folder}{os.pathsep}$PATH", "--setup", line)


def down(site: SlurmSite) -> str:
    return site.ask("sinfo", "-hN", "-p", "low", "-t", "down", "-o", "%N")
