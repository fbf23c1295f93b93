"""The few layers that carry the population axis: every parameter is P stacked parameters, every
product a batched one.

Shapes: P population (always first), B batch, L length, D width, K taps; `...` is any number of axes
in between.
With P = 1 these are the plain layers. No operation reduces over P, so a member never sees its
neighbours.
"""

from recollect.model.layers.base import (
    Kind,
    Layer,
    initialise,
    parameter_kinds,
    stacked_tensors,
)
from recollect.model.layers.dropout import Dropout, Noise
from recollect.model.layers.embedding import Embedding
from recollect.model.layers.initial import (
    Init,
    fan_in_uniform,
    log_uniform_step,
    normal,
    uniform,
    zeros,
)
from recollect.model.layers.linear import Linear, weight_and_bias
from recollect.model.layers.norm import Branch, LayerNorm, Norm, RMSNorm
from recollect.model.layers.short_conv import ShortConv, token_shift

__all__ = [
    "Branch",
    "Dropout",
    "Embedding",
    "Init",
    "Kind",
    "Layer",
    "LayerNorm",
    "Linear",
    "Noise",
    "Norm",
    "RMSNorm",
    "ShortConv",
    "fan_in_uniform",
    "initialise",
    "log_uniform_step",
    "normal",
    "parameter_kinds",
    "stacked_tensors",
    "token_shift",
    "uniform",
    "weight_and_bias",
    "zeros",
]
