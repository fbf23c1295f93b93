"""The mixers by name. To add one, add a folder next to this file and its name to ROOMS.

A folder NAME holds `options.py`, which is torch-free and lists its options in OPTIONS, and
`mixer.py` with the class that each of them names as its `architecture`.
"""

from importlib import import_module

from recollect.mixers.options import MixerSpec

ROOMS = (
    "attention",
    "sliding_window",
    "linear_attention",
    "based",
    "based_hybrid",
    "retnet",
    "gla",
    "delta_net",
    "gated_delta_net",
    "mamba",
    "mamba2",
    "h3",
    "hyena",
    "base_conv",
    "rwkv4",
    "mlstm",
    "min_gru",
    "gru",
    "lstm",
)


def _options() -> dict[str, type[MixerSpec]]:
    rooms = [import_module(f"recollect.mixers.{room}.options").OPTIONS for room in ROOMS]
    return {spec.model_fields["name"].default: spec for options in rooms for spec in options}


# Name -> options. A plug-in adds its own (see plugins/).
MIXERS: dict[str, type[MixerSpec]] = _options()
