"""The mixers by name. A new one gets a line here, its options beside its relatives, its architecture in recollect/mixers/."""

from typing import Any

from pydantic import ValidationError

from recollect.spec.base import NestedError, by_name, explain, shorten
from recollect.spec.mixers.attention import AttentionSpec, SlidingWindowSpec
from recollect.spec.mixers.base import MixerSpec
from recollect.spec.mixers.convolution import BaseConvSpec, H3Spec, HyenaSpec
from recollect.spec.mixers.delta import DeltaNetSpec, GatedDeltaNetSpec
from recollect.spec.mixers.fla import PREFIX, FlaSpec, installed_version
from recollect.spec.mixers.linear import BasedHybridSpec, BasedSpec, GLASpec, LinearAttentionSpec, RetNetSpec
from recollect.spec.mixers.recurrent import GRUSpec, LSTMSpec, MinGRUSpec, MLSTMSpec, RWKV4Spec
from recollect.spec.mixers.state_space import Mamba2Spec, MambaSpec, S6Spec

# Name -> options. A plugin adds its own line here (see mixers/foreign.py).
MIXERS: dict[str, type[MixerSpec]] = {
    "attention": AttentionSpec,
    "sliding_window": SlidingWindowSpec,
    "linear_attention": LinearAttentionSpec,
    "based": BasedSpec,
    "based_hybrid": BasedHybridSpec,
    "retnet": RetNetSpec,
    "gla": GLASpec,
    "delta_net": DeltaNetSpec,
    "gated_delta_net": GatedDeltaNetSpec,
    "mamba": MambaSpec,
    "s6": S6Spec,
    "mamba2": Mamba2Spec,
    "h3": H3Spec,
    "hyena": HyenaSpec,
    "base_conv": BaseConvSpec,
    "rwkv4": RWKV4Spec,
    "mlstm": MLSTMSpec,
    "min_gru": MinGRUSpec,
    "gru": GRUSpec,
    "lstm": LSTMSpec,
}

_choose_registered = by_name(MIXERS, "mixer", hint=" (one of a plugin needs --plugin FILE.py)")


def choose_single(raw: Any) -> Any:
    """The options that a name, or a table with a name, stands for."""
    table = {"name": raw} if isinstance(raw, str) else raw
    if not isinstance(table, dict) or not str(table.get("name")).startswith(PREFIX):
        return _choose_registered(raw)
    version = table.get("version") or installed_version(shorten(table["name"]))
    try:
        return FlaSpec.model_validate(table | {"version": version})
    except ValidationError as error:
        raise NestedError(explain(error, FlaSpec)) from None
