"""AdamW's update in PyTorch's operations, in place."""

from torch import Tensor


def adamw_(
    parameter: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    keep_P: Tensor,
    step_P: Tensor,
    root: Tensor,
    shrink_P: Tensor | None,
    beta1: float,
    beta2: float,
    eps: float,
) -> None:
    def along_first(values_P: Tensor) -> Tensor:
        return values_P.view(-1, *[1] * (parameter.dim() - 1))

    if shrink_P is not None:
        gradient = gradient * along_first(shrink_P)
    first.lerp_(gradient, 1 - beta1)
    second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    parameter.mul_(along_first(keep_P))
    update = first / second.sqrt().div_(root).add_(eps)
    parameter.sub_(update.mul_(along_first(step_P)))
