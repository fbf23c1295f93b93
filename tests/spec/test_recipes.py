"""Recipes: what they fill in, and the label that every stored row gets from its content."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import SpecError
from recollect.mixers.registry import MIXERS
from recollect.spec.model import ModelSpec
from recollect.spec.recipes import (
    RECIPES,
    choose_recipe,
    recipe_name,
    recipe_of,
)
from recollect.spec.recipes.label import EVALUATION_KEYS
from recollect.spec.run import RunSpec
from recollect.spec.sweep import parse_sweep
from recollect.spec.train import TrainSpec
from recollect.store import Store
from recollect.tasks.options import TASKS

RESULTS = Path(__file__).parents[2] / "results"
EVERY = [
    (recipe, task, mixer)
    for recipe in RECIPES
    for task in RECIPES[recipe].tasks
    for mixer in ("attention", "based_hybrid", "mamba", "mamba2", "hyena", "mlstm", "s6")
]


def stored(folder: str, tmp_path: Path) -> list[dict[str, Any]]:
    """The specifications of a store, read from a copy: reading may leave files beside it."""
    (tmp_path / "recollect.db").write_bytes((RESULTS / folder / "recollect.db").read_bytes())
    with Store.open(tmp_path, read_only=True) as store:
        return [row.spec for row in store.rows()]


def made(recipe: str, task: Any = "mqar", mixer: Any = "attention", **rest: Any) -> dict[str, Any]:
    """The specification of a run that says nothing of its own."""
    table = {"task": task, "model": {"mixer": mixer, "depth": 2}, **rest}
    if "steps" not in table.get("train", {}) and task in ("copying", "ngram_lookup"):
        table["train"] = {"steps": 100}
    return RunSpec.parse(RECIPES[recipe].fill(table)).model_dump(mode="json")


def changed(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(spec))
    section, key = path.split(".")
    copy[section][key] = value
    return copy


# ---- what a recipe fills in ----


def test_study_is_what_is_trained_on_the_gpu(tmp_path):
    """The stored rows of the campaign come out again of their sizes, mixers, rates and seeds."""
    specs = stored("h200/study-mqar64", tmp_path)
    assert len({spec["model"]["mixer"]["name"] for spec in specs}) == 9
    for spec in specs:
        sizes = {key: spec["task"][key] for key in ("name", "length", "pairs", "vocabulary")}
        model = {key: spec["model"][key] for key in ("mixer", "width", "depth")}
        bare = {"task": sizes, "model": model, "train": {"lr": spec["train"]["lr"]}}
        filled = RECIPES["study"].fill({**bare, "seed": spec["seed"]})
        assert RunSpec.parse(filled).run_id == RunSpec.parse(spec).run_id


@pytest.mark.parametrize("name", RECIPES)
def test_what_a_specification_says_it_keeps(name):
    table = {
        "task": {"name": "mqar", "filler": "random", "vocabulary": 64},
        "model": {"mixer": {"name": "attention", "heads": 2}, "positions": "rope", "dropout": 0.5},
        "train": {"warmup": 0.7, "lr": 2e-3},
        "seed": 7,
    }
    before = json.dumps(table)
    filled = RECIPES[name].fill(table)
    assert json.dumps(table) == before
    assert filled["seed"] == 7
    assert filled["task"]["filler"] == "random"
    assert filled["model"] | {"positions": "rope", "dropout": 0.5} == filled["model"]
    assert (filled["train"]["warmup"], filled["train"]["lr"]) == (0.7, 2e-3)
    assert (
        filled["task"]["vocabulary_split"]
        == RECIPES[name].choices("mqar", ("attention",))["task.vocabulary_split"]
    )


def test_a_run_of_its_own_length_is_looked_at_as_often_as_such_a_run_is():
    for length in ({"steps": 7}, {"epochs": 0.01}):
        filled = RECIPES["study"].fill(
            {"task": "mqar", "model": {"mixer": "mamba"}, "train": length}
        )
        assert not filled["train"].keys() & {"evaluations"}
        assert RunSpec.parse(filled).train.evaluations < 20
    assert made("study")["train"]["evaluations"] == 50
    assert made("zoology")["train"]["evaluations"] == 64


def test_what_fresh_rows_leave_without_meaning_is_not_filled_in():
    fresh = {"name": "mqar", "data": "fresh"}
    assert "last_batch" not in made("zoology", fresh)["train"]
    assert made("zoology")["train"]["last_batch"] == "keep"
    assert made("zoology")["train"]["steps"] == 64 * 196


def test_a_warmup_said_one_way_is_not_said_the_other():
    for own in ({"warmup": 0.2}, {"warmup_steps": 7}):
        train = made("plain", train=own)["train"]
        assert (train["warmup"], train.get("warmup_steps", 0)) == (
            own.get("warmup", 0.0),
            own.get("warmup_steps", 0),
        )


def test_zoology_gives_mamba_its_own_block():
    blocks = {
        mixer: (
            made("zoology", mixer=mixer)["model"]["block"],
            made("zoology", mixer=mixer)["model"]["dropout"],
        )
        for mixer in ("attention", "hyena", "mamba", "mamba2")
    }
    assert blocks == {
        "attention": ("mixer+identity", 0.1),
        "hyena": ("mixer+identity", 0.1),
        "mamba": ("mixer", 0.0),
        "mamba2": ("mixer", 0.0),
    }


def test_a_stack_gets_what_its_mixers_agree_on():
    mixed = made("zoology", mixer=["attention", "mamba"])["model"]
    assert (mixed["block"], mixed["positions"]) == ("mixer+identity", "none")
    alike = made("zoology", mixer=["mamba", {"name": "mamba", "state": 8}])["model"]
    assert (alike["block"], alike["norm"]) == ("mixer", "rms")


def test_a_task_that_a_recipe_does_not_cover_is_refused():
    table = {"task": {"name": "copying"}, "model": {"mixer": "mamba"}}
    with pytest.raises(SpecError) as error:
        RECIPES["zoology"].fill(table)
    assert str(error.value) == (
        "recipe zoology covers mqar and recall, not copying; use study or plain, or none"
    )


@pytest.mark.parametrize(
    "table", [{}, {"task": "mqra"}, {"task": 3, "model": []}, {"task": "mqar", "model": "mamba"}]
)
def test_no_specification_is_left_for_its_own_message(table):
    assert RECIPES["study"].fill(table) == table


@pytest.mark.parametrize("name", ["studi", "", 3, None, ["study"], "x" * 999])
def test_other_names_are_refused(name):
    with pytest.raises(
        SpecError, match="must be one of study, zoology, plain; `recollect recipes`"
    ):
        choose_recipe(name)


# ---- the files ----


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_what_it_is(name):
    recipe = RECIPES[name]
    assert recipe.text.startswith(f"# {name}: ")
    assert recipe.about
    assert choose_recipe(name) is recipe
    assert all(len(line) <= 100 for line in recipe.text.splitlines())


@pytest.mark.parametrize(("recipe", "task", "mixer"), EVERY)
def test_a_recipe_states_every_choice_there_is(recipe, task, mixer):
    """A setting it leaves out would be a difference of every run it made."""
    spec = made(recipe, task, mixer)
    assert recipe_of(spec) == recipe
    choices = RECIPES[recipe].choices(task, (mixer,))
    known = {
        "task": TASKS[task].model_fields,
        "model": ModelSpec.model_fields,
        "train": {**TrainSpec.model_fields, "epochs": None},
    }
    for key, value in choices.items():
        section, name = key.split(".")
        assert name in known[section], key
        assert name == "epochs" or spec[section][name] == value


@pytest.mark.parametrize("mixer", MIXERS)
def test_left_to_the_mixer_means_what_the_mixer_says(mixer):
    for recipe in RECIPES.values():
        for part in recipe.parts:
            for key in part.left_to_mixer:
                assert part.of_model((mixer,))[key] == getattr(MIXERS[mixer], key), (
                    recipe.name,
                    key,
                )


def test_the_pages_example_is_sound():
    page = (RESULTS.parent / "docs/recipes.md").read_text()
    text = page.partition("```toml\n")[2].partition("```")[0]
    labels = {recipe_of(run.model_dump(mode="json")) for run in parse_sweep(text).runs}
    assert labels == {"study", "study but dropout=0"}
    for name, recipe in RECIPES.items():
        assert f"| `{name}` |" in page
        assert recipe.name == name


# ---- the label of a row ----

# One change at a time, named from the nearest recipe.
CHANGED_FROM_PLAIN = {
    "plain",
    *(f"plain but {change}" for change in ("LayerNorm", "RMSNorm", "clip=1", "dropout=0.1")),
    *("plain but no MLP", "plain but with MLP"),
    *("study but dropout=0", "study but vocabulary shared", "zoology but decay cosine"),
}


@pytest.mark.parametrize(
    ("folder", "labels"),
    [
        ("h200/study-mqar64", {"study"}),
        ("h200/plain-mqar256-halves-attention-dropout", {"study"}),
        ("h200/plain-mqar256-halves-attention-tf32", {"study but dropout=0, precision tf32"}),
        ("h200/plain-mqar256-halves-mamba-dropout", {"study but no MLP"}),
        ("h200/plain-mqar64-halves", {"study but dropout=0", "plain but vocabulary halves"}),
        *(
            (f"paper/{path.name}", {"plain"})
            for path in sorted((RESULTS / "paper").iterdir())
            if path.name != "why.small"
        ),
        ("paper/why.small", CHANGED_FROM_PLAIN),
    ],
)
def test_stored_rows_have_these_recipes(folder, labels, tmp_path):
    assert {recipe_of(spec) for spec in stored(folder, tmp_path)} == labels


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("model.dropout", 0.0, "dropout=0"),
        ("model.dropout", 0.25, "dropout=0.25"),
        ("model.block", "mixer", "no MLP"),
        ("model.block", "mixer+identity", "identity for MLP"),
        ("model.norm", "rms", "RMSNorm"),
        ("model.positions", "rope", "positions rope"),
        ("task.vocabulary_split", "shared", "vocabulary shared"),
        ("task.data", "fresh", "fresh rows"),
        ("task.data", "fixed", "fixed rows"),
        ("task.placement", "uniform", "placement uniform"),
        ("train.warmup", 0.3, "warmup=0.3"),
        ("train.clip", 1.0, "clip=1"),
        ("train.precision", "fp32", "precision fp32"),
        ("train.exempt", "dynamics", "exempt dynamics"),
        ("train.steps", 10 * 195, "epochs=10"),
        ("model.something_new", True, "something new=True"),
        ("train.newer", [1, 2], "newer=[1, 2]"),
    ],
)
def test_one_change_is_one_difference(path, value, words):
    assert recipe_of(changed(made("study"), path, value)) == f"study but {words}"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("task.test_rows", 10),
        ("task.length", 128),
        ("model.width", 1024),
        ("model.depth", 12),
        ("model.mixer", {"name": "attention", "heads": 4}),
        ("train.lr", 0.5),
        *((key, 0.5) for key in EVALUATION_KEYS),
    ],
)
def test_sizes_rates_and_looks_are_no_part_of_a_recipe(path, value):
    assert recipe_of(changed(made("study"), path, value)) == "study"


def test_a_batch_other_than_the_lengths_own_is_a_difference():
    spec = changed(changed(made("study"), "train.batch", 256), "train.steps", 50 * 390)
    assert recipe_of(spec) == "study but batch=256"
    longer = changed(spec, "task.length", 256)
    assert recipe_of(longer) == "study"


def test_differences_stand_in_alphabetical_order():
    spec = changed(made("study", mixer="mamba"), "train.weight_decay", 0.0)
    spec = changed(spec, "model.dropout", 0.0)
    assert recipe_of(spec) == "study but dropout=0, weight decay=0"
    assert recipe_name(spec) == "study"


def test_what_is_varied_on_purpose_goes_unsaid():
    spec = changed(made("study", mixer="mamba"), "model.positions", "learned")
    assert recipe_of(spec, varied=("model.positions",)) == "study"
    spec = changed(spec, "model.dropout", 0.0)
    assert recipe_of(spec, varied=("model.positions",)) == "study but dropout=0"
    assert recipe_of(spec) == "study but dropout=0, positions learned"


def test_of_two_equally_near_recipes_the_first_is_named():
    """One step from study and one from plain."""
    assert recipe_of(changed(made("plain"), "task.vocabulary_split", "halves")) == (
        "study but dropout=0"
    )
    assert list(RECIPES) == ["study", "zoology", "plain"]


def test_of_two_recipes_that_fit_the_plainer_is_named():
    """A small Mamba that copies is the same run under both."""
    small = {
        "name": "copying",
        "alphabet": 8,
        "min_length": 2,
        "max_length": 8,
        "context": 48,
        "eval_lengths": [8],
    }
    train = {"steps": 60, "warmup": 0.1}
    study, plain = (made(name, small, "mamba", train=train) for name in ("study", "plain"))
    assert study == plain
    assert recipe_of(study) == "plain"
    assert recipe_of(made("study", small, "attention", train=train)) == "study"
    whole = made("study", {"name": "copying"}, "mamba", train={"steps": 2000})
    assert (recipe_of(whole), whole["train"]["warmup_steps"]) == ("study", 100)


def test_a_reduced_run_keeps_its_recipe():
    small = {"name": "mqar", "vocabulary": 128, "length": 12, "pairs": 3, "data": "fresh"}
    train = {"steps": 90, "batch": 64, "warmup": 0.3, "precision": "tf32"}
    for name in RECIPES:
        assert recipe_of(made(name, small, train=train)) == name
    spec = changed(made("study", small, train=train), "train.clip", 1.0)
    assert recipe_of(spec) == "study but clip=1"
    at_full_size = changed(spec, "task.vocabulary", 8192)
    assert recipe_of(at_full_size).count(",") == 5


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"task": None, "model": 3, "train": []},
        {"task": {"name": "sorting"}, "model": {"mixer": "mamba"}, "train": {}},
    ],
)
def test_what_no_recipe_covers_has_none(spec):
    assert recipe_of(spec) == "none"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model.block", "\x1b[31mred\n" + "x" * 9_999),
        ("model.dropout", 10**400),
        ("train.steps", 10**400),
        ("train.warmup", float("nan")),
        ("train.clip", [[1] * 999]),
        ("task.filler", {"a": "\x07"}),
        ("model.mixer", {"name": ["x"], "layers": 3}),
        ("task.length", True),
    ],
)
def test_a_row_of_unknown_origin_has_a_short_printable_label(path, value):
    label = recipe_of(changed(made("study"), path, value))
    assert label.startswith(tuple(RECIPES))
    assert label.isprintable()
    assert len(label) < 300


def test_half_a_specification_has_a_label_too():
    label = recipe_of({"task": {"name": "mqar"}, "model": {"mixer": None}, "train": {"batch": 0}})
    assert label.startswith(tuple(RECIPES))


def test_labels_need_neither_torch_nor_pydantic():
    code = "import sys\nfrom recollect.spec.recipes import recipe_of\nprint(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "pydantic", "numpy"} & set(ended.stdout.split())


def test_labels_are_quick():
    spec = made("study")
    start = time.process_time()
    for _ in range(2_000):
        recipe_of(spec)
    assert time.process_time() - start < 2
