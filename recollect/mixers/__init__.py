"""The architectures by name. A new one is a file here, its options under recollect/spec/mixers/, and a line in both places."""

from recollect.mixers.attention import Attention
from recollect.mixers.base import EffectiveAttention as EffectiveAttention
from recollect.mixers.base import Mixer as Mixer
from recollect.mixers.base import Site as Site
from recollect.mixers.base_conv import BaseConv
from recollect.mixers.based import Based
from recollect.mixers.delta_net import DeltaNet
from recollect.mixers.fla import FlaMixer
from recollect.mixers.foreign import FOREIGN, ForeignMixer
from recollect.mixers.gated_delta_net import GatedDeltaNet
from recollect.mixers.gla import GLA
from recollect.mixers.gru import GRU
from recollect.mixers.h3 import H3
from recollect.mixers.hyena import Hyena
from recollect.mixers.linear_attention import LinearAttention
from recollect.mixers.lstm import LSTM
from recollect.mixers.mamba import Mamba
from recollect.mixers.mamba2 import Mamba2
from recollect.mixers.min_gru import MinGRU
from recollect.mixers.mlstm import MLSTM
from recollect.mixers.retnet import RetNet
from recollect.mixers.rwkv4 import RWKV4
from recollect.mixers.sliding_window import SlidingWindow
from recollect.spec.mixers import MixerSpec
from recollect.spec.mixers.fla import FlaSpec

BUILT_IN: dict[str, type] = {
    "attention": Attention,
    "sliding_window": SlidingWindow,
    "linear_attention": LinearAttention,
    "based": Based,
    "retnet": RetNet,
    "gla": GLA,
    "delta_net": DeltaNet,
    "gated_delta_net": GatedDeltaNet,
    "mamba": Mamba,
    "s6": Mamba,
    "mamba2": Mamba2,
    "h3": H3,
    "hyena": Hyena,
    "base_conv": BaseConv,
    "rwkv4": RWKV4,
    "mlstm": MLSTM,
    "min_gru": MinGRU,
    "gru": GRU,
    "lstm": LSTM,
}


def build(spec: MixerSpec, site: Site) -> Mixer:
    """The mixer of that name with these options at this place; of a stack of several kinds, the one of the site's layer."""
    spec = spec.at(site.layer)
    if isinstance(spec, FlaSpec):
        return FlaMixer(spec, site)
    known = FOREIGN.get(spec.name) or BUILT_IN[spec.name]
    mixer = known(spec, site) if issubclass(known, Mixer) else ForeignMixer(spec, site)
    assert isinstance(mixer, Mixer)
    return mixer
