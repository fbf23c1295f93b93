"""Layers with a population axis: every parameter is a stack of P, every product is batched.

Shapes: P population (always first), B batch, L length, D width, K taps; `...` is any number of axes
in between.
With P = 1 these are the usual layers. No operation reduces over P, so the members of a population
do not affect each other.
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
