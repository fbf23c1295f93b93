"""The cost of one member of a population, counted from its specification: parameters, memory and
operations.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from recollect.errors import SpecError
from recollect.model.layers import initialise
from recollect.model.model import Model
from recollect.spec.run import RunSpec

FLOAT = 4  # bytes
BACKWARD = 2  # cost of a backward pass, in forward passes


@dataclass(frozen=True)
class Cost:
    """The cost of one member of a population."""

    parameters: int
    memory_bytes: int
    operations: int  # multiply-adds of a training step


def has_foreign_code(run: RunSpec) -> bool:
    """Whether a mixer of this run is foreign code: a plugin, or a layer of another library."""
    return any(kind.foreign for kind in run.model.mixer.kinds())


def cost(run: RunSpec) -> Cost:
    """Count the cost on torch's meta device, which knows shapes and computes nothing.

    The memory is too high on devices whose fused kernels keep less. Foreign code may need values,
    which the meta device does not have, or launch its own kernels. If it fails there, it is counted
    on the CPU, then on the GPU, and refused if it fails on all of them.
    """
    try:
        return _count(run, torch.device("meta"))
    except Exception as error:
        if not has_foreign_code(run):
            raise
        last = error
    for name in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        try:
            return _count(run, torch.device(name))
        except Exception as error:
            last = error
    reason = str(last).partition("\n")[0]
    raise SpecError(
        f"mixer {run.model.mixer.name} fails: {type(last).__name__}: {reason}; fix the plugin"
    ) from last


def _count(run: RunSpec, device: torch.device) -> Cost:
    task, train = run.task, run.train
    with device:
        model = Model(run.model, 1, task.label_vocabulary, task.longest)
        tokens = torch.zeros(train.batch, task.train_length, dtype=torch.int64)
        where = torch.zeros(train.batch, task.labels_per_row, dtype=torch.int64)
    if train.order == "seed":  # each member has its own rows, and there is one member
        tokens, where = tokens[None], where[None]
    if device.type != "meta":
        initialise(model, [run.seed])
    kept: dict[int, torch.UntypedStorage] = {}  # by address; held so that no address is reused

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage
        return tensor

    with saved_tensors_hooks(count, lambda tensor: tensor):
        logits = model(tokens, where)
    parameters = model.parameters_per_member()
    # Weights, gradients, two moments and the update; the loss keeps the logits, their log-softmax
    # and its gradient.
    memory = (
        sum(storage.nbytes() for storage in kept.values())
        + 5 * FLOAT * parameters
        + 3 * FLOAT * logits.numel()
    )
    return Cost(parameters, memory, _operations(run, model))


def operations(run: RunSpec) -> int | None:
    """Multiply-adds of a training step, computed quickly from shapes alone.

    None if that fails, as it may for foreign code.
    """
    try:
        with torch.device("meta"):
            return _operations(
                run, Model(run.model, 1, run.task.label_vocabulary, run.task.longest)
            )
    except Exception:
        return None


def _operations(run: RunSpec, model: Model) -> int:
    width, tokens = run.model.width, run.train.batch * run.task.train_length
    labels = run.train.batch * run.task.labels_per_row
    # Every matrix in the channel half of a block is used once per token.
    halves = [block.channel for block in model.layers if block.channel is not None]
    channel = sum(
        matrix[0].numel() for half in halves for matrix in half.parameters() if matrix.dim() == 3
    )
    layers = channel + sum(block.mixer.operations_per_token() for block in model.layers)
    return (1 + BACKWARD) * (tokens * layers + labels * width * run.task.label_vocabulary)


def evaluation_stretch(run: RunSpec) -> float:
    """Time of a run with its evaluations, divided by the time of its steps alone.

    An evaluation is a forward pass over its rows (docs/decisions/evaluations-in-a-forecast.md).
    """
    train, task = run.train, run.task
    step = (1 + BACKWARD) * train.batch * task.train_length
    return 1 + train.evaluations * task.evaluated_tokens / (train.steps * step)
