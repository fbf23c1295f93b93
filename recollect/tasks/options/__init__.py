"""The specifications of all tasks, by name.

A new task needs a specification here and a function that draws its rows in recollect/tasks.
"""

from recollect.tasks.options.base import TaskSpec as TaskSpec
from recollect.tasks.options.pairs import MqarSpec as MqarSpec
from recollect.tasks.options.pairs import PairsSpec as PairsSpec
from recollect.tasks.options.pairs import RecallSpec as RecallSpec
from recollect.tasks.options.strings import CopyingSpec as CopyingSpec
from recollect.tasks.options.strings import NgramLookupSpec as NgramLookupSpec
from recollect.tasks.options.strings import StringsSpec as StringsSpec

TASKS: dict[str, type[TaskSpec]] = {
    "mqar": MqarSpec,
    "recall": RecallSpec,
    "copying": CopyingSpec,
    "ngram_lookup": NgramLookupSpec,
}
