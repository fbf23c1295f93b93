"""String tasks: their options and the rules for them.

An example is a string, then part of it again; a label is the next token. The docstrings of
recollect/tasks/copying.py and recollect/tasks/ngram_lookup.py show an example of each task.
"""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from recollect.spec.base import Numbers
from recollect.tasks.options.base import MOST_TOKENS, TaskSpec

# Largest number of letters drawn for one packed row: all examples that could begin in it, each with
# max_length letters.
MOST_LETTERS = 4_000_000


class StringsSpec(TaskSpec, ABC):
    """A random string, then part of it again.

    Training rows are packed with examples, test rows have one example each. Token ids: letters
    0 .. alphabet - 1, then begin, delimiter, end, padding. Every training row is new, so an epoch
    is only a number of rows.
    """

    score_name: ClassVar[Literal["accuracy", "exact"]] = "exact"

    train_rows: int = Field(
        16_000,
        ge=1,
        le=10_000_000,
        description="training rows that make one epoch; each of them is new",
    )
    test_rows: int = Field(
        1_000, ge=1, le=1_000_000, description="test strings of each evaluated length"
    )
    data: Literal["fresh"] = Field("fresh", description="new rows at every step")
    alphabet: int = Field(26, ge=2, le=10_000, description="letters")
    min_length: int = Field(
        5, ge=1, le=16_384, description="letters of the shortest training string"
    )
    max_length: int = Field(
        20, ge=1, le=16_384, description="letters of the longest training string"
    )
    context: int = Field(
        220, ge=1, le=65_536, description="tokens of a training row, packed with examples"
    )
    eval_lengths: Annotated[Numbers, Field(min_length=1, max_length=64)] = Field(
        (20,), description="letters of the test strings; one test split for each length"
    )

    @property
    @abstractmethod
    def frame(self) -> int:
        """Number of tokens of an example without the letters of its string and its answer."""

    @abstractmethod
    def answers(self, letters: int) -> tuple[int, int]:
        """Lengths of the shortest and the longest answer for a string of `letters` letters."""

    @property
    def vocabulary(self) -> int:
        return self.alphabet + 4

    @property
    def begin(self) -> int:
        return self.alphabet

    @property
    def delimiter(self) -> int:
        return self.alphabet + 1

    @property
    def end(self) -> int:
        return self.alphabet + 2

    @property
    def padding(self) -> int:
        return self.alphabet + 3

    @property
    def label_vocabulary(self) -> int:
        return self.vocabulary

    @property
    def train_length(self) -> int:
        return self.context

    @property
    def longest(self) -> int:
        return max(self.context, *map(self.test_length, self.test_splits))

    @property
    def labels_per_row(self) -> int:
        """Upper bound: a row filled with examples that have the largest share of labels."""
        with_whole_answer = range(self.min_length, self.max_length + 1)
        return max(
            self.context * (self.answers(n)[1] + 1) // self.longest_example(n)
            for n in with_whole_answer
        )

    @property
    def examples_per_row(self) -> int:
        """Largest number of examples that can begin in a packed row."""
        shortest = self.min_length + self.answers(self.min_length)[0] + self.frame
        return -(-self.context // shortest)

    @property
    def test_splits(self) -> tuple[str, ...]:
        return tuple(f"length {letters}" for letters in self.eval_lengths)

    def test_length(self, test_split: str) -> int:
        """Number of tokens in a row, without the end sign, as no label follows it."""
        return self.longest_example(self.letters_of(test_split)) - 1

    @property
    def default_batch(self) -> int:
        """8 rows, as in the official code.

        Packed rows hold several examples each: 8 rows hold about 58 at the default lengths.
        """
        return min(8, self.train_rows)

    def longest_example(self, letters: int) -> int:
        """Number of tokens of the longest example with a string of `letters` letters.

        The end sign is included.
        """
        return letters + self.answers(letters)[1] + self.frame

    def letters_of(self, test_split: str) -> int:
        """The string length of a test split."""
        return self.eval_lengths[self.test_splits.index(test_split)]

    @model_validator(mode="after")
    def _lengths_make_sense(self) -> Self:
        shortest = self._shortest_string
        if self.min_length > self.max_length:
            raise ValueError(
                f"min_length = {self.min_length}: must be at most max_length = {self.max_length}; "
                "exchange them"
            )
        if self.min_length < shortest:
            raise ValueError(
                f"min_length = {self.min_length}: must be at least {shortest} to hold a question "
                "and an answer"
            )
        for letters in self.eval_lengths:
            if not shortest <= letters <= 32_000:
                raise ValueError(
                    f"eval_lengths has {letters}: every length must be between {shortest} and 32000"
                )
        if len(set(self.eval_lengths)) < len(self.eval_lengths):
            raise ValueError(
                f"eval_lengths = {list(self.eval_lengths)}: every length must stand there once; "
                "drop the repeats"
            )
        return self

    @model_validator(mode="after")
    def _room(self) -> Self:
        needed = self.longest_example(self.max_length)
        if self.context < needed:
            raise ValueError(
                f"context = {self.context}: must hold one example of max_length = "
                f"{self.max_length}; use at least {needed}"
            )
        if self.examples_per_row * self.max_length > MOST_LETTERS:
            raise ValueError(
                f"context = {self.context}: may begin {self.examples_per_row} examples of up to "
                f"{self.max_length} letters, more than {MOST_LETTERS} letters a row; raise "
                "min_length or lower context"
            )
        if self.test_rows * self.longest > MOST_TOKENS:
            raise ValueError(
                f"test_rows = {self.test_rows}: test_rows * {self.longest} tokens must be at most "
                f"{MOST_TOKENS}; use fewer rows"
            )
        return self

    @property
    def _shortest_string(self) -> int:
        return 1


class CopyingSpec(StringsSpec):
    """Copy the string, letter by letter."""

    name: Literal["copying"] = "copying"

    @property
    def frame(self) -> int:
        return 3

    @property
    def chance(self) -> float:
        return sum(self.alphabet**-letters for letters in self.eval_lengths) / len(
            self.eval_lengths
        )

    def answers(self, letters: int) -> tuple[int, int]:
        return letters, letters


class NgramLookupSpec(StringsSpec):
    """Find a piece of the string and continue it."""

    name: Literal["ngram_lookup"] = "ngram_lookup"
    kind: Literal["prefix", "suffix"] = Field(
        "suffix", description="the question stands before the string, or behind it"
    )
    ngram: int = Field(2, ge=1, le=64, description="letters of the question")
    answer_length: int = Field(
        0, ge=0, le=16_384, description="letters of the answer at most; 0: to the end of the string"
    )

    @property
    def frame(self) -> int:
        return self.ngram + (4 if self.kind == "prefix" else 3)

    @property
    def chance(self) -> float:
        """Score of guessing the answer letter by letter, averaged over all places of a question."""
        per_length = []
        for letters in self.eval_lengths:
            places = range(letters - self.ngram)
            answers = [
                min(self.answer_length or letters, letters - self.ngram - place) for place in places
            ]
            per_length.append(sum(self.alphabet**-answer for answer in answers) / len(answers))
        return sum(per_length) / len(per_length)

    @property
    def _shortest_string(self) -> int:
        return self.ngram + 1

    def answers(self, letters: int) -> tuple[int, int]:
        behind = letters - self.ngram
        return 1, min(self.answer_length or behind, behind)
