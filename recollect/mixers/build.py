"""From a mixer's options to its module."""

from importlib import import_module

from torch import nn

from recollect.mixers.base import Mixer, Site
from recollect.mixers.options import MixerSpec
from recollect.mixers.plugins.register import REGISTERED
from recollect.mixers.plugins.stack import PluginMixer


def build_mixer(spec: MixerSpec, site: Site) -> Mixer:
    """The mixer with these options at this place; of a stack of several kinds, its layer's."""
    spec = spec.at(site.layer)
    kind = mixer_class(spec)
    mixer = kind(spec, site) if issubclass(kind, Mixer) else PluginMixer(spec, site)
    assert isinstance(mixer, Mixer)
    return mixer


def mixer_class(spec: MixerSpec) -> type[nn.Module]:
    """A Mixer, or the plain module of a plug-in."""
    if spec.own_name in REGISTERED:
        return REGISTERED[spec.own_name].module
    room = type(spec).__module__.rpartition(".")[0]
    found: type[nn.Module] = getattr(import_module(f"{room}.mixer"), spec.architecture)
    return found
