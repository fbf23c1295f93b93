"""Rows of a step and steps of an epoch: the same in all recipes, and the defaults of a
specification.
"""

# Longest row, rows of a step: A.2 of the study, and Zoology's figure 2.
_BATCHES = ((128, 512), (256, 256), (512, 128))
_LONGER = 64


def usual_batch(length: int, rows: int) -> int:
    """512 rows up to length 128, 256 up to 256, 128 up to 512, 64 above."""
    fitting = (batch for longest, batch in _BATCHES if length <= longest)
    return min(next(fitting, _LONGER), rows)


def steps_per_epoch(rows: int, batch: int, keep_last: bool = False) -> int:
    """An epoch has whole batches only, one at least; `keep_last`: rows that fill none are a step
    of their own.
    """
    return max(1, -(-rows // batch) if keep_last else rows // batch)
