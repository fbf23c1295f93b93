"""What one member of a population needs, counted from its specification:
parameters, memory and operations.
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
BACKWARD = 2  # forward passes that a backward pass costs


@dataclass(frozen=True)
class Cost:
    """What one member of a population needs."""

    parameters: int
    memory_bytes: int
    operations: int  # multiply-adds of a training step


def has_foreign_code(run: RunSpec) -> bool:
    """Whether a mixer of this run is code from outside: a plugin, or a layer of another library."""
    return any(kind.foreign for kind in run.model.mixer.kinds())


def cost(run: RunSpec) -> Cost:
    """Counted on torch's meta device, which knows shapes and computes nothing; too high where a
    device fuses what it keeps.

    Code from outside may look at values, which are not there, or launch kernels of its own: it is
    counted on the CPU, else on the GPU, and refused if it fails there too.
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
        f"mixer {run.model.mixer.name} fails: {type(last).__name__}: {reason}; mend the plugin"
    ) from last


def _count(run: RunSpec, device: torch.device) -> Cost:
    task, train = run.task, run.train
    with device:
        model = Model(run.model, 1, task.label_vocabulary, task.longest)
        tokens = torch.zeros(train.batch, task.train_length, dtype=torch.int64)
        where = torch.zeros(train.batch, task.labels_per_row, dtype=torch.int64)
    if train.order == "seed":  # rows of each member's own, of which there is one
        tokens, where = tokens[None], where[None]
    if device.type != "meta":
        initialise(model, [run.seed])
    kept: dict[int, torch.UntypedStorage] = {}  # by address, and held so that no other one gets it

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
    """Multiply-adds of a training step, from shapes alone and at once; None for code from outside,
    which may not tell.
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
    # Every matrix of the channel half is used once per token.
    halves = [block.channel for block in model.layers if block.channel is not None]
    channel = sum(
        matrix[0].numel() for half in halves for matrix in half.parameters() if matrix.dim() == 3
    )
    layers = channel + sum(block.mixer.operations_per_token() for block in model.layers)
    return (1 + BACKWARD) * (tokens * layers + labels * width * run.task.label_vocabulary)


def evaluation_stretch(run: RunSpec) -> float:
    """How many times longer a run takes than its steps alone: an evaluation is a forward pass over
    its rows (docs/decisions/evaluations-in-a-forecast.md).
    """
    train, task = run.train, run.task
    step = (1 + BACKWARD) * train.batch * task.train_length
    return 1 + train.evaluations * task.evaluated_tokens / (train.steps * step)
