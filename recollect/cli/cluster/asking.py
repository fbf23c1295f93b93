"""Requests to a scheduler: the options that are given, otherwise those of the last request."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from recollect.errors import SpecError, StoreError
from recollect.running.cluster.jobs import REQUEST_FILE, Request, read_request
from recollect.running.cluster.slurm import SlurmOptions, parse_other

if TYPE_CHECKING:
    from recollect.running.cluster.ray_tasks import RayOptions

T = TypeVar("T")


def choose_request(
    folder: Path, slurm: bool, ray: bool, given: Mapping[str, Mapping[str, Any]]
) -> Request:
    """Combine the given options with those of the folder's last request.

    `given` holds the command line's options by scheduler; None or empty means not given.
    """
    before = read_request(folder)
    if (slurm and ray) or not (slurm or ray or before):
        raise SpecError("--slurm or --ray: give one of the two; `recollect run` needs neither")
    scheduler = "slurm" if slurm else "ray" if ray or before is None else before.scheduler
    options = {name: value for name, value in given[scheduler].items() if value not in (None, [])}
    if before is not None and before.scheduler == scheduler:
        options = before.options | options
    return Request(scheduler, options)


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
