"""The contract of a mixer: x_PBLD -> y_PBLD, causally, for P independent members at once."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from recollect.mixers.options import Positions, Rescale
from recollect.model.layers import Layer, Noise
from recollect.ops.layout import at_positions

# What a step-by-step decoder keeps between two positions; every tensor is (P, B, ...).
State = dict[str, Tensor]


@dataclass(frozen=True)
class Site:
    """The place in a model where a mixer is built in."""

    population: int
    width: int
    length: int  # the longest sequence it will see
    depth: int  # layers of the whole model: some initialisations shrink with it
    positions: Positions
    layer: int = 0  # which of these layers, counted from 0
    dropout: float = 0.0  # of attention's weights
    noise: Noise | None = None  # where dropout's masks come from; given whenever dropout is not 0
    branches: int = 1  # of a layer that are added to the residual stream and have weights
    rescale: Rescale = "own"

    def rescaled(self, own: float, full: float) -> float:
        """The initial scale of an output projection: `own` as in the code it comes from, or `full`,
        that of other layers, whole ("none": GPT-NeoX) or divided by the root of all branches
        ("branches": the official Mamba, with an MLP too).
        """
        if self.rescale == "own":
            return own
        return full if self.rescale == "none" else full / math.sqrt(self.branches * self.depth)


@dataclass(frozen=True)
class EffectiveAttention:
    """A mixer as a matrix over positions (the study's eq. 1):
    finish(weights @ values) is the mixer's output.

    H counts whatever has its own matrix: heads, or single channels. Row i of a matrix belongs to
    the output at position i.
    """

    weights_PBHLL: Tensor
    values_PBHLD: Tensor
    finish: Callable[[Tensor], Tensor]  # the mixed values_PBHLD -> y_PBLD

    def output(self) -> Tensor:
        return self.finish(self.weights_PBHLL @ self.values_PBHLD)


class Mixer(Layer):
    """Base of every mixer. Parameters are counted, never declared;
    what cannot be counted is a method.
    """

    # False for the few ablations that look ahead; they have no step-by-step form
    causal: bool = True
    # Whether a CUDA graph of it is the same function: it waits for no value and draws nothing
    recordable: bool = True

    @abstractmethod
    def forward(self, x_PBLD: Tensor) -> Tensor:
        """Mix over time; the output at position t depends on positions <= t
        of the same member and row alone.
        """

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """`forward` at K positions of each row, y_PBKD:
        all that is asked of the last layer of a model.

        A mixer that can do with less work for fewer positions says so by an override.
        """
        return at_positions(self(x_PBLD), where_BK)

    def constants(self) -> Iterable[Tensor]:
        """What it reads besides parameters and buffers, and may replace between two calls."""
        return ()

    def start(self, batch: int) -> State:
        """The state before the first position."""
        raise NotImplementedError(f"{type(self).__name__} has no step-by-step form")

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        """The output at one more position and the state after it:
        the same function as `forward`, in another order.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step-by-step form")

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention | None:
        """The matrices that mix this input over time; None for a mixer that is no such product."""
        return None

    @abstractmethod
    def state_size(self) -> int | None:
        """Floats of the state per sequence after the last position (site.length);
        None if it is not known.
        """

    @abstractmethod
    def operations_per_token(self) -> int:
        """Multiply-adds of one forward pass per token and member,
        averaged over a full-length sequence.
        """
