"""Where a cell stands in a picture: task, width, depth, and a label with the rest."""

from dataclasses import replace

from rows_made import make_row

from recollect.analysis import group_cells
from recollect.plotting.coordinates import Coordinates, find_coordinates, in_order
from recollect.spec.recipes import RECIPES


def places_of(rows):
    return find_coordinates(group_cells(rows))


def with_task(row, **task):
    row.spec["task"] |= task
    return row


def test_a_cell_stands_by_task_width_and_depth_and_is_labelled_by_the_rest():
    rows = [
        make_row(model={"width": 128}),
        make_row("mamba", model={"depth": 1, "mixer": {"name": "mamba", "conv": 4}}),
    ]
    task = "mqar, length 64, pairs 4"
    assert places_of(rows) == [
        Coordinates(task, "128", "2", "attention", ()),
        Coordinates(task, "64", "1", "mamba", ()),
    ]
    rows.append(make_row("mamba", model={"depth": 1, "mixer": {"name": "mamba", "conv": 0}}))
    assert [place.label for place in places_of(rows)] == [
        "attention",
        "mamba, conv 4",
        "mamba, conv 0",
    ]


def test_what_follows_from_the_task_goes_unsaid():
    rows = [make_row(), with_task(make_row(lr=2e-3), length=128, pairs=8)]
    rows[1].spec["train"] |= {"batch": 256}
    assert [place.label for place in places_of(rows)] == ["attention", "attention"]
    assert [place.task for place in places_of(rows)] == [
        "mqar, length 64, pairs 4",
        "mqar, length 128, pairs 8",
    ]


def test_tasks_that_differ_elsewhere_are_told_apart():
    rows = [
        with_task(make_row(lr=lr), filler=filler)
        for lr, filler in ((1e-3, "zero"), (2e-3, "random"))
    ]
    assert [place.task for place in places_of(rows)] == [
        f"mqar, length 64, pairs 4, filler {f}" for f in ("zero", "random")
    ]


def test_values_that_look_alike_rounded_are_written_out():
    rows = [make_row() for _ in range(2)]
    for row, decay in zip(rows, (0.1, 0.100000000001), strict=True):
        row.spec["train"]["weight_decay"] = decay
    assert [place.label for place in places_of(rows)] == [
        "attention, weight decay 0.1",
        "attention, weight decay 0.100000000001",
    ]


def test_numbers_are_in_the_order_of_numbers():
    assert in_order(["128", "64", "1024", "64"]) == ["64", "128", "1024"]
    assert in_order(["b", "64", "a"]) == ["b", "64", "a"]
    assert in_order(["²", "1"]) == ["²", "1"]


def test_what_is_to_go_unsaid_tells_no_cells_apart():
    rows = [make_row(model={"dropout": dropout}) for dropout in (0.0, 0.1)]
    assert len({place.label for place in places_of(rows)}) == 2
    first, second = find_coordinates(group_cells(rows), unsaid={"model.dropout"})
    assert first == second


def mixer_at(name, width, depth, length, **options):
    row = make_row(name, model={"width": width, "depth": depth, "mixer": {"name": name, **options}})
    return with_task(row, length=length)


def test_two_panels_share_a_label_only_if_it_is_one_model():
    """A model without its convolution is no line of the one with it, whatever their places."""
    rows = [
        mixer_at("mamba", 64, 2, 64, kernel=0),
        mixer_at("mamba", 64, 1, 64, kernel=4),
        mixer_at("mamba", 64, 2, 256, kernel=4),
    ]
    assert [place.label for place in places_of(rows)] == [
        "mamba without convolution",
        "mamba",
        "mamba",
    ]


def test_a_part_is_named_even_where_a_size_would_tell_it():
    rows = [mixer_at("mamba", 64, 2, 64, kernel=4), mixer_at("mamba", 128, 2, 64, kernel=0)]
    assert [place.label for place in places_of(rows)] == ["mamba", "mamba without convolution"]
    rows.append(mixer_at("mamba", 128, 2, 64, kernel=0, init="zoology"))
    assert places_of(rows)[-1].label == "mamba without convolution, init zoology"


def test_an_option_that_grows_with_the_width_goes_unsaid():
    rows = [mixer_at("attention", 64 * heads, 2, 64, heads=heads) for heads in (1, 2, 4)]
    assert [place.label for place in places_of(rows)] == ["attention"] * 3


def test_a_recipe_chooses_the_label_and_not_the_panel():
    """Rows are drawn in another order by another recipe, which makes no other task."""
    task = {"name": "mqar", "vocabulary": 8192, "length": 64, "pairs": 4, "train_rows": 100_000}
    rows = []
    for recipe, steps in (("study", 9750), ("zoology", 12_544)):
        model = {"mixer": {"name": "attention"}, "width": 64, "depth": 2, "norm": "layer"}
        train = {"lr": 1e-3, "steps": steps, "batch": 512}
        spec = RECIPES[recipe].fill({"task": task, "model": model, "train": train}) | {"seed": 1}
        rows.append(replace(make_row("attention"), run_id=recipe, spec=spec))
    places = find_coordinates(group_cells(rows))
    assert [place.label for place in places] == [
        "attention, recipe study",
        "attention, recipe zoology",
    ]
    assert len({place.task for place in places}) == 1
