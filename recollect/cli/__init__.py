"""The command line; the only package that prints."""

from recollect.cli.app import main as main
