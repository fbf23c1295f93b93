"""Options of the recurrent networks: RWKV-4, LSTM, GRU, minGRU, mLSTM."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.spec.mixers.base import Block, Core, Family, MixerSpec, Positions, must_divide


class RWKV4Spec(MixerSpec):
    """RWKV-4's time mix; its channel mix is the block "mixer+channel-mix"."""

    name: Literal["rwkv4"] = "rwkv4"
    ratio_layers: Literal["twelve", "depth"] = Field(
        default="twelve", description='layers the initialisation believes in: "twelve" as Zoology does, or the true depth'
    )
    init: Literal["pytorch", "official"] = Field(
        default="pytorch",
        description="linear layers as PyTorch's default (Zoology), or zeros and an orthogonal value (RWKV-LM)",
    )

    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "scan"
    summary: ClassVar[str] = "a decaying weighted mean of values per channel, behind a token shift"
    paper: ClassVar[str] = "Peng et al. 2023"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        if self.ratio_layers == "twelve" and depth > 12:
            raise ValueError(f'mixer.ratio_layers = "twelve": depth = {depth} is more than twelve; use ratio_layers = "depth"')


class LSTMSpec(MixerSpec):
    """Long short-term memory."""

    name: Literal["lstm"] = "lstm"
    forget_bias: float = Field(default=1.0, ge=-100, le=100, description="initial bias of the forget gate")

    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "recurrence"
    summary: ClassVar[str] = "long short-term memory"
    paper: ClassVar[str] = "Hochreiter and Schmidhuber 1997"


class GRUSpec(MixerSpec):
    """Gated recurrent unit."""

    name: Literal["gru"] = "gru"

    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "recurrence"
    summary: ClassVar[str] = "gated recurrent unit"
    paper: ClassVar[str] = "Cho et al. 2014"


class MinGRUSpec(MixerSpec):
    """A GRU whose gates look at the input alone, so that it is a linear scan."""

    name: Literal["min_gru"] = "min_gru"
    expand: int = Field(default=1, ge=1, le=16, description="channels of the state per model channel")

    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "scan"
    summary: ClassVar[str] = "a GRU whose gates see the input alone"
    paper: ClassVar[str] = "Feng et al. 2024"


class MLSTMSpec(MixerSpec):
    """xLSTM's matrix memory with exponential gates."""

    name: Literal["mlstm"] = "mlstm"
    heads: int = Field(default=1, ge=1, le=1024, description="number of heads; must divide expand * width")
    expand: int = Field(default=2, ge=1, le=16, description="inner channels per model channel")
    kernel: int = Field(default=4, ge=0, le=64, description="taps of the causal convolution before queries and keys; 0: none")
    qkv_block: int = Field(
        default=4, ge=0, le=4096, description="inner channels that are projected together into queries, keys and values; 0: all"
    )

    block: ClassVar[Block] = "mixer"
    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "matrix products"
    summary: ClassVar[str] = "a matrix memory with exponential gates"
    paper: ClassVar[str] = "Beck et al. 2024"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        must_divide("heads", self.heads, self.expand * width, "expand * width")
        if self.qkv_block:
            must_divide("qkv_block", self.qkv_block, self.expand * width, "expand * width")
