"""The tasks there are, by name. A task is added here, as a specification, and in recollect/tasks, as a drawing of rows."""

from typing import Annotated

from pydantic import Field

from recollect.spec.pairs import MqarSpec as MqarSpec
from recollect.spec.pairs import PairsSpec as PairsSpec
from recollect.spec.pairs import RecallSpec as RecallSpec
from recollect.spec.strings import CopyingSpec as CopyingSpec
from recollect.spec.strings import NgramLookupSpec as NgramLookupSpec
from recollect.spec.strings import StringsSpec as StringsSpec
from recollect.spec.task_base import TaskSpec as TaskSpec

AnyTask = Annotated[MqarSpec | RecallSpec | CopyingSpec | NgramLookupSpec, Field(discriminator="name")]
TASKS: dict[str, type[TaskSpec]] = {
    "mqar": MqarSpec,
    "recall": RecallSpec,
    "copying": CopyingSpec,
    "ngram_lookup": NgramLookupSpec,
}
