"""Cards of `recollect score` with made rows."""

from pathlib import Path

from recollect.reports.score import card_sweep, read_mixer
from recollect.rows import RunRow

CAMPAIGN = Path(__file__).parents[1] / "results" / "h200" / "study-mqar64"

BASELINES = ["attention", "based", "h3", "hyena", "rwkv4", "mamba", "mamba2", "delta_net"]
TINY = [
    "train.steps=2",
    "train.evaluations=2",
    "train.batch=8",
    "task.test_rows=8",
    "sweep.seed=[42]",
    "sweep.train.lr=[1e-2]",
]


def rows_of(mixer="mamba", card="cpu", score=lambda run: 1.0, overrides=()):
    return [
        RunRow(
            *(run.run_id, run.model_dump(mode="json"), "done", "accuracy", run.task.chance),
            accuracy=score(run),
            steps=400,
            wall_s=2.0,
            parameters=1000 * run.model.width,
            state_size=7,
        )
        for run in card_sweep(card, read_mixer(mixer), overrides).runs
    ]


def specs(**changes):
    return [row.spec for row in rows_of(**changes)]


def solved_between(low, high, best=1.0):
    """Scores of a mixer whose headline is solved at these rates, the easier cell nowhere."""
    return lambda run: best if run.task.pairs == 3 and low <= run.train.lr <= high else 0.4
