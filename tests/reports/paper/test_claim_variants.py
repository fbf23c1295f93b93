"""Variants of a model beside a verdict: another initialisation is judged apart."""

from collections.abc import Callable
from dataclasses import replace

from claims_made import BY_NAME, made_rows, mixer, study_score, verdict_of, wide

from recollect.reports.paper.claims.claim import Verdict
from recollect.rows import RunRow
from recollect.spec.run import RunSpec


def test_zoologys_initialisation_is_told_beside_the_official_one():
    claim = BY_NAME["C3"]

    def score(run: RunSpec) -> float:
        return (
            wide(run)
            if getattr(run.model.mixer, "init", "") == "zoology" and mixer(run) == "mamba"
            else study_score(run)
        )

    rows = made_rows(claim, score)
    verdict = verdict_of(claim, rows)
    assert verdict.outcome == "reproduced"
    assert "With 2-layer mamba: init zoology: contradicted." in verdict.remark
    only = [row for row in rows if row.spec["model"]["mixer"].get("init") != "official"]
    assert verdict_of(claim, only).outcome == "contradicted"
    assert "Decided with 2-layer mamba: init zoology" in verdict_of(claim, only).remark


def test_a_variant_is_told_only_where_it_decides():
    """Not where only other models' cells decide: it is planned, or trained at too few rates."""
    claim = BY_NAME["C3"]

    def verdict(without: Callable[[RunRow], bool]) -> Verdict:
        rows = [
            replace(row, status="todo", accuracy=None) if is_zoology(row) and without(row) else row
            for row in made_rows(claim, study_score)
        ]
        return verdict_of(claim, rows)

    def is_zoology(row: RunRow) -> bool:
        mixer = row.spec["model"]["mixer"]
        return mixer["name"] == "mamba" and mixer["init"] == "zoology"

    assert "init zoology: the same." in verdict(without=lambda row: False).remark
    assert "zoology" not in verdict(without=lambda row: True).remark
    few = verdict(without=lambda row: row.spec["train"]["lr"] > 1e-4)
    assert few.outcome == "reproduced"
    assert "zoology" not in few.remark
