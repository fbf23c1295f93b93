"""Layers of flash-linear-attention as mixers: one copy per member, called in turn.

    mixer = { name = "fla:GatedDeltaNet", num_heads = 2, head_dim = 32 }

The width becomes `hidden_size` and the layer's index `layer_idx`; all other options are the layer's
own. Its kernels are written in Triton for a GPU, and most of them for bf16: with precision = "bf16"
the layer runs under autocast, its weights and its sums stay fp32.
"""

import importlib
import inspect
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from recollect.errors import SpecError
from recollect.mixers.base import Site
from recollect.mixers.fla.options import INSTALL, PREFIX, FlaSpec
from recollect.mixers.plugins.stack import ModuleStack
from recollect.spec.base import suggest


class FlaMixer(ModuleStack):
    def __init__(self, spec: FlaSpec, site: Site):
        self.layer = layer_class(spec)
        super().__init__(spec, site)

    def construct(self) -> nn.Module:
        assert isinstance(self.spec, FlaSpec)
        given: dict[str, Any] = {"hidden_size": self.site.width}
        if "layer_idx" in inspect.signature(self.layer).parameters:
            given["layer_idx"] = self.site.layer
        try:
            return self.layer(**given, **self.spec.options())
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise SpecError(
                f"mixer {self.spec.name} at width {self.site.width}: {type(error).__name__}: "
                f"{reason}"
            ) from error

    def call(self, module: nn.Module, tensors: dict[str, Tensor], x_BLD: Tensor) -> Any:
        assert isinstance(self.spec, FlaSpec)
        with torch.autocast(
            x_BLD.device.type, torch.bfloat16, enabled=self.spec.precision == "bf16"
        ):
            output = functional_call(module, tensors, (x_BLD,))
        y_BLD = output[0] if isinstance(output, tuple) else output
        return y_BLD.to(x_BLD.dtype) if isinstance(y_BLD, Tensor) else y_BLD


def layer_class(spec: FlaSpec, device: torch.device | None = None) -> type[nn.Module]:
    """Return the class in fla.layers; refuse if a requirement is missing or an option is
    unknown.
    """
    if not torch.cuda.is_available():
        raise SpecError(
            f"mixer {spec.name}: its kernels need an NVIDIA GPU, and torch finds none; see "
            "`recollect doctor`"
        )
    if device is not None and device.type != "cuda":
        raise SpecError(
            f"mixer {spec.name}: its kernels need an NVIDIA GPU; use --device cuda instead of "
            f"{device}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layers = importlib.import_module("fla.layers")
    except ImportError as error:
        raise SpecError(
            f"mixer {spec.name}: fla.layers cannot be imported ({error}); {INSTALL}"
        ) from None
    known = [name for name in layers.__all__ if inspect.isclass(getattr(layers, name, None))]
    name = spec.own_name.removeprefix(PREFIX)
    if name not in known:
        raise SpecError(
            f"mixer {spec.name}: no layer of fla {spec.version}; {suggest(name, known)}"
        )
    layer: type[nn.Module] = getattr(layers, name)
    own = [
        option
        for option in inspect.signature(layer).parameters
        if option not in ("hidden_size", "layer_idx", "kwargs")
    ]
    for option in spec.options():
        if option not in own:
            raise SpecError(f"mixer {spec.name}: unknown option {option}; {suggest(option, own)}")
    return layer
