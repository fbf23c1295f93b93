"""Options of RWKV-4."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec, Positions


class RWKV4Spec(MixerSpec):
    """RWKV-4's time mix; its channel mix is the block "mixer+channel-mix"."""

    name: Literal["rwkv4"] = "rwkv4"
    ratio_layers: Literal["twelve", "depth"] = Field(
        default="twelve",
        description='layers the initialisation believes in: "twelve" as Zoology does, '
        "or the true depth",
    )
    init: Literal["pytorch", "official"] = Field(
        default="pytorch",
        description="linear layers as PyTorch's default (Zoology), or zeros and an "
        "orthogonal value (RWKV-LM)",
    )

    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "scan"
    architecture: ClassVar[str] = "RWKV4"
    summary: ClassVar[str] = "a decaying weighted mean of values per channel, behind a token shift"
    paper: ClassVar[str] = "Peng et al. 2023"

    @property
    def starts_closed(self) -> bool:
        return self.init == "official"

    def check(self, width: int, depth: int, positions: Positions) -> None:
        super().check(width, depth, positions)
        if self.ratio_layers == "twelve" and depth > 12:
            raise ValueError(
                f'mixer.ratio_layers = "twelve": depth = {depth} is more than twelve; '
                'use ratio_layers = "depth"'
            )


OPTIONS = (RWKV4Spec,)
