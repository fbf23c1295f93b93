"""The study's figures and tables, drawn from any stored rows: `recollect figure NAME DIR...`."""

from recollect.plotting.settings import to_bytes as to_bytes
from recollect.reports.paper.figures.all_figures import FIGURES as FIGURES
from recollect.reports.paper.figures.all_figures import TABLES as TABLES
from recollect.reports.paper.figures.table import Table as Table
from recollect.reports.paper.figures.write import write_figure as write_figure
