"""From rows to batches: one feed serves every task.

A task is one pure function, `rows(spec, data_seed, split, first, count, device)`, which returns
rows `first` to `first + count - 1` of a split. The feed decides which of them an optimiser step
sees and caches rows that are used again. It never reads a value from the device, so training never
waits for it.

    reshuffled   train_rows rows; epoch e takes them in an order drawn from (data seed, e)
    fixed        the same rows in the same order in every epoch
    fresh        step s takes the rows s * batch to (s + 1) * batch - 1 of an endless table

With seeds (train.order = "seed") a member's order is drawn from (data seed, its seed, e), and with
`fixed` rows from (data seed, its seed). The rows themselves are the same for all members.

An epoch has train_rows // batch steps. If rows remain, `reshuffled` leaves out different ones in
every epoch and `fixed` always the last ones; with train.last_batch = "keep" they make one more
step. Every step has the same shape: a smaller step is padded with rows without labels.

Evaluations use the test splits and, if training rows are repeated, the first training rows
(TRAIN_SAMPLE). Their number is a third of the test rows, so that they cost a third as much.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import torch

from recollect.errors import SpecError
from recollect.ops.randomness import bits, key
from recollect.spec.recipes.batches import steps_per_epoch
from recollect.tasks.base import TRAIN_SAMPLE, Batch, Task
from recollect.tasks.options import TaskSpec

# Tokens drawn at a time: enough to keep a device busy, few enough to stay in a cache.
_BLOCK_TOKENS = 1 << 20
_BLOCK_STEPS = 64  # largest number of fresh steps drawn ahead


SpecT = TypeVar("SpecT", bound=TaskSpec, contravariant=True)


class RowSource(Protocol[SpecT]):
    """A task as a pure function that returns its rows."""

    def __call__(
        self, spec: SpecT, data_seed: int, split: str, first: int, count: int, device: torch.device
    ) -> Batch: ...


class Feed(Task):
    """The batches of one task on one device."""

    def __init__(
        self,
        spec: TaskSpec,
        source: RowSource[Any],
        data_seed: int,
        batch: int,
        device: torch.device | str,
        keep_last: bool = False,
    ):
        try:
            spec.check_batch(batch)
        except ValueError as error:
            raise SpecError(str(error)) from None
        self.spec, self.data_seed, self.batch_rows = spec, data_seed, batch
        self.device, self._source = torch.device(device), source
        self.vocabulary = spec.label_vocabulary
        self.length, self.train_length = spec.longest, spec.train_length
        self.labels_per_row, self.test_splits = spec.labels_per_row, spec.test_splits
        self.has_training_set = spec.sampled_rows > 0
        self.steps_per_epoch = steps_per_epoch(spec.train_rows, batch, keep_last)
        self._sets: dict[str, Batch] = {}  # whole splits
        # Orders of rows of the newest epochs, by (seed, epoch); seed None: shared by all members.
        self._orders: dict[tuple[int | None, int], torch.Tensor] = {}
        # The newest block of fresh rows, with its number.
        self._ahead: tuple[int, Batch] | None = None

    def batch(self, split: str, step: int, seeds: Sequence[int] | None = None) -> Batch:
        pieces = self.pieces(split) if split != "train" else step + 1
        if not 0 <= step < pieces:
            raise SpecError(
                f"step = {step}: must be at least 0 and, for a test split, less than its {pieces} "
                "pieces"
            )
        if split != "train":
            whole = self._evaluated(split)
            return _widen(_cut(whole, step * self.batch_rows, self.batch_rows))
        if self.spec.data == "fresh":
            return self._fresh(step)
        rows = self._whole("train", self.spec.train_rows)
        epoch, within = divmod(step, self.steps_per_epoch)
        first = within * self.batch_rows
        if self.spec.data == "fixed" and seeds is None:
            chosen = _cut(rows, first, self.batch_rows)
        else:
            span = slice(first, first + self.batch_rows)
            chosen_B = (
                self._order(epoch)[span]
                if seeds is None
                else torch.stack([self._order(epoch, seed)[span] for seed in seeds])
            )
            chosen = rows.map(lambda field: field[chosen_B])
        return _widen(chosen.padded(self.batch_rows))

    def pieces(self, split: str) -> int:
        return -(-self._evaluated(split).rows // self.batch_rows)

    def _evaluated(self, split: str) -> Batch:
        """All rows of a test split or of the sample of training rows."""
        spec = self.spec
        if split == TRAIN_SAMPLE and self.has_training_set:
            return _cut(self._whole("train", spec.train_rows), 0, spec.sampled_rows)
        if split not in self.test_splits:
            raise SpecError(
                f"split = {split!r}: must be train or one of the test splits; known: "
                f"{', '.join(self.test_splits)}"
            )
        return self._whole(split, spec.test_rows)

    def _whole(self, split: str, count: int) -> Batch:
        """A whole split, drawn once in blocks and cached with 4 bytes per token."""
        if split not in self._sets:
            block = max(1, _BLOCK_TOKENS // self.length)
            parts = [
                self._rows(split, first, min(block, count - first))
                for first in range(0, count, block)
            ]
            self._sets[split] = Batch.join([_narrow(part) for part in parts])
        return self._sets[split]

    def _fresh(self, step: int) -> Batch:
        steps = min(_BLOCK_STEPS, max(1, _BLOCK_TOKENS // (self.batch_rows * self.train_length)))
        number, within = divmod(step, steps)
        if self._ahead is None or self._ahead[0] != number:
            rows = steps * self.batch_rows
            self._ahead = number, self._rows("train", number * rows, rows)
        return _widen(_cut(self._ahead[1], within * self.batch_rows, self.batch_rows))

    def _order(self, epoch: int, seed: int | None = None) -> torch.Tensor:
        """Indices of all training rows in the order of an epoch."""
        epoch = 0 if self.spec.data == "fixed" else epoch
        if (seed, epoch) not in self._orders:
            # Packs that train concurrently may be one epoch apart.
            newest = {at: order for at, order in self._orders.items() if at[1] >= epoch - 1}
            drawn_from = (self.data_seed, *(() if seed is None else ("seed", seed)), epoch)
            counters = torch.arange(self.spec.train_rows, device=self.device)
            order = bits(key("order", *drawn_from), counters).argsort()
            self._orders = newest | {(seed, epoch): order}
        return self._orders[seed, epoch]

    def _rows(self, split: str, first: int, count: int) -> Batch:
        return self._source(self.spec, self.data_seed, split, first, count, self.device)


def _cut(rows: Batch, first: int, count: int) -> Batch:
    return rows.map(lambda field: field[first : first + count])


def _narrow(rows: Batch) -> Batch:
    """Convert integers to 4 bytes, since whole splits stay in memory."""
    return rows.map(lambda field: field if field.dtype == torch.bool else field.int())


def _widen(rows: Batch) -> Batch:
    """Convert integers to 8 bytes, as an embedding needs them."""
    return rows.map(lambda field: field if field.dtype == torch.bool else field.long())
