"""The contract of a mixer: x_PBLD -> y_PBLD, causally, for P independent members at once."""

from abc import abstractmethod
from dataclasses import dataclass

from torch import Tensor

from recollect.nn import Layer
from recollect.spec.mixer import Positions


@dataclass(frozen=True)
class Site:
    """The place in a model where a mixer is built in."""

    population: int
    width: int
    length: int  # the longest sequence it will see
    depth: int  # layers of the whole model: some initialisations shrink with it
    positions: Positions


class Mixer(Layer):
    """Base of every mixer. Parameters are counted, never declared; what cannot be counted is a method."""

    @abstractmethod
    def forward(self, x_PBLD: Tensor) -> Tensor:
        """Mix over time; the output at position t depends on positions <= t of the same member and row alone."""

    @abstractmethod
    def state_size(self) -> int | None:
        """Floats that a step-by-step decoder keeps per sequence; None if it is not known."""

    @abstractmethod
    def operations_per_token(self) -> int:
        """Multiply-adds of one forward pass per token and member, averaged over a full-length sequence."""
