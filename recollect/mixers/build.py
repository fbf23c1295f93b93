"""Construction of a mixer's module from its options."""

from importlib import import_module

from torch import nn

from recollect.mixers.base import Mixer, Site
from recollect.mixers.options import MixerSpec
from recollect.mixers.plugins.register import REGISTERED
from recollect.mixers.plugins.stack import PluginMixer


def build_mixer(spec: MixerSpec, site: Site) -> Mixer:
    """Return the mixer with these options at this site; a stack of several kinds gives its
    layer's.
    """
    spec = spec.at(site.layer)
    kind = mixer_class(spec)
    mixer = kind(spec, site) if issubclass(kind, Mixer) else PluginMixer(spec, site)
    assert isinstance(mixer, Mixer)
    return mixer


def mixer_class(spec: MixerSpec) -> type[nn.Module]:
    """Return a Mixer class, or the plain module of a plug-in."""
    if spec.own_name in REGISTERED:
        return REGISTERED[spec.own_name].module
    room = type(spec).__module__.rpartition(".")[0]
    found: type[nn.Module] = getattr(import_module(f"{room}.mixer"), spec.architecture)
    return found
