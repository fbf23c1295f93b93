"""The interface of a task: batches are a pure function of (task, data seed, split, step).

Nothing here reads or changes a global random state. A task gives the same batches whatever model
was built before, and the same integers on every device (see ops/randomness.py). Train and test
never share an example (see splits.py).

Shapes: B rows of a batch, L length, K labelled positions per row. Where each of P members sees rows
of its own, every field of a batch has P in front.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

# The label of an empty slot. Empty slots exist only so that every row has K slots.
IGNORE = -100
# The split of training rows that every evaluation uses in addition to the test splits.
TRAIN_SAMPLE = "train sample"


@dataclass(frozen=True)
class Batch:
    """Rows ready for the model, all on one device."""

    tokens_BL: Tensor  # int64
    where_BK: Tensor  # int64: the position of each label
    labels_BK: Tensor  # int64: the right token at that position, or IGNORE
    # bool: whether the label counts for accuracy. A label may be trained on but not scored, such as
    # an end sign.
    scored_BK: Tensor

    @property
    def rows(self) -> int:
        return self.tokens_BL.shape[-2]

    def tensors(self) -> list[Tensor]:
        """All fields, in the order of their definition."""
        return [getattr(self, field.name) for field in fields(self)]

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Apply `function` to each field and return the new batch."""
        return type(self)(*map(function, self.tensors()))

    @classmethod
    def join(cls, parts: list[Self]) -> Self:
        """Concatenate the rows of all parts, in order."""
        fields = zip(*(part.tensors() for part in parts), strict=True)
        return cls(*(torch.cat(tensors, dim=-2) for tensors in fields))

    def padded(self, rows: int) -> Self:
        """Pad the batch to `rows` rows with copies of the first row.

        The copies have no labels, so they do not change the loss.
        """
        missing = rows - self.rows
        if missing <= 0:
            return self
        filling = self.map(lambda field: field[..., :1, :].expand(*field.shape[:-2], missing, -1))
        filling = replace(
            filling,
            labels_BK=torch.full_like(filling.labels_BK, IGNORE),
            scored_BK=torch.zeros_like(filling.scored_BK),
        )
        return self.join([self, filling])


class Task(ABC):
    """One task on one device.

    `batch(split, step)` may cache results but must not depend on the order of calls.
    """

    vocabulary: int
    length: int  # length of the longest row of any split, which positional tables must cover
    train_length: int  # the length of a training row
    labels_per_row: int  # K of the training split
    test_splits: tuple[str, ...]  # one name, or one per evaluated length
    has_training_set: bool  # training rows are repeated, so there is a TRAIN_SAMPLE

    @abstractmethod
    def batch(self, split: str, step: int, seeds: Sequence[int] | None = None) -> Batch:
        """Return the training rows of step `step` (from 0), or piece `step` of an evaluated split.

        With `seeds` there is one member per seed, and its training rows come in an order drawn from
        that seed.
        """

    @abstractmethod
    def pieces(self, split: str) -> int:
        """Number of batches of an evaluated split."""
