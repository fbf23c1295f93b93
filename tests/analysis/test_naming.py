"""Cells are named by what differs; a sweep is described in plain words."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows_made import make_row

from recollect.analysis import (
    describe,
    group_cells,
)
from recollect.analysis.naming import name_cells, names_by_run
from recollect.analysis.wording import value_text
from recollect.spec.recipes import RECIPES


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([make_row("attention"), make_row("mamba")], ["attention", "mamba"]),
        (
            [make_row("mamba", model={"width": w}) for w in (64, 128)],
            ["mamba, width 64", "mamba, width 128"],
        ),
        (
            [make_row(m, model={"width": w}) for m in ("attention", "mine") for w in (64, 128)],
            ["attention, width 64", "attention, width 128", "mine, width 64", "mine, width 128"],
        ),
        # An option that only one mixer has follows from the mixer and goes unsaid.
        (
            [make_row("attention"), make_row(model={"mixer": {"name": "mamba", "state": 16}})],
            ["attention", "mamba"],
        ),
        (
            [make_row(model={"mixer": {"name": "m", "gate": g}}) for g in (True, False)],
            ["m, gate on", "m, gate off"],
        ),
        # Depth follows from width here, so one of them is enough.
        (
            [make_row(model={"width": w, "depth": w}) for w in (2, 4)],
            ["attention, width 2", "attention, width 4"],
        ),
        (
            [make_row(model={"mixer": {"name": "m", "width": w}, "width": 8}) for w in (1, 2)],
            ["m, width 1", "m, width 2"],
        ),
        ([make_row(model={"mixer": {}})], ["model"]),
    ],
)
def test_cells_are_named_by_what_differs(rows, names):
    assert [cell.name for cell in group_cells(rows)] == names


def test_values_that_look_alike_are_written_out():
    rows = [make_row(model={"dropout": dropout}) for dropout in (0.01234, 0.012341)]
    assert [cell.name for cell in group_cells(rows)] == [
        "attention, dropout 0.01234",
        "attention, dropout 0.012341",
    ]


def test_keys_that_end_alike_are_told_apart():
    rows = [
        make_row(model={"mixer": {"name": "m", "width": a}, "width": b})
        for a in (1, 2)
        for b in (8, 9)
    ]
    assert group_cells(rows)[0].name == "m, model width 8, model mixer width 1"


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.integers(1, 3)),
        min_size=1,
        unique=True,
    )
)
def test_names_of_cells_are_unique(triples):
    rows = [
        make_row(mixer, model={"width": width, "depth": depth}) for mixer, width, depth in triples
    ]
    names = [cell.name for cell in group_cells(rows)]
    assert len(set(names)) == len(names) == len(triples)


def test_a_sweep_is_described_in_plain_words():
    mamba = {"mixer": {"name": "mamba", "state": 16}, "norm": "rms"}
    rows = [
        make_row(lr=lr, seed=seed, model={"norm": "layer"})
        for lr in (1e-3, 1e-2)
        for seed in (1, 2)
    ]
    rows.append(make_row(seed=1, model=mamba))
    facts = {fact.topic: fact.text for fact in describe([row.spec for row in rows])}
    assert facts == {
        "task": "mqar, length 64, pairs 4",
        "model": "width 64, depth 2",
        "recipe": "steps 1000, weight decay 0.1, data seed 0",
        "mixers": "attention, mamba",
        "attention": "norm layer",
        "mamba": "state 16; norm rms",
        "varied": "learning rate 1e-3, 1e-2; seed 1, 2",
    }
    assert describe([]) == []


def test_a_long_list_of_values_is_described_by_its_ends():
    facts = describe([make_row(lr=10**-step).spec for step in (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)])
    assert [fact.text for fact in facts if fact.topic == "varied"] == [
        "learning rate: 7 values from 1e-4 to 0.1"
    ]


def test_an_option_is_mentioned_only_for_the_mixer_it_tells_apart():
    cells = [
        {"model.mixer.name": name, "model.mixer.kernel": kernel}
        for name, kernel in (("mamba", 4), ("mamba", 0), ("h3", 4))
    ]
    assert name_cells(cells) == [("mamba", ""), ("mamba", "without convolution"), ("h3", "")]


def test_a_variant_is_named_even_where_sizes_tell_it_apart():
    cells = [
        {"model.mixer.name": "mamba", "model.mixer.kernel": kernel, "model.width": width}
        for kernel, width in ((4, 64), (0, 128))
    ]
    assert name_cells(cells) == [
        ("mamba", "width 64"),
        ("mamba", "width 128, without convolution"),
    ]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"name": "mamba", "kernel": 0, "gate": True}, "mamba without convolution"),
        ({"name": "mamba", "kernel": 4, "gate": False}, "mamba without gate"),
        ({"name": "mamba", "kernel": 0, "gate": False}, "mamba without gate, without convolution"),
        ({"name": "s6", "kernel": 4, "gate": True}, "s6 + gate"),
        ({"name": "delta_net", "gate": False}, "delta_net"),
        ({"name": "attention", "conv": "qkv"}, "attention + conv on QKV"),
        ({"name": "mine", "kernel": 0, "gate": False}, "mine"),
    ],
)
def test_a_part_put_in_or_taken_out_is_named_even_of_a_cell_alone(options, name):
    assert [cell.name for cell in group_cells([make_row(model={"mixer": options})])] == [name]


def test_usual_options_go_unsaid_beside_others():
    """What is said of a model alone holds for it beside its variants, whichever come first."""
    options = [
        {"init": init, "kernel": kernel} for init in ("zoology", "official") for kernel in (4, 0)
    ]
    rows = [make_row(model={"mixer": {"name": "mamba", **own}}) for own in options]
    assert [cell.name for cell in group_cells(rows)] == [
        "mamba, init zoology",
        "mamba, init zoology, without convolution",
        "mamba",
        "mamba without convolution",
    ]


def test_cells_that_would_read_alike_are_written_out():
    """A row of unknown origin may state a default that others leave out."""
    mixers = [{"name": "attention"}, {"name": "attention", "qk_norm": False}]
    rows = [make_row(model={"mixer": mixer}) for mixer in mixers]
    assert [cell.name for cell in group_cells(rows)] == ["attention", "attention, qk norm false"]


def test_an_option_that_grows_with_a_size_goes_unsaid_and_no_other():
    def names(key, pairs):
        rows = [
            make_row(model={"width": width, "mixer": {"name": "attention", key: value}})
            for width, value in pairs
        ]
        return [cell.name for cell in group_cells(rows)]

    sizes = ["attention, width 64", "attention, width 128"]
    assert names("heads", ((64, 1), (128, 2))) == sizes
    assert names("heads", ((64, 2), (128, 1))) == ["attention, width 64, heads 2", sizes[1]]
    assert names("conv_place", ((64, "before"), (128, "after"))) != sizes


def test_a_stack_of_mixers_reads_as_their_names():
    layers = [{"name": "base_conv", "kernel": 3}, {"name": "gru"}]
    assert value_text(layers) == "base_conv (kernel 3)/gru"


def test_runs_are_named_by_their_cells():
    rows = [
        make_row("mamba", lr, model={"mixer": {"name": "mamba", "init": init}})
        for init in ("official", "zoology")
        for lr in (1e-3, 1e-2)
    ]
    names = names_by_run([*rows, make_row()])
    assert [names[row.run_id] for row in rows] == [
        *["mamba"] * 2,
        *["mamba, init zoology"] * 2,
    ]
    assert names[make_row().run_id] == "attention"


# ---- recipes in names ----


def recipe_row(recipe, mixer="attention", **model):
    """A run of the study's size, filled in by a recipe."""
    task = {"name": "mqar", "vocabulary": 8192, "length": 64, "pairs": 4, "train_rows": 100_000}
    norm = {"mamba": "rms"}.get(mixer, "layer")
    model = {"mixer": {"name": mixer}, "width": 64, "depth": 2, "norm": norm} | model
    steps = {"zoology": 12_544}.get(recipe, 9750)
    table = {"task": task, "model": model, "train": {"lr": 1e-3, "steps": steps, "batch": 512}}
    spec = RECIPES[recipe].fill(table)
    return replace(make_row(mixer), run_id=f"{recipe} {mixer} {model}", spec=spec | {"seed": 1})


def names_of(*rows):
    names = names_by_run(rows)
    assert [cell.name for cell in group_cells(rows)] == list(names.values())
    return list(names.values())


def test_a_recipe_stands_for_all_its_choices():
    assert names_of(recipe_row("study"), recipe_row("zoology"), recipe_row("study", "mamba")) == [
        "attention, recipe study",
        "attention, recipe zoology",
        "mamba, recipe study",
    ]


def test_one_choice_that_differs_is_named_itself():
    assert names_of(recipe_row("study"), recipe_row("study", dropout=0.0)) == [
        "attention, dropout 0.1",
        "attention, dropout 0",
    ]


def test_changes_of_a_recipe_are_named_by_what_they_change():
    changes = ({}, {"dropout": 0.0}, {"block": "mixer"}, {"norm": "rms"})
    assert names_of(*(recipe_row("study", **change) for change in changes)) == [
        "attention, recipe study",
        "attention, recipe study but dropout=0",
        "attention, recipe study but no MLP",
        "attention, recipe study but RMSNorm",
    ]


def test_settings_are_named_where_labels_of_recipes_would_read_alike():
    dropouts = (0.1, 0.2, 0.2000000001)
    rows = [recipe_row("study", dropout=d, norm="rms" if d == 0.2 else "layer") for d in dropouts]
    names = names_of(*rows, recipe_row("study", norm="rms", dropout=0.2000000001))
    assert len(set(names)) == 4
    assert not any("recipe" in name for name in names)


def test_no_recipe_is_named_where_no_cell_has_one():
    rows = [recipe_row("study", dropout=d, residual=r) for d in (0.3, 0.4) for r in ("a", "b")]
    assert names_of(*rows)[0] == "attention, dropout 0.3, residual a"
