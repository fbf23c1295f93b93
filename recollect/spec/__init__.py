"""The specification of an experiment: frozen, closed models; TOML in, canonical JSON and an id made from content out."""

from recollect.spec.base import PerMember as PerMember
from recollect.spec.base import Spec as Spec
from recollect.spec.mixers import MIXERS as MIXERS
from recollect.spec.mixers import MixerSpec as MixerSpec
from recollect.spec.model import ModelSpec as ModelSpec
from recollect.spec.run import RunSpec as RunSpec
from recollect.spec.task import TASKS as TASKS
from recollect.spec.task import TaskSpec as TaskSpec
from recollect.spec.train import TrainSpec as TrainSpec
