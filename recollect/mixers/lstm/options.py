"""Options of LSTM."""

from typing import ClassVar, Literal

from pydantic import Field

from recollect.mixers.options import Core, Family, MixerSpec


class LSTMSpec(MixerSpec):
    """Long short-term memory."""

    name: Literal["lstm"] = "lstm"
    forget_bias: float = Field(
        default=1.0, ge=-100, le=100, description="initial bias of the forget gate"
    )

    family: ClassVar[Family] = "recurrent"
    core: ClassVar[Core] = "recurrence"
    architecture: ClassVar[str] = "LSTM"
    summary: ClassVar[str] = "long short-term memory"
    paper: ClassVar[str] = "Hochreiter and Schmidhuber 1997"


OPTIONS = (LSTMSpec,)
