"""mqar and recall: every row checked token by token, placement against exact probabilities,
train and test apart.
"""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from recollect.tasks.base import Batch
from recollect.tasks.build import SOURCES
from recollect.tasks.options import MqarSpec, RecallSpec
from recollect.tasks.options.pairs import PairsSpec
from recollect.tasks.options.placement import draw_probabilities, position_only_accuracy

CPU = torch.device("cpu")
SPECS = [
    MqarSpec(),
    MqarSpec(length=32, pairs=8, vocabulary=18),
    MqarSpec(
        length=40,
        pairs=8,
        vocabulary=18,
        vocabulary_split="halves",
        placement="uniform",
        filler="random",
    ),
    MqarSpec(length=4, pairs=1, vocabulary=4),
    RecallSpec(),
    RecallSpec(length=17, pairs=8, vocabulary=18),
    RecallSpec(
        length=30,
        pairs=4,
        vocabulary=100,
        vocabulary_split="halves",
        query="anywhere",
        filler="random",
    ),
]


def draw(
    spec: PairsSpec, split: str = "train", count: int = 500, seed: int = 0, first: int = 0
) -> Batch:
    return SOURCES[spec.name](spec, seed, split, first, count, CPU)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_every_row_is_well_formed(spec, split):
    batch = draw(spec, split)
    assert batch.tokens_BL.shape == (500, spec.length)
    assert (
        batch.where_BK.shape
        == batch.labels_BK.shape
        == batch.scored_BK.shape
        == (500, spec.labels_per_row)
    )
    assert batch.scored_BK.all()
    for tokens, where, labels in zip(
        *(t.tolist() for t in (batch.tokens_BL, batch.where_BK, batch.labels_BK)), strict=True
    ):
        context = tokens[: 2 * spec.pairs]
        assert len(set(context)) == 2 * spec.pairs
        assert min(context) > 0
        assert max(context) < spec.vocabulary
        bound = dict(zip(context[0::2], context[1::2], strict=True))
        assert [bound[tokens[place]] for place in where] == labels
        assert len(set(where)) == len(where)
        assert 2 * spec.pairs <= min(where)
        assert max(where) < spec.length
        if spec.filler == "zero":
            assert all(
                token == 0
                for place, token in enumerate(tokens[2 * spec.pairs :], 2 * spec.pairs)
                if place not in where
            )
        if spec.vocabulary_split == "halves":
            assert max(bound) < spec.vocabulary // 2 <= min(bound.values())
        if isinstance(spec, MqarSpec):
            assert [tokens[place] for place in where] == context[
                0::2
            ]  # every key once, label k belongs to pair k
            assert all(place % 2 == 0 for place in where)


def test_shared_vocabulary_uses_every_token_as_key_and_as_value():
    tokens = draw(MqarSpec(vocabulary=50), count=5000).tokens_BL
    for column in range(8):
        assert sorted(set(tokens[:, column].tolist())) == list(range(1, 50))


def test_contexts_are_uniform_in_both_worlds_together_and_apart():
    spec = MqarSpec(length=8, pairs=2, vocabulary=7)
    train, test = (
        [tuple(row) for row in draw(spec, split, 40_000).tokens_BL[:, :4].tolist()]
        for split in ("train", "test")
    )
    assert set(train) | set(test) == set(itertools.permutations(range(1, 7), 4))
    assert not set(train) & set(test)
    for world in (train, test):
        assert stats.chisquare(np.unique(world, axis=0, return_counts=True)[1]).pvalue > 1e-4


def test_keys_and_values_of_the_halves_are_drawn_independently():
    spec = MqarSpec(length=8, pairs=2, vocabulary=10, vocabulary_split="halves")
    contexts = [draw(spec, split, 40_000).tokens_BL[:, :4] for split in ("train", "test")]
    train, test = ({tuple(row) for row in rows.tolist()} for rows in contexts)
    keys, values = itertools.permutations(range(1, 5), 2), itertools.permutations(range(5, 10), 2)
    expected = {(a, c, b, d) for (a, b), (c, d) in itertools.product(keys, values)}
    assert train | test == expected
    assert not train & test
    for rows in contexts:
        assert stats.chisquare(np.unique(rows, axis=0, return_counts=True)[1]).pvalue > 1e-4


def asked(batch: Batch, pairs: int) -> torch.Tensor:
    """The pair of each row's first question."""
    keys_BK = batch.tokens_BL[:, 0 : 2 * pairs : 2]
    return (keys_BK == batch.tokens_BL.gather(1, batch.where_BK[:, :1])).int().argmax(1)


@pytest.mark.parametrize("other", [("test", 0), ("train", 1)], ids=repr)
def test_splits_and_seeds_have_nothing_in_common_but_the_rules(other):
    """Row by row: two independent draws out of n are equal in a share 1 / n of all rows."""
    many = {"length": 64, "pairs": 8, "filler": "random", "vocabulary": 50}
    split, seed = other
    for spec in (MqarSpec(placement="uniform", **many), RecallSpec(query="anywhere", **many)):
        one, two = draw(spec, count=4000), draw(spec, split, 4000, seed)
        places = spec.slots if isinstance(spec, MqarSpec) else 48
        shares = {
            "context": ((one.tokens_BL == two.tokens_BL)[:, :8], 49),
            "filler": ((one.tokens_BL == two.tokens_BL)[:, 16:], 50),
            "place": ((one.where_BK == two.where_BK)[:, 0], places),
        }
        if isinstance(spec, RecallSpec):
            shares["question"] = asked(one, 8) == asked(two, 8), 8
        for name, (equal, choices) in shares.items():
            share = equal.double().mean().item()
            assert share == pytest.approx(1 / choices, abs=5 / (4000 * choices) ** 0.5), name


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_train_and_test_share_no_context_under_any_seed(spec):
    contexts = {
        split: {
            tuple(row)
            for seed in (0, 1)
            for row in draw(spec, split, 2000, seed).tokens_BL[:, : 2 * spec.pairs].tolist()
        }
        for split in ("train", "test")
    }
    assert contexts["train"]
    assert contexts["test"]
    assert not contexts["train"] & contexts["test"]


# (length, pairs), P(first draw takes slot 0), share of rows asking at slot 0, best accuracy from
# the position alone: Zoology's generator, simulated independently with 40,000 to 200,000 draws.
LEAK = [
    ((64, 4), 0.251, 0.72, 0.287),
    ((128, 8), 0.213, 0.89, 0.154),
    ((256, 16), 0.185, 0.98, 0.082),
]


@pytest.mark.parametrize(("setting", "first", "occupied", "accuracy"), LEAK)
def test_power_law_placement_matches_exact_probabilities(setting, first, occupied, accuracy):
    length, pairs = setting
    spec, rows = MqarSpec(length=length, pairs=pairs, vocabulary=64), 40_000
    slots = (draw(spec, count=rows).where_BK - 2 * pairs) // 2
    weights = np.arange(1, spec.slots + 1) ** (spec.power - 1)
    assert weights[0] / weights.sum() == pytest.approx(first, abs=5e-4)
    counts = torch.bincount(slots[:, 0], minlength=spec.slots).numpy()
    assert stats.chisquare(counts, weights / weights.sum() * rows).pvalue > 1e-4
    assert (slots == 0).any(1).double().mean().item() == pytest.approx(occupied, abs=0.012)
    exact = draw_probabilities(spec.slots, pairs, spec.power)
    for pair in range(pairs):
        counts = torch.bincount(slots[:, pair], minlength=spec.slots).numpy()
        assert stats.chisquare(counts, exact[pair] / exact[pair].sum() * rows).pvalue > 1e-4
    guess = torch.from_numpy(exact.argmax(0))
    measured = (guess[slots] == torch.arange(pairs)).double().mean().item()
    assert measured == pytest.approx(position_only_accuracy(spec), abs=0.005)
    assert measured == pytest.approx(accuracy, abs=0.005)


def test_exact_placement_agrees_with_enumeration():
    weights, pairs = np.arange(1, 6) ** (0.5 - 1), 3
    expected = np.zeros((pairs, 5))
    for order in itertools.permutations(range(5), pairs):
        left, probability = weights.sum(), 1.0
        for slot in order:
            probability *= weights[slot] / left
            left -= weights[slot]
        for pair, slot in enumerate(order):
            expected[pair, slot] += probability
    assert np.abs(draw_probabilities(5, pairs, 0.5) - expected).max() < 1e-7


def test_uniform_placement_leaks_nothing():
    spec, rows = MqarSpec(placement="uniform", vocabulary=64), 40_000
    assert position_only_accuracy(spec) == pytest.approx(1 / 4, abs=1e-6)
    slots = (draw(spec, count=rows).where_BK - 8) // 2
    table = np.stack(
        [torch.bincount(slots[:, pair], minlength=spec.slots).numpy() for pair in range(4)]
    )
    assert stats.chisquare(table, table.sum() / table.size, axis=None).pvalue > 1e-4


def test_recall_asks_every_pair_and_place_alike():
    spec = RecallSpec(length=20, pairs=4, vocabulary=64, query="anywhere")
    batch = draw(spec, count=40_000)
    pair = asked(batch, 4).numpy()
    table = np.histogram2d(pair, batch.where_BK[:, 0].numpy() - 8, bins=(4, 12))[0]
    assert table.sum() == 40_000
    assert stats.chisquare(table, 40_000 / 48, axis=None).pvalue > 1e-4
    last = draw(RecallSpec(length=20, pairs=4, vocabulary=64), count=50)
    assert (last.where_BK == 19).all()


@pytest.mark.parametrize(
    "spec", [MqarSpec(placement="uniform"), MqarSpec(length=256, pairs=16), RecallSpec()], ids=repr
)
def test_chance_is_what_an_oracle_without_the_binding_reaches(spec):
    batch = draw(spec, "test", 5000)
    guess = batch.tokens_BL[:, 1:2]  # it knows that position 1 holds a value, and says it always
    right = (guess == batch.labels_BK).double().mean().item()
    assert right == pytest.approx(spec.chance, abs=4 * (spec.chance / 5000) ** 0.5)


CHANGES = [
    {"vocabulary": 4096},
    {"length": 66},
    {"pairs": 5},
    {"vocabulary_split": "halves"},
    {"filler": "random"},
    {"placement": "uniform"},
    {"power": 0.5},
]


@pytest.mark.parametrize("change", CHANGES, ids=repr)
def test_every_field_changes_the_data(change):
    one, other = draw(MqarSpec()).tokens_BL, draw(MqarSpec(**change)).tokens_BL
    assert one.shape != other.shape or not torch.equal(one, other)


def test_random_filler_covers_the_vocabulary_and_spares_the_questions():
    tokens = draw(MqarSpec(vocabulary=12, filler="random"), count=3000).tokens_BL
    assert sorted(set(tokens[:, 9::2].flatten().tolist())) == list(range(12))
