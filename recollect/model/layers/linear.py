"""Linear layers: one matrix and bias per member."""

import torch
from torch import Generator, Tensor, nn

from recollect.model.layers.base import Kind, Layer
from recollect.model.layers.initial import Init
from recollect.model.layers.short_conv import ShortConv
from recollect.ops.linear import linear


class Linear(Layer):
    """x @ weight[p] + bias[p]."""

    def __init__(
        self,
        population: int,
        inputs: int,
        outputs: int,
        *,
        init: Init,
        bias: bool = True,
        bias_init: Init | None = None,
        bias_kind: Kind = "bias",
    ):
        super().__init__()
        self.init, self.bias_init = init, bias_init
        self.kinds = {"bias": bias_kind}
        self.weight = nn.Parameter(torch.empty(population, inputs, outputs))
        self.bias = nn.Parameter(torch.empty(population, outputs)) if bias else None

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        values = {"weight": self.init(tuple(self.weight.shape[1:]), generator)}
        if self.bias is not None:
            shape = tuple(self.bias.shape[1:])
            values["bias"] = (
                self.bias_init(shape, generator) if self.bias_init else torch.zeros(shape)
            )
        return values

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)

    def columns(self, x: Tensor, first: int, last: int) -> Tensor:
        """Only the outputs from `first` up to `last`."""
        bias_PO = None if self.bias is None else self.bias[:, first:last]
        return linear(x, self.weight[:, :, first:last], bias_PO)


def weight_and_bias(layer: Linear | ShortConv) -> tuple[Tensor, Tensor]:
    """The parameters of a layer that has a bias."""
    assert layer.bias is not None
    return layer.weight, layer.bias
