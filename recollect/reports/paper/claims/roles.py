"""The models that a claim is about: "Mamba", "attention with two layers",
"Mamba without its convolution".

A role is a mixer with the options that define the role. Any other difference from the mixer's
defaults (Zoology's initialisation, another block) makes a *variant* of it. Variants are never
mixed within a group.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from recollect.analysis.mixer_options import usual_options
from recollect.mixers.registry import MIXERS
from recollect.spec.model import ModelSpec

# Options of a mixer that the study leaves open: a variant in these may still be the model that it
# trained. A variant in any other option is another model. What is around the mixer is a matter of
# the recipe.
OPEN_OPTIONS = {
    "model.mixer.init",
    "model.mixer.filter",
    "model.mixer.ratio_layers",
    "model.mixer.heads",
    "model.mixer.precision",
    "model.mixer.conv_kernel",
    "model.mixer.conv_padding",
    "model.mixer.rope_share",
}
STUDY_DEPTH = 12  # the depth of the models in Fig. 13
SHAPE = ("model.mixer.name", "model.width", "model.depth")


@dataclass(frozen=True, eq=False)
class Role:
    """A mixer and what its options must be: values, or functions that accept a value."""

    name: str
    mixer: str
    depth: int | Callable[[int], bool] | None = None  # None: any
    options: Mapping[str, Any] = field(default_factory=dict)
    any_of: tuple[str, ...] = ()  # options that may have any value without making a variant
    depth_to_train: int | None = None  # the depth to request if several fit

    def fits(self, flat: Mapping[str, Any]) -> bool:
        if flat.get("model.mixer.name") != self.mixer or not _meets(
            flat.get("model.depth", 0), self.depth
        ):
            return False
        usual = usual_settings(self.mixer)
        return all(
            _meets(flat.get(key, usual.get(key)), wanted) for key, wanted in self.options.items()
        )

    def variant(self, flat: Mapping[str, Any]) -> dict[str, Any]:
        """The model's settings that are neither the mixer's defaults nor part of this role."""
        usual = usual_settings(self.mixer)
        told = {key for key, wanted in self.options.items() if not callable(wanted)} | set(
            self.any_of
        )
        return {
            key: value
            for key, value in flat.items()
            if key.startswith("model.")
            and key not in told
            and key not in SHAPE
            and value != usual.get(key)
        }


@cache
def usual_settings(mixer: str) -> dict[str, Any]:
    """The default model settings of this mixer, by flat key."""
    kind = MIXERS[mixer]
    around = {"model.block": kind.block, "model.norm": kind.norm, "model.positions": kind.positions}
    plain = {
        f"model.{name}": ModelSpec.model_fields[name].default for name in ("mlp_ratio", "dropout")
    }
    return usual_options(mixer) | around | plain


def _meets(value: Any, wanted: Any) -> bool:
    if wanted is None:
        return True
    return bool(wanted(value)) if callable(wanted) else bool(value == wanted)


def _present(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _deep(depth: int) -> bool:
    return depth > 2


NO_POSITIONS = {"model.positions": "none"}
# Mamba with its convolution and its gate.
WHOLE = {"model.mixer.kernel": _present, "model.mixer.gate": True}
PLAIN_ATTENTION = {"model.mixer.conv": "none"}


def attention(depth: int, name: str = "attention") -> Role:
    return Role(name, "attention", depth, PLAIN_ATTENTION)


def recurrent(mixer: str, depth: int, name: str = "") -> Role:
    """A model of the study without positions; Mamba and Mamba2 with convolution and gate."""
    return Role(
        name or mixer, mixer, depth, NO_POSITIONS | (WHOLE if mixer in ("mamba", "mamba2") else {})
    )


def convolved_attention(on: str, padding: str | None = None) -> Role:
    """1-layer attention with a convolution on `on`; any padding fits unless one is given."""
    options = {"model.mixer.conv": on} | ({"model.mixer.conv_padding": padding} if padding else {})
    return Role(
        f"attention + conv on {on.upper()}" + (f" ({padding})" if padding else ""),
        "attention",
        1,
        options,
    )


ATTENTION_1, ATTENTION_2 = attention(1, "1-layer attention"), attention(2, "2-layer attention")
MAMBA_1, MAMBA_2 = recurrent("mamba", 1, "1-layer mamba"), recurrent("mamba", 2, "2-layer mamba")
HYENA_1, HYENA_2 = recurrent("hyena", 1, "1-layer hyena"), recurrent("hyena", 2, "2-layer hyena")
H3_1, H3_2 = recurrent("h3", 1, "1-layer h3"), recurrent("h3", 2, "2-layer h3")
RWKV_1, RWKV_2 = recurrent("rwkv4", 1, "1-layer rwkv4"), recurrent("rwkv4", 2, "2-layer rwkv4")
RECURRENT_1, RECURRENT_2 = (HYENA_1, MAMBA_1, H3_1, RWKV_1), (HYENA_2, MAMBA_2, H3_2, RWKV_2)
DEEP_ATTENTION, DEEP_MAMBA = (
    replace(attention(STUDY_DEPTH, "deep attention"), depth=_deep, depth_to_train=STUDY_DEPTH),
    replace(recurrent("mamba", STUDY_DEPTH, "deep mamba"), depth=_deep, depth_to_train=STUDY_DEPTH),
)
MAMBA2_1, DELTA_NET_1 = (
    recurrent("mamba2", 1, "1-layer mamba2"),
    recurrent("delta_net", 1, "1-layer delta_net"),
)
BASED_1, BASED_2 = (
    Role("1-layer based", "based", 1),
    Role("2-layer based", "based_hybrid", 2),
)
UNCONVOLVED = {"model.mixer.kernel": 0, "model.mixer.gate": True}
MAMBA_1_NO_CONV = Role("1-layer mamba without convolution", "mamba", 1, NO_POSITIONS | UNCONVOLVED)
MAMBA_2_NO_CONV = Role("2-layer mamba without convolution", "mamba", 2, NO_POSITIONS | UNCONVOLVED)
MAMBA_1_NO_GATE = Role(
    "1-layer mamba without gate",
    "mamba",
    1,
    NO_POSITIONS | {"model.mixer.kernel": _present, "model.mixer.gate": False},
)
S6_MLP_1 = Role("1-layer S6 + MLP", "s6", 1, NO_POSITIONS | {"model.mixer.kernel": _present})
