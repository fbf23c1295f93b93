"""What the rules of claims compare: subjects (cells of the study), and groups of subjects of one
recipe, which measure them.
"""

from recollect.reports.paper.claims.groups.finding import find_groups as find_groups
from recollect.reports.paper.claims.groups.group import Group as Group
from recollect.reports.paper.claims.groups.group import Kept as Kept
from recollect.reports.paper.claims.groups.group import unknown as unknown
from recollect.reports.paper.claims.groups.subjects import Panel as Panel
from recollect.reports.paper.claims.groups.subjects import Subject as Subject
from recollect.reports.paper.claims.groups.subjects import find_subjects as find_subjects
from recollect.reports.paper.claims.groups.subjects import size_text as size_text
from recollect.reports.paper.claims.groups.subjects import subject_text as subject_text
