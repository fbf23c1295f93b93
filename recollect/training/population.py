"""P runs of the same shape trained together.

A population holds the weights, takes optimiser steps, detects divergence, evaluates, and drops
members that have ended (compaction).

Shapes: P members of the tensors (on a CPU at least two, see `_build`), B rows, L length, K labels a
row. Nothing waits for the device between two evaluations: learning rates come from a table on the
device, and losses and the first bad step are accumulated there. No operation reduces over P, so a
member's numbers do not depend on the others.

On a GPU each population has its own stream, so that several small populations that are stepped in
turn fill the device together. Batches are drawn on the caller's stream.
"""

import contextlib
import dataclasses
import os
from collections import deque
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from recollect.model.layers import initialise
from recollect.model.model import Model
from recollect.rows import Evaluation
from recollect.spec.run import RunSpec
from recollect.tasks.base import IGNORE, TRAIN_SAMPLE, Batch, Task
from recollect.training.allocator import keep_freed_memory
from recollect.training.graph import RecordedStep
from recollect.training.optimiser import AdamW
from recollect.training.precision import autocast, matmul_precision
from recollect.training.state import MisfitError, PopulationState

AHEAD = 8  # steps that keep a GPU busy while this process evaluates another population
ROW_MULTIPLE = 32  # floats that a CPU kernel processes at once: two vectors of 16

# By default MKL's sums depend on the alignment of their operands in memory, which depends on a
# member's place in the stack. The variable is set at import and never restored, because MKL reads
# it once, at its first product. In measurements it costs no time
# (docs/decisions/member-independence-on-a-cpu.md).
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


class Population:
    """Members that train in lock step from step 0. An ended member stays until a compaction."""

    def __init__(self, members: Sequence[RunSpec], task: Task, device: torch.device):
        if len({run.shape_id for run in members}) != 1:
            raise ValueError("the members of a population must have one shape")
        if device.type == "cpu":
            keep_freed_memory()
        self.task, self.device = task, device
        self._step = 0
        self._steps_since_evaluation = 0
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._queued: deque[torch.cuda.Event] = deque(maxlen=AHEAD)  # ends of the last steps
        with self._on_stream():
            self._build(list(members))
            initialise(self.model, [run.seed for run in self._padded])
            self._optimiser.start_moments()
            population = len(self._padded)
            self._loss_sum_P = torch.zeros(population, device=self.device)
            self._diverged_P = torch.zeros(population, dtype=torch.int64, device=self.device)

    @property
    def step(self) -> int:
        """Number of optimiser steps taken, which is the index of the next step (from 0)."""
        return self._step

    def restart_clock(self) -> None:
        """Make the next step step 0 again; weights and moments stay.

        Used to measure speed: even the shortest run has a batch and a rate for step 0.
        """
        self._step = 0

    @contextlib.contextmanager
    def _on_stream(self, caller_waits: bool = True) -> Iterator[None]:
        """Run the block on this population's stream, after all work that the caller has queued.

        With `caller_waits` the caller's later work waits for the block.
        """
        if self._stream is None:
            yield
            return
        outside = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(outside)
        with torch.cuda.stream(self._stream):
            yield
        if caller_waits:
            outside.wait_stream(self._stream)

    def _hold(self, batch: Batch) -> Batch:
        """Keep the allocator from reusing the batch before this population's stream has read it."""
        if self._stream is not None:
            for tensor in batch.tensors():
                tensor.record_stream(self._stream)
        return batch

    def _build(self, members: list[RunSpec]) -> None:
        """Create everything except the state: model, optimiser without moments, seeds."""
        self.members = members
        # A CPU multiplies a stack of one with another algorithm than a stack of many. A single
        # member is padded to two, so that its bits are the same as in a larger population.
        self._padded = members * 2 if len(members) == 1 and self.device.type == "cpu" else members
        population = len(self._padded)
        spec = members[0]
        self.model = Model(spec.model, population, self.task.vocabulary, self.task.length).to(
            self.device
        )
        self._optimiser = AdamW(self.model, self._padded, self.device)
        self.model.noise.seeds = tuple(run.seed for run in self._padded)
        self._row_seeds = self.model.noise.seeds if spec.train.order == "seed" else None
        self._seeds_P = torch.tensor(self.model.noise.seeds, device=self.device)
        self._batch: Batch | None = None
        self._recorded = self._new_recording()

    def _new_recording(self) -> RecordedStep | None:
        """A new recording on a GPU, needed whenever a tensor that a step uses is replaced."""
        return RecordedStep() if self.device.type == "cuda" else None

    # ---- training ----

    def next_rows(self) -> Batch:
        """Training rows of the next step, shared by all members or in the order of each seed."""
        return self.task.batch("train", self._step, self._row_seeds)

    def train_step(self, batch: Batch) -> None:
        """Take one optimiser step of every member on these rows."""
        self._hold(batch)
        with self._on_stream(caller_waits=False):
            self.model.noise.step = self._step
            if self.members[0].model.dropout:
                self.model.noise.set(self._seeds_P, self._step)
            self._optimiser.prepare(self._step)
            if self._recorded is None:
                self._batch = batch
                self._forward_backward_update()
            else:
                self._batch = _copy_batch(batch, self._batch)
                mixers = [block.mixer for block in self.model.layers]
                self._recorded(self._forward_backward_update, mixers, self.model.zero_grad)
            if self._stream is not None:
                self._queued.append(self._stream.record_event())
        self._step += 1
        self._steps_since_evaluation += 1

    def is_ahead(self) -> bool:
        """Whether AHEAD steps wait for the device, or more; never on a CPU.

        A caller that steps several populations can give the others a turn then, so that each
        advances as fast as the device allows and none waits for the slowest.
        """
        return len(self._queued) == AHEAD and not self._queued[0].query()

    def _forward_backward_update(self) -> None:
        """Compute new weights from the rows and numbers of this step.

        On a GPU this is recorded once and replayed.
        """
        batch = self._batch
        assert batch is not None
        precision = self.members[0].train.precision
        with matmul_precision(self.device, precision):
            with autocast(self.device, precision):
                loss_P = self.model.loss(self._pad_rows(batch))
            loss_P = loss_P / (batch.labels_BK != IGNORE).sum((-2, -1))  # every row has a label
            # The sum and not the mean, so that each member gets exactly the gradient of its loss.
            loss_P.sum().backward()
        self._optimiser.update()
        with torch.no_grad():
            self._loss_sum_P += loss_P
            new = (self._diverged_P == 0) & ~loss_P.isfinite()
            number = self._optimiser.numbers.number
            self._diverged_P.copy_(torch.where(new, number, self._diverged_P))

    def _pad_rows(self, batch: Batch) -> Batch:
        """On a CPU, pad the rows to a multiple of ROW_MULTIPLE per thread.

        The padding has no labels and does not change the loss. A CPU kernel computes the last few
        elements of a thread's share with other code than the rest, which gives other last bits.
        With whole blocks in every member's share there are no such elements, wherever the shares
        of the threads begin.
        """
        if self.device.type != "cpu":
            return batch
        return batch.padded(batch.rows + -batch.rows % (ROW_MULTIPLE * torch.get_num_threads()))

    # ---- evaluation ----

    @torch.no_grad()
    def evaluate(self) -> list[Evaluation]:
        """Evaluate every member, in member order; only this method waits for the device."""
        self.model.eval()  # no dropout
        splits = [*self.task.test_splits, *[TRAIN_SAMPLE] * self.task.has_training_set]
        sums_T6P = torch.stack([self._sums(split) for split in splits]).cpu()
        self.model.train()
        with self._on_stream():
            mean_loss_P = (self._loss_sum_P / max(1, self._steps_since_evaluation)).cpu()
            self._loss_sum_P.zero_()
        self._steps_since_evaluation = 0
        return [
            self._evaluation(sums_T6P[:, :, p], float(mean_loss_P[p]))
            for p in range(len(self.members))
        ]

    def _sums(self, split: str) -> Tensor:
        """(6, P): summed loss, labels, right answers, scored labels, fully right rows, rows."""
        population = len(self._padded)
        precision = self.members[0].train.precision
        total = torch.zeros(6, population, dtype=torch.float64, device=self.device)
        for piece in range(self.task.pieces(split)):
            batch = self._hold(self.task.batch(split, piece))
            with (
                self._on_stream(),
                matmul_precision(self.device, precision),
                autocast(self.device, precision),
            ):
                loss_P, right_PM = self.model.verdict(self._pad_rows(batch))
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

    def _evaluation(self, sums_T6: Tensor, train_loss: float) -> Evaluation:
        """Compute one member's evaluation from its sums over T splits.

        The splits are the test splits and, if there is one, the sample of training rows.
        """

        def numbers(sums: list[float]) -> dict[str, float]:
            loss, labels, right, scored, exact, rows = sums
            return {"test_loss": loss / labels, "accuracy": right / scored, "exact": exact / rows}

        tests = len(self.task.test_splits)
        splits = zip(self.task.test_splits, sums_T6[:tests].tolist(), strict=True)
        slices = {split: numbers(sums) for split, sums in splits}
        overall = numbers(sums_T6[:tests].sum(0).tolist())
        score_name = self.members[0].task.score_name
        trained = [numbers(sums)[score_name] for sums in sums_T6[tests:].tolist()]
        return Evaluation(
            self._step,
            train_loss,
            **overall,
            slices=slices if len(slices) > 1 else {},
            train_score=trained[0] if trained else None,
        )

    def diverged(self) -> list[int]:
        """For each member the first step (from 1) whose loss was not finite, or 0."""
        with self._on_stream():
            return self._diverged_P[: len(self.members)].tolist()

    # ---- state and compaction ----

    def state(self) -> PopulationState:
        """A copy of the whole state, on the CPU."""
        shared = self._shared_state()
        with self._on_stream():
            copies = {name: value.cpu().clone() for name, value in shared.tensors.items()}
        return dataclasses.replace(shared, tensors=copies)

    def weights(self, run_id: str) -> dict[str, Tensor]:
        """A copy of one member's weights, on the CPU."""
        place = [run.run_id for run in self.members].index(run_id)
        with self._on_stream():
            return {
                name: value[place].detach().cpu().clone()
                for name, value in self.model.state_dict().items()
            }

    def restore(self, state: PopulationState) -> None:
        """Load a state of exactly these members."""
        if state.run_ids != tuple(run.run_id for run in self.members):
            raise MisfitError("it belongs to other members")
        self._shared_state().require_fit(state)
        with self._on_stream():
            self._load_state(state)

    def compact(self, run_ids: Sequence[str]) -> None:
        """Keep only these members, in this order."""
        by_id = {run.run_id: run for run in self.members}
        with self._on_stream():
            state = self._shared_state().select(run_ids)  # copies, on the same device
            self._build([by_id[run_id] for run_id in run_ids])
            self._load_state(state)

    def _shared_state(self) -> PopulationState:
        """The state without copies (it shares the tensors) and without the padding."""
        named = {f"weight/{name}": value for name, value in self.model.state_dict().items()}
        names = [name for name, _ in self.model.named_parameters()]
        for prefix, moments in (
            ("first", self._optimiser.first),
            ("second", self._optimiser.second),
        ):
            named |= {f"{prefix}/{name}": value for name, value in zip(names, moments, strict=True)}
        named |= {"loss_sum": self._loss_sum_P, "diverged": self._diverged_P}
        tensors = {name: value[: len(self.members)].detach() for name, value in named.items()}
        run_ids = tuple(run.run_id for run in self.members)
        return PopulationState(run_ids, self._step, self._steps_since_evaluation, tensors)

    def _load_state(self, state: PopulationState) -> None:
        index = [p % len(self.members) for p in range(len(self._padded))]
        tensors = {name: value[index].to(self.device) for name, value in state.tensors.items()}
        weights = {
            name.removeprefix("weight/"): value
            for name, value in tensors.items()
            if name.startswith("weight/")
        }
        self.model.load_state_dict(weights)
        names = [name for name, _ in self.model.named_parameters()]
        self._optimiser.set_moments(
            [tensors[f"first/{name}"] for name in names],
            [tensors[f"second/{name}"] for name in names],
        )
        self._loss_sum_P, self._diverged_P = tensors["loss_sum"], tensors["diverged"]
        self._recorded = self._new_recording()
        self._step, self._steps_since_evaluation = state.step, state.steps_since_evaluation


def _copy_batch(batch: Batch, into: Batch | None) -> Batch:
    """Copy the batch into tensors that stay the same from step to step.

    The first batch is cloned, because a task may return tensors of its cache.
    """
    if into is None:
        return batch.map(torch.clone)
    for target, source in zip(into.tensors(), batch.tensors(), strict=True):
        target.copy_(source)
    return into
