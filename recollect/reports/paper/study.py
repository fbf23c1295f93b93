"""What the study trained (its appendix A.2): sizes, widths and the recipe it states, and how a
stored run differs from that.
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
SCALING_SIZE: Size = (256, 64)  # of Fig. 4 alone; not in the list of A.2
DYNAMICS_SIZE: Size = (256, 16)  # of Fig. 6, by the title it had in earlier versions
# Of Tables 2 and 3, inferred: the 2 % that fail there are one of 64 pairs.
ABLATION_SIZE: Size = (512, 64)
WIDTHS = (64, 128, 256, 512, 1024, 2048)
TRAIN_ROWS, EPOCHS, WEIGHT_DECAY, WARMUP = 100_000, 50, 0.1, 0.1

# Not stated; as others read its figures, 1e-5 to 3e-1: half decades, Zoology's four rates and one
# more between the last two of these.
RATES = (1e-5, 3e-5, 1e-4, 3e-4, 4.642e-4, 1e-3, 2.154e-3, 3e-3, 5e-3, 1e-2, 3e-2, 1e-1, 3e-1)
SEEDS = (42, 123, 777, 456, 789)

SOLVED = 0.95  # the score from which the study calls a task solved, in an earlier version of it

TRAIN_DEFAULTS = {
    f"train.{name}": field.default
    for name, field in TrainSpec.model_fields.items()
    if not field.is_required()
}
# What varies within a comparison; the rest is the recipe.
VARYING = (
    *("task.length", "task.pairs", "train.lr", "train.steps", "train.batch", "seed"),
    *EVALUATION_KEYS,
)


def task_table(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The task's part of flat settings, without the prefix."""
    return {
        key.removeprefix("task."): value for key, value in flat.items() if key.startswith("task.")
    }


def recipe(flat: Mapping[str, Any]) -> dict[str, Any] | None:
    """Task and training without what varies: runs of one recipe can be compared.

    Steps and batch, which move with the length, become epochs and whether the batch is the usual
    one of that length.
    None if the task cannot be read here.
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
    """Whether the task has the study's size; how it was trained is a matter of the recipe."""
    if made["task.name"] == "copying":  # its lengths, steps and batch are stated nowhere
        return bool(made["task.alphabet"] == ALPHABET)
    return (made["task.vocabulary"], made["task.train_rows"]) == (VOCABULARY, TRAIN_ROWS)


def reductions(made: Mapping[str, Any]) -> list[str]:
    """Where a recipe falls short of what the study states; empty at the study's own scale."""
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
    """Where the study leaves a choice open and this recipe differs from the package's default.

    Of copying it leaves all open, so nothing there is a deviation.
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
