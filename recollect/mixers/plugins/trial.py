"""Trials of a stack of modules on a few rows, computed in several ways that should agree."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from recollect.ops.recording import record

ROWS = 2  # of a batch
# Tolerance relative to the largest value; products in tf32 differ by this much, wrong rules by much
# more.
AGREEMENT = 1e-2

Way = Callable[[Tensor], Tensor]  # x_PBLD to y_PBLD


class Trial:
    """One input of a stack and its results in several ways; the stack itself is left unchanged."""

    def __init__(self, stack: nn.Module, x_PBLD: Tensor):
        self.stack = stack
        # Computed without autocast, whose rounding would hide differences.
        dtype = torch.float64 if x_PBLD.dtype == torch.float64 else torch.float32
        self.x_PBLD = x_PBLD[:, :ROWS].detach().to(dtype, copy=True).requires_grad_()
        # Copies of the parameters. A module may keep tensors of its last call (nn.GRU keeps its
        # weights), and with them the nodes that accumulate gradients. A node belongs to the stream
        # on which it was made; training must not meet one of a trial.
        self.parameters = {
            name: nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)
            for name, value in stack.named_parameters(recurse=False)
        }
        self.own = [*self.parameters.values(), *stack.buffers()]
        self.before = [value.detach().clone() for value in self.own]
        self.inputs = [self.x_PBLD, *(p for p in self.parameters.values() if p.requires_grad)]

    def observe(self, way: Way) -> list[Tensor]:
        """Return copies of outputs, gradients and buffers."""
        try:
            return [value.clone() for value in self._compute(way)]
        finally:
            self._restore()

    def replayed(self, way: Way) -> list[Tensor]:
        """Return the same, from a recording that was made with another input."""
        found: list[Tensor] = []

        def work() -> None:
            found[:] = self._compute(way)

        wanted_PBLD = self.x_PBLD.detach().clone()
        with torch.no_grad():
            self.x_PBLD.copy_(0.5 - wanted_PBLD)
        graph = record(work)
        with torch.no_grad():
            self.x_PBLD.copy_(wanted_PBLD)
        self._restore()
        graph.replay()
        copies = [value.clone() for value in found]
        self._restore()
        return copies

    def _compute(self, way: Way) -> list[Tensor]:
        with (
            self._with_copies(),
            torch.enable_grad(),
            torch.autocast(self.x_PBLD.device.type, enabled=False),
        ):
            y_PBLD = way(self.x_PBLD)
            gradients = torch.autograd.grad(y_PBLD.square().sum(), self.inputs, allow_unused=True)
        known = [gradient for gradient in gradients if gradient is not None]
        return [y_PBLD.detach(), *known, *self.stack.buffers()]

    @contextlib.contextmanager
    def _with_copies(self) -> Iterator[None]:
        """Let the stack have the copies in place of its parameters."""
        trained = dict(self.stack.named_parameters(recurse=False))
        try:
            for name, copy in self.parameters.items():
                setattr(self.stack, name, copy)
            yield
        finally:
            for name, parameter in trained.items():
                setattr(self.stack, name, parameter)

    def _restore(self) -> None:
        with torch.no_grad():
            for value, before in zip(self.own, self.before, strict=True):
                value.copy_(before)


def are_close(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return len(some) == len(others) and all(
        one.shape == other.shape
        and bool((one - other).abs().max() <= AGREEMENT * other.abs().max().clamp(min=1e-6))
        for one, other in zip(some, others, strict=True)
        if one.numel()
    )
