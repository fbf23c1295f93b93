"""Results as one HTML page that opens anywhere: offline, mailed or archived."""

from recollect.reports.page.context import Context as Context
from recollect.reports.page.rendering import render as render
from recollect.reports.page.rendering import write_report as write_report
