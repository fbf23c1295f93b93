"""A real Slurm of two nodes on this machine, for tests: as root, in a folder of its own."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
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
SlurmctldPort={ports[0]}
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
NodeName=n[0-1] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]},{ports[2]}] CPUs=2 \
State=UNKNOWN
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


class SiteError(AssertionError):
    """The daemons do not do what they are asked for."""


@dataclass(frozen=True)
class Payload:
    """The process that trains a pack on a node."""

    pid: int
    task: int
    node: str

    def send(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return  # it has ended by itself

    def has_pending(self, number: int) -> bool:
        """Whether a signal waits for it to go on; also if it is gone."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return True
        pending = [int(line.split()[1], 16) for line in lines if line[:6] in ("SigPnd", "ShdPnd")]
        return any(mask >> (number - 1) & 1 for mask in pending)

    @property
    def is_gone(self) -> bool:
        try:
            return ") Z " in Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return True


class SlurmSite:
    """Two nodes, two partitions: jobs of `high` preempt those of `low`."""

    def __init__(self, root: Path):
        self.root = root
        self.environment = os.environ | {
            "SLURM_CONF": str(root / "slurm.conf"),
            "PATH": _path(),
        }

    def ask(self, *command: str) -> str:
        try:
            done = subprocess.run(
                command, env=self.environment, capture_output=True, text=True, timeout=300,
                check=True,
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise SiteError(f"{command}: {error.stderr}") from None
        except subprocess.TimeoutExpired as error:
            raise SiteError(str(error)) from None
        return done.stdout

    def running(self) -> list[str]:
        """Tasks that wait or run, as "12_3 RUNNING n0"."""
        return self.ask("squeue", "-h", "-r", "-o", "%i %T %N").splitlines()

    def is_idle(self) -> bool:
        """Whether both nodes wait for work; not if the controller does not answer yet."""
        with suppress(SiteError):
            return self.ask("sinfo", "-hN", "-p", "low", "-t", "idle", "-o", "%N").split() == [
                *NODES
            ]
        return False

    def payloads(self) -> list[Payload]:
        """Of all packs that a node has begun to train."""
        found = []
        for pid, command in _processes():
            if b"\0recollect\0work\0" in command and b"python" in command.partition(b"\0")[0]:
                task, node = _environment(pid).get("SLURM_ARRAY_TASK_ID"), self._node(pid)
                if task and node:
                    found.append(Payload(pid, int(task), node))
        return found

    def ends(self, job: str) -> dict[int, tuple[str, int]]:
        """By task of an array: its exit code as Slurm writes it, and how often it was requeued."""
        found = {}
        for line in self.ask("scontrol", "show", "job", "-o", job).splitlines():
            words = dict(word.split("=", 1) for word in line.split() if "=" in word)
            found[int(words["ArrayTaskId"])] = (words["ExitCode"], int(words["Restarts"]))
        return found

    def wait(self, what: str, is_so: Callable[[], bool], seconds: float = 1800.0) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                logs = "\n".join(path.read_text()[-800:] for path in self.root.glob("log/*.log"))
                raise SiteError(f"not within {seconds} s: {what}\n{logs}")
            time.sleep(0.5)

    def kill_node(self, name: str) -> None:
        """The node and all that runs on it vanish, and nobody there tells Slurm how its job ended:
        first all are stopped.
        """
        self.kill_daemon(name)
        own = [pid for pid, _ in _processes() if self._node(pid) == name]
        steps = {parent for parent in map(_parent, own) if _name(parent) == "slurmstepd"}
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in [*steps, *own]:
                Payload(pid, -1, name).send(number)

    def kill_daemon(self, name: str) -> None:
        """Slurm loses the node; what runs there goes on: a zombie."""
        os.kill(int((self.root / f"d-{name}.pid").read_text()), signal.SIGKILL)

    def _node(self, pid: int) -> str:
        """Where a process runs; empty if on none of ours."""
        environment = _environment(pid)
        is_ours = environment.get("SLURM_CONF") == self.environment["SLURM_CONF"]
        return environment.get("SLURMD_NODENAME", "") if is_ours else ""

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
    (root / "slurm.conf").write_text(CONF.format(host=host, root=root, ports=_free_ports(3)))
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
        site.wait("two idle nodes", site.is_idle, 300)
        yield site
    finally:
        # Jobs first: without their daemon they would outlive it.
        subprocess.run(["scancel", "-u", "root"], env=site.environment, check=False)
        for payload in site.payloads():
            payload.send(signal.SIGCONT)
        with suppress(SiteError):
            site.wait("an empty queue", lambda: not site.running(), 60)
        for name in ("d-n0.pid", "d-n1.pid", "ctld.pid", "munge/pid"):
            try:
                os.kill(int((root / name).read_text()), signal.SIGTERM)
            except (OSError, ValueError):
                continue


def _path() -> str:
    return os.environ["PATH"] + ":/usr/sbin:/sbin"


def _free_ports(number: int) -> list[int]:
    """Nobody's: another Slurm may run on this machine."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return sorted(each.getsockname()[1] for each in sockets)


def _processes() -> Iterator[tuple[int, bytes]]:
    """Numbers and commands."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                yield int(folder.name), (folder / "cmdline").read_bytes()


def _environment(pid: int) -> dict[str, str]:
    """Empty if it cannot be read."""
    try:
        lines = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _parent(pid: int) -> int:
    """0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
