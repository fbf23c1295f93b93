"""Scores of maps made by hand, whose answers are known;
and of what counts as a question, a key and a value.
"""

from dataclasses import replace

import pytest
import torch

from recollect.reports.inspect import scores
from recollect.reports.inspect.scores import (
    DUPLICATE,
    INDUCTION,
    OFFSETS,
    PREVIOUS,
    PREVIOUS_AT_VALUES,
    find_targets,
)
from recollect.tasks.base import Batch
from recollect.tasks.build import build_task
from recollect.tasks.options import CopyingSpec, MqarSpec, RecallSpec

LENGTH, PAIRS = 12, 3


@pytest.fixture(scope="module")
def batch() -> Batch:
    spec = MqarSpec(vocabulary=32, length=LENGTH, pairs=PAIRS, test_rows=5)
    return build_task(spec, 0, 5, "cpu").batch("test", 0)


@pytest.fixture(scope="module")
def targets(batch):
    return find_targets(batch, PAIRS)


def keys_of(batch: Batch) -> torch.Tensor:
    """mqar asks its keys in their own order, so the i-th question's key stands at 2 i."""
    return 2 * torch.arange(PAIRS).expand(batch.rows, -1)


def looking_at(batch: Batch, place_BK: torch.Tensor) -> torch.Tensor:
    """Maps where every question takes all from one place, and every other position from itself."""
    maps = torch.eye(LENGTH).repeat(batch.rows, 1, 1, 1)
    for row in range(batch.rows):
        for question, place in zip(batch.where_BK[row], place_BK[row], strict=True):
            maps[row, 0, question] = 0
            maps[row, 0, question, place] = 1
    return maps


def test_questions_keys_and_values_are_found(batch, targets):
    assert targets.asked_BL.sum() == batch.rows * PAIRS
    for row in range(batch.rows):
        for pair, question in enumerate(batch.where_BK[row].tolist()):
            assert targets.match_BLL[row, question].nonzero().flatten().tolist() == [2 * pair]
    assert targets.values_L.nonzero().flatten().tolist() == [1, 3, 5]


def test_perfect_induction(batch, targets):
    found = scores.scores(looking_at(batch, keys_of(batch) + 1), targets)
    assert {name: float(value) for name, value in found.items()} == {
        PREVIOUS: 0,
        PREVIOUS_AT_VALUES: 0,
        DUPLICATE: 0,
        INDUCTION: 1,
    }


def test_a_duplicate_token_head(batch, targets):
    found = scores.scores(looking_at(batch, keys_of(batch)), targets)
    assert (float(found[DUPLICATE]), float(found[INDUCTION])) == (1, 0)


@pytest.mark.parametrize("offset", [2, 3, 4])
def test_around_the_key(batch, targets, offset):
    around = scores.around_key(looking_at(batch, keys_of(batch) + offset), targets)
    assert around.tolist() == [[float(other == offset) for other in OFFSETS]]


def test_a_previous_token_head(batch, targets):
    maps = torch.zeros(batch.rows, 1, LENGTH, LENGTH)
    maps[:, 0, range(1, LENGTH), range(LENGTH - 1)] = 1
    maps[:, 0, 0, 0] = 1
    found = scores.scores(maps, targets)
    assert (float(found[PREVIOUS]), float(found[PREVIOUS_AT_VALUES])) == (1, 1)
    asked_just_behind = (batch.where_BK == 2 * PAIRS) & (
        torch.arange(PAIRS) == PAIRS - 1
    )  # the last value stands before it
    assert float(found[INDUCTION]) == pytest.approx(float(asked_just_behind.float().mean()))


def test_uniform_maps(batch, targets):
    maps = scores.shares(
        torch.ones(batch.rows, 1, LENGTH, LENGTH).tril(), exclude_current_token=False
    )
    found = {name: float(value) for name, value in scores.scores(maps, targets).items()}
    share = (1 / (batch.where_BK + 1)).mean()
    assert found[INDUCTION] == found[DUPLICATE] == pytest.approx(float(share))
    assert found[PREVIOUS] == pytest.approx(
        sum(1 / (t + 1) for t in range(1, LENGTH)) / (LENGTH - 1)
    )
    assert found[PREVIOUS_AT_VALUES] == pytest.approx((1 / 2 + 1 / 4 + 1 / 6) / 3)
    assert scores.uniform_scores(targets, exclude_current_token=False) == pytest.approx(found)
    without = scores.uniform_scores(targets, exclude_current_token=True)
    assert without[INDUCTION] == pytest.approx(float((1 / batch.where_BK).mean()))
    assert without[PREVIOUS_AT_VALUES] == pytest.approx((1 + 1 / 3 + 1 / 5) / 3)


def test_every_head_has_its_own_scores(batch, targets):
    maps = torch.cat(
        [looking_at(batch, keys_of(batch)), looking_at(batch, keys_of(batch) + 1)], dim=1
    )
    assert scores.scores(maps, targets)[INDUCTION].tolist() == [0, 1]


def test_shares_are_of_the_row_with_or_without_its_own_position():
    size = torch.tensor([[[[5.0, 0, 0], [1, 2, 0], [1, 3, 4]]]])
    assert scores.shares(size, exclude_current_token=False)[0, 0].tolist() == [
        [1, 0, 0],
        [pytest.approx(1 / 3), pytest.approx(2 / 3), 0],
        [1 / 8, 3 / 8, 1 / 2],
    ]
    assert scores.shares(size, exclude_current_token=True)[0, 0].tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [0.25, 0.75, 0],
    ]
    assert scores.shares(torch.zeros(1, 1, 2, 2), exclude_current_token=False).tolist() == [
        [[[0, 0], [0, 0]]]
    ]


def test_random_filler_that_repeats_a_key_is_no_key():
    tokens = torch.tensor([[7, 8, 9, 7, 7, 7]])  # 7 -> 8; the question stands at the end
    batch = Batch(tokens, torch.tensor([[5]]), torch.tensor([[8]]), torch.tensor([[True]]))
    assert find_targets(batch, pairs=1).match_BLL[0, 5].nonzero().flatten().tolist() == [0]
    assert find_targets(batch).match_BLL[0, 5].nonzero().flatten().tolist() == [0, 3, 4]


@pytest.mark.parametrize("spec", [RecallSpec(vocabulary=32, length=10, pairs=2), CopyingSpec()])
def test_other_tasks_have_scores_too(spec):
    data = build_task(spec, 0, 4, "cpu")
    batch = data.batch(data.test_splits[0], 0)
    targets = find_targets(batch, getattr(spec, "pairs", None))
    length = batch.tokens_BL.shape[1]
    found = scores.scores(
        scores.shares(torch.ones(batch.rows, 1, length, length).tril(), False), targets
    )
    assert (PREVIOUS_AT_VALUES in found) == hasattr(spec, "pairs")
    assert all(0 < float(value) < 1 for value in found.values())


def test_a_task_without_questions_about_earlier_tokens_has_no_induction():
    batch = Batch(
        torch.tensor([[1, 2, 3]]), torch.tensor([[2]]), torch.tensor([[1]]), torch.tensor([[True]])
    )
    found = scores.scores(torch.eye(3)[None, None], find_targets(batch))
    assert list(found) == [PREVIOUS]


def test_positions_outside_the_row_are_not_looked_for_at_its_other_end():
    tokens = torch.tensor([[1, 2, 3, 3]])
    batch = Batch(tokens, torch.tensor([[3]]), torch.tensor([[1]]), torch.tensor([[True]]))
    maps = torch.zeros(1, 1, 4, 4)
    maps[0, 0, :, 0] = 1  # two behind the 3 at position 2 would be position 4, not 0
    assert scores.around_key(maps, find_targets(batch)).sum() == 0
    tokens = torch.tensor([[3, 1, 2, 3]])
    maps = torch.eye(4)[None, None]  # one before the 3 at position 0 is not the last position
    assert scores.around_key(maps, find_targets(replace(batch, tokens_BL=tokens)))[0].tolist() == [
        0,
        0,
        0,
        0,
        1,
        0,
    ]
