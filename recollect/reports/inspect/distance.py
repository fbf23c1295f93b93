"""How far a model looks back: the size of its maps, and of the gradient of its loss, by distance.

The study explains DeltaNet's stability by off-diagonal terms that need not decay, and Mamba's
brittleness by a decay that makes these terms, and the gradients through them, vanish. Both can be
measured in any model, before and after training.

Shapes: B rows, H maps, L length, D width, K labelled positions.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.model.model import Model
from recollect.reports.inspect.scores import Targets
from recollect.tasks.base import IGNORE, Batch

MOST_LABELS = 16  # the most labels per row whose gradients are computed


def mass_by_distance(size_BHLL: Tensor, probabilities: bool) -> Tensor:
    """(H, L): the mean of |Phi| at every distance.

    Probabilities are divided among a number of positions that grows along a row. They are
    multiplied by that number, so that 1 is an equal share and a map that takes equally from all
    positions is flat.
    """
    length = size_BHLL.shape[-1]
    if probabilities:
        size_BHLL = size_BHLL * torch.arange(1, length + 1, device=size_BHLL.device)[:, None]
    diagonals = [size_BHLL.diagonal(offset=-distance, dim1=2, dim2=3) for distance in range(length)]
    return torch.stack([diagonal.mean((0, 2)) for diagonal in diagonals], dim=1)


def kept_per_token(mass_L: Sequence[float]) -> float:
    """The factor by which a mass falls with every token of distance.

    It is exp of the least-squares slope of the logarithm of the mass over distances 1 to L / 2;
    few positions have a larger distance. 1 means no decay. NaN if fewer than two distances have
    any mass.
    """
    near = mass_L[: len(mass_L) // 2 + 1]
    points = [
        (distance, math.log(mass)) for distance, mass in enumerate(near) if distance and mass > 0
    ]
    if len(points) < 2:
        return math.nan
    middle = sum(distance for distance, _ in points) / len(points)
    spread = sum((distance - middle) ** 2 for distance, _ in points)
    return math.exp(sum((distance - middle) * height for distance, height in points) / spread)


def losses_from_embedding(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """The loss of every label, (B, K), 0 where there is none; and the embedded tokens, x_BLD."""
    held: list[Tensor] = []

    def hold(_module: nn.Module, _inputs: tuple[Tensor, ...], x_PBLD: Tensor) -> Tensor:
        held.append(x_PBLD[0].detach().requires_grad_())
        return held[0][None]

    # Dropout is the last module that changes the embedding before the first layer.
    hook = model.dropout.register_forward_hook(hold)
    try:
        logits_MV = model(batch.tokens_BL, batch.where_BK)[0]
    finally:
        hook.remove()
    losses_M = F.cross_entropy(
        logits_MV, batch.labels_BK.flatten(), ignore_index=IGNORE, reduction="none"
    )
    return losses_M.view_as(batch.labels_BK), held[0]


def gradient_norms(losses_BK: Tensor, x_BLD: Tensor) -> Tensor:
    """(B, K, L): the norm of the gradient of each label's loss at each position.

    Rows are independent of each other, so one backward pass serves the k-th label of all rows.
    """
    norms = []
    for losses_B in losses_BK.unbind(1):
        (gradient_BLD,) = torch.autograd.grad(losses_B.sum(), x_BLD, retain_graph=True)
        norms.append(gradient_BLD.norm(dim=-1))
    return torch.stack(norms, dim=1)


def by_distance(norms_BKL: Tensor, where_BK: Tensor, valid_BK: Tensor) -> Tensor:
    """(L,): the mean norm at each distance back from the label's position; NaN for a distance that
    does not occur.
    """
    length = norms_BKL.shape[-1]
    distance_BKL = where_BK[..., None] - torch.arange(length, device=where_BK.device)
    counted_BKL = (distance_BKL >= 0) & valid_BK[..., None]
    index_M, norms_M = distance_BKL[counted_BKL], norms_BKL[counted_BKL]
    sums_L = torch.zeros(length, dtype=norms_BKL.dtype, device=norms_BKL.device).index_add_(
        0, index_M, norms_M
    )
    return sums_L / torch.bincount(index_M, minlength=length)


def at_targets(
    norms_BKL: Tensor, where_BK: Tensor, valid_BK: Tensor, targets: Targets
) -> dict[str, float]:
    """The mean norm at the question, at its key, at its value, and at other earlier positions."""
    rows = torch.arange(where_BK.shape[0], device=where_BK.device)[:, None]
    key_BKL = targets.match_BLL[rows, where_BK]
    value_BKL = key_BKL.roll(1, 2)
    value_BKL[:, :, 0] = False
    position_L = torch.arange(norms_BKL.shape[-1], device=where_BK.device)
    own_BKL = position_L == where_BK[..., None]
    rest_BKL = (position_L < where_BK[..., None]) & ~key_BKL & ~value_BKL
    valid_BK1 = (valid_BK & targets.asked_BL[rows, where_BK])[..., None]
    places = {"question": own_BKL, "key": key_BKL, "value": value_BKL, "elsewhere": rest_BKL}
    return {
        name: float(norms_BKL[place & valid_BK1].mean())
        for name, place in places.items()
        if (place & valid_BK1).any()
    }
