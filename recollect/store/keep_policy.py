"""The policy that decides which weights are kept, as a list of words.

The words are `best` (the best run of each cell), `all`, `none`, `seed:N`, or the beginning of a
run's id. The policy is stored with the results, so that a resumed sweep keeps the same weights.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from recollect.errors import SpecError, StoreError
from recollect.spec.run import RunSpec
from recollect.store.store import Store

MOST_SNAPSHOTS = 1_000
_META_KEEP, _META_SNAPSHOTS = "keep", "snapshots"
_RUN_PREFIX = re.compile(r"[0-9a-f]{4,16}")


@dataclass(frozen=True)
class KeepPolicy:
    """Which weights are kept."""

    words: tuple[str, ...] = ("best",)
    snapshots: int = 0  # number of snapshots, evenly spaced over the evaluations before the last

    @classmethod
    def parse(cls, text: str, snapshots: int = 0) -> Self:
        words = tuple(word.strip() for word in text.split(","))
        for word in words:
            if not _is_known(word):
                raise SpecError(
                    f"--keep {word!r}: must be best, all, none, seed:N or the beginning of a run "
                    "id (4 to 16 hex digits)\n"
                    "several may be joined by commas, for example --keep best,seed:42"
                )
        if "none" in words and len(words) > 1:
            raise SpecError(f"--keep {text!r}: none cannot be joined with others; leave it out")
        if not 0 <= snapshots <= MOST_SNAPSHOTS:
            raise SpecError(f"--snapshots {snapshots}: must be between 0 and {MOST_SNAPSHOTS}")
        return cls(words, snapshots)

    @classmethod
    def of(cls, store: Store) -> Self:
        """The policy stored when the folder's runs were planned, or the default."""
        words = store.meta(_META_KEEP) or ",".join(cls().words)
        snapshots = store.meta(_META_SNAPSHOTS) or "0"
        try:
            return cls.parse(words, int(snapshots))
        except (SpecError, ValueError):
            raise StoreError(
                f"{store.path}: its rule for keeping weights is not as it was written "
                f"({words!r:.40}, {snapshots!r:.40} snapshots)\n"
                "say again which to keep: `recollect run SPEC --out DIR --keep best`"
            ) from None

    def remember(self, store: Store) -> None:
        """Write it into the store."""
        store.set_meta(_META_KEEP, ",".join(self.words))
        store.set_meta(_META_SNAPSHOTS, str(self.snapshots))

    def asks_for(self, run: RunSpec) -> bool:
        """Whether this run is kept regardless of its score."""
        seed = f"seed:{run.seed}"
        return any(word in ("all", seed) or run.run_id.startswith(word) for word in self.words)

    def require(self, runs: Iterable[RunSpec]) -> None:
        """Refuse a word that is the beginning of a run id but matches none of these runs."""
        ids = [run.run_id for run in runs]
        for word in self.words:
            if _RUN_PREFIX.fullmatch(word) and not any(run_id.startswith(word) for run_id in ids):
                raise SpecError(
                    f"--keep {word}: no run of this sweep begins like that; the first one is "
                    f"{ids[0]}"
                )

    @property
    def best(self) -> bool:
        return "best" in self.words

    def snapshot_steps(self, run: RunSpec) -> list[int]:
        """Steps of the snapshots, all before the last evaluation, which has the final weights."""
        return evenly_spaced(run.train.evaluation_steps()[:-1], self.snapshots)


def evenly_spaced(steps: Sequence[int], count: int) -> list[int]:
    """`count` of the steps, evenly spaced, or all of them."""
    if count >= len(steps):
        return list(steps)
    return [steps[(2 * i + 1) * len(steps) // (2 * count)] for i in range(count)]


def _is_known(word: str) -> bool:
    seed = word.removeprefix("seed:")
    return (
        word in ("best", "all", "none")
        or (seed != word and seed.isdecimal())
        or _RUN_PREFIX.fullmatch(word) is not None
    )
