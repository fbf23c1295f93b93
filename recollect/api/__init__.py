"""The Python interface: train a sweep, and ask its results for numbers, pictures and pages."""

from recollect.api.results import Results as Results
from recollect.api.training import run as run
