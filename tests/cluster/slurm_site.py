"""A real Slurm of two nodes on this machine, for tests: as root, in a folder of its own."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
NODES = ("n0", "n1")
CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthInfo=socket={root}/munge/sock,cred_expire=5
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/ctld.pid
SlurmdPidFile={root}/d-%n.pid
SlurmctldLogFile={root}/log/ctld.log
SlurmdLogFile={root}/log/d-%n.log
SlurmctldPort=16817
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobCompType=jobcomp/none
SchedulerParameters=sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=10
KillWait=5
NodeName=n[0-1] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=2 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=5 \
DefaultTime=10 State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF DefaultTime=10 State=UP
"""


def missing() -> str:
    """Why there can be no Slurm here; empty if there can."""
    absent = [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    return "" if os.geteuid() == 0 else "needs root"


class SlurmSite:
    """Two nodes, two partitions: jobs of `high` preempt those of `low`."""

    def __init__(self, root: Path):
        self.root = root
        self.environment = os.environ | {
            "SLURM_CONF": str(root / "slurm.conf"),
            "PATH": _path(),
        }

    def ask(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def ask_gently(self, *command: str) -> bool:
        """Whether it worked."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, timeout=60, check=False
        )
        return done.returncode == 0

    def running(self) -> list[str]:
        """Tasks that wait or run, as "12_3 RUNNING n0"."""
        return self.ask("squeue", "-h", "-r", "-o", "%i %T %N").splitlines()

    def wait(self, what: str, is_so: Callable[[], bool], seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            logs = "\n".join(path.read_text()[-800:] for path in self.root.glob("log/*.log"))
            assert time.monotonic() < end, f"not within {seconds} s: {what}\n{logs}"
            time.sleep(0.25)

    def kill_node(self, name: str) -> None:
        """The node and all that runs on it vanish."""
        os.kill(int((self.root / f"d-{name}.pid").read_text()), signal.SIGKILL)
        for pid in _descendants_of_node(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def kill_daemon(self, name: str) -> None:
        """Slurm loses the node; what runs there goes on: a zombie."""
        os.kill(int((self.root / f"d-{name}.pid").read_text()), signal.SIGKILL)

    def start_node(self, name: str) -> None:
        self.ask("slurmd", "-N", name, "-f", str(self.root / "slurm.conf"))


@contextmanager
def slurm_site(root: Path) -> Iterator[SlurmSite]:
    for name in ("munge", "state", "log", "spool-n0", "spool-n1"):
        (root / name).mkdir(parents=True)
    (root / "munge/key").write_bytes(os.urandom(1024))
    (root / "munge/key").chmod(0o600)
    # munged wants no folder on the way to its key that others may write to.
    root.chmod(0o755)
    host = socket.gethostname().partition(".")[0]
    (root / "slurm.conf").write_text(CONF.format(host=host, root=root))
    site = SlurmSite(root)
    munge = root / "munge"
    site.ask(
        "munged", "--force", f"--key-file={munge}/key", f"--socket={munge}/sock",
        f"--pid-file={munge}/pid", f"--log-file={root}/log/munge.log", f"--seed-file={munge}/seed",
    )  # fmt: skip
    try:
        site.ask("slurmctld", "-f", str(root / "slurm.conf"))
        for name in NODES:
            site.start_node(name)
        site.wait(
            "two idle nodes",
            lambda: (
                len(site.ask("sinfo", "-hN", "-p", "low", "-t", "idle", "-o", "%N").split()) == 2
            ),
        )
        yield site
    finally:
        # Jobs first: without their daemon they would outlive it.
        subprocess.run(["scancel", "-u", "root"], env=site.environment, check=False)
        end = time.monotonic() + 30
        while time.monotonic() < end and site.running():
            time.sleep(0.25)
        for name in ("d-n0.pid", "d-n1.pid", "ctld.pid", "munge/pid"):
            try:
                os.kill(int((root / name).read_text()), signal.SIGTERM)
            except (OSError, ValueError):
                continue


def _path() -> str:
    return os.environ["PATH"] + ":/usr/sbin:/sbin"


def _descendants_of_node(name: str) -> list[int]:
    """The processes of steps that run on a node: their environment names it."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                environment = (folder / "environ").read_bytes()
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if f"SLURMD_NODENAME={name}\0".encode() in environment or (
                b"slurmstepd" in command and f"spool-{name}".encode() in environment
            ):
                found.append(int(folder.name))
    return found
