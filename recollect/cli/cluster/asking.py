"""Requests to a scheduler: the options that are given, otherwise those of the last request."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from recollect.errors import SpecError, StoreError
from recollect.running.cluster import slurm
from recollect.running.cluster.jobs import REQUEST_FILE, Request, read_request
from recollect.running.cluster.slurm import SlurmOptions, parse_other

if TYPE_CHECKING:
    from recollect.running.cluster.ray_tasks import RayOptions

T = TypeVar("T")

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
_OF_PLANS = ("array_limit",)  # the size of packs follows from it, whoever trains them
_FLAGS = {"memory": "mem", "others": "sbatch"}  # options that are not named as their field is


def choose_request(
    folder: Path, by_slurm: bool, by_ray: bool, given: Mapping[str, Mapping[str, Any]]
) -> Request:
    """Combine the given options with those of the folder's last request.

    `given` holds the command line's options by scheduler; None or empty means not given.
    """
    before = read_request(folder)
    if (by_slurm and by_ray) or not (by_slurm or by_ray or before):
        raise SpecError("--slurm or --ray: give one of the two; `recollect run` needs neither")
    scheduler = "slurm" if by_slurm else "ray" if by_ray or before is None else before.scheduler
    options = {name: value for name, value in given[scheduler].items() if value not in (None, [])}
    _refuse_unused(scheduler, given)
    device = options.get("device", "auto")
    if not _DEVICE.fullmatch(device):
        raise SpecError(f"--device {device!r}: must be auto, cpu or cuda, as a task has it")
    if before is not None and before.scheduler == scheduler:
        options = before.options | options
    return Request(scheduler, options)


def _refuse_unused(scheduler: str, given: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse an option that only the other scheduler knows, rather than to leave it out."""
    other = "ray" if scheduler == "slurm" else "slurm"
    for name, value in given[other].items():
        if name not in (*given[scheduler], *_OF_PLANS) and value not in (None, []):
            flag = _FLAGS.get(name, name)
            raise SpecError(f"--{flag}: is for --{other} alone; leave it out with --{scheduler}")


def require_scheduler(scheduler: str) -> None:
    """Refuse a scheduler whose commands or package are not on this machine."""
    if scheduler == "slurm":
        slurm.require_sbatch()
    else:
        from recollect.running.cluster.ray_tasks import require_ray

        require_ray()


def slurm_options(folder: Path, options: Mapping[str, Any]) -> SlurmOptions:
    """Return the options in the form that the script needs."""
    others = tuple(map(parse_other, filter(None, options.get("others", ()))))
    setup = tuple(filter(None, options.get("setup", ())))
    return _options(SlurmOptions, folder, {**options, "others": others, "setup": setup})


def ray_options(folder: Path, options: Mapping[str, Any], retry_failed: bool) -> "RayOptions":
    """Return the options in the form that Ray tasks need."""
    from recollect.running.cluster.ray_tasks import RayOptions

    return _options(RayOptions, folder, {**options, "retry_failed": retry_failed})


def _options(make: Callable[..., T], folder: Path, options: Mapping[str, Any]) -> T:
    """Make the options; an empty text means None."""
    try:
        return make(**{name: None if value == "" else value for name, value in options.items()})
    except TypeError as error:
        raise StoreError(
            f"{folder / REQUEST_FILE}: not as `recollect submit` writes it ({error}); remove it, "
            "and give the options again"
        ) from None
