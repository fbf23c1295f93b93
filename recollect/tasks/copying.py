"""Copying (Jelassi et al. 2024): a random string, then the same string again.

    position   0         1         2         3      a training row of 32 tokens
               01234567890123456789012345678901     with strings of 3 to 6 letters
    tokens     $gmuglv|gmuglv.$dbh|dbh.$qubycq|     $ begin, | delimiter, . end
    labels            gmuglv.     dbh.              a label is the next token

The third example is cut off and has no labels.
Training rows are packed with such examples back to back. A test row holds one example, with teacher
forcing. A test string counts as copied if every letter is right, which is equivalent to an exact
match of greedy decoding.
"""

import torch

from recollect.tasks.base import Batch
from recollect.tasks.options import CopyingSpec
from recollect.tasks.strings import draw_strings, lay_out, signs, spell


def rows(
    spec: CopyingSpec, data_seed: int, split: str, first: int, count: int, device: torch.device
) -> Batch:
    """Rows first .. first + count - 1 of a split."""
    strings = draw_strings(spec, data_seed, split, first, count, device)
    begin, delimiter, end = signs(strings)
    string = (0, strings.length_X1)
    examples = spell(spec, strings, [begin, string, delimiter, string, end], strings.length_X1)
    return lay_out(spec, split, examples, count)
