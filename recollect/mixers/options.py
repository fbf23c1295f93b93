"""Options that all mixers share: their requirements on the model around them, and their entries in
the catalogue.

This file is torch-free: a specification is checked before anything heavy is imported.
"""

from typing import Any, ClassVar, Literal

from recollect.spec.base import Spec

Block = Literal["mixer+mlp", "mixer", "mixer+identity", "mixer+channel-mix"]
Norm = Literal["layer", "rms"]
# Initial scale of output projections that shrink with the depth; see Site.rescaled.
Rescale = Literal["own", "branches", "none"]
Positions = Literal["none", "learned", "sinusoidal", "relative", "rope", "alibi"]
# These act on scores of pairs of positions; the others work with every mixer.
ON_SCORES: tuple[Positions, ...] = ("rope", "alibi")
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
# The operation in which a mixer spends its time. Products, solves and transforms come from a
# library; the others walk along time, linearly in the state (scans) or not (recurrence).
# `fast_form` of recollect/ops/dispatch.py says which of them have a compiled form on a machine.
Core = Literal[
    "matrix products",
    "triangular solve",
    "FFT",
    "selective scan",
    "scan",
    "recurrence",
    "unknown",
]

# What a mixer from outside may see in addition to its own past, if its name says so: `mine@future`.
# It is part of the name, so that no table, figure or page can leave it out.
LOOKS_AT = ("future", "rows", "everything")


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
    architecture: ClassVar[str] = ""  # the class in the mixer.py next to these options
    foreign: ClassVar[bool] = False  # code from outside this package
    # Options that only matter together: the contract tests run these besides every single option.
    option_combinations: ClassVar[tuple[dict[str, Any], ...]] = ()

    @classmethod
    def small_options(cls, width: int) -> dict[str, Any]:
        """Return options for a small width, for a mixer whose defaults suit larger ones."""
        return {}

    @property
    def starts_closed(self) -> bool:
        """Whether zeros among the initial weights block gradients, at the first step only."""
        return False

    @property
    def own_name(self) -> str:
        """The name without what the mixer looks at."""
        return self.name.partition("@")[0]

    @property
    def looks_at(self) -> str:
        """One of LOOKS_AT, or empty if the mixer sees only its own past."""
        return self.name.partition("@")[2]

    def at(self, layer: int) -> "MixerSpec":
        """Return the mixer of one layer; it is another one only in a stack of several kinds."""
        return self

    def kinds(self) -> "tuple[MixerSpec, ...]":
        """Return all mixers that occur in a stack of this one."""
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
