"""The recipe of a stored run, derived from its content: the nearest recipe and the differences.

Rules, all of them functions of the specification alone:

- Every setting is compared except sizes (of the task, the model, the data, and the batch of a
  string task), the mixer and its options, learning rate and seeds, and the settings for evaluation
  and early stopping. A setting that no recipe knows, e.g. of a newer version, is a difference.
- The nearest recipe is the one with the fewest differences. Of equally near ones, the first of
  study, zoology, plain wins; of recipes that fit exactly, the last one wins, so that a run that
  fits plain is labelled plain.
- A run below the study's vocabulary or alphabet is a reduced run. So few steps need other rows, a
  longer warmup and rope (docs/decisions/demo-size.md), and a CPU computes in fp32 whatever
  precision is set. These settings are not compared for a reduced run.
- A run of a task that no recipe covers has the label "none".
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from recollect.spec.recipes.batches import steps_per_epoch, usual_batch
from recollect.spec.recipes.recipe import OF_EPOCHS, RECIPES, mixer_names

# When a run is evaluated and when it may stop early; these do not change how it is trained.
EVALUATION_KEYS = (
    *("train.evaluations", "train.stop_solved", "train.solved_evaluations"),
    "train.stop_hopeless",
)

Scale = Literal["full", "small"]
SCALES: tuple[Scale, ...] = ("full", "small")
VOCABULARY, ALPHABET = 8192, 26  # the study's: runs with fewer tokens or letters are reduced ones
UNCOVERED = "none"
MOST_LETTERS = 60  # longest text of one difference

_TASK_SIZES = (
    *("name", "vocabulary", "length", "pairs", "query", "train_rows", "test_rows"),
    *("alphabet", "min_length", "max_length", "context", "eval_lengths"),
    *("kind", "ngram", "answer_length"),
)
# Not compared: sizes and swept settings. Epochs and batch are compared instead of steps.
_SIZES = frozenset(
    [f"task.{key}" for key in _TASK_SIZES]
    + ["model.mixer", "model.width", "model.depth", "train.lr", "train.steps", "train.batch"]
    + list(EVALUATION_KEYS)
)
# Not compared for a reduced run.
_SCALE = frozenset(
    ["task.data", "model.positions"]
    + [f"train.{key}" for key in ("warmup", "warmup_steps", "epochs", "batch", "precision")]
)
_WORDS = {
    ("model.block", "mixer"): "no MLP",
    ("model.block", "mixer+mlp"): "with MLP",
    ("model.block", "mixer+identity"): "identity for MLP",
    ("model.block", "mixer+channel-mix"): "channel mix for MLP",
    ("model.norm", "rms"): "RMSNorm",
    ("model.norm", "layer"): "LayerNorm",
    ("task.data", "fixed"): "fixed rows",
    ("task.data", "fresh"): "fresh rows",
    ("task.data", "reshuffled"): "reshuffled rows",
}
_NAMES = {"task.vocabulary_split": "vocabulary"}
_ABSENT = object()


def recipe_of(spec: Mapping[str, Any], varied: Collection[str] = ()) -> str:
    """The recipe of a stored specification: the nearest one and the differences.

    For example "study", or "study but dropout=0, vocabulary shared", in alphabetical order.

    Differences in the flat keys `varied` are left out: a table that compares positions has the
    recipe "study", whatever positions its runs have.
    """
    name, differing = _nearest(spec)
    words = sorted(_words(key, value) for key, value in differing if key not in varied)
    return f"{name} but {', '.join(words)}" if words else name


def recipe_name(spec: Mapping[str, Any]) -> str:
    """The name of the nearest recipe, without the differences."""
    return _nearest(spec)[0]


def scale_of(spec: Mapping[str, Any]) -> Scale:
    """The scale of a stored specification: "small" for a reduced run, else "full"."""
    return "small" if _is_reduced(_table(spec.get("task"))) else "full"


def compared_keys(spec: Mapping[str, Any]) -> set[str]:
    """The flat keys of a specification whose values its label accounts for."""
    sections = {key: _table(spec.get(key)) for key in ("task", "model", "train")}
    keys = {f"{section}.{name}" for section, values in sections.items() for name in values}
    return keys - _SIZES - (_SCALE if _is_reduced(sections["task"]) else frozenset())


def _nearest(spec: Mapping[str, Any]) -> tuple[str, list[tuple[str, Any]]]:
    """The name of the nearest recipe, and the settings that differ from it."""
    sections = {key: _table(spec.get(key)) for key in ("task", "model", "train")}
    task, mixers = str(sections["task"].get("name")), mixer_names(sections["model"].get("mixer"))
    made = dict(_made(sections))
    ignored = _SCALE if _is_reduced(sections["task"]) else frozenset()
    if made.get("task.data") == "fresh":
        ignored |= frozenset(OF_EPOCHS)
    nearest: tuple[str, list[tuple[str, Any]]] | None = None
    for name, recipe in RECIPES.items():
        choices = recipe.choices(task, mixers)
        if choices is None:
            continue
        differing = [
            (key, made.get(key, _ABSENT))
            for key in {**choices, **made}
            if key not in ignored
            and key not in EVALUATION_KEYS
            and made.get(key, _ABSENT) != choices.get(key, _ABSENT)
        ]
        if nearest is None or not differing or len(differing) < len(nearest[1]):
            nearest = name, differing
    return nearest or (UNCOVERED, [])


def _made(sections: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the choices of a run by flat key."""
    for section, values in sections.items():
        for name, value in values.items():
            key = f"{section}.{name}"
            if key not in _SIZES:
                yield key, value
    task, train = sections["task"], sections["train"]
    length, rows = _count(task, "length"), _count(task, "train_rows")
    batch, steps = _count(train, "batch"), _count(train, "steps")
    # A string task has no length. Its number of steps counts as a size and is not compared.
    if length and rows and batch and steps:
        keep_last = train.get("last_batch") == "keep"
        yield "train.epochs", round(steps / steps_per_epoch(rows, batch, keep_last), 2)
        if batch != usual_batch(length, rows):
            yield "train.batch", batch


def _is_reduced(task: Mapping[str, Any]) -> bool:
    sizes = ((task.get("vocabulary"), VOCABULARY), (task.get("alphabet"), ALPHABET))
    return any(isinstance(size, int) and size < full for size, full in sizes)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(table: Mapping[str, Any], key: str) -> int:
    """The positive integer at `key`; 0 if there is none or it is out of range."""
    value = table.get(key)
    return value if isinstance(value, int) and 0 < value < 2**63 else 0


def _words(key: str, value: Any) -> str:
    name = _NAMES.get(key, key.split(".")[-1].replace("_", " "))
    if value is _ABSENT:
        return f"no {name}"
    if isinstance(value, str):
        return _WORDS.get((key, value)) or _short(f"{name} {value}")
    number = isinstance(value, float) or (type(value) is int and abs(value) < 2**63)
    return _short(f"{name}={value:g}" if number else f"{name}={value!r:.{MOST_LETTERS}}")


def _short(text: str) -> str:
    """The text cut to MOST_LETTERS printable characters, since rows may come from anywhere."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in text[: MOST_LETTERS + 1])
    return clean if len(clean) <= MOST_LETTERS else clean[: MOST_LETTERS - 1] + "…"
