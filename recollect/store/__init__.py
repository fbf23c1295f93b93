"""The results of one folder: the database, checkpoints, kept weights, and durable files."""

from recollect.store.records import Claims as Claims
from recollect.store.records import Note as Note
from recollect.store.records import PlanCounts as PlanCounts
from recollect.store.records import PlannedRun as PlannedRun
from recollect.store.records import Result as Result
from recollect.store.records import StoredSweep as StoredSweep
from recollect.store.records import Todo as Todo
from recollect.store.store import MAX_LOST as MAX_LOST
from recollect.store.store import Store as Store
