"""N-gram lookup (Jelassi et al. 2024): given a random string and a piece of it, continue the piece.

    position   0         1                   position   0         1
               0123456789012345678                      012345678901234567
    prefix     $xh|vqgzxhbl|bl.***           suffix     $vqgzxhbl|xhbl.***
    labels                 bl.                                   bl.

These are test rows with strings of 8 letters and n = 2: $ begin, | delimiter, . end, * padding. The
answer consists of the letters that follow x h, then the end sign.

The question is taken from a random place of the string, never from its end. The answer consists of
the letters that follow the FIRST occurrence of the question, up to the end of the string or
`answer_length` letters. As in the official code, the question need not be unique: with 26 letters
and n = 2, 4 % of the questions occur more than once in a string of 30 letters.
"""

import torch
from torch import Tensor

from recollect.ops.randomness import below, key
from recollect.tasks.base import Batch
from recollect.tasks.options import NgramLookupSpec
from recollect.tasks.strings import Strings, draw_strings, lay_out, signs, spell


def rows(
    spec: NgramLookupSpec, data_seed: int, split: str, first: int, count: int, device: torch.device
) -> Batch:
    """Rows first .. first + count - 1 of a split."""
    strings = draw_strings(spec, data_seed, split, first, count, device)
    taken_X1 = below(
        key("question", data_seed, split), strings.number_X1, strings.length_X1 - spec.ngram
    )
    place_X1 = _first_occurrence(strings, taken_X1, spec.ngram)
    behind_X1 = strings.length_X1 - spec.ngram - place_X1
    answer_X1 = behind_X1.clamp(max=spec.answer_length) if spec.answer_length else behind_X1
    begin, delimiter, end = signs(strings)
    string, question, answer = (
        (0, strings.length_X1),
        (place_X1, spec.ngram),
        (place_X1 + spec.ngram, answer_X1),
    )
    if spec.kind == "prefix":
        pieces = [begin, question, delimiter, string, delimiter, answer, end]
    else:
        pieces = [begin, string, delimiter, question, answer, end]
    return lay_out(spec, split, spell(spec, strings, pieces, answer_X1), count)


def _first_occurrence(strings: Strings, taken_X1: Tensor, ngram: int) -> Tensor:
    """Position of the first occurrence of the n-gram at `taken`.

    It is at `taken` or before, so never after the end of the string.
    """
    letters_XN = strings.letters_XN
    places = letters_XN.shape[1] - ngram + 1
    match_XP = torch.ones(len(letters_XN), places, dtype=torch.bool, device=letters_XN.device)
    for within in range(ngram):
        match_XP &= letters_XN[:, within : within + places] == letters_XN.gather(
            1, taken_X1 + within
        )
    return match_XP.byte().argmax(1, keepdim=True)
