"""Results as one HTML page that opens anywhere; figures.py draws the same as a picture for print."""

from recollect.report.context import Context as Context
from recollect.report.page import render as render
from recollect.report.page import write_report as write_report
