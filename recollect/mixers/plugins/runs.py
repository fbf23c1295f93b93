"""Runs whose mixers are code from outside: the mixers are tried before the runs are planned, and
loaded by every process that trains them.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from recollect.errors import SpecError
from recollect.mixers.base import Site
from recollect.mixers.fla.mixer import layer_class
from recollect.mixers.fla.options import FlaSpec
from recollect.mixers.options import MixerSpec
from recollect.mixers.plugins.identity import LiveSource
from recollect.mixers.plugins.preflight import try_mixer
from recollect.mixers.plugins.register import REGISTERED, Registered
from recollect.mixers.plugins.remembered import has_plugins
from recollect.model.layers import Noise
from recollect.spec.run import RunSpec
from recollect.store import Store


def foreign_kinds(runs: Iterable[RunSpec]) -> list[MixerSpec]:
    """Return the different mixers from outside that occur in these runs."""
    kinds = (kind for run in runs for kind in run.model.mixer.kinds() if kind.foreign)
    return list({kind.model_dump_json(): kind for kind in kinds}.values())


def require_mixers(runs: Iterable[RunSpec], device: torch.device) -> None:
    """Refuse mixers from outside whose code is missing, does not run on this device, fails, or sees
    what it must not. Each is tried once at each size.
    """
    tried: set[tuple[str, int, int]] = set()
    for run in runs:
        for layer, kind in enumerate(run.model.mixer.kinds()):
            size = (kind.model_dump_json(), run.model.width, run.task.longest)
            if kind.foreign and size not in tried:
                tried.add(size)
                _try(kind, run, layer, device)


def _try(kind: MixerSpec, run: RunSpec, layer: int, device: torch.device) -> None:
    if isinstance(kind, FlaSpec):
        layer_class(kind, device)
    model = run.model
    site = Site(
        *(2, model.width, run.task.longest, model.depth, model.positions),
        layer=layer,
        dropout=model.dropout,
        noise=Noise(2).to(device),
    )
    try_mixer(kind, site, run.train.batch, device)


def share_code(store: Store, workers: int, plugins: Sequence[Path]) -> tuple[int, tuple[Path, ...]]:
    """Return how many processes may train what is todo (0 means any number) and the files that they
    must load: those in `plugins`, and those that this process has loaded otherwise.
    """
    files = [path.resolve() for path in plugins]
    if has_plugins(store):
        runs = [RunSpec.from_json(todo.spec) for todo in store.todo()]
        for entry in _entries(runs):
            if isinstance(entry.source, LiveSource):
                if workers > 1:
                    raise SpecError(
                        f"--workers {workers}: {entry.module.__name__} was typed into a notebook "
                        "and is in this process alone; use 1, or put it into a file of its own"
                    )
                workers = 1
            files += entry.source.files[:1]
    return workers, tuple(dict.fromkeys(files))


def loaded_files() -> set[Path]:
    """Return the files whose mixers this process has loaded."""
    return {file for entry in REGISTERED.values() for file in entry.source.files[:1]}


def _entries(runs: Iterable[RunSpec]) -> list[Registered]:
    found = (REGISTERED.get(kind.own_name) for kind in foreign_kinds(runs))
    return [entry for entry in found if entry is not None]
