"""The order in which the sweeps of a folder are trained, and what the folder remembers of it."""

from dataclasses import replace

import pytest
from planned_rounds import finish, rates_of

from recollect.analysis import group_cells
from recollect.errors import SpecError
from recollect.running import engine
from recollect.running.events import SearchRound
from recollect.running.planning.order import (
    AskedFor,
    asked_for,
    order_of,
    remember_search,
    search_texts,
    searched_sweeps,
    sweeps_by_name,
)
from recollect.running.searching.searches import (
    IN_ROUNDS,
    SearchState,
    likely_runs,
    search_state,
)
from recollect.spec.cell import cell_id
from recollect.spec.sweep import parse_sweep, require_search
from recollect.store import Store


def test_sweeps_come_in_the_order_of_planning_each_as_it_was_asked_for(store, sweeps):
    for sweep in sweeps:
        engine.plan(store, sweep)
    remember_search(store, ["first"], "edges")
    heard: list = []
    choose = order_of(store, within_budget=False, listen=heard.append)

    stage = choose(store.rows())
    assert stage.name == "round"
    assert rates_of(store, stage.run_ids) == [(16, 1e-3), (16, 1e-2)]
    assert [type(event) for event in heard] == [SearchRound]
    assert heard[0].sweep == "first"
    assert heard[0].text == (
        "0 of 1 window known to +-0.1 decades (90% sure); next 2 runs of attention (first rates)"
    )

    while (stage := choose(store.rows())).name == "round":
        finish(store, stage.run_ids, 0.1)
    # The second sweep in full, although some of the first is todo.
    assert {row.status for row in store.rows() if row.spec["model"]["width"] == 16} == {
        "todo",
        "done",
    }
    assert stage.name == "rest"
    assert set(stage.run_ids) == {run.run_id for run in sweeps[1].runs}
    finish(store, stage.run_ids, 0.1)
    assert choose(store.rows()) is None


@pytest.mark.parametrize(
    ("searched", "wanted", "widths"),
    [
        (["first", "second"], 1, {16}),
        (["first", "second"], 2, {16}),  # so many has the first
        (["first", "second"], 3, {16, 32}),
        (["first", "second"], 99, {16, 32}),
        (["first"], 99, {16, 32}),  # what is wanted in full joins it
        (["second"], 99, {16, 32}),
        (["second"], 14, {16}),  # as many as are left of the first
    ],
)
def test_rounds_of_several_sweeps_fill_a_device_together(store, sweeps, searched, wanted, widths):
    for sweep in sweeps:
        engine.plan(store, sweep)
    remember_search(store, searched, "edges")
    choose = order_of(store, within_budget=False, wanted=wanted)
    stage = choose(store.rows())
    assert {width for width, _ in rates_of(store, stage.run_ids)} == widths
    assert stage.name == ("round" if "first" in searched or widths == {16, 32} else "rest")
    if stage.name == "round":  # each has its own rates, whatever the company
        finish(store, stage.run_ids, 1.0)
        again = choose(store.rows())
        assert not set(again.run_ids) & set(stage.run_ids)


def test_a_sweep_that_was_planned_again_from_another_text_is_one(store, sweeps):
    engine.plan(store, sweeps[0])
    engine.plan(store, sweeps[1])
    engine.plan(store, replace(sweeps[0], source="# changed", runs=sweeps[1].runs[:1]))
    runs = {name: len(run_ids) for name, run_ids in sweeps_by_name(store).items()}
    assert runs == {"first": len(sweeps[0].runs) + 1, "second": len(sweeps[1].runs)}


def test_what_was_begun_comes_first_wherever_it_is(store, sweeps):
    for sweep in sweeps:
        engine.plan(store, sweep)
    begun = sweeps[1].runs[-1].run_id
    store.release(store.claim([begun], "test", 60.0))
    stage = order_of(store, within_budget=True)(store.rows())
    assert (stage.name, stage.run_ids) == ("begun", (begun,))


def test_within_a_budget_a_sweep_is_trained_by_what_tells_most(store, sweeps):
    for sweep in sweeps:
        engine.plan(store, sweep)
    stage = order_of(store, within_budget=True)(store.rows())
    assert stage.name == "coarse"
    assert {width for width, _ in rates_of(store, stage.run_ids)} == {16}


def test_within_a_budget_a_sweep_that_is_wanted_in_full_is_trained_in_full(store, sweeps):
    for sweep in sweeps:
        engine.plan(store, sweep)
    remember_search(store, ["first"], "all")
    stage = order_of(store, within_budget=True)(store.rows())
    assert stage.name == "rest"
    assert set(stage.run_ids) == {run.run_id for run in sweeps[0].runs}
    remember_search(store, ["first"], None)
    assert order_of(store, within_budget=True)(store.rows()).name == "coarse"


def test_the_folder_remembers_which_sweeps_are_searched(store):
    assert searched_sweeps(store) == {}
    remember_search(store, ["b", "a"], "edges")
    remember_search(store, ["c"], "all")
    remember_search(store, ["d"], "best")
    assert searched_sweeps(store) == {"a": "edges", "b": "edges", "d": "best"}
    remember_search(store, ["a"], "all")
    remember_search(store, ["b"], "best")
    remember_search(store, ["d"], None)
    assert searched_sweeps(store) == {"b": "best"}


def test_what_is_still_asked_for(store, sweeps):
    """In full of what is not searched, at most of what is, nothing of a cell that is done."""
    for sweep in sweeps:
        engine.plan(store, sweep)
    remember_search(store, ["first"], "edges")
    first, second = ({run.run_id for run in sweep.runs} for sweep in sweeps)
    assert asked(store) == AskedFor(frozenset(second), frozenset(first), {16: 5})  # a third of 14
    choose = order_of(store, within_budget=False)
    while (stage := choose(store.rows())).name == "round":
        finish(store, stage.run_ids, 0.1)
    assert asked(store) == AskedFor(frozenset(second), frozenset(), {16: 0})
    remember_search(store, ["second"], "best")
    assert asked(store) == AskedFor(frozenset(), frozenset(second), {16: 0, 32: 3})  # a fifth


def asked(store: Store) -> AskedFor:
    """What is asked for, with the widths of cells instead of their ids."""
    found = asked_for(store, store.rows())
    widths = {cell_id(row.spec): row.spec["model"]["width"] for row in store.rows()}
    return replace(found, likely={widths[cell]: runs for cell, runs in found.likely.items()})


def test_of_a_search_at_least_the_next_round_is_likely(store, sweeps):
    """However many runs it has trained; runs in training are trained, and may call for one more."""
    engine.plan(store, sweeps[0])
    remember_search(store, ["first"], "edges")
    best = [row for row in store.rows() if row.spec["train"]["lr"] < 1e-2]
    finish(store, [row.run_id for row in best], 1.0)
    (cell,) = group_cells(store.rows())
    search = IN_ROUNDS["edges"]
    following = [row.run_id for row in search.next_round(cell)]
    assert following
    assert likely_runs(search, cell) == len(following)
    store.claim(following, "test", 60.0)
    (cell,) = group_cells(store.rows())
    assert likely_runs(search, cell) == 1


def test_a_cell_that_is_also_wanted_in_full_is_likely_in_full(store, sweeps):
    engine.plan(store, sweeps[0])
    engine.plan(store, replace(sweeps[0], name="again", runs=sweeps[0].runs[:12]))
    remember_search(store, ["first"], "edges")
    assert asked(store).likely == {16: 14}


def told_at_the_end(store: Store) -> tuple[str, ...]:
    """The words on searches that are over, without the number of runs that they leave."""
    left = store.counts()["todo"]
    assert left > 0
    rest = f"{left} runs not needed for that"
    texts = search_texts(store, store.rows())
    assert all(text.endswith(rest) for text in texts)
    return tuple(text.removesuffix(rest) for text in texts)


def test_a_search_in_words(store, sweeps):
    engine.plan(store, sweeps[0])
    assert search_texts(store, store.rows()) == ()
    remember_search(store, ["first"], "edges")
    choose = order_of(store, within_budget=False)
    while (stage := choose(store.rows())) is not None:
        finish(store, stage.run_ids, 0.1)
    assert told_at_the_end(store) == (
        "first: 1 of 1 window known to +-0.1 decades (90% sure), 1 of them none: not solved; ",
    )
    finish(store, [row.run_id for row in store.rows() if row.status == "todo"], 0.1)
    assert search_texts(store, store.rows())[0].endswith("none: not solved")  # nothing is left


def test_a_search_for_best_scores_in_words(store, sweeps):
    engine.plan(store, sweeps[0])
    remember_search(store, ["first"], "best")
    choose = order_of(store, within_budget=False)
    assert search_texts(store, store.rows()) == (
        "first: 0 of 1 best score known to +-0.02 (90% sure); next 2 runs of attention (first "
        "rates)",
    )
    stage = choose(store.rows())
    assert rates_of(store, stage.run_ids) == [(16, 3e-3)]  # the middle, every seed
    finish(store, stage.run_ids, 0.5)
    assert search_texts(store, store.rows())[0].endswith("next 4 runs of attention (best rate)")
    while (stage := choose(store.rows())) is not None:
        finish(store, stage.run_ids, 0.3)
    assert told_at_the_end(store) == (
        "first: 1 of 1 best score known to +-0.02 (90% sure), 1 of them below 0.9; ",
    )


def test_what_is_not_known_of_a_cell_is_named_and_many_cells_are_counted(store, sweeps):
    engine.plan(store, sweeps[0])

    def next_of(score: dict[float, float]) -> str:
        """After results at these rates."""
        for row in store.rows():
            lr = row.spec["train"]["lr"]
            if lr in score and row.status == "todo":
                finish(store, [row.run_id], score[lr])
        state = search_state(IN_ROUNDS["edges"], group_cells(store.rows()))
        return state.text().partition(" of attention ")[2]

    assert next_of({}) == "(first rates)"
    assert next_of({1e-3: 0.1, 1e-2: 0.1}) == "(peak)"
    assert next_of({3e-2: 0.99}) == "(upper edge)"  # its neighbour below is known
    assert next_of({1e-1: 0.99}) == ""
    names = tuple(f"cell {number} (peak)" for number in range(9))
    state = SearchState(IN_ROUNDS["edges"], (), names, cells=9, runs=18)
    assert state.text().endswith("cell 5 (peak) and 3 more")


def test_searches_that_there_are_not_are_refused():
    require_search(None, "")
    require_search("all", "")
    with pytest.raises(SpecError, match=r"--search 'edge': must be one of edges .*, best .*, all"):
        require_search("edge", "--search ")


def test_a_file_says_how_far_it_is_trained_and_the_command_line_says_it_louder(tmp_path, tiny):
    searched = replace(tiny, search="edges")
    with Store.create(tmp_path) as store:
        engine._remember_search(store, [searched], None)
        assert searched_sweeps(store) == {"tiny": "edges"}
        engine._remember_search(store, [searched], "best")
        assert searched_sweeps(store) == {"tiny": "best"}
        engine._remember_search(store, [searched], "all")
        assert searched_sweeps(store) == {}
    text = 'search = "edges"\n[task]\nname = "mqar"\n[model]\nmixer = "attention"\n'
    assert parse_sweep(text).search == "edges"
    plain = parse_sweep(text.partition("\n")[2])
    assert plain.search is None
    assert plain.runs[0].run_id == parse_sweep(text).runs[0].run_id  # no part of what runs are
    with pytest.raises(
        SpecError, match=r"search = 'all of it': must be one of edges .*, best .*, all"
    ):
        parse_sweep(text.replace("edges", "all of it"))
    with pytest.raises(SpecError, match=r"search = 3: must be one of edges .*, best .*, all"):
        parse_sweep(text.replace('"edges"', "3"))


# ---- through the engine ----


@pytest.mark.parametrize(("search", "left"), [("edges", 1), ("best", 0)])
def test_a_stopped_search_goes_on_and_what_it_leaves_is_trained_by_whoever_asks(
    tmp_path, tiny, search, left
):
    """Of scores that are all noise, any may be the best: a search for it may leave nothing."""
    whole = engine.train(tmp_path / "whole", [tiny], device="cpu", search=search)
    assert 0 < whole.counts["done"] <= len(tiny.runs) - left
    assert whole.next_stage is None
    assert len(whole.search) == 1

    out = tmp_path / "stopped"
    ended = 0

    def stop() -> int:
        return 143 if ended else 0

    def listen(event) -> None:
        nonlocal ended
        ended += type(event).__name__ == "RunEnded"

    with pytest.raises(Exception, match="continue with"):
        engine.train(out, [tiny], device="cpu", search=search, stop=stop, listen=listen)
    assert engine.train(out, device="cpu").counts == whole.counts  # resume: the same runs
    with Store.open(out) as one, Store.open(tmp_path / "whole") as two:
        done = [{r.run_id: r.accuracy for r in s.rows() if r.has_result} for s in (one, two)]
    assert done[0] == done[1]
    assert engine.train(out, device="cpu").counts["done"] == len(tiny.runs)


def test_a_sweep_that_is_given_again_without_a_search_is_trained_in_full(tmp_path, tiny):
    engine.train(tmp_path, [tiny], device="cpu", search="edges")
    assert engine.train(tmp_path, [tiny], device="cpu").counts["todo"] == 0
