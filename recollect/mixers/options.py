"""What every mixer's options share: how it wants the model around it, and what a catalogue says
about it.

Torch-free: a specification is checked before anything heavy is imported.
"""

from typing import ClassVar, Literal

from recollect.spec.base import Spec

Block = Literal["mixer+mlp", "mixer", "mixer+identity", "mixer+channel-mix"]
Norm = Literal["layer", "rms"]
Positions = Literal["none", "learned", "sinusoidal", "relative", "rope", "alibi"]
ON_SCORES: tuple[Positions, ...] = (
    "rope",
    "alibi",
)  # need scores of pairs of positions; the others work with every mixer
Family = Literal[
    "attention",
    "linear attention",
    "delta rule",
    "state space",
    "convolution",
    "recurrent",
    "mixed",
    "plugin",
]
# What the time of a mixer goes into: products and transforms are a library's kernels; a scan is a
# loop over time with a kernel for a GPU, a recurrence one without.
Core = Literal["matrix products", "triangular solve", "FFT", "scan", "recurrence", "unknown"]


class MixerSpec(Spec):
    """Base of all mixers' options. The class attributes fill what a [model] table leaves out."""

    name: str
    block: ClassVar[Block] = "mixer+mlp"
    norm: ClassVar[Norm] = "layer"
    positions: ClassVar[Positions] = "none"
    # Positions the mixer treats itself. `relative` on any other mixer rotates its input (see
    # model.py).
    positions_inside: ClassVar[tuple[Positions, ...]] = ()
    family: ClassVar[Family] = "plugin"
    core: ClassVar[Core] = "unknown"
    summary: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    architecture: ClassVar[str] = ""  # the class in the mixer.py beside these options
    foreign: ClassVar[bool] = False  # code from outside this package

    def at(self, layer: int) -> "MixerSpec":
        """The mixer of one layer; another one than this only in a stack of several kinds."""
        return self

    def kinds(self) -> "tuple[MixerSpec, ...]":
        """All mixers that occur in a stack of this one."""
        return (self,)

    def check(self, width: int, depth: int, positions: Positions) -> None:
        """Raise ValueError if this mixer cannot be built at this width and depth with these
        positions.
        """
        if positions in ON_SCORES and positions not in self.positions_inside:
            raise ValueError(
                f'positions = "{positions}": {self.name} has no scores to put them on; '
                "use none, learned, sinusoidal or relative"
            )


def must_divide(option: str, value: int, width: int, what: str = "width") -> None:
    """Raise ValueError unless `value` parts of equal size make up the width."""
    if width % value:
        raise ValueError(
            f"mixer.{option} = {value}: must divide {what} = {width}; for example {option} = 1"
        )
