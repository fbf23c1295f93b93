"""Options of a layer of flash-linear-attention:

`mixer = { name = "fla:GatedDeltaNet", num_heads = 2, head_dim = 32 }`.
"""

import importlib.metadata
import re
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from recollect.mixers.options import LOOKS_AT, Family, MixerSpec
from recollect.spec.base import shorten

PREFIX = "fla:"
PACKAGE = "flash-linear-attention"
INSTALL = "pip install 'recollect[fla]'"


class FlaSpec(MixerSpec):
    """Any class of `fla.layers` by its name; its own keyword arguments are the options.

    Whether it has these arguments is asked when it is built: knowing them means importing fla,
    which takes seconds.
    """

    model_config = ConfigDict(extra="allow")

    name: str
    precision: Literal["bf16", "fp32"] = Field(
        default="bf16", description="what the layer computes in; weights stay fp32"
    )
    version: str = Field(description="version of the package; another one is another run")

    family: ClassVar[Family] = "plugin"
    architecture: ClassVar[str] = "FlaMixer"
    foreign: ClassVar[bool] = True
    summary: ClassVar[str] = "a layer of flash-linear-attention (needs an NVIDIA GPU)"

    @model_validator(mode="after")
    def _plain_options(self) -> Self:
        if not re.fullmatch(rf"fla:[A-Za-z_][A-Za-z0-9_]*(@({'|'.join(LOOKS_AT)}))?", self.name):
            raise ValueError(
                f"name = {shorten(self.name)}: must be fla: and a class of fla.layers; for "
                "example fla:GatedDeltaNet"
            )
        for option, value in self.options().items():
            if not isinstance(value, bool | int | float | str):
                raise ValueError(
                    f"{option} = {shorten(value)}: must be a number, true/false or a text"
                )
        return self

    def options(self) -> dict[str, Any]:
        """Return the layer's own keyword arguments."""
        return dict(self.model_extra or {})


def installed_version(name: str) -> str:
    """Return the package's version without importing it, which takes seconds and needs torch."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise ValueError(
            f"{name} needs the package {PACKAGE}, which is not installed; {INSTALL}"
        ) from None
