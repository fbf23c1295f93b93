"""The state that training needs to continue, as data. A checkpoint stores it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


class MisfitError(ValueError):
    """A state that does not belong to this population, whatever its file states."""


@dataclass(frozen=True)
class PopulationState:
    """Weights, moments, loss sums and first bad steps.

    The first axis of every tensor is the member.
    """

    run_ids: tuple[str, ...]
    step: int
    steps_since_evaluation: int
    tensors: dict[str, Tensor]

    def require_fit(self, other: "PopulationState") -> None:
        """Refuse another state that does not have exactly the tensors of this one."""
        for name, mine in self.tensors.items():
            its = other.tensors.get(name)
            if its is None:
                raise MisfitError(f"it has no tensor {name}")
            if (its.shape, its.dtype) != (mine.shape, mine.dtype):
                raise MisfitError(
                    f"its tensor {name} is {tuple(its.shape)} of {its.dtype}, not "
                    f"{tuple(mine.shape)} of {mine.dtype}"
                )
        if len(other.tensors) > len(self.tensors):
            raise MisfitError("it has more tensors than the model")

    def select(self, run_ids: Sequence[str]) -> "PopulationState":
        """The state of some members, in the given order."""
        index = torch.tensor([self.run_ids.index(run_id) for run_id in run_ids])
        tensors = {
            name: value.index_select(0, index.to(value.device))
            for name, value in self.tensors.items()
        }
        return PopulationState(tuple(run_ids), self.step, self.steps_since_evaluation, tensors)
