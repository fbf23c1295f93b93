"""Descriptions of the columns of exported tables, for the card of a data set."""

from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from recollect.analysis.settings import MIXER
from recollect.mixers.registry import MIXERS
from recollect.spec.model import ModelSpec
from recollect.spec.run import RunSpec
from recollect.spec.train import TrainSpec
from recollect.tasks.options import TASKS

RUN_ID = "digest of the run's whole specification: equal content, equal id"
RESULTS = {
    "recipe": "the named set of choices that the run amounts to, with what differs from it",
    "status": "done, diverged, failed, running or todo",
    "score_name": "which number the task is judged by: accuracy or exact",
    "chance": "the score of a model that knows what is in the context but not what belongs to what",
    "score": "the number the run is judged by; a diverged run counts as 0",
    "accuracy": "share of scored labels answered right, at the last evaluation",
    "exact": "share of test rows with every scored label right, at the last evaluation",
    "train_score": "the score on a sample of training rows; empty where every row is new",
    "train_loss": "mean over the steps since the evaluation before the last",
    "test_loss": "mean over the test rows, at the last evaluation",
    "steps": "optimiser steps taken",
    "stopped_early": "solved or hopeless: why it ended before its last step",
    "diverged_step": "first step whose loss was not finite",
    "failure": "why it failed; such a run has no result",
    "parameters": "number of trained parameters",
    "state_size": "floats that a recurrent decoder keeps per layer and sequence",
    "attempt": "how often the run was begun",
    "wall_s": "seconds: the run's share of the time of all that trained beside it",
    "device": "what it was trained on",
    "threads": "of a CPU that trained it",
    "versions": "of the programs that trained it, and a digest of the package, as JSON",
}
CURVES = {
    "run_id": "the run, as in the table of runs",
    "step": "optimiser steps taken so far",
    "train_loss": "mean over the steps since the previous evaluation",
    "test_loss": "mean over the test rows",
    "accuracy": "share of scored labels answered right",
    "exact": "share of test rows with every scored label right",
    "train_score": "the score on a sample of training rows; empty where every row is new",
    "slices": "the same numbers by test split, as JSON, of a task with several; else empty",
}


def describe_runs(columns: Iterable[str], mixers: Iterable[str]) -> dict[str, str]:
    """The description of each column of `runs`, for rows of these mixers."""
    mixers = list(mixers)
    return {name: _describe(name, mixers) for name in columns}


def _describe(name: str, mixers: list[str]) -> str:
    if name == "run_id":
        return RUN_ID
    if name in RESULTS:
        return RESULTS[name]
    section, _, key = name.partition(".")
    if name == MIXER:
        return "the sequence mixer"
    if name == "task.name":
        return "the task"
    if name.startswith("model.mixer."):
        option = name.removeprefix("model.mixer.")
        known = {mixer: MIXERS[mixer] for mixer in mixers if mixer in MIXERS}
        return _of_several(option, known) or "an option of the mixer"
    if section == "task":
        return _of_several(key, TASKS) or "an option of the task"
    owners: dict[str, type[BaseModel]] = {"model": ModelSpec, "train": TrainSpec}
    return _field(owners.get(section, RunSpec), key or name) or "a setting of the run"


def _of_several(option: str, specs: Mapping[str, type[BaseModel]]) -> str:
    """The description of an option. If it differs between specs, all descriptions, each with the
    names of its specs.
    """
    owners: dict[str, list[str]] = {}
    for name, spec in specs.items():
        if text := _field(spec, option):
            owners.setdefault(text, []).append(name)
    if len(owners) < 2:
        return "".join(owners)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in owners.items())


def _field(spec: type[BaseModel], name: str) -> str:
    field = spec.model_fields.get(name)
    return (field.description or "") if field else ""
