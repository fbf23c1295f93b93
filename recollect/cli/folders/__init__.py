"""Verbs about folders of results: status, check, unplan, merge."""

from recollect.cli.folders.checking import check as check
from recollect.cli.folders.merging import merge as merge
from recollect.cli.folders.state import status as status
from recollect.cli.folders.unplanning import unplan as unplan
