"""From cells to a verdict: properties that hold whatever the cells say."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.reports.paper.claims import Check, roles
from recollect.reports.paper.claims.coverage import (
    EVERY,
    SOME_UNNAMED,
    UNNAMED,
    CellCheck,
    Coverage,
    tally,
    together,
)

SIZES = [(64, 4), (128, 8), (256, 16), (512, 64)]
MODELS = (roles.MAMBA_2, roles.HYENA_2)
COVERAGES = (EVERY, UNNAMED, SOME_UNNAMED)

cells = st.lists(
    st.builds(
        lambda holds, size, role: CellCheck("cell", Check(holds, "text"), size, role),
        st.sampled_from([True, False, None]),
        st.sampled_from(SIZES),
        st.sampled_from(MODELS),
    ),
    max_size=8,
)


def made(*found: tuple[bool | None, tuple[int, int]]) -> list[CellCheck]:
    return [CellCheck("cell", Check(holds, "text"), size, MODELS[0]) for holds, size in found]


def outcome(coverage: Coverage, found: Sequence[CellCheck]) -> str:
    return tally(coverage, found, MODELS[:1] if not coverage.named else ()).words


@pytest.mark.parametrize(
    ("coverage", "found", "words"),
    [
        (EVERY, made((True, SIZES[0]), (True, SIZES[1])), "reproduced"),
        (EVERY, made((True, SIZES[0]), (None, SIZES[1])), "holds in 1 of 2 cells"),
        (EVERY, made((False, SIZES[0]), (None, SIZES[1])), "contradicted"),
        (EVERY, made((None, SIZES[0])), "not enough data"),
        # One easy cell, or easy cells alone, settle nothing.
        (UNNAMED, made((False, SIZES[0])), "fails in 1 of 1 cell"),
        (UNNAMED, made((False, SIZES[0]), (False, SIZES[1])), "fails in 2 of 2 cells"),
        (UNNAMED, made((True, SIZES[0]), (True, SIZES[1])), "holds in 2 of 2 cells"),
        (UNNAMED, made((True, SIZES[0]), (None, SIZES[2])), "holds in 1 of 1 cell"),
        (UNNAMED, made((True, SIZES[0]), (True, SIZES[2])), "reproduced"),
        (UNNAMED, made((False, SIZES[0]), (False, SIZES[2])), "contradicted"),
        (UNNAMED, made((False, SIZES[0]), (True, SIZES[2])), "holds in 1 of 2 cells"),
        (SOME_UNNAMED, made((True, SIZES[0]), (None, SIZES[1])), "reproduced"),
        (SOME_UNNAMED, made((False, SIZES[0]), (True, SIZES[2])), "reproduced"),
        (SOME_UNNAMED, made((False, SIZES[0])), "fails in 1 of 1 cell"),
        (SOME_UNNAMED, made((False, SIZES[0]), (False, SIZES[2])), "contradicted"),
        (UNNAMED, [], "not enough data"),
        (EVERY, [], "not enough data"),
    ],
)
def test_verdicts_of_few_cells(coverage, found, words):
    assert outcome(coverage, found) == words


def test_that_something_can_happen_is_refuted_only_where_each_model_was_searched():
    mamba, hyena = (
        [CellCheck("cell", Check(False, "text"), size, role) for size in (SIZES[0], SIZES[2])]
        for role in MODELS
    )
    found = {
        number: tally(SOME_UNNAMED, [*mamba, *hyena[:number]], MODELS).words for number in (0, 1, 2)
    }
    assert found == {0: "fails in 2 of 2 cells", 1: "fails in 3 of 3 cells", 2: "contradicted"}


@pytest.mark.parametrize("coverage", COVERAGES)
@given(found=cells)
def test_counts_add_up_and_a_verdict_has_its_reasons(coverage, found):
    counted = tally(coverage, found, MODELS)
    assert counted.holding == sum(cell.check.holds is True for cell in found)
    assert counted.failing == sum(cell.check.holds is False for cell in found)
    assert counted.holding + counted.failing <= counted.cells <= len(found)
    if counted.outcome in ("reproduced", "holds in part"):
        assert counted.holding
    if counted.outcome == "contradicted":
        assert counted.failing
    if counted.outcome == "reproduced" and not coverage.one:
        assert not counted.failing


@pytest.mark.parametrize("coverage", COVERAGES)
@given(found=cells)
def test_more_data_never_takes_a_counterexample_back(coverage, found):
    """Cells that were open and then hold, or that are added and hold, cannot contradict."""
    before = tally(coverage, found, MODELS).outcome
    filled = [
        CellCheck("cell", Check(True, "text"), cell.size, cell.role)
        if cell.check.holds is None
        else cell
        for cell in found
    ]
    after = tally(coverage, filled, MODELS).outcome
    assert not (before != "contradicted" and after == "contradicted")
    assert not (before == "reproduced" and after != "reproduced")


@given(found=cells)
def test_flipping_every_cell_flips_the_verdict(found):
    flipped = [
        CellCheck(
            "cell",
            Check(None if cell.check.holds is None else not cell.check.holds, "text"),
            cell.size,
            cell.role,
        )
        for cell in found
    ]
    for coverage in (EVERY, UNNAMED):
        if tally(coverage, found, MODELS).outcome == "reproduced":
            assert tally(coverage, flipped, MODELS).outcome == "contradicted"
    if tally(SOME_UNNAMED, found, MODELS).outcome == "contradicted":
        assert tally(SOME_UNNAMED, flipped, MODELS).outcome == "reproduced"


def test_both_models_must_agree_and_one_can_contradict():
    mamba, hyena = MODELS
    wide = [CellCheck("", Check(False, ""), size, mamba) for size in (SIZES[0], SIZES[2])]
    narrow = [CellCheck("", Check(True, ""), size, hyena) for size in (SIZES[0], SIZES[2])]
    assert tally(UNNAMED, narrow, MODELS).outcome == "holds in part"
    assert tally(UNNAMED, [*wide, *narrow], MODELS).outcome == "contradicted"
    assert tally(UNNAMED, [*wide, *narrow]).outcome == "holds in part"


def test_all_cells_as_one_for_a_smaller_scale():
    found = made((True, SIZES[0]), (False, SIZES[1]), (None, SIZES[2]))
    assert [together(coverage, found).holds for coverage in COVERAGES] == [
        False,
        False,
        True,
    ]
    assert together(UNNAMED, made((True, SIZES[0]), (None, SIZES[1]))).holds
    assert together(EVERY, made((True, SIZES[0]), (None, SIZES[1]))).holds is None
