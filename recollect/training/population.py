"""P same-shaped runs as one state: weights, AdamW with a rate per member, divergence, evaluation,
compaction.

Shapes: P members of the tensors (on a CPU at least two, see `_padded`), S steps. Nothing between
two evaluations waits for the device: rates come from a table on the device, losses and the first
bad step are accumulated there. No operation reduces over P, so a member's numbers do not depend on
its neighbours.

On a GPU each population has a stream of its own: small ones that are stepped in turn then fill the
device together. Rows are drawn on the stream of whoever asks for a step, and handed over.
"""

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from recollect.model.layers import Kind, initialise, parameter_kinds
from recollect.model.model import Model
from recollect.ops.adamw import adamw_
from recollect.rows import Evaluation
from recollect.spec.run import RunSpec
from recollect.spec.train import TrainSpec
from recollect.tasks.base import IGNORE, Batch, Task
from recollect.training.graph import Replayed
from recollect.training.heap import keep_freed_memory

KINDS: tuple[Kind, ...] = get_args(Kind)
# What each value of train.exempt spares from weight decay.
EXEMPT: dict[str, tuple[Kind, ...]] = {
    "none": (),
    "dynamics": ("dynamics",),
    "dynamics+norms+biases": ("dynamics", "norm", "bias"),
}
ROW_MULTIPLE = 32  # floats that a CPU kernel treats at once: two vectors of 16

# By default MKL's sums depend on how their operands are aligned in memory, which depends on a
# member's place in the stack. Read by MKL at its first product; measured to cost nothing
# (docs/decisions/member-independence-on-a-cpu.md).
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


@dataclass(frozen=True)
class PopulationState:
    """Everything that training needs to go on, as data; the first axis of every tensor is the
    member.
    """

    run_ids: tuple[str, ...]
    step: int
    steps_since_evaluation: int
    tensors: dict[str, Tensor]

    def select(self, run_ids: Sequence[str]) -> "PopulationState":
        """The same state for some of its members."""
        index = torch.tensor([self.run_ids.index(run_id) for run_id in run_ids])
        tensors = {
            name: value.index_select(0, index.to(value.device))
            for name, value in self.tensors.items()
        }
        return PopulationState(tuple(run_ids), self.step, self.steps_since_evaluation, tensors)


class Now:
    """The numbers that change from step to step, in tensors that stay: a recorded step reads them
    where they are.
    """

    def __init__(self, population: int, device: torch.device):
        self.rate_P = torch.zeros(population, device=device)
        self.step_P = torch.zeros(
            population, device=device
        )  # the rate over AdamW's correction of the first moment
        self.root = torch.zeros(
            (), dtype=torch.float64, device=device
        )  # of the correction of the second
        self.number = torch.zeros((), dtype=torch.int64, device=device)  # counted from 1

    def set(self, rate_P: Tensor, step: int, train: TrainSpec) -> None:
        self.rate_P.copy_(rate_P)
        torch.div(rate_P, 1 - train.beta1 ** (step + 1), out=self.step_P)
        self.root.fill_(math.sqrt(1 - train.beta2 ** (step + 1)))
        self.number.fill_(step + 1)


class Population:
    """Members train in lock step from step 0; each ends in its own way and leaves at a compaction."""

    def __init__(self, members: Sequence[RunSpec], task: Task, device: torch.device):
        if len({run.shape_id for run in members}) != 1:
            raise ValueError("the members of a population must have one shape")
        if device.type == "cpu":
            keep_freed_memory()
        self.task, self.device = task, device
        self.step = 0
        self._steps_since_evaluation = 0
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        with self._apart():
            self._build(list(members))
            initialise(self.model, [run.seed for run in self._padded])
            self._start_moments()

    @contextlib.contextmanager
    def _apart(self, awaited: bool = True) -> Iterator[None]:
        """On this population's own stream, after all that was asked for so far; what is asked for
        next waits if `awaited`.
        """
        if self._stream is None:
            yield
            return
        outside = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(outside)
        with torch.cuda.stream(self._stream):
            yield
        if awaited:
            outside.wait_stream(self._stream)

    def _handed_over(self, batch: Batch) -> Batch:
        """Rows drawn outside, whose memory must not be used again before this population has read
        them.
        """
        if self._stream is not None:
            for tensor in vars(batch).values():
                tensor.record_stream(self._stream)
        return batch

    def _build(self, members: list[RunSpec]) -> None:
        self.members = members
        # A CPU multiplies a stack of one by another algorithm than a stack of many: a lonely member
        # gets a twin, so that its numbers are those it has in company.
        self._padded = members * 2 if len(members) == 1 and self.device.type == "cpu" else members
        spec = members[0]
        self.model = Model(
            spec.model, len(self._padded), self.task.vocabulary, self.task.length
        ).to(self.device)
        self._rates_SP = _rates(self._padded).to(self.device)
        kinds = parameter_kinds(self.model)
        self._kinds = [kinds[name] for name, _ in self.model.named_parameters()]
        # By kind, for a kind may be exempt in some members.
        self._weight_decay_P = {
            kind: self._per_member([_weight_decay(run, kind) for run in self._padded])
            for kind in KINDS
        }
        self._seeds_P = torch.tensor([run.seed for run in self._padded], device=self.device)
        clips = [run.train.clip or math.inf for run in self._padded]
        self._clip_P = self._per_member(clips) if min(clips) < math.inf else None
        self._now = Now(len(self._padded), self.device)
        self._rows: Batch | None = None
        self._recording = self._new_recording()

    def _new_recording(self) -> Replayed | None:
        """Of a step on a GPU; to be made anew whenever a tensor that a step uses is another one."""
        recordable = all(block.mixer.recordable for block in self.model.layers)
        return Replayed() if self.device.type == "cuda" and recordable else None

    def _per_member(self, values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device)

    def _start_moments(self) -> None:
        population = len(self._padded)
        self._first = [torch.zeros_like(parameter) for parameter in self.model.parameters()]
        self._second = [torch.zeros_like(parameter) for parameter in self.model.parameters()]
        self._loss_sum_P = torch.zeros(population, device=self.device)
        self._diverged_P = torch.zeros(population, dtype=torch.int64, device=self.device)

    # ---- training ----

    def train_step(self, batch: Batch) -> None:
        """One optimiser step of every member on the same rows."""
        batch = self._handed_over(batch)
        with self._apart(awaited=False):
            if self.members[0].model.dropout:
                self.model.noise.set(self._seeds_P, self.step)
            self._now.set(self._rates_SP[self.step], self.step, self.members[0].train)
            if self._recording is None:
                self._rows = batch
                self._one_step()
            else:
                self._rows = _copied(batch, self._rows)
                self._recording(self._one_step)
        self.step += 1
        self._steps_since_evaluation += 1

    def _one_step(self) -> None:
        """From the rows and numbers of this step to new weights; on a GPU recorded once and
        replayed.
        """
        batch = self._rows
        assert batch is not None
        with self._products():
            loss_P = self.model.loss(self._aligned(batch))
        loss_P = loss_P / (batch.labels_BK != IGNORE).sum().clamp(min=1)
        # The sum, not the mean: each member gets exactly the gradient of its own loss.
        loss_P.sum().backward()
        self._adamw()
        with torch.no_grad():
            self._loss_sum_P += loss_P
            new = (self._diverged_P == 0) & ~loss_P.isfinite()
            self._diverged_P.copy_(torch.where(new, self._now.number, self._diverged_P))

    @contextlib.contextmanager
    def _products(self) -> Iterator[None]:
        """Matrix products in the precision of the runs; a CPU has one."""
        if self.device.type == "cpu":
            yield
            return
        precision = self.members[0].train.precision
        torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
        # No cache of cast weights: a recording must cast them anew at every replay.
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=precision == "bf16", cache_enabled=False
        ):
            yield

    def _aligned(self, batch: Batch) -> Batch:
        """On a CPU rows are padded to a multiple of ROW_MULTIPLE per thread; the padding has no
        labels and changes nothing.

        A CPU computes the last few elements of a thread's share by another code than the rest, with
        other last bits. With whole blocks in every member's share there are no last few, wherever
        the members' borders fall.
        """
        missing = (
            -batch.rows % (ROW_MULTIPLE * torch.get_num_threads())
            if self.device.type == "cpu"
            else 0
        )
        if not missing:
            return batch
        tokens_BL, where_BK, labels_BK = batch.tokens_BL, batch.where_BK, batch.labels_BK
        return Batch(
            torch.cat((tokens_BL, tokens_BL[:1].expand(missing, -1))),
            torch.cat((where_BK, where_BK[:1].expand(missing, -1))),
            torch.cat((labels_BK, labels_BK.new_full((missing, labels_BK.shape[1]), IGNORE))),
            torch.cat((batch.scored_BK, batch.scored_BK.new_zeros(missing, labels_BK.shape[1]))),
        )

    @torch.no_grad()
    def _adamw(self) -> None:
        train = self.members[0].train
        now = self._now
        parameters = list(self.model.parameters())
        shrink_P = self._clip_factor(parameters)
        keep_P = {kind: 1 - now.rate_P * decay_P for kind, decay_P in self._weight_decay_P.items()}
        for parameter, kind, first, second in zip(
            parameters, self._kinds, self._first, self._second, strict=True
        ):
            if parameter.grad is None:
                continue
            adamw_(
                parameter, parameter.grad, first, second,
                keep_P=keep_P[kind], step_P=now.step_P, root=now.root, shrink_P=shrink_P,
                beta1=train.beta1, beta2=train.beta2, eps=train.eps,
            )  # fmt: skip
            parameter.grad = None

    def _clip_factor(self, parameters: list[torch.nn.Parameter]) -> Tensor | None:
        """What each member's gradient is multiplied with so that its norm over all tensors stays
        below its limit.
        """
        if self._clip_P is None:
            return None
        squares = [
            parameter.grad.square().flatten(1).sum(1)
            for parameter in parameters
            if parameter.grad is not None
        ]
        # Summed along the last axis: along the first one a CPU treats members in blocks, each with
        # its own order of the sum.
        norm_P = torch.stack(squares, dim=1).sum(1).sqrt()
        # Where there is no limit the factor is 1 even if the norm overflows: company must not make
        # a difference.
        return (self._clip_P / (norm_P + 1e-6)).clamp(max=1).masked_fill(self._clip_P.isinf(), 1)

    # ---- looking ----

    @torch.no_grad()
    def evaluate(self) -> list[Evaluation]:
        """One evaluation per member, in member order; the only place that waits for the device."""
        self.model.eval()  # no dropout
        sums = torch.stack(
            [self._sums(split) for split in self.task.test_splits]
        ).cpu()  # (splits, 6, P)
        self.model.train()
        with self._apart():
            mean_loss_P = (self._loss_sum_P / max(1, self._steps_since_evaluation)).cpu()
            self._loss_sum_P.zero_()
        self._steps_since_evaluation = 0
        return [
            self._evaluation(sums[:, :, p], float(mean_loss_P[p])) for p in range(len(self.members))
        ]

    def _sums(self, split: str) -> Tensor:
        """(6, P): summed loss, labels, right answers, scored labels, rows all right, rows."""
        population = len(self._padded)
        total = torch.zeros(6, population, dtype=torch.float64, device=self.device)
        for piece in range(self.task.pieces(split)):
            batch = self._handed_over(self.task.batch(split, piece))
            with self._apart(), self._products():
                loss_P, right_PM = self.model.verdict(self._aligned(batch))
                right_PBK = right_PM[:, : batch.labels_BK.numel()].view(
                    population, *batch.labels_BK.shape
                )
                total[0] += loss_P
                total[1] += (batch.labels_BK != IGNORE).sum()
                total[2] += (right_PBK & batch.scored_BK).sum((1, 2))
                total[3] += batch.scored_BK.sum()
                total[4] += (right_PBK | ~batch.scored_BK).all(2).sum(1)
                total[5] += batch.rows
        return total

    def _evaluation(self, sums_S6: Tensor, train_loss: float) -> Evaluation:
        def numbers(sums: list[float]) -> dict[str, float]:
            loss, labels, right, scored, exact, rows = sums
            return {"test_loss": loss / labels, "accuracy": right / scored, "exact": exact / rows}

        slices = {
            split: numbers(sums_S6[i].tolist()) for i, split in enumerate(self.task.test_splits)
        }
        overall = numbers(sums_S6.sum(0).tolist())
        return Evaluation(
            self.step, train_loss, **overall, slices=slices if len(slices) > 1 else {}
        )

    def diverged(self) -> list[int]:
        """For each member the first step whose loss was not finite, or 0."""
        with self._apart():
            return self._diverged_P[: len(self.members)].tolist()

    # ---- changing shape, stopping and going on ----

    def state(self) -> PopulationState:
        """A copy of everything, on the CPU."""
        live = self._live()
        with self._apart():
            return dataclasses.replace(
                live, tensors={name: value.cpu().clone() for name, value in live.tensors.items()}
            )

    def weights(self, run_id: str) -> dict[str, Tensor]:
        """A copy of one member's weights, on the CPU."""
        place = [run.run_id for run in self.members].index(run_id)
        with self._apart():
            return {
                name: value[place].detach().cpu().clone()
                for name, value in self.model.state_dict().items()
            }

    def _live(self) -> PopulationState:
        """Everything where it is, no copies."""
        named = {f"weight/{name}": value for name, value in self.model.state_dict().items()}
        names = [name for name, _ in self.model.named_parameters()]
        named |= {f"first/{name}": value for name, value in zip(names, self._first, strict=True)}
        named |= {f"second/{name}": value for name, value in zip(names, self._second, strict=True)}
        named |= {"loss_sum": self._loss_sum_P, "diverged": self._diverged_P}
        alive = len(self.members)
        tensors = {name: value[:alive].detach() for name, value in named.items()}
        run_ids = tuple(run.run_id for run in self.members)
        return PopulationState(run_ids, self.step, self._steps_since_evaluation, tensors)

    def restore(self, state: PopulationState) -> None:
        """Go on from a state of exactly these members."""
        if state.run_ids != tuple(run.run_id for run in self.members):
            raise ValueError("the state belongs to other members")
        with self._apart():
            self._take(state)

    def _take(self, state: PopulationState) -> None:
        index = [p % len(self.members) for p in range(len(self._padded))]
        tensors = {name: value[index].to(self.device) for name, value in state.tensors.items()}
        weights = {
            name.removeprefix("weight/"): value
            for name, value in tensors.items()
            if name.startswith("weight/")
        }
        self.model.load_state_dict(weights)
        names = [name for name, _ in self.model.named_parameters()]
        self._first = [tensors[f"first/{name}"] for name in names]
        self._second = [tensors[f"second/{name}"] for name in names]
        self._loss_sum_P, self._diverged_P = tensors["loss_sum"], tensors["diverged"]
        self._recording = self._new_recording()
        self.step, self._steps_since_evaluation = state.step, state.steps_since_evaluation

    def keep(self, run_ids: Sequence[str]) -> None:
        """Compact: only these members go on."""
        by_id = {run.run_id: run for run in self.members}
        with self._apart():
            state = self._live().select(run_ids)  # copies, and on a GPU they stay there
            self._build([by_id[run_id] for run_id in run_ids])
            self._take(state)


def _copied(batch: Batch, into: Batch | None) -> Batch:
    """The rows of a step in tensors that stay; the first ones are copies, since a task may keep and
    give out its own.
    """
    names = [field.name for field in dataclasses.fields(Batch)]
    if into is None:
        return Batch(**{name: getattr(batch, name).clone() for name in names})
    for name in names:
        getattr(into, name).copy_(getattr(batch, name))
    return into


def _weight_decay(run: RunSpec, kind: Kind) -> float:
    return 0.0 if kind in EXEMPT[run.train.exempt] else run.train.weight_decay


def _rates(members: Sequence[RunSpec]) -> Tensor:
    """The learning rate of every step and member, (S, P)."""
    return torch.from_numpy(np.stack([rates(run) for run in members], axis=1).astype(np.float32))


def rates(run: RunSpec) -> np.ndarray:
    """The learning rate of every step: linear warmup to the peak, then the decay, ending at zero
    after the last step.
    """
    train = run.train
    step = np.arange(train.steps)
    rising = round(train.warmup * train.steps)
    ramp = np.minimum(1.0, (step + 1) / max(1, rising))
    # 0 at the end of the warmup, 1 after the last step
    done = np.maximum(0.0, (step - rising) / max(1, train.steps - rising))
    if train.decay == "cosine-per-epoch":
        epochs = math.ceil(
            train.steps / run.steps_per_epoch
        )  # a last one that is not whole still trains
        done = (step // run.steps_per_epoch) / epochs
    shape = {
        "cosine": 0.5 * (1 + np.cos(np.pi * done)),
        "linear": 1 - done,
        "constant": np.ones(train.steps),
    }
    shape["cosine-per-epoch"] = shape["cosine"]
    return train.lr * ramp * shape[train.decay]
