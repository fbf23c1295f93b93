"""What every task says about itself. No torch, no data: those are in recollect/tasks."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from pydantic import Field

from recollect.spec.base import Spec

# of one set of rows kept in memory, 4 bytes each: beyond it a specification is a mistake
MOST_TOKENS = 2_000_000_000
TRAIN_SAMPLE_SHARE = 3  # test rows for each training row that an evaluation looks at


class TaskSpec(Spec, ABC):
    """What every task says about itself: to the model, the trainer,
    the tables and the error messages.
    """

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
        """The expected score of a model that knows what stands
        in the context but not what belongs to what.
        """

    @property
    @abstractmethod
    def label_vocabulary(self) -> int:
        """How many token ids there are: the rows of the embedding and the columns of the head."""

    @property
    @abstractmethod
    def train_length(self) -> int:
        """Tokens of a training row."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Tokens of the longest row of any split: what positional tables must cover."""

    @property
    @abstractmethod
    def labels_per_row(self) -> int:
        """Label slots of a training row."""

    @property
    @abstractmethod
    def test_splits(self) -> tuple[str, ...]:
        """The names of the test splits."""

    @abstractmethod
    def test_length(self, test_split: str) -> int:
        """Tokens of a row of this test split."""

    @property
    def sampled_rows(self) -> int:
        """Training rows that an evaluation looks at; none where every row is new."""
        if self.data == "fresh":
            return 0
        return min(self.train_rows, max(1, self.test_rows // TRAIN_SAMPLE_SHARE))

    @property
    def evaluated_tokens(self) -> int:
        """Of all rows that one evaluation looks at."""
        tests = sum(self.test_rows * self.test_length(split) for split in self.test_splits)
        return tests + self.sampled_rows * self.train_length

    @property
    @abstractmethod
    def default_batch(self) -> int:
        """Rows of an optimiser step where the specification gives none."""

    def check_batch(self, batch: int) -> None:
        """Refuse a batch that one epoch cannot fill."""
        if not 1 <= batch <= self.train_rows:
            raise ValueError(
                f"batch = {batch}: must be between 1 and train_rows = {self.train_rows}; use a "
                "smaller batch"
            )
