"""Results as one HTML page that opens anywhere, and the figures on it."""

from recollect.report.curve_figures import curve_figure as curve_figure
from recollect.report.figures import rate_figure as rate_figure
from recollect.report.page import render as render
from recollect.report.page import write_report as write_report
