"""The study's figures and tables from whatever rows there are: `recollect figure NAME DIR...`."""

from recollect.paper.figures.catalogue import FIGURES as FIGURES
from recollect.paper.figures.catalogue import TABLES as TABLES
from recollect.paper.figures.files import to_bytes as to_bytes
from recollect.paper.figures.files import write_figure as write_figure
from recollect.paper.figures.table import Table as Table
