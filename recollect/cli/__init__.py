"""The command line; the only place that prints."""

from recollect.cli.app import main as main
