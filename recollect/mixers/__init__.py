"""The architectures by name. Adding one is a file here, its options in recollect/spec/mixer.py, and a line below."""

from recollect.mixers.attention import Attention
from recollect.mixers.base import Mixer as Mixer
from recollect.mixers.base import Site as Site
from recollect.mixers.foreign import FOREIGN, ForeignMixer
from recollect.mixers.mamba import Mamba
from recollect.spec.mixer import MixerSpec

BUILT_IN: dict[str, type] = {"attention": Attention, "mamba": Mamba}


def build(spec: MixerSpec, site: Site) -> Mixer:
    """The mixer of that name with these options at this place."""
    mixer = ForeignMixer(spec, site) if spec.name in FOREIGN else BUILT_IN[spec.name](spec, site)
    assert isinstance(mixer, Mixer)
    return mixer
