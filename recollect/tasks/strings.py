"""Code that the string tasks share.

It draws the strings of a split, assembles examples from pieces, and packs rows with examples.

A label is the next token: the label of position i is token i + 1. The letters of an answer are
trained on and scored. The end sign after them is trained on but not scored. All other positions
have no label.

Shapes: X examples, N letters, E tokens of an example; B rows, M examples that may begin in a row, L
length, K label slots.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recollect.ops.randomness import below, grid, key
from recollect.tasks.base import IGNORE, Batch
from recollect.tasks.options import StringsSpec
from recollect.tasks.splits import last_rank, prefix_hash, world_of

# The first column and the number of columns: an int for all examples, or (X, 1) for each.
Piece = tuple[Tensor | int, Tensor | int]


@dataclass(frozen=True)
class Strings:
    """Random strings of several lengths; letters after the end of a string are undefined."""

    letters_XN: Tensor
    length_X1: Tensor
    number_X1: Tensor  # index of the string in its stream, from which a task can draw more for it


@dataclass(frozen=True)
class Examples:
    """Strings with their questions and answers as tokens, followed by padding."""

    tokens_XE: Tensor
    size_X: Tensor  # number of tokens, including the end sign
    answer_X: Tensor  # number of letters of the answer, which precedes the end sign


def draw_strings(
    spec: StringsSpec, data_seed: int, split: str, first: int, count: int, device: torch.device
) -> Strings:
    """Draw the strings of rows first .. first + count - 1.

    Letters are uniform. Lengths are uniform in training and fixed in a test split. The last letter
    decides between train and test (splits.py), so the two never share a string, whatever the
    question is.
    """
    if split == "train":
        longest, shortest, per_row = spec.max_length, spec.min_length, spec.examples_per_row
    else:
        longest, shortest, per_row = spec.letters_of(split), spec.letters_of(split), 1
    stream = key("strings", data_seed, split)
    number_X = torch.arange(first * per_row, (first + count) * per_row, device=device)
    length_X1 = shortest + below(key("length", stream), number_X, longest - shortest + 1)[:, None]
    letters_XN = below(
        key("letters", stream),
        grid(first * per_row, count * per_row, longest, device),
        spec.alphabet,
    )
    hash_X = prefix_hash(letters_XN, torch.arange(longest, device=device) < length_X1 - 1)
    last_X = last_rank(world_of(split), hash_X, spec.alphabet, key("last", stream), number_X)
    return Strings(
        letters_XN.scatter(1, length_X1 - 1, last_X[:, None]), length_X1, number_X[:, None]
    )


def signs(strings: Strings) -> tuple[Piece, Piece, Piece]:
    """The pieces for begin, delimiter and end.

    `spell` holds these signs in the columns after the letters.
    """
    letters = strings.letters_XN.shape[1]
    return (letters, 1), (letters + 1, 1), (letters + 2, 1)


def spell(spec: StringsSpec, strings: Strings, pieces: list[Piece], answer_X1: Tensor) -> Examples:
    """Assemble examples from consecutive pieces of their strings and signs."""
    letters_XN, device = strings.letters_XN, strings.letters_XN.device
    # Begin, delimiter, end, padding. Created on the device: a copy from the host would wait for it.
    signs_4 = spec.begin + torch.arange(4, device=device)
    source_XC = torch.cat([letters_XN, signs_4.expand(len(letters_XN), -1)], 1)
    offset_E = torch.arange(spec.longest_example(letters_XN.shape[1]), device=device)
    start_X1 = torch.zeros_like(strings.length_X1)
    column_XE = offset_E.expand(len(letters_XN), -1)
    for first, count in pieces:
        column_XE = torch.where(offset_E >= start_X1, first + offset_E - start_X1, column_XE)
        start_X1 = start_X1 + count
    column_XE = torch.where(offset_E < start_X1, column_XE, source_XC.shape[1] - 1)
    return Examples(source_XC.gather(1, column_XE), start_X1[:, 0], answer_X1[:, 0])


def lay_out(spec: StringsSpec, split: str, examples: Examples, rows: int) -> Batch:
    """Arrange examples in rows: packed for training, one per row for a test."""
    return (
        _pack(spec, examples, rows)
        if split == "train"
        else _one_per_row(spec, examples, spec.letters_of(split))
    )


def _pack(spec: StringsSpec, examples: Examples, rows: int) -> Batch:
    """Pack examples one after another into rows of `context` tokens.

    An example that does not fit is cut off and has no labels.
    """
    size_BM = examples.size_X.view(rows, -1)
    end_BM = size_BM.cumsum(1)
    place_BL = torch.arange(spec.context, device=size_BM.device).expand(rows, -1).contiguous()
    which_BL = torch.searchsorted(end_BM, place_BL, right=True)
    end_BL = end_BM.gather(1, which_BL)
    offset_BL = size_BM.gather(1, which_BL) - (end_BL - place_BL)
    tokens_BL = examples.tokens_XE.view(rows, -1).gather(
        1, which_BL * examples.tokens_XE.shape[1] + offset_BL
    )
    answer_BL = examples.answer_X.view(rows, -1).gather(1, which_BL)
    to_predict_BL = (end_BL - place_BL <= answer_BL + 1) & (end_BL <= spec.context)
    return _label(spec, tokens_BL, to_predict_BL, spec.labels_per_row)


def _one_per_row(spec: StringsSpec, examples: Examples, letters: int) -> Batch:
    """Put one example in each row, for tests.

    The last column is left out of the input, because no token follows it.
    """
    to_end_XE = examples.size_X[:, None] - torch.arange(
        examples.tokens_XE.shape[1], device=examples.size_X.device
    )
    to_predict_XE = (to_end_XE >= 1) & (to_end_XE <= examples.answer_X[:, None] + 1)
    batch = _label(spec, examples.tokens_XE, to_predict_XE, spec.answers(letters)[1] + 1)
    return replace(batch, tokens_BL=batch.tokens_BL[:, :-1])


def _label(spec: StringsSpec, tokens_BL: Tensor, to_predict_BL: Tensor, slots: int) -> Batch:
    """Label each position with the next token, if that token is to be predicted.

    A stable sort moves these positions to the front, so that the shape is the same for rows with
    different numbers of labels.
    """
    asks_BL = torch.nn.functional.pad(to_predict_BL[:, 1:], (0, 1))
    where_BK = (~asks_BL).byte().argsort(dim=1, stable=True)[:, :slots]
    next_BK = tokens_BL.gather(1, (where_BK + 1).clamp(max=tokens_BL.shape[1] - 1))
    labels_BK = torch.where(asks_BL.gather(1, where_BK), next_BK, IGNORE)
    return Batch(tokens_BL, where_BK, labels_BK, (labels_BK != IGNORE) & (labels_BK != spec.end))
