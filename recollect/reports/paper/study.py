"""The settings of the study (its appendix A.2): sizes, widths and the recipe it states, and how a
stored run differs from them.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from recollect.analysis.settings import canonical
from recollect.analysis.wording import setting_text
from recollect.spec.recipes.batches import steps_per_epoch
from recollect.spec.recipes.label import ALPHABET, EVALUATION_KEYS, VOCABULARY
from recollect.spec.train import TrainSpec
from recollect.tasks.options import TASKS

Size = tuple[int, int]  # length and pairs

SIZES: tuple[Size, ...] = ((64, 4), (128, 8), (256, 16), (512, 64))
SCALING_SIZE: Size = (256, 64)  # used in Fig. 4 only; not in the list of A.2
DYNAMICS_SIZE: Size = (256, 16)  # used in Fig. 6, according to its title in earlier versions
# The size of Tables 2 and 3. It is inferred: models that fail score 2 % there, one of 64 pairs.
ABLATION_SIZE: Size = (512, 64)
WIDTHS = (64, 128, 256, 512, 1024, 2048)
TRAIN_ROWS, EPOCHS, WEIGHT_DECAY, WARMUP = 100_000, 50, 0.1, 0.1

# The study does not state its rates. Others read 1e-5 to 3e-1 from its figures: these are half
# decades, Zoology's four rates and one more between the last two of Zoology's.
RATES = (1e-5, 3e-5, 1e-4, 3e-4, 4.642e-4, 1e-3, 2.154e-3, 3e-3, 5e-3, 1e-2, 3e-2, 1e-1, 3e-1)
SEEDS = (42, 123, 777, 456, 789)

SOLVED = 0.95  # the score from which the study calls a task solved, in an earlier version of it

TRAIN_DEFAULTS = {
    f"train.{name}": field.default
    for name, field in TrainSpec.model_fields.items()
    if not field.is_required()
}
# Settings that vary within a comparison; the other settings are the recipe.
VARYING = (
    *("task.length", "task.pairs", "train.lr", "train.steps", "train.batch", "seed"),
    *EVALUATION_KEYS,
)


def task_table(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the task among flat settings, without their prefix."""
    return {
        key.removeprefix("task."): value for key, value in flat.items() if key.startswith("task.")
    }


def recipe(flat: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings of task and training that do not vary within a comparison: runs with the same
    recipe can be compared.

    Steps and batch depend on the length. They are replaced by epochs, and by whether the batch is
    the usual one for that length. None if this version cannot read the task.
    """
    stored = task_table(flat)
    try:
        task = TASKS[str(stored.get("name"))].model_validate(stored)
    except (KeyError, ValidationError):
        return None
    settings = (
        {f"task.{key}": value for key, value in task.model_dump().items()}
        | TRAIN_DEFAULTS
        | dict(flat)
    )
    batch = settings.get("train.batch", task.default_batch)
    keep_last = settings.get("train.last_batch") == "keep"
    epochs = settings.get("train.steps", 0) / steps_per_epoch(task.train_rows, batch, keep_last)
    kept = {
        key: value
        for key, value in settings.items()
        if not key.startswith("model.") and key not in VARYING
    }
    return kept | {
        "epochs": round(epochs, 2),
        "batch": "usual" if batch == task.default_batch else batch,
    }


def is_full_scale(made: Mapping[str, Any]) -> bool:
    """Whether the task has the study's size. Training settings do not matter: they belong to the
    recipe.
    """
    if made["task.name"] == "copying":  # its lengths, steps and batch are stated nowhere
        return bool(made["task.alphabet"] == ALPHABET)
    return (made["task.vocabulary"], made["task.train_rows"]) == (VOCABULARY, TRAIN_ROWS)


def reductions(made: Mapping[str, Any]) -> list[str]:
    """How a recipe is smaller than the study states; empty at the study's own scale."""
    if made["task.name"] == "copying":  # its lengths, steps and batch are stated nowhere
        return [] if made["task.alphabet"] == ALPHABET else [f"alphabet {made['task.alphabet']}"]
    found = []
    if made["task.vocabulary"] != VOCABULARY:
        found.append(f"vocabulary {made['task.vocabulary']}")
    if made["task.data"] == "fresh" or made["task.train_rows"] != TRAIN_ROWS:
        rows = "fresh" if made["task.data"] == "fresh" else f"{made['task.train_rows']:,}"
        found.append(f"{rows} training rows")
    if made["epochs"] < EPOCHS:
        found.append(f"{made['epochs']:g} epochs")
    if made["batch"] != "usual":
        found.append(f"batch {made['batch']}")
    for key, stated in (("train.weight_decay", WEIGHT_DECAY), ("train.warmup", WARMUP)):
        if made[key] != stated:
            found.append(f"{key.removeprefix('train.').replace('_', ' ')} {made[key]:g}")
    return found


def open_choices(made: Mapping[str, Any]) -> list[str]:
    """Settings that the study leaves open and that differ here from the package's defaults.

    For copying the study leaves everything open, so nothing counts as a deviation.
    """
    if made["task.name"] == "copying":
        return []
    of_task = {
        f"task.{name}": field.default
        for name, field in TASKS[made["task.name"]].model_fields.items()
    }
    defaults = of_task | TRAIN_DEFAULTS | {"data_seed": 0}
    stated = (
        "task.name",
        "task.vocabulary",
        "task.train_rows",
        "train.weight_decay",
        "train.warmup",
        "task.test_rows",
    )
    return [
        setting_text(key, value)
        for key, value in made.items()
        if key in defaults and key not in stated and canonical(value) != canonical(defaults[key])
    ]
