"""Training with Slurm: writes a batch script, submits it as a job array, queries its tasks.

Only plain text and three commands are used. Site settings (RequeueExit, accounting) are not relied
on: a task that was asked to stop requeues itself, and the state of tasks comes from squeue alone.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.errors import ResourceError, SpecError
from recollect.running.cluster.jobs import SubmittedJob, ranges, record_job
from recollect.running.cluster.plan import Plan
from recollect.store.durable import make_folder, write_atomically

# Slurm refuses larger task numbers by default (MaxArraySize 1001).
MOST_TASKS = 1000
# Slurm checks limits at intervals of up to a minute; a checkpoint takes seconds.
SIGNAL_BEFORE_S = 180
MOST_RESTARTS = 50
_OTHER = re.compile(r"([a-z][a-z-]*)=(\S.*)")
_OWN = ("array", "signal", "output", "open-mode", "requeue")  # options that the script sets itself
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass(frozen=True)
class SlurmOptions:
    """The user's options for the scheduler. They do not affect the identity of a run."""

    time: str = "04:00:00"
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gres: str | None = "gpu:1"
    cpus: int = 4
    memory: str | None = None
    array_limit: int | None = None
    setup: tuple[str, ...] = ()  # lines before the work, such as "module load cuda"
    device: str = "auto"
    others: tuple[tuple[str, str], ...] = ()  # further options of sbatch, such as mail-type=END

    @property
    def limit_s(self) -> int:
        return parse_time(self.time)


def parse_time(text: str) -> int:
    """Seconds of a time limit in Slurm's format: minutes, minutes:seconds, hours:minutes:seconds,
    days-hours, days-hours:minutes, days-hours:minutes:seconds.
    """
    found = _TIME.fullmatch(text)
    if found is None or (found[1] is None and found[2] is None):
        raise SpecError(
            f"--time {text!r}: must be a limit as Slurm writes it, for example 04:00:00 or "
            "1-12:00:00"
        )
    days, first, second, third = (int(part) if part else None for part in found.groups())
    if days is not None:
        seconds = days * 86_400 + (first or 0) * 3600 + (second or 0) * 60 + (third or 0)
    elif second is None:
        seconds = (first or 0) * 60
    elif third is None:
        seconds = (first or 0) * 60 + second
    else:
        seconds = (first or 0) * 3600 + second * 60 + third
    if seconds < 2 * SIGNAL_BEFORE_S:
        raise SpecError(
            f"--time {text}: {seconds} s; at least {2 * SIGNAL_BEFORE_S // 60} minutes are needed, "
            f"since a task is asked to save {SIGNAL_BEFORE_S} s before the end"
        )
    return seconds


def parse_other(text: str) -> tuple[str, str]:
    """Parse an option of sbatch that has no field in SlurmOptions, such as "mail-type=END"."""
    found = _OTHER.fullmatch(text)
    if found is None or found[1] in _OWN:
        raise SpecError(
            f"--sbatch {text!r}: must be NAME=VALUE as sbatch knows it, for example mail-type=END, "
            f"and none of {', '.join(_OWN)}"
        )
    return found[1], found[2]


def chunks(packs: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Split packs into arrays that Slurm accepts: for each, the pack of task 0 and the tasks."""
    found: dict[int, list[int]] = {}
    for pack in sorted(packs):
        first = pack // MOST_TASKS * MOST_TASKS
        found.setdefault(first, []).append(pack - first)
    return list(found.items())


def script(plan: Plan, first: int, tasks: Sequence[int], options: SlurmOptions) -> str:
    """The batch script of one array."""
    folder = plan.folder.absolute()
    limit = f"%{options.array_limit}" if options.array_limit else ""
    wanted = {
        "job-name": "recollect-" + re.sub(r"[^\w.-]+", "-", plan.name)[:40],
        "array": ranges(tasks) + limit,
        "time": options.time,
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "constraint": options.constraint,
        "gres": options.gres,
        "cpus-per-task": options.cpus,
        "mem": options.memory,
        "signal": f"USR2@{SIGNAL_BEFORE_S}",
        "output": shlex.quote(str(folder / "log" / "%A_%a.out")),
        **dict(options.others),
    }
    lines = ["#!/bin/bash", f"# {plan.name}: {len(tasks)} packs, one task each"]
    lines += [f"#SBATCH --{name}={value}" for name, value in wanted.items() if value is not None]
    lines += ["#SBATCH --requeue", "#SBATCH --open-mode=append", "", *options.setup]
    python = "python" if options.setup else shlex.quote(sys.executable)
    plugins = "".join(f" --plugin {shlex.quote(path)}" for path in plan.plugins)
    pack = f"$(({first} + SLURM_ARRAY_TASK_ID))" if first else "$SLURM_ARRAY_TASK_ID"
    return "\n".join(
        [
            *lines,
            # Since Slurm 22.05 a step has one core unless it asks for those of its job.
            f"srun --cpus-per-task={options.cpus} {python} -P -m recollect \\",
            f'  work {shlex.quote(str(folder))} --pack "{pack}" --device {options.device}{plugins}',
            "code=$?",
            "",
            "# 143: asked to stop before the limit or a preemption, and saved. The task goes back",
            "# into the queue; sleep keeps it from ending by itself before that.",
            f'if [ "$code" = 143 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {MOST_RESTARTS} ]; then',
            '  scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}" && sleep 60',
            "fi",
            'exit "$code"',
            "",
        ]
    )


def require_sbatch() -> None:
    if shutil.which("sbatch") is None:
        raise SpecError(
            "sbatch: not found, and --slurm needs Slurm's commands: submit from a machine that has "
            "them;\n--dry-run shows the script without them, and `recollect run` trains on this "
            "machine"
        )


def submit(plan: Plan, packs: Sequence[int], options: SlurmOptions) -> list[SubmittedJob]:
    """Write the scripts, submit them with sbatch and record the jobs."""
    require_sbatch()
    folder = plan.folder
    make_folder(folder / "log")
    jobs = []
    for first, tasks in chunks(packs):
        text = script(plan, first, tasks, options)
        path = folder / "jobs" / f"packs-{first + tasks[0]}.sbatch"
        make_folder(path.parent)
        write_atomically(path, text.encode())
        job_id = _ask(["sbatch", "--parsable", str(path)]).split(";")[0].strip()
        job = SubmittedJob("slurm", job_id, first, tuple(first + task for task in tasks))
        record_job(folder, job)
        jobs.append(job)
    return jobs


@dataclass(frozen=True)
class TaskState:
    """The state of a task that Slurm still knows."""

    state: str  # RUNNING, PENDING, ...
    reason: str
    host: str
    left: str  # of its time limit


# States after which Slurm does not start a task again.
_OVER = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("DEADLINE", "BOOT_FAIL", "REVOKED"),
)


def task_states(jobs: Sequence[SubmittedJob]) -> dict[int, TaskState] | None:
    """States of the tasks that wait or run, by pack; None if Slurm cannot be queried.

    None is not an empty result: a task of unknown state may be alive.
    """
    own = {job.job_id: job for job in jobs if job.scheduler == "slurm"}
    if not own or shutil.which("squeue") is None:
        return {} if not own else None
    states: dict[int, TaskState] = {}
    for job in own.values():
        try:
            text = _ask(
                ["squeue", "-h", "-r", "-t", "all", "-j", job.job_id, "-o", "%i|%T|%r|%N|%L"]
            )
        except ResourceError as error:
            if "Invalid job id" in str(error):  # Slurm forgets a job some minutes after its end
                continue
            return None
        for line in text.splitlines():
            name, state, reason, host, left = line.split("|")
            task = name.rpartition("_")[2]
            if task.isdecimal() and state not in _OVER:
                states[job.first + int(task)] = TaskState(state, reason, host, left)
    return states


def _ask(command: list[str]) -> str:
    """Run a Slurm command and return its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise ResourceError(f"{command[0]}: {said[0]}\nnothing was lost; try again later")
    return done.stdout
