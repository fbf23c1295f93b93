"""How fast maps decay with distance: what inspections say, and what C32 makes of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from claims_made import (
    BY_NAME,
    SEEDS,
    made_kept,
    made_row,
    made_rows,
    recipe_label,
    reduced,
    study_score,
    wanted_runs,
)

from recollect.reports.paper.claims import Verdict
from recollect.reports.paper.claims.groups import Kept
from recollect.reports.paper.claims.inspections import kept_per_token
from recollect.reports.paper.claims.judge import judge
from recollect.rows import RunRow

C32 = BY_NAME["C32"]
DECAYING = ("mamba", "mamba2")


@pytest.fixture(scope="module")
def rows() -> list[RunRow]:
    """All that C32 says to run, at width 64."""
    return [row for row in made_rows(C32, study_score) if row.spec["model"]["width"] == 64]


def judged(rows: Sequence[RunRow], kept: Kept) -> Verdict:
    (verdict,) = judge([C32], rows, {}, recipe_label(rows), kept, 0)
    return verdict


def mixer_of(row: RunRow) -> str:
    return str(row.spec["model"]["mixer"]["name"])


# ---- what is read ----


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            '{"run_id": "a", "layers": [{"kept_per_token": [[0.9, 0.7], [0.1]]}, null]}',
            {"a": (0.9, 0.7)},
        ),
        ('{"layers": [{"kept_per_token": [[0.5]]}]}', {"found": (0.5,)}),
        ('{"run_id": "a", "layers": [{"kept_per_token": [[null]]}]}', {}),
        ('{"run_id": "a", "layers": "none"}', {}),
        ("[1, 2]", {}),
        ("{", {}),
    ],
)
def test_decay_is_read_from_what_inspect_wrote(tmp_path: Path, text, kept):
    (tmp_path / "inspect").mkdir()
    (tmp_path / "inspect" / "found.json").write_text(text)
    assert kept_per_token([tmp_path]) == kept
    assert kept_per_token([tmp_path / "none"]) == {}


# ---- what it needs ----


def test_decay_needs_inspected_runs_of_both_models():
    rows = [made_row(run, 0.9) for run in wanted_runs(C32.what_to_run)[::13]]
    one = {row.run_id: (0.9,) for row in rows if mixer_of(row) == "mamba"}
    verdict = judged(rows, one)
    assert verdict.outcome == "not enough data"
    assert "1-layer" not in verdict.numbers
    assert "delta_net (64,4) width 64, 1 layer: `recollect inspect DIR RUN --untrained` of " in (
        verdict.numbers
    )
    nothing = judged(rows, {})
    assert "for runs of delta_net, mamba and mamba2 with 3 seeds each" in nothing.numbers


def test_one_seed_is_enough_at_a_smaller_scale_only(rows):
    first = [row for row in rows if row.spec["seed"] == SEEDS[0]]
    kept = made_kept(first, DECAYING)
    verdict = judged(rows, kept)
    assert verdict.outcome == "not enough data"
    # It names one run of each seed that is missing.
    check = next(cell.check for cell in verdict.cells if cell.role and cell.role.name == "mamba")
    mamba, delta_net = check.lacks.split("; ")
    named = mamba.split(" of ")[-1].split(", ")
    seeds = {row.run_id: row.spec["seed"] for row in rows if mixer_of(row) == "mamba"}
    assert {seeds[run] for run in named} == {*SEEDS[1:]}
    assert delta_net.startswith("delta_net (64,4) width 64, 1 layer: ")
    small = reduced(rows)
    told = judged(small, made_kept(small, DECAYING))
    assert told.reduced.startswith("holds (vocabulary 4096: ")
    assert "leaves 0.0012 over 64 tokens (1 seed)" in told.reduced


def test_weights_without_scores_have_no_share_of_draws(rows):
    """All draws of other seeds would agree, and show nothing."""
    (verdict,) = judge([C32], rows, {}, recipe_label(rows), made_kept(rows, DECAYING), 5)
    assert verdict.outcome == "reproduced"
    assert verdict.firmness is None


def test_rates_that_share_a_seed_count_once(rows):
    """They begin with the same weights."""
    first = [row for row in rows if row.spec["seed"] == SEEDS[0]]
    assert len({row.spec["train"]["lr"] for row in first}) > 3
    assert judged(rows, made_kept(first, DECAYING)).outcome == "not enough data"
    verdict = judged(rows, made_kept(rows, DECAYING))
    assert verdict.outcome == "reproduced"
    assert "(3 seeds)" in verdict.numbers


def test_too_few_seeds_are_asked_for(rows):
    two = [row for row in rows if row.spec["seed"] != SEEDS[0]]
    assert "runs with 3 seeds" in judged(two, made_kept(two, DECAYING)).numbers


def test_decays_are_compared_at_one_depth(rows):
    """A cell with more runs and another depth does not hide an inspected one."""
    deeper = []
    for row in rows:
        if mixer_of(row) == "mamba":
            spec = row.spec | {"model": row.spec["model"] | {"depth": 2}}
            deeper += [
                replace(row, run_id=f"{row.run_id}-{copy}", spec=spec | {"seed": copy})
                for copy in range(2)
            ]
    verdict = judged([*rows, *deeper], made_kept(rows, DECAYING))
    assert verdict.outcome == "reproduced"
    assert {cell.role.name for cell in verdict.cells if cell.role} == {*DECAYING}


# ---- what it shows ----


@pytest.mark.parametrize(
    ("fast", "slow", "outcome"),
    [
        (0.95, 0.999, "reproduced"),
        (0.95, 1.01, "reproduced"),  # DeltaNet's maps grow with distance
        (0.95, 0.97, "contradicted"),  # not twice as fast
        (0.995, 0.9999, "contradicted"),  # 50 times as fast, but a quarter is left
        (0.99, 0.9999, "holds in part"),  # half is left after 64 tokens, and little after 256
        (0.9, 0.955, "contradicted"),  # twice as fast, and DeltaNet's vanish as well
        (1.0, 1.01, "contradicted"),  # nothing is lost
    ],
)
def test_a_decay_is_faster_and_leaves_nothing(rows, fast, slow, outcome):
    verdict = judged(rows, made_kept(rows, DECAYING, fast, slow))
    assert verdict.outcome == outcome, verdict.numbers


def test_what_is_left_is_that_of_each_map(rows):
    """One head that keeps everything keeps half of the mass, however fast the other one loses it;
    a mean of the two would keep 0.75 of it per token, and nothing in the end.
    """
    kept: dict[str, tuple[float, ...]] = {
        row.run_id: (0.5, 1.0) if mixer_of(row) == "mamba2" else maps
        for row, maps in zip(rows, made_kept(rows, DECAYING).values(), strict=True)
    }
    verdict = judged(rows, kept)
    assert verdict.outcome == "contradicted"
    assert (
        "mamba2 (64,4) width 64, 1 layer loses 0.250 per token and leaves 0.5 over 64 tokens"
        in (verdict.numbers)
    )
