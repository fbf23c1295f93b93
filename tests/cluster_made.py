"""Plans and spools filled by hand: packs of runs that nobody trains."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from recollect.rows import Evaluation
from recollect.running.cluster.plan import DraftPack, Plan, draft_plan
from recollect.running.cluster.spool import Attempt, Spool
from recollect.spec.run import RunSpec
from recollect.store import PlannedRun, Result

STEPS = (10, 20, 30)


@cache
def make_run(pack: int, run: int) -> RunSpec:
    """Run `run` of pack `pack`, evaluated at STEPS."""
    return RunSpec.parse(
        {
            "task": {"name": "mqar", "vocabulary": 32, "length": 16, "pairs": 2},
            "model": {"mixer": "attention", "width": 8, "depth": 1},
            "train": {"steps": STEPS[-1], "evaluations": len(STEPS), "lr": 1e-3 * (1 + pack)},
            "seed": run,
        }
    )


def name(pack: int, run: int) -> str:
    return make_run(pack, run).run_id


def make_plan(folder: Path, packs: int = 2, runs: int = 3) -> Plan:
    drafts = [
        DraftPack(
            tuple(
                PlannedRun(name(pack, run), make_run(pack, run).canonical_json(), "accuracy", 0.25)
                for run in range(runs)
            ),
            f"pack {pack}",
            60.0,
        )
        for pack in range(packs)
    ]
    return draft_plan(folder, drafts, name="made", source="made", code="code", versions={}).write()


def curve(run_id: str, shift: float = 0.0) -> list[tuple[str, Evaluation]]:
    return [(run_id, Evaluation(step, 1.0, 1.0, step / 100 + shift, 0.0)) for step in STEPS]


def ended(run_id: str, shift: float = 0.0) -> Result:
    """As `curve` ends."""
    last = curve(run_id, shift)[-1][1]
    return Result(run_id, 1, "done", steps=30, wall_s=1.0, last=last, device="cpu")


def failed(run_id: str) -> Result:
    return Result(run_id, 1, "failed", steps=0, wall_s=0.0, failure="oom: made")


def make_attempt(
    plan: Plan,
    pack: int,
    attempt: str,
    results: Sequence[Result],
    shift: float = 0.0,
    end: str = "complete",
) -> None:
    """A spool with whole curves of the runs that ended."""
    spool = Spool(plan.folder, pack, Attempt(attempt), {"plan_id": plan.plan_id, "host": "h"})
    spool.trying(result.run_id for result in results)
    for result in results:
        if result.status == "done":
            spool.points(curve(result.run_id, shift)[:-1])
        spool.results([result])
    if end:
        spool.end(end)
