"""Results as one HTML page that opens anywhere; figures.py draws the same as a picture for print."""

from recollect.reports.page.context import Context as Context
from recollect.reports.page.page import render as render
from recollect.reports.page.page import write_report as write_report
