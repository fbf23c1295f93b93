"""The options of every mixer, and how a specification names one: by name, as a table with options, or as a list by layer."""

from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny, ValidationError

from recollect.spec.base import NestedError, explain
from recollect.spec.mixers.base import Block as Block
from recollect.spec.mixers.base import MixerSpec as MixerSpec
from recollect.spec.mixers.base import Norm as Norm
from recollect.spec.mixers.base import Positions as Positions
from recollect.spec.mixers.hybrid import HybridSpec as HybridSpec
from recollect.spec.mixers.registry import MIXERS as MIXERS
from recollect.spec.mixers.registry import choose_single

MOST_LAYERS = 1000


def choose_mixer(raw: Any) -> Any:
    """The options that `raw` stands for."""
    if isinstance(raw, list | tuple):
        raw = {"layers": raw}
    if not isinstance(raw, dict) or "layers" not in raw:
        return choose_single(raw)
    if isinstance(raw["layers"], list | tuple) and not 2 <= len(raw["layers"]) <= MOST_LAYERS:
        raise ValueError(
            f"a list of mixers must have 2 to {MOST_LAYERS} entries, not {len(raw['layers'])}; one mixer needs no list"
        )
    try:
        return HybridSpec.model_validate(raw)
    except ValidationError as error:
        raise NestedError(explain(error, HybridSpec)) from None


AnyMixer = Annotated[SerializeAsAny[MixerSpec], BeforeValidator(choose_mixer)]
