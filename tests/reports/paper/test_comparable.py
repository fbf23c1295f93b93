"""A figure of the study shows rows of one recipe and one scale, and says what it leaves out."""

import shlex

import pytest
from figures_made import rows_for
from recipes_made import RATES, SMALL, changed, recipe_rows, source_of, without_result
from study_made import study_rows

from recollect.errors import SpecError
from recollect.reports.paper.comparable import choose_for_figure, comparing
from recollect.reports.paper.figures import FIGURES, TABLES, write_figure
from recollect.spec.recipes import RECIPES, recipe_of, scale_of

NAMES = [*FIGURES, *TABLES]
COPYING = ("fig5", "table1")


def plain_choices(row):
    """What `plain` says of a run, without positions, which Table 4 varies."""
    mixer = (row.spec["model"]["mixer"]["name"],)
    choices = RECIPES["plain"].choices(row.spec["task"]["name"], mixer)
    return {key: value for key, value in choices.items() if key != "model.positions"}


def parts(name):
    """The rows of a figure under `plain`, with another dropout, and of fewer tokens or letters."""
    rows = rows_for(name)
    own = [changed(row, plain_choices(row)) for row in rows] if name in COPYING else list(rows)
    small = {"task.alphabet": 4} if name in COPYING else SMALL
    other = [changed(row, {"model.dropout": 0.3}) for row in own]
    return own, other, [changed(row, small) for row in own]


def told(name, source, *where):
    return choose_for_figure(name, source, where).line(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_shows_one_recipe_at_one_scale_and_says_what_it_leaves_out(name):
    own, other, small = parts(name)
    choice = choose_for_figure(name, source_of(small, other, own))
    assert choice.source.rows == own
    ended = sum(row.has_result for row in own)
    assert choice.line(name) == (
        f"{name} shows the recipe plain at the study's size. Left out: "
        f"{ended} results of plain but dropout=0.3; {ended} results of a smaller size. "
        "Choose with --where 'recipe=plain but dropout=0.3' or --where scale=small"
    )


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_one_kind_are_all_shown_and_nothing_is_said(name):
    for own in parts(name):
        choice = choose_for_figure(name, source_of(own))
        assert (choice.source.rows, choice.line(name)) == (own, "")


@pytest.mark.parametrize("name", NAMES)
def test_what_the_line_offers_gives_the_rows_that_were_left_out(name):
    own, other, small = parts(name)
    every = source_of(own, other, small)
    offers = shlex.split(told(name, every).split("Choose with ")[1])
    conditions = [word for word in offers if "=" in word]
    assert len(conditions) == 2
    found = [choose_for_figure(name, every, [one]).source.rows for one in conditions]
    assert found == [other, small]


@pytest.mark.parametrize("name", NAMES)
def test_a_list_of_recipes_or_scales_is_shown_together(name):
    own, other, small = parts(name)
    both = 'recipe=["plain", "plain but dropout=0.3"]'
    choice = choose_for_figure(name, source_of(own, other, small), [both])
    assert choice.source.rows == own + other
    ended = sum(row.has_result for row in small)
    assert choice.line(name) == (
        f"{name} shows runs at the study's size. Left out: {ended} results of a smaller size. "
        "Choose with --where scale=small"
    )
    scales = choose_for_figure(name, source_of(own, other, small), ['scale=["full", "small"]'])
    assert scales.source.rows == own + small
    everything = ["recipe=all", "scale=all"]
    assert len(choose_for_figure(name, source_of(own, other, small), everything).source.rows) == (
        3 * len(own)
    )


def test_the_study_s_size_and_recipe_come_first_although_others_have_more_results():
    study, plain = recipe_rows("study"), recipe_rows("plain", rates=(*RATES, 2e-3, 3e-3))
    small = [changed(row, SMALL) for row in plain]
    assert choose_for_figure("fig1", source_of(small, plain, study)).source.rows == study
    zoology = recipe_rows("zoology")
    assert choose_for_figure("fig1", source_of(zoology, plain)).source.rows == plain
    assert choose_for_figure("fig1", source_of(plain[:2], plain[4:6], zoology)).source.rows == (
        plain[:2] + plain[4:6]
    ), "of equally many the first"


def test_rows_that_compare_something_come_before_the_study_s_recipe_and_size():
    alone, two = recipe_rows("study", ["attention"]), recipe_rows("zoology")
    assert choose_for_figure("fig1", source_of(alone, two)).source.rows == two
    small = [changed(row, SMALL) for row in two]
    assert choose_for_figure("fig1", source_of(alone, small)).source.rows == small
    assert list(comparing("fig1", alone + two)) == ["zoology"]
    varied = [changed(row, {"model.dropout": 0.0}) for row in recipe_rows("study")]
    assert list(comparing("fig1", varied)) == ["study but dropout=0"]
    assert list(comparing("fig1", [*varied, *two])) == ["zoology"], "whole recipes come alone"
    none = without_result(recipe_rows("study")), recipe_rows("plain", ["attention"])
    assert choose_for_figure("fig1", source_of(*none)).source.rows == none[1]


@pytest.mark.parametrize("name", ["table1", "table2", "table3"])
def test_a_table_compares_something_if_it_has_several_lines(name):
    own, _, small = parts(name)
    mixer = own[0].spec["model"]["mixer"]
    size = (own[0].spec["model"]["width"], own[0].spec["model"]["depth"])
    one = [
        row
        for row in own
        if row.spec["model"]["mixer"] == mixer
        and (row.spec["model"]["width"], row.spec["model"]["depth"]) == size
    ]
    assert choose_for_figure(name, source_of(one, small)).source.rows == small
    assert choose_for_figure(name, source_of(own, small)).source.rows == own


@pytest.mark.parametrize("status", ["todo", "running", "failed"])
def test_rows_without_a_result_are_not_chosen_but_told(status):
    study, plain = without_result(recipe_rows("study"), status), recipe_rows("plain")
    choice = choose_for_figure("fig1", source_of(study, plain))
    assert choice.source.rows == plain
    assert "Left out: 4 runs without a result of study." in choice.line("fig1")
    lost = source_of(study, without_result(plain, status))
    assert choose_for_figure("fig1", lost).source == lost, "a refusal counts all of them"


def test_rows_that_the_figure_does_not_show_do_not_count():
    other_depth = [changed(row, {"model.depth": 1}) for row in recipe_rows("zoology")]
    plain = recipe_rows("plain")
    choice = choose_for_figure("fig1", source_of(other_depth, plain))
    assert (choice.source.rows, choice.line("fig1")) == (plain, "")
    unfit = source_of(other_depth)
    assert choose_for_figure("fig1", unfit).source == unfit
    with pytest.raises(SpecError, match="fig1: none of 4 runs fits"):
        write_figure("fig1", unfit.rows, {})


def test_what_differs_from_every_recipe_is_shown_together():
    """With dropout, attention and Hyena are nearest to `study`, and Mamba to `plain`."""
    three = recipe_rows("plain", ["attention", "mamba", "hyena"])
    rows = [changed(row, {"model.dropout": 0.1}) for row in three]
    assert {recipe_of(row.spec): row.spec["model"]["mixer"]["name"] for row in rows} == {
        "study but vocabulary shared": "hyena",
        "plain but dropout=0.1": "mamba",
    }
    choice = choose_for_figure("fig1", source_of(rows))
    assert (choice.source.rows, choice.line("fig1")) == (rows, "")
    alone = recipe_rows("study", ["attention"])
    choice = choose_for_figure("fig1", source_of(alone, rows))
    assert choice.source.rows == rows
    assert choice.line("fig1") == (
        "fig1 shows runs at the study's size. Left out: 2 results of study. "
        "Choose with --where recipe=study"
    )
    whole = recipe_rows("study")
    assert choose_for_figure("fig1", source_of(rows, whole)).source.rows == whole


def test_what_a_table_varies_is_of_its_recipe():
    without, learned = (
        study_rows(["mamba", "h3"], rates=(1e-3,), seeds=(1,), positions=kind)
        for kind in ("none", "learned")
    )
    source = source_of(without, learned)
    for where in ((), ("recipe=plain",)):
        choice = choose_for_figure("table4", source, where)
        assert (choice.source.rows, choice.line("table4")) == (without + learned, "")
    exact = choose_for_figure("table4", source, ["recipe=plain but positions learned"])
    assert exact.source.rows == learned


def test_the_causes_of_a_window_compare_recipes_of_one_scale():
    two = recipe_rows("study") + recipe_rows("plain")
    small = [changed(row, SMALL) for row in two]
    choice = choose_for_figure("why", source_of(small, two))
    assert choice.source.rows == two
    assert choice.line("why") == (
        "why shows runs at the study's size. Left out: 8 results of a smaller size. "
        "Choose with --where scale=small"
    )


def test_few_recipes_are_named_and_of_many_the_first():
    plain = recipe_rows("plain")
    changes = [{"model.dropout": dropout} for dropout in (0.2, 0.3, 0.4, 0.5)]
    others = [[changed(row, one) for row in plain] for one in changes]
    line = told("fig1", source_of(plain, *others[:3]), "recipe=all")
    assert line == ""
    source = source_of(plain, *others)
    line = told("fig1", source)
    assert "Left out: 4 results of plain but dropout=0.2; 4 results of plain but" in line
    assert line.count("dropout=") == 3, "two, and one to choose"
    assert line.endswith(
        "; 8 results of 2 other recipes. Choose with --where 'recipe=plain but dropout=0.2'"
    )
    three = told("fig1", source_of(plain, *others[:3]))
    assert "other recipes" not in three


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (
            "recipe=zoologie",
            "--where 'recipe=zoologie': fig1 shows no run of that recipe in mine;\n"
            "there are: plain (8 runs); study (4 runs)",
        ),
        ("recipe=[[1]]", "--where 'recipe=[1]': fig1 shows no run of that recipe in mine;\nthere"),
        ("recipe={a = 1}", "--where \"recipe={'a': 1}\": fig1 shows no run of that recipe"),
        ('recipe=["study", "x"]', "--where 'recipe=x': fig1 shows no run of that recipe in mine"),
        ("recipe=[]", "--where 'recipe=[]': none of the 12 runs of mine fits"),
        ("recipe=", "--where 'recipe=': fig1 shows no run of that recipe in mine;\nthere are"),
        ("scale=big", "--where 'scale=big': must be full, small or all"),
        ("scale=[1]", "--where 'scale=1': must be full, small or all"),
        ("scale", "--where 'scale': must be written KEY=VALUE; for example model.width=64"),
        ("scal=full", "--where 'scal=full': did you mean scale?"),
        ("model.width=3", "--where model.width=3: none of the 12 runs of mine fits"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_do(where, message):
    rows = recipe_rows("plain"), recipe_rows("study")
    small = [changed(row, SMALL) for row in rows[0]]
    with pytest.raises(SpecError) as refused:
        choose_for_figure("fig1", source_of(*rows, small), [where])
    assert str(refused.value).startswith(message)
    assert len(str(refused.value).splitlines()) <= 3


def test_a_recipe_of_runs_that_the_figure_does_not_show_is_refused():
    deep = [changed(row, {"model.depth": 1}) for row in recipe_rows("zoology")]
    with pytest.raises(SpecError, match=r"fig1 shows no run of that recipe .*;\nthere are: plain"):
        choose_for_figure("fig1", source_of(deep, recipe_rows("plain")), ["recipe=zoology"])


def test_the_rows_of_the_tests_are_what_they_say():
    for recipe in ("study", "zoology", "plain"):
        assert {recipe_of(row.spec) for row in recipe_rows(recipe)} == {recipe}
    assert {scale_of(row.spec) for row in recipe_rows("study")} == {"full"}
