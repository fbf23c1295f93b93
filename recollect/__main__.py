"""`python -m recollect` is the same as `recollect`."""

from recollect.cli.app import main

main()
