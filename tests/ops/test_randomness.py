"""Random numbers as a function: against a plain reference, against chance,
and drawing without replacement.
"""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from recollect.ops.randomness import below, bits, grid, key, uniform
from recollect.tasks.sampling import distinct, weighted
from recollect.tasks.splits import last_rank, nth_free, prefix_hash

CPU = torch.device("cpu")
# the seeds are fixed, so a test that passes once passes for ever; this only guards the choice of
# seed
ALPHA = 1e-4


def splitmix(stream: int, counter: int) -> int:
    """SplitMix64 in Python's unbounded integers, as its authors print it."""
    mask = (1 << 64) - 1
    z = (stream + counter * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_bits_equal_the_plain_reference():
    counters = torch.tensor([0, 1, 2, 3, 1000, 2**40 + 7])
    for stream in (0, key("a"), key("b", 3), -1):
        expected = [splitmix(stream, counter) for counter in counters.tolist()]
        assert [value % 2**64 for value in bits(stream, counters).tolist()] == expected


def test_keys_tell_purposes_apart():
    parts = [(1,), ("1",), (1, 1), (11,), ("a", "b"), ("ab",), ("a", "b", 0), ()]
    assert len({key(*part) for part in parts}) == len(parts)
    assert key("train", 3) == key("train", 3)
    assert all(-(2**63) <= key(n) < 2**63 for n in range(100))


@pytest.mark.parametrize("bound", [2, 7, 26, 1000])
def test_below_is_uniform(bound):
    counts = torch.bincount(below(key("chi", bound), torch.arange(200_000), bound), minlength=bound)
    assert len(counts) == bound
    assert stats.chisquare(counts.numpy()).pvalue > ALPHA


def test_below_takes_a_bound_for_each_number():
    bound = torch.arange(1, 9)
    drawn = below(key("each"), grid(0, 4000, 8, CPU), bound)
    assert (drawn < bound).all()
    assert (drawn.amax(0) == bound - 1).all()
    assert (drawn.amin(0) == 0).all()


def test_every_bit_is_fair_and_neighbours_are_independent():
    word = bits(key("fair"), torch.arange(100_000))
    bit = ((word[:, None] >> torch.arange(64)) & 1).double()
    assert (bit.mean(0) - 0.5).abs().max() < 5 * 0.5 / 100_000**0.5
    for lag in (1, 2, 8, 64):
        table = np.histogram2d((word[:-lag] & 15).numpy(), (word[lag:] & 15).numpy(), bins=16)[0]
        assert stats.chi2_contingency(table).pvalue > ALPHA, lag


def test_streams_are_independent():
    one, other = (below(key("stream", n), torch.arange(100_000), 16) for n in (0, 1))
    assert (
        stats.chi2_contingency(np.histogram2d(one.numpy(), other.numpy(), bins=16)[0]).pvalue
        > ALPHA
    )


def test_uniform_is_open_and_uniform():
    drawn = uniform(key("float"), torch.arange(100_000))
    assert drawn.dtype == torch.float64
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert stats.kstest(drawn.numpy(), "uniform").pvalue > ALPHA


def test_any_row_can_be_drawn_alone():
    whole = below(9, grid(0, 50, 6, CPU), 1000)
    assert torch.equal(whole[17:20], below(9, grid(17, 3, 6, CPU), 1000))
    assert torch.equal(distinct(9, 0, 50, 6, 20, CPU)[17:20], distinct(9, 17, 3, 6, 20, CPU))
    weights = torch.arange(1.0, 8.0).double()
    assert torch.equal(weighted(9, 0, 50, 3, weights)[17:20], weighted(9, 17, 3, 3, weights))


def test_distinct_gives_every_ordered_draw_alike():
    drawn = distinct(key("distinct"), 0, 60_000, 3, 5, CPU)
    counts = Counter(map(tuple, drawn.tolist()))
    assert set(counts) == set(itertools.permutations(range(5), 3))
    assert stats.chisquare(list(counts.values())).pvalue > ALPHA


def test_distinct_over_many_chunks_and_to_the_last_one(monkeypatch):
    whole = distinct(3, 0, 40, 12, 12, CPU)
    assert (whole.sort(1).values == torch.arange(12)).all()
    # seven rows at a time, so tables are used again
    monkeypatch.setattr("recollect.tasks.sampling._TABLE_ENTRIES", 12 * 7)
    assert torch.equal(whole, distinct(3, 0, 40, 12, 12, CPU))


def test_weighted_draws_match_sequential_draws_without_replacement():
    weights = torch.tensor([4.0, 2.0, 1.0, 1.0]).double()
    drawn = weighted(key("race"), 0, 80_000, 2, weights)
    pairs = list(itertools.permutations(range(4), 2))
    w = weights.numpy()
    expected = np.array([w[a] / w.sum() * w[b] / (w.sum() - w[a]) for a, b in pairs]) * 80_000
    counts = Counter(map(tuple, drawn.tolist()))
    assert stats.chisquare([counts[pair] for pair in pairs], expected).pvalue > ALPHA


def test_nth_free_counts_what_is_not_used():
    used = torch.tensor([[3, 0, 5], [1, 2, 0], [9, 8, 7]])
    for rank in range(7):
        expected = [[n for n in range(10) if n not in row][rank] for row in used.tolist()]
        assert nth_free(used, torch.full((3,), rank)).tolist() == expected


def is_test(hashes: torch.Tensor, ranks: torch.Tensor, free: int) -> torch.Tensor:
    """The definition of the test world, read backwards."""
    return (ranks - hashes) % free < max(1, free // 16)


@pytest.mark.parametrize("free", [2, 3, 15, 16, 40])
def test_the_worlds_part_the_ends_of_every_prefix(free):
    prefix = distinct(5, 0, 300, 4, 30, CPU)
    hashes = prefix_hash(prefix)
    in_test = torch.stack(
        [is_test(hashes, torch.full((300,), rank), free) for rank in range(free)], 1
    )
    assert (in_test.sum(1) == max(1, free // 16)).all()
    assert in_test.any(0).all()  # no end is always train: the hash turns
    for world in ("train", "test"):
        ranks = last_rank(world, hashes, free, 7, torch.arange(300))
        assert (is_test(hashes, ranks, free) == (world == "test")).all()
        assert ranks.min() >= 0
        assert ranks.max() < free


def test_the_hash_sees_tokens_order_and_only_valid_places():
    rows = torch.tensor([[1, 2, 3], [2, 1, 3], [1, 2, 4], [1, 2, 3]])
    hashes = prefix_hash(rows)
    assert len(set(hashes.tolist())) == 3
    assert hashes[0] == hashes[3]
    valid = torch.tensor([[True, True, False]]).expand(4, 3)
    masked = prefix_hash(rows, valid)
    assert masked[0] == masked[2] != masked[1]
    assert torch.equal(masked, prefix_hash(rows[:, :2]))
