"""AdamW with a learning rate, a weight decay and a gradient clip per member.

Shapes: P members. No operation reduces over P. Numbers that change from step to step are read from
tensors on the device, so that a recorded step can be replayed (see graph.py).
"""

import math
from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor

from recollect.model.layers import Kind, parameter_kinds
from recollect.model.model import Model
from recollect.ops.adamw import adamw_
from recollect.spec.run import RunSpec
from recollect.spec.train import TrainSpec
from recollect.training.schedule import RateTable

KINDS: tuple[Kind, ...] = get_args(Kind)
# Parameters without weight decay, by the value of train.exempt.
EXEMPT: dict[str, tuple[Kind, ...]] = {
    "none": (),
    "dynamics": ("dynamics",),
    "dynamics+norms+biases": ("dynamics", "norm", "bias"),
}


class StepNumbers:
    """The numbers that change from step to step, in fixed tensors that a recorded step reads."""

    def __init__(self, population: int, device: torch.device):
        self.rate_P = torch.zeros(population, device=device)
        # The rate divided by AdamW's correction of the first moment.
        self.step_P = torch.zeros(population, device=device)
        # The square root of AdamW's correction of the second moment.
        self.root = torch.zeros((), dtype=torch.float64, device=device)
        self.number = torch.zeros((), dtype=torch.int64, device=device)  # counted from 1

    def set(self, rate_P: Tensor, step: int, train: TrainSpec) -> None:
        self.rate_P.copy_(rate_P)
        torch.div(rate_P, 1 - train.beta1 ** (step + 1), out=self.step_P)
        self.root.fill_(math.sqrt(1 - train.beta2 ** (step + 1)))
        self.number.fill_(step + 1)


class AdamW:
    """The optimiser of one model.

    `start_moments` allocates moments; `set_moments` takes existing ones. So after a compaction no
    memory is spent on zeros.
    """

    def __init__(self, model: Model, members: Sequence[RunSpec], device: torch.device):
        self.first: list[Tensor] = []
        self.second: list[Tensor] = []
        self.numbers = StepNumbers(len(members), device)
        self.rates = RateTable(members, device)
        self._train = members[0].train  # betas and eps are part of the shape
        self._parameters = list(model.parameters())
        kinds = parameter_kinds(model)
        self._kinds = [kinds[name] for name, _ in model.named_parameters()]

        def per_member(values: list[float]) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=device)

        # By kind of parameter, since a kind may be exempt in some members only.
        self.weight_decay_P = {
            kind: per_member([_weight_decay(run, kind) for run in members]) for kind in KINDS
        }
        clips = [run.train.clip or math.inf for run in members]
        self._clip_P = per_member(clips) if min(clips) < math.inf else None

    def start_moments(self) -> None:
        zeros = [[torch.zeros_like(parameter) for parameter in self._parameters] for _ in range(2)]
        self.set_moments(*zeros)

    def set_moments(self, first: list[Tensor], second: list[Tensor]) -> None:
        self.first, self.second = first, second

    def prepare(self, step: int) -> None:
        """Set the numbers of step `step` (from 0) that `update` reads."""
        self.numbers.set(self.rates.at(step), step, self._train)

    @torch.no_grad()
    def update(self) -> None:
        """Update the weights from the gradients, then drop the gradients."""
        train, numbers = self._train, self.numbers
        shrink_P = self._clip_factor()
        keep_P = {
            kind: 1 - numbers.rate_P * decay_P for kind, decay_P in self.weight_decay_P.items()
        }
        for parameter, kind, first, second in zip(
            self._parameters, self._kinds, self.first, self.second, strict=True
        ):
            if parameter.grad is None:
                continue
            adamw_(
                parameter,
                parameter.grad,
                first,
                second,
                keep_P=keep_P[kind],
                step_P=numbers.step_P,
                root=numbers.root,
                shrink_P=shrink_P,
                beta1=train.beta1,
                beta2=train.beta2,
                eps=train.eps,
            )
            parameter.grad = None

    def _clip_factor(self) -> Tensor | None:
        """Factor for each member's gradient that limits its norm over all tensors to its clip."""
        if self._clip_P is None:
            return None
        squares = [
            parameter.grad.square().flatten(1).sum(1)
            for parameter in self._parameters
            if parameter.grad is not None
        ]
        # Summed along the last axis. Along the first axis a CPU processes members in blocks, each
        # with its own order of summation.
        norm_P = torch.stack(squares, dim=1).sum(1).sqrt()
        # Without a clip the factor is 1 even if the norm overflows: a member's numbers must not
        # depend on whether others are clipped.
        return (self._clip_P / (norm_P + 1e-6)).clamp(max=1).masked_fill(self._clip_P.isinf(), 1)


def _weight_decay(run: RunSpec, kind: Kind) -> float:
    return 0.0 if kind in EXEMPT[run.train.exempt] else run.train.weight_decay
