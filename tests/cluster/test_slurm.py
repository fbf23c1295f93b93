"""A sweep through a real Slurm of two nodes, disturbed in every way a cluster knows."""

import time
from collections.abc import Callable
from pathlib import Path

from cluster_runs import PACKS, Outcome, outcome, recollect
from slurm_site import SlurmSite

from recollect.running.cluster.collect import Collected, Collector
from recollect.running.cluster.plan import read_plan
from recollect.running.cluster.spool import attempts
from recollect.running.results import RunSet

Submit = Callable[..., Path]


def look(out: Path) -> Collected:
    with Collector(read_plan(out)) as collector:
        return collector.collect()


def has_begun(out: Path, packs: int = 1) -> bool:
    """So many packs have made steps and not ended."""
    return sum(pack.step > 0 and not pack.is_complete for pack in look(out).packs) >= packs


def finish(site: SlurmSite, out: Path, undisturbed: Outcome) -> Collected:
    site.wait("the end of all tasks", lambda: not site.running(), 300)
    left = look(out)
    if not left.is_complete:  # a user submits what is left
        recollect(
            *("submit", out, "--slurm", "--gres", "", "--cpus", "1", "--device", "cpu"),
            environment=site.environment,
        )
        site.wait("the end of what was left", lambda: not site.running(), 300)
    recollect("collect", out, environment=site.environment)
    found = look(out)
    assert found.is_complete
    assert not found.conflicts
    assert not found.problems
    assert outcome(out) == undisturbed
    return found


def test_an_array_over_two_nodes(site: SlurmSite, submitted: Submit, undisturbed: Outcome):
    out = submitted()
    said = recollect("status", out, environment=site.environment)
    assert f"0 of {PACKS} packs complete" in said
    again = recollect("submit", out, "--slurm", environment=site.environment)
    assert f"{PACKS} packs are held by jobs" in again
    assert "nothing to submit" in again
    found = finish(site, out, undisturbed)
    assert {pack.attempts for pack in found.packs} == {1}
    assert {row.versions["host"] for row in RunSet.load(out).rows} == {"n0", "n1"}
    assert "nothing to submit" in recollect("submit", out, "--slurm", environment=site.environment)


def test_a_node_that_dies_mid_pack(site: SlurmSite, submitted: Submit, undisturbed: Outcome):
    out = submitted()
    site.wait("packs that train", lambda: has_begun(out, 3))
    site.kill_node("n1")
    site.wait("the node taken for dead", lambda: "n1" in down(site), 90)
    site.start_node("n1")
    found = finish(site, out, undisturbed)
    assert max(pack.attempts for pack in found.packs) >= 2


def test_a_zombie_that_finishes_late(site: SlurmSite, submitted: Submit, undisturbed: Outcome):
    """Slurm loses a node whose tasks go on: two attempts at a pack, and its runs once."""
    out = submitted()
    site.wait("packs that train", lambda: has_begun(out, 3))
    site.kill_daemon("n1")
    site.wait("the node taken for dead", lambda: "n1" in down(site), 90)
    site.wait("the end of what others train", lambda: len(site.running()) <= 2, 200)
    site.start_node("n1")
    finish(site, out, undisturbed)


def test_a_preemption(site: SlurmSite, submitted: Submit, undisturbed: Outcome):
    out = submitted()
    site.wait("packs that train", lambda: has_begun(out, 3))
    site.ask("sbatch", "-p", "high", "-N2", "--exclusive", "--wrap", "sleep 3", "-o", "/dev/null")
    found = finish(site, out, undisturbed)
    assert max(pack.attempts for pack in found.packs) >= 2


def test_a_storm_of_requeues(site: SlurmSite, submitted: Submit, undisturbed: Outcome):
    """Every task is told five times that its time is over; each saves and goes back."""
    out = submitted()
    asked = dict.fromkeys(range(PACKS), 0)
    end = time.monotonic() + 400
    while min(asked.values()) < 5 and time.monotonic() < end and site.running():
        for line in site.running():
            name, state, *_ = line.split()
            pack = int(name.rpartition("_")[2])
            state_now = look(out).packs[pack]
            trains = len(attempts(out, pack)) > asked[pack] and not state_now.ended
            if state == "RUNNING" and trains and asked[pack] < 5:
                # It may have ended since it was listed.
                asked[pack] += site.ask_gently("scancel", "--signal=USR2", name)
        time.sleep(0.5)
    found = finish(site, out, undisturbed)
    assert max(pack.attempts for pack in found.packs) >= 3


def test_a_scheduler_that_does_not_answer(
    site: SlurmSite, submitted: Submit, undisturbed: Outcome, tmp_path: Path
):
    """Unknown is not dead: nothing is submitted twice."""
    out = submitted()
    deaf = site.environment | {"SLURM_CONF": str(tmp_path / "nowhere.conf")}
    assert "Slurm does not answer" in recollect("status", out, environment=deaf)
    said = recollect("submit", out, "--slurm", environment=deaf, code=4)
    assert "unknown which packs its jobs hold" in said
    finish(site, out, undisturbed)


def down(site: SlurmSite) -> str:
    return site.ask("sinfo", "-hN", "-p", "low", "-t", "down", "-o", "%N")
