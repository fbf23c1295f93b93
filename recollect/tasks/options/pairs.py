"""Tasks of key-value pairs: their options and the rules for them.

A row begins with the pairs; the questions follow, and a label is at the position of its question.
The docstrings of recollect/tasks/mqar.py and recollect/tasks/recall.py show an example of each
task.
"""

from abc import ABC
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from recollect.spec.recipes.batches import usual_batch
from recollect.tasks.options.base import MOST_TOKENS, TaskSpec


class PairsSpec(TaskSpec, ABC):
    """Key-value pairs, then questions. Token 0 is filler and never a key or a value."""

    score_name: ClassVar[Literal["accuracy", "exact"]] = "accuracy"

    vocabulary: int = Field(8192, ge=4, le=1_000_000, description="token ids, filler included")
    length: int = Field(64, ge=3, le=65_536, description="tokens of a row")
    pairs: int = Field(4, ge=1, le=16_384, description="key-value pairs of a row")
    vocabulary_split: Literal["shared", "halves"] = Field(
        "shared",
        description="keys and values from one set, or keys from the lower half of the ids and "
        "values from the upper",
    )
    filler: Literal["zero", "random"] = Field(
        "zero", description="what stands where nothing is said: token 0, or any token at random"
    )

    @property
    def chance(self) -> float:
        """1 / pairs.

        Under mqar's power-law placement the position alone gives a little more; see
        placement.position_only_accuracy.
        """
        return 1 / self.pairs

    @property
    def label_vocabulary(self) -> int:
        return self.vocabulary

    @property
    def train_length(self) -> int:
        return self.length

    @property
    def longest(self) -> int:
        return self.length

    @property
    def test_splits(self) -> tuple[str, ...]:
        return ("test",)

    def test_length(self, test_split: str) -> int:
        return self.length

    @property
    def default_batch(self) -> int:
        """512 rows up to length 128, 256 up to 256, 128 up to 512, 64 above.

        These are the batch sizes of Zoology's figure 2.
        """
        return usual_batch(self.length, self.train_rows)

    @model_validator(mode="after")
    def _room_in_vocabulary(self) -> Self:
        if self.vocabulary_split == "shared" and self.vocabulary < 2 * self.pairs + 2:
            raise ValueError(
                f"vocabulary = {self.vocabulary}: must be at least 2 * pairs + 2 = "
                f"{2 * self.pairs + 2} (filler, the tokens of a row, one to spare); use at most "
                f"{(self.vocabulary - 2) // 2} pairs"
            )
        if self.vocabulary_split == "halves" and self.vocabulary % 2:
            raise ValueError(
                f"vocabulary = {self.vocabulary}: must be even to be cut in halves; use "
                f"{self.vocabulary + 1}"
            )
        if self.vocabulary_split == "halves" and self.pairs >= self.vocabulary // 2:
            raise ValueError(
                f"pairs = {self.pairs}: half of vocabulary = {self.vocabulary} holds only "
                f"{self.vocabulary // 2 - 1} keys; use a vocabulary of at least "
                f"{2 * self.pairs + 2}"
            )
        return self

    @model_validator(mode="after")
    def _fits_in_memory(self) -> Self:
        rows = max(self.test_rows, 0 if self.data == "fresh" else self.train_rows)
        if rows * self.length > MOST_TOKENS:
            raise ValueError(
                f"{rows} rows of length {self.length} are {rows * self.length} tokens: must be at "
                f"most {MOST_TOKENS}; "
                'use fewer rows, or data = "fresh"'
            )
        return self


class MqarSpec(PairsSpec):
    """Multi-query associative recall: every key is asked once, somewhere behind the pairs."""

    name: Literal["mqar"] = "mqar"
    placement: Literal["power", "uniform"] = Field(
        "power",
        description="slot g behind the pairs is asked with weight (g + 1) ** (power - 1), or all "
        "slots alike",
    )
    power: float = Field(
        0.01, ge=0, le=10, description="exponent of the power-law placement; 1 is uniform"
    )

    @property
    def labels_per_row(self) -> int:
        return self.pairs

    @property
    def slots(self) -> int:
        """Number of positions a question may have: slot g is position 2 * pairs + 2 * g."""
        return (self.length - 2 * self.pairs) // 2

    @property
    def slot_power(self) -> float:
        """The exponent of the placement that is used; 1 for uniform placement."""
        return self.power if self.placement == "power" else 1.0

    @model_validator(mode="after")
    def _room_in_row(self) -> Self:
        if self.length % 2:
            raise ValueError(
                f"length = {self.length}: must be even, questions stand at even positions; use "
                f"{self.length + 1}"
            )
        if 4 * self.pairs > self.length:
            raise ValueError(
                f"pairs = {self.pairs}: 4 * pairs must be at most length = {self.length}; use at "
                f"most {self.length // 4} pairs"
            )
        return self

    @model_validator(mode="after")
    def _power_has_an_effect(self) -> Self:
        # Otherwise two specifications of the same data would give two runs with two ids.
        if self.placement == "uniform" and self.power != type(self).model_fields["power"].default:
            raise ValueError(
                f'power = {self.power}: has no effect under placement = "uniform"; leave power out'
            )
        return self


class RecallSpec(PairsSpec):
    """Single-query associative recall: one of the keys is asked."""

    name: Literal["recall"] = "recall"
    query: Literal["last", "anywhere"] = Field(
        "last",
        description="where the question stands: at the last position, or at any position behind "
        "the pairs",
    )

    @property
    def labels_per_row(self) -> int:
        return 1

    @model_validator(mode="after")
    def _room_in_row(self) -> Self:
        if 2 * self.pairs + 1 > self.length:
            raise ValueError(
                f"pairs = {self.pairs}: 2 * pairs + 1 must be at most length = {self.length}; use "
                f"at most {(self.length - 1) // 2} pairs"
            )
        return self
