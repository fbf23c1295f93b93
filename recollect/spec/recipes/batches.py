"""Rows per step and steps per epoch, for all recipes and as defaults of a specification."""

# (longest row, rows per step): appendix A.2 of the study, and Zoology's figure 2.
_BATCHES = ((128, 512), (256, 256), (512, 128))
_LONGER = 64


def usual_batch(length: int, rows: int) -> int:
    """Rows per step: 512 up to length 128, 256 up to 256, 128 up to 512, 64 above."""
    fitting = (batch for longest, batch in _BATCHES if length <= longest)
    return min(next(fitting, _LONGER), rows)


def steps_per_epoch(rows: int, batch: int, keep_last: bool = False) -> int:
    """Number of whole batches in an epoch, at least 1.

    With `keep_last` the remaining rows, which fill no batch, make one more step.
    """
    return max(1, -(-rows // batch) if keep_last else rows // batch)
