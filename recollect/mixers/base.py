"""The contract of a mixer: x_PBLD -> y_PBLD, causally, for P independent members at once."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from recollect.mixers.options import Positions, Rescale
from recollect.model.layers import Layer, Noise
from recollect.ops.layout import at_positions

# The state of a step-by-step decoder between two positions; every tensor is (P, B, ...).
State = dict[str, Tensor]


@dataclass(frozen=True)
class Site:
    """The place in a model where a mixer is built in."""

    population: int
    width: int
    length: int  # the longest sequence it will see
    depth: int  # number of layers of the whole model; some initialisations shrink with it
    positions: Positions
    layer: int = 0  # index of this layer, from 0
    dropout: float = 0.0  # of attention's weights
    noise: Noise | None = None  # source of dropout's masks; required unless dropout is 0
    branches: int = 1  # branches of a layer that have weights and are added to the residual stream
    rescale: Rescale = "own"

    def rescaled(self, own: float, full: float) -> float:
        """Return the initial scale of an output projection.

        "own" gives `own`, the scale in the code that the mixer comes from. "none" (GPT-NeoX) gives
        `full`, the scale of other layers. "branches" (the official Mamba, with an MLP too) gives
        `full` divided by the root of the number of all branches.
        """
        if self.rescale == "own":
            return own
        return full if self.rescale == "none" else full / math.sqrt(self.branches * self.depth)


@dataclass(frozen=True)
class EffectiveAttention:
    """A mixer as a matrix over positions (the study's eq. 1): finish(weights @ values) is the
    mixer's output.

    H counts whatever has its own matrix: heads, or single channels. Row i of a matrix belongs to
    the output at position i.
    """

    weights_PBHLL: Tensor
    values_PBHLD: Tensor
    finish: Callable[[Tensor], Tensor]  # the mixed values_PBHLD -> y_PBLD

    def output(self) -> Tensor:
        return self.finish(self.weights_PBHLL @ self.values_PBHLD)


class Mixer(Layer):
    """Base class of every mixer. Parameters are counted, never declared; quantities that cannot be
    counted are methods.
    """

    # False for the few ablations that look ahead; they have no step-by-step form
    causal: bool = True
    # Whether a CUDA graph of it is the same function: it must not wait for a value or draw anything
    recordable: bool = True

    @abstractmethod
    def forward(self, x_PBLD: Tensor) -> Tensor:
        """Mix over time; the output at t depends only on positions <= t of the same member and
        row.
        """

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Return `forward` at K positions of each row, y_PBKD; the last layer of a model needs no
        more.

        A mixer that needs less work for fewer positions overrides this method.
        """
        return at_positions(self(x_PBLD), where_BK)

    def constants(self) -> Iterable[Tensor]:
        """Return other tensors than parameters and buffers that it reads; calls may replace
        them.
        """
        return ()

    def start(self, batch: int) -> State:
        """Return the state before the first position."""
        raise NotImplementedError(f"{type(self).__name__} has no step-by-step form")

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the output at one more position and the state after it: the same function as
        `forward`, computed step by step.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step-by-step form")

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention | None:
        """Return the matrices that mix this input over time; None if there are no such matrices."""
        return None

    @abstractmethod
    def state_size(self) -> int | None:
        """Return the number of floats of the state per sequence after the last position
        (site.length); None if it is unknown.
        """

    @abstractmethod
    def operations_per_token(self) -> int:
        """Return the multiply-adds of one forward pass per token and member, averaged over a
        full-length sequence.
        """
