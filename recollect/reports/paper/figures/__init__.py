"""The study's figures and tables from whatever rows there are: `recollect figure NAME DIR...`."""

from recollect.reports.paper.figures.catalogue import FIGURES as FIGURES
from recollect.reports.paper.figures.catalogue import TABLES as TABLES
from recollect.reports.paper.figures.files import to_bytes as to_bytes
from recollect.reports.paper.figures.files import write_figure as write_figure
from recollect.reports.paper.figures.table import Table as Table
