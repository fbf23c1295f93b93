"""Draw the README's figure from the rows of a demo: python docs/figures.py DIR."""

import sys
from pathlib import Path

from recollect.analysis import group_cells
from recollect.api import Results
from recollect.reports.page.figures import rate_figure

figure = rate_figure(group_cells(Results.load(Path(sys.argv[1])).rows))
figure.savefig(Path(__file__).with_name("demo.png"), dpi=120)
