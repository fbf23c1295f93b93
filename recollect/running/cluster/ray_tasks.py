"""Training with Ray: each pack is a task, and the collector is an actor on the head node.

Ray restarts a task when its worker or its node dies. If a task raises, this driver starts a new
one. The driver itself may be killed and started again, since all results are in the spools. Only
`--ray` imports this module, so Ray is not imported without it.
"""

import importlib.util
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.errors import RecollectError, ResourceError, SpecError, Stopped, command_text
from recollect.running.cluster.collect import Collected, Collector
from recollect.running.cluster.plan import Plan, read_plan
from recollect.running.signals import never
from recollect.store import MAX_LOST

WORKER_RETRIES = MAX_LOST  # deaths of a worker or a node after which Ray itself restarts a task
CPUS = 4  # per task
LOOK_EVERY_S = 2.0
SAVE_S = 60.0  # time to save for tasks that were asked to stop
_HEAD = {"node:__internal_head__": 0.001}


@dataclass(frozen=True)
class RayOptions:
    address: str | None = None  # None: a cluster on this machine
    device: str = "auto"
    gpus: float | None = None  # per task; None: one if the cluster has any
    cpus: int | None = None  # per task; None: CPUS, or all of the largest node if it has fewer
    retry_failed: bool = False


def train_pack(folder: str, index: int, device: str, plugins: list[str], retry: bool) -> list[str]:
    """Train a pack in a Ray worker; return the failures of its runs."""
    from recollect.mixers.plugins.load import load_plugin
    from recollect.running.cluster.attempt import work_on_pack
    from recollect.running.processes.devices import choose_device
    from recollect.running.signals import Interrupts

    for plugin in plugins:
        load_plugin(Path(plugin))
    # A worker serves several tasks, so each task installs and removes its own signal handlers.
    with Interrupts() as interrupts:
        outcome = work_on_pack(
            read_plan(Path(folder)),
            index,
            choose_device(device),
            job="ray",
            retry_failed=retry,
            stop=interrupts.exit_code,
        )
    return list(outcome.failures)


class CollectorActor:
    """The collector on the head node; if it dies, it starts over from the spools."""

    def __init__(self, folder: str):
        self._collector = Collector(read_plan(Path(folder)))

    def look(self) -> Collected:
        found = self._collector.collect()
        if found.new:
            self._collector.publish()
        self._collector.sweep()
        return found


def train_with_ray(
    plan: Plan,
    packs: Sequence[int],
    options: RayOptions,
    stop: Callable[[], int] = never,
    tell: Callable[[Collected], None] = lambda found: None,
) -> Collected:
    """Train until these packs are complete; `tell` receives the state of all packs."""
    with _cluster(options) as (ray, share):
        task = ray.remote(train_pack).options(
            num_cpus=share["CPU"], num_gpus=share["GPU"], max_retries=WORKER_RETRIES
        )
        actor = (
            ray.remote(CollectorActor)
            .options(num_cpus=0, resources=_HEAD, max_restarts=-1, max_task_retries=-1)
            .remote(str(plan.folder.absolute()))
        )

        def start(index: int) -> Any:
            arguments = (str(plan.folder.absolute()), index, options.device)
            return task.remote(*arguments, list(plan.plugins), options.retry_failed)

        running = {start(index): index for index in packs}
        tries = dict.fromkeys(packs, 0)
        while running:
            ended, _ = ray.wait(list(running), timeout=LOOK_EVERY_S)
            for reference in ended:
                index = running.pop(reference)
                error = _error_of(ray, reference)
                if error is None:
                    continue
                tries[index] += 1
                if isinstance(error, RecollectError) or tries[index] > MAX_LOST:
                    _cancel(ray, running)
                    raise _as_refusal(error)
                running[start(index)] = index
            tell(ray.get(actor.look.remote()))
            code = stop()
            if code:
                _cancel(ray, running)
                again = command_text("submit", plan.folder, "--ray")
                raise Stopped(f"stopped; continue with `{again}`", code)
        found: Collected = ray.get(actor.look.remote())
        return found


def require_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        raise SpecError("--ray: Ray is not installed; `pip install 'recollect[ray]'`")


@contextmanager
def _cluster(options: RayOptions) -> Iterator[tuple[Any, dict[str, float]]]:
    """Connect to Ray; yield the `ray` module and the share of a node that a task gets."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    require_ray()
    import ray

    try:
        ray.init(address=options.address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ResourceError(
            f"--address {options.address}: no Ray cluster answers ({str(error).splitlines()[0]})"
        ) from None
    try:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        yield ray, task_share(options, nodes)
    finally:
        ray.shutdown()


def task_share(options: RayOptions, nodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """GPUs and CPU cores of a task.

    A task that fits on no node is refused, since it would wait for ever.
    """
    most = {name: max(node.get(name, 0.0) for node in nodes) for name in ("GPU", "CPU")}
    gpus, cpus = options.gpus, options.cpus
    if gpus is None:
        gpus = 1.0 if most["GPU"] and options.device != "cpu" else 0.0
    if cpus is None:
        cpus = max(1, min(CPUS, int(most["CPU"])))
    share = {"GPU": gpus, "CPU": float(cpus)}
    for name, wanted in share.items():
        if wanted > most[name]:
            raise SpecError(
                f"a task wants {wanted:g} {name}, the largest node has {most[name]:g}; "
                f"use --{name.lower()}s"
            )
    return share


def _error_of(ray: Any, reference: Any) -> Exception | None:
    """The error that ended a task; None if it completed."""
    try:
        ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        return cause if isinstance(cause, Exception) else error
    except ray.exceptions.RayError as error:
        return Exception(str(error))
    return None


def _as_refusal(error: Exception) -> RecollectError:
    if isinstance(error, RecollectError):
        return error
    lines = str(error).strip().splitlines() or [""]
    return ResourceError(
        f"a pack ended {MAX_LOST} times without a result: {lines[-1][:200]}\n"
        "what was finished is safe; see the logs of Ray"
    )


def _cancel(ray: Any, running: dict[Any, int]) -> None:
    """Ask the tasks to save and end, and wait for them up to SAVE_S."""
    for reference in running:
        ray.cancel(reference)
    if running:
        ray.wait(list(running), num_returns=len(running), timeout=SAVE_S)
