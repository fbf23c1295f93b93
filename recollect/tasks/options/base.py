"""The base of all task specifications. Code that needs torch or data is in recollect/tasks."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from pydantic import Field

from recollect.spec.base import Spec

# Largest number of tokens in one set of rows in memory, 4 bytes each. A specification with more is
# taken for a mistake.
MOST_TOKENS = 2_000_000_000
TRAIN_SAMPLE_SHARE = 3  # test rows per training row in an evaluation


class TaskSpec(Spec, ABC):
    """Properties of a task that the model, the trainer, tables and error messages use."""

    score_name: ClassVar[
        Literal["accuracy", "exact"]
    ]  # which number a run is judged by, see rows.Evaluation

    name: str
    train_rows: int = Field(
        100_000, ge=1, le=10_000_000, description="training rows that make one epoch"
    )
    test_rows: int = Field(3_000, ge=1, le=1_000_000, description="rows of each test split")
    data: Literal["reshuffled", "fixed", "fresh"] = Field(
        "reshuffled",
        description="train_rows rows in a new order every epoch, in the same order, or new rows at "
        "every step",
    )

    @property
    @abstractmethod
    def chance(self) -> float:
        """Expected score of a model that knows the tokens of the context but not their binding."""

    @property
    @abstractmethod
    def label_vocabulary(self) -> int:
        """Number of token ids: the rows of the embedding and the columns of the head."""

    @property
    @abstractmethod
    def train_length(self) -> int:
        """Number of tokens in a training row."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Number of tokens in the longest row of any split, which positional tables must cover."""

    @property
    @abstractmethod
    def labels_per_row(self) -> int:
        """Number of label slots in a training row."""

    @property
    @abstractmethod
    def test_splits(self) -> tuple[str, ...]:
        """The names of the test splits."""

    @abstractmethod
    def test_length(self, test_split: str) -> int:
        """Number of tokens in a row of this test split."""

    @property
    def sampled_rows(self) -> int:
        """Number of training rows in an evaluation; 0 if every training row is new."""
        if self.data == "fresh":
            return 0
        return min(self.train_rows, max(1, self.test_rows // TRAIN_SAMPLE_SHARE))

    @property
    def evaluated_tokens(self) -> int:
        """Number of tokens in all rows of one evaluation."""
        tests = sum(self.test_rows * self.test_length(split) for split in self.test_splits)
        return tests + self.sampled_rows * self.train_length

    @property
    @abstractmethod
    def default_batch(self) -> int:
        """Rows per optimiser step if the specification gives no batch."""

    def check_batch(self, batch: int) -> None:
        """Refuse a batch with more rows than one epoch."""
        if not 1 <= batch <= self.train_rows:
            raise ValueError(
                f"batch = {batch}: must be between 1 and train_rows = {self.train_rows}; use a "
                "smaller batch"
            )
