"""copying and n-gram lookup: packed rows read back example by example with a plain parser,
answers by brute force.
"""

import pytest
import torch
from scipy import stats

from recollect.tasks.base import IGNORE, Batch
from recollect.tasks.build import SOURCES
from recollect.tasks.options import CopyingSpec, NgramLookupSpec
from recollect.tasks.options.strings import StringsSpec

CPU = torch.device("cpu")
SPECS = [
    CopyingSpec(),
    CopyingSpec(alphabet=2, min_length=1, max_length=9, context=30, eval_lengths=(1, 12)),
    CopyingSpec(min_length=7, max_length=7, context=17, eval_lengths=(9,)),
    NgramLookupSpec(),
    NgramLookupSpec(kind="prefix", eval_lengths=(20, 40)),
    NgramLookupSpec(
        kind="prefix",
        alphabet=3,
        ngram=1,
        answer_length=1,
        min_length=2,
        max_length=15,
        context=60,
        eval_lengths=(2, 9),
    ),
    NgramLookupSpec(
        kind="suffix",
        alphabet=4,
        ngram=3,
        answer_length=2,
        min_length=4,
        max_length=15,
        context=40,
        eval_lengths=(30,),
    ),
]


def draw(spec: StringsSpec, split: str = "train", count: int = 200, seed: int = 0) -> Batch:
    return SOURCES[spec.name](spec, seed, split, 0, count, CPU)


def labels_of(batch: Batch, row: int) -> dict[int, int]:
    pairs = zip(batch.where_BK[row].tolist(), batch.labels_BK[row].tolist(), strict=True)
    return {place: label for place, label in pairs if label != IGNORE}


def split_example(spec: StringsSpec, tokens: list[int]) -> tuple[list[int], list[int], list[int]]:
    """An example without its end sign, as (string, question, answer)."""
    assert tokens[0] == spec.begin
    parts, part = [], []
    for token in tokens[1:]:
        if token == spec.delimiter:
            parts.append(part)
            part = []
        else:
            assert token < spec.alphabet
            part.append(token)
    parts.append(part)
    if isinstance(spec, CopyingSpec):
        string, answer = parts
        return string, [], answer
    assert isinstance(spec, NgramLookupSpec)
    if spec.kind == "prefix":
        question, string, answer = parts
        return string, question, answer
    string, tail = parts
    return string, tail[: spec.ngram], tail[spec.ngram :]


def right_answer(spec: StringsSpec, string: list[int], question: list[int]) -> list[int]:
    if isinstance(spec, CopyingSpec):
        return string
    assert isinstance(spec, NgramLookupSpec)
    n = spec.ngram
    place = next(place for place in range(len(string)) if string[place : place + n] == question)
    return string[place + n :][: spec.answer_length or None]


def read_row(spec: StringsSpec, tokens: list[int], labels: dict[int, int]) -> list[list[int]]:
    """Checks every complete example of a row and that exactly its answer and end are labelled;
    gives back the strings.
    """
    strings, start, expected = [], 0, {}
    while spec.end in tokens[start:]:
        end = tokens.index(spec.end, start)
        string, question, answer = split_example(spec, tokens[start:end])
        assert answer
        assert answer == right_answer(spec, string, question)
        expected |= {place - 1: tokens[place] for place in range(end - len(answer), end + 1)}
        strings.append(string)
        start = end + 1
    assert labels == expected
    return strings


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_packed_rows_read_back_into_well_formed_examples(spec):
    batch = draw(spec)
    assert batch.tokens_BL.shape == (200, spec.context)
    assert batch.where_BK.shape == batch.labels_BK.shape == (200, spec.labels_per_row)
    lengths = set()
    for row, tokens in enumerate(batch.tokens_BL.tolist()):
        strings = read_row(spec, tokens, labels_of(batch, row))
        assert strings  # no row without a label
        assert spec.padding not in tokens
        lengths |= {len(string) for string in strings}
    assert lengths == set(range(spec.min_length, spec.max_length + 1))
    assert batch.where_BK.max() < spec.context - 1
    assert torch.equal(batch.scored_BK, (batch.labels_BK >= 0) & (batch.labels_BK < spec.alphabet))


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_test_rows_hold_one_example_of_their_length(spec):
    for split, length in zip(spec.test_splits, spec.eval_lengths, strict=True):
        assert split == f"length {length}"
        batch = draw(spec, split)
        assert batch.tokens_BL.shape[1] <= spec.longest
        for row, tokens in enumerate(batch.tokens_BL.tolist()):
            labels = labels_of(batch, row)
            whole = [*tokens, labels[max(labels)]] if max(labels) == len(tokens) - 1 else tokens
            (string,) = read_row(spec, whole, labels)
            assert len(string) == length
            assert set(whole[whole.index(spec.end) + 1 :]) <= {spec.padding}
        assert torch.equal(
            batch.scored_BK.sum(1) + 1, (batch.labels_BK != IGNORE).sum(1)
        )  # all but the end sign


def expected_density(spec: CopyingSpec) -> tuple[float, float]:
    """Complete examples per row and share of labelled tokens, exactly: the chances of where the
    m-th example ends, m by m.
    """
    lengths = range(spec.min_length, spec.max_length + 1)
    ends, complete, labels = {0: 1.0}, 0.0, 0.0
    while ends:
        further: dict[int, float] = {}
        for end, chance in ends.items():
            for letters in lengths:
                if end + 2 * letters + 3 <= spec.context:
                    share = chance / len(lengths)
                    further[end + 2 * letters + 3] = further.get(end + 2 * letters + 3, 0.0) + share
                    complete, labels = complete + share, labels + share * (letters + 1)
        ends = further
    return complete, labels / spec.context


def test_packing_has_the_density_of_the_official_setting():
    spec = CopyingSpec()
    complete, share = expected_density(spec)
    assert (complete, share) == (pytest.approx(7.4, abs=0.05), pytest.approx(0.45, abs=0.005))
    batch = draw(spec, count=4000)
    ends = (batch.labels_BK == spec.end).sum(1).double()
    assert ends.mean().item() == pytest.approx(complete, abs=4 * ends.std().item() / 4000**0.5)
    shares = (batch.labels_BK != IGNORE).double().sum(1) / spec.context
    assert shares.mean().item() == pytest.approx(share, abs=4 * shares.std().item() / 4000**0.5)


def test_lengths_and_letters_are_uniform():
    spec = CopyingSpec(min_length=3, max_length=6, context=15, alphabet=5)
    tokens = draw(spec, count=20_000).tokens_BL  # the first example always fits
    length = (tokens == spec.delimiter).int().argmax(1) - 1
    assert stats.chisquare(torch.bincount(length - 3).numpy()).pvalue > 1e-4
    for place in range(1, 4):
        assert stats.chisquare(torch.bincount(tokens[:, place]).numpy()).pvalue > 1e-4
    last = tokens.gather(1, length[:, None])[:, 0]
    assert stats.chisquare(torch.bincount(last).numpy()).pvalue > 1e-4


@pytest.mark.parametrize("spec", SPECS[:2] + SPECS[-2:], ids=repr)
def test_train_and_test_share_no_string_under_any_seed(spec):
    train = set()
    for seed in (0, 1):
        batch = draw(spec, count=400, seed=seed)
        for row, tokens in enumerate(batch.tokens_BL.tolist()):
            train |= {tuple(string) for string in read_row(spec, tokens, labels_of(batch, row))}
    short = spec.model_copy(
        update={"eval_lengths": tuple(range(spec.min_length, min(spec.max_length, 6) + 1))}
    )
    for split, length in zip(short.test_splits, short.eval_lengths, strict=True):
        for tokens in draw(short, split, 300).tokens_BL.tolist():
            start = (
                2 + spec.ngram if isinstance(spec, NgramLookupSpec) and spec.kind == "prefix" else 1
            )
            assert tuple(tokens[start : start + length]) not in train


def test_copying_short_strings_fills_both_worlds():
    """Every string is in exactly one of the two worlds."""
    spec = CopyingSpec(alphabet=3, min_length=3, max_length=3, context=9, eval_lengths=(3,))
    train = {tuple(row[1:4]) for row in draw(spec, count=2000).tokens_BL.tolist()}
    test = {tuple(row[1:4]) for row in draw(spec, "length 3", 2000).tokens_BL.tolist()}
    assert not train & test
    assert (len(train), len(test)) == (18, 9)


def test_questions_need_not_be_unique_as_in_the_official_code():
    spec = NgramLookupSpec(ngram=1, eval_lengths=(30,))
    repeated = 0
    for tokens in draw(spec, "length 30", 2000).tokens_BL.tolist():
        string, question, _ = split_example(
            spec, tokens[: tokens.index(spec.end)] if spec.end in tokens else tokens
        )
        repeated += string.count(question[0]) > 1
    assert repeated / 2000 == pytest.approx(0.69, abs=0.03)


def places_of(spec: NgramLookupSpec, split: str = "length 12", seed: int = 0) -> torch.Tensor:
    """Where the questions of test rows were taken from: with so many letters each occurs once."""
    tokens_BL = draw(spec, split, 20_000, seed).tokens_BL
    return (tokens_BL[:, 1:13] == tokens_BL[:, 14:15]).int().argmax(1)


def test_questions_are_from_every_place_but_the_end():
    spec = NgramLookupSpec(alphabet=10_000, ngram=3, eval_lengths=(12,))
    places = places_of(spec)
    assert stats.chisquare(torch.bincount(places, minlength=9).numpy()).pvalue > 1e-4
    assert places.max() == 8  # one letter is left to answer
    equal = (places == places_of(spec, seed=1)).double().mean().item()
    assert equal == pytest.approx(1 / 9, abs=0.02)


def test_a_row_of_the_test_split_is_not_the_training_row_with_another_end():
    spec = CopyingSpec(min_length=7, max_length=7, context=17, eval_lengths=(7,))
    train, test = draw(spec).tokens_BL, draw(spec, "length 7").tokens_BL
    assert (train[:, 1:7] == test[:, 1:7]).double().mean() < 0.1


def test_chance_of_a_lookup_is_a_guess_of_every_letter():
    assert NgramLookupSpec(answer_length=1).chance == pytest.approx(1 / 26)
    assert CopyingSpec(alphabet=2, eval_lengths=(1, 2)).chance == pytest.approx((1 / 2 + 1 / 4) / 2)
    # string of 4 letters, question of 2: the answer has 2 or 1 letters, each place alike
    assert NgramLookupSpec(alphabet=10, min_length=3, eval_lengths=(4,)).chance == pytest.approx(
        (0.01 + 0.1) / 2
    )
