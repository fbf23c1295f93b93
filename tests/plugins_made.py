"""A mixer as somebody outside would write it, and runs with mixers from outside."""

import torch
from torch import Tensor, nn

from recollect.spec.run import RunSpec


class Running(nn.Module):
    """A causal mean of what came before, between two linear layers; its buffers and its frozen
    weight are there to be kept.
    """

    def __init__(
        self,
        width: int,
        length: int,
        depth: int = 2,
        scale: float = 1.0,
        bias: bool = True,
        kind: str = "mean",
    ):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=bias) for _ in range(depth))
        self.site = nn.Parameter(
            torch.rand(width), requires_grad=False
        )  # a name the adapter uses itself
        self.register_buffer("offsets", torch.randn(length, width))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.scale, self.kind = scale, kind

    def forward(self, x_BLD: Tensor) -> Tensor:
        self.calls += 1
        length = x_BLD.shape[1]
        for layer in self.layers:
            x_BLD = torch.tanh(layer(x_BLD))
        mean = x_BLD.cumsum(1) / torch.arange(1, length + 1, device=x_BLD.device)[:, None]
        return self.scale * self.site * mean + self.offsets[:length]


def with_mixer(make_run, name: str, **changes) -> RunSpec:
    return make_run({"model.mixer": {"name": name, **changes.pop("options", {})}, **changes})
