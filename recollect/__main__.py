"""`python -m recollect` is the same as `recollect`."""

from recollect.cli import main

main()
