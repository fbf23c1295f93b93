"""Options of mLSTM."""

import math
from typing import Any, ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Block, Core, Family, MixerSpec, Positions, must_divide


class MLSTMSpec(MixerSpec):
    """xLSTM's matrix memory with exponential gates."""

    name: Literal["mlstm"] = "mlstm"
    heads: int = Field(
        default=1, ge=1, le=1024, description="number of heads; must divide expand * width"
    )
    expand: int = Field(default=2, ge=1, le=16, description="inner channels per model channel")
    kernel: int = Field(
        default=4,
        ge=0,
        le=64,
        description="taps of the causal convolution before queries and keys; 0: none",
    )
    qkv_block: int = Field(
        default=4,
        ge=0,
        le=4096,
        description="inner channels that are projected together into queries, keys and values; "
        "0: all",
    )

    block: ClassVar[Block] = "mixer"
    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "matrix products"
    architecture: ClassVar[str] = "MLSTM"
    summary: ClassVar[str] = "a matrix memory with exponential gates"
    paper: ClassVar[str] = "Beck et al. 2024"
    option_combinations: ClassVar[tuple[dict[str, Any], ...]] = (
        {"qkv_block": 0},
        {"heads": 2, "kernel": 0},
    )

    @classmethod
    def small_options(cls, width: int) -> dict[str, Any]:
        return {"qkv_block": math.gcd(4, 2 * width)}

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        must_divide("heads", self.heads, self.expand * width, "expand * width")
        if self.qkv_block:
            must_divide("qkv_block", self.qkv_block, self.expand * width, "expand * width")


OPTIONS = (MLSTMSpec,)
