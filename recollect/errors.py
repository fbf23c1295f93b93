"""Every refusal this package utters, with the exit code the command line gives it.

A message names the value, the rule it breaks and the remedy, in at most three lines. Anything else
that escapes is a bug.
"""


class RecollectError(Exception):
    """Base of all refusals; `exit_code` is what the command line returns."""

    exit_code = 1


class SpecError(RecollectError):
    """A bad specification or a bad request: nothing was written."""

    exit_code = 2


class StoreError(RecollectError):
    """The results database or a checkpoint is damaged, foreign or from a newer version."""

    exit_code = 3


class ResourceError(RecollectError):
    """Out of disk or out of memory; what was finished is safe and the work can be resumed."""

    exit_code = 4


class Stopped(RecollectError):  # noqa: N818 (it is no error)
    """A signal asked the work to stop; a checkpoint was written and the work can be resumed."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code
