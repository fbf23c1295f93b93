"""The study's claims: every one on rows that pass, that fail and that are too few; and how verdicts
are shown.
"""

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from claims_made import BY_NAME, NARROW, WIDE, made_curves, made_row, made_rows, study_score, within
from rows_made import make_row, make_sweep

from recollect.reports.paper import zoology
from recollect.reports.paper.claims import CLAIMS, Check, Claim, Verdict, check, thresholds
from recollect.reports.paper.claims.checks import (
    Measure,
    at_least,
    at_most,
    below,
    difference,
    every,
    some,
    spread,
)
from recollect.reports.paper.claims.floors import floor
from recollect.reports.paper.claims.groups import gather
from recollect.reports.paper.claims.judge import judge
from recollect.reports.paper.claims.search import held_out
from recollect.reports.paper.claims.study import recipe
from recollect.reports.paper.claims.table import to_lines
from recollect.rows import RunRow
from recollect.spec.run import RunSpec

NAMES = [claim.name for claim in CLAIMS]


def mixer(run: RunSpec) -> str:
    return str(run.model.mixer.name)


def changed(
    condition: Callable[[RunSpec], bool], score: Callable[[RunSpec], float]
) -> Callable[[RunSpec], float]:
    """The study's scores, but others for the runs that meet the condition."""
    return lambda run: score(run) if condition(run) else study_score(run)


def wide(run: RunSpec) -> float:
    return within(run, WIDE, 0.995, 0.02)


def narrow(run: RunSpec) -> float:
    return within(run, NARROW, 0.995, 0.02)


def never(top: float) -> Callable[[RunSpec], float]:
    return lambda run: within(run, WIDE, top, min(top, 0.02))


# Scores with which a claim is false. C18 and C19 turn on their curves.
CONTRARY: dict[str, Callable[[RunSpec], float]] = {
    "C1": changed(lambda run: run.model.width == 64 and run.task.length == 512, never(0.8)),
    "C2": changed(lambda run: mixer(run) == "attention", narrow),
    "C3": changed(lambda run: mixer(run) == "mamba", wide),
    "C4": wide,
    "C5": wide,
    "C6": never(0.5),
    "C7": wide,
    "C8": changed(lambda run: mixer(run) == "h3" and run.model.width == 64, never(0.5)),
    "C9": changed(lambda run: run.model.width == 2048, never(0.6)),
    "C10": lambda run: 2.5 * study_score(run),
    "C11": changed(lambda run: mixer(run) == "hyena" and run.model.width == 2048, never(0.2)),
    "C12": changed(lambda run: run.task.length == 256, never(0.5)),
    "C13": changed(lambda run: run.model.width == 256, narrow),
    "C14": changed(lambda run: mixer(run) == "attention" and run.model.width == 2048, never(0.9)),
    "C15": changed(lambda run: mixer(run) == "mamba" and run.model.depth == 12, wide),
    "C16": changed(lambda run: run.model.depth == 24, wide),
    "C17": changed(lambda run: mixer(run) == "mamba", wide),
    "C18": study_score,
    "C19": study_score,
    "C20": changed(lambda run: mixer(run) == "mamba" and run.model.mixer.kernel == 0, narrow),
    "C21": never(0.5),
    "C22": wide,
    "C23": changed(
        lambda run: mixer(run) == "mamba" and run.model.positions == "learned", never(0.5)
    ),
    "C24": changed(lambda run: mixer(run) == "delta_net", narrow),
    "C25": never(0.97),
    "C26": never(0.93),
}
CONTRARY_CURVES = {"C18": ("hyena",), "C19": ("hyena",)}  # whose loss falls at once
TWO_SEEDS = {"C5"}  # cannot be said of a single seed at any scale


def verdict_of(
    claim: Claim, rows: Sequence[RunRow], bumpy: tuple[str, ...] = ("attention", "mamba")
) -> Verdict:
    curves = made_curves(rows, bumpy) if claim.figure == "fig6" else {}
    (verdict,) = judge([claim], rows, curves)
    return verdict


def reduced(rows: Sequence[RunRow], two_seeds: bool = False) -> list[RunRow]:
    """The same scores on a smaller vocabulary or alphabet, of one seed unless a claim needs more."""
    made = []
    for row in rows:
        if row.spec["seed"] == 777 or (row.spec["seed"] == 123 and not two_seeds):
            continue
        spec = copy.deepcopy(row.spec)
        key = "alphabet" if spec["task"]["name"] == "copying" else "vocabulary"
        spec["task"][key] //= 2
        made.append(replace(row, spec=spec))
    return made


# ---- every claim ----


def test_all_claims_are_there_and_each_has_a_contrary():
    assert NAMES == [f"C{number}" for number in range(1, 27)] == list(CONTRARY)


@pytest.mark.parametrize("name", NAMES)
def test_rows_as_the_study_describes_them_reproduce_it(name):
    """The rows are those that the claim says to run: so its commands exist, can be read, and
    suffice.
    """
    verdict = verdict_of(BY_NAME[name], made_rows(BY_NAME[name], study_score))
    assert (verdict.verdict, verdict.what_to_run) == ("reproduced", ""), verdict.numbers
    assert re.search(r"\d", verdict.numbers)
    assert verdict.checks
    assert all(
        part.holds is not None for part in verdict.checks if name not in ("C4", "C6", "C12", "C11")
    )


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_contradict_it_do_not(name):
    rows = made_rows(BY_NAME[name], CONTRARY[name])
    verdict = verdict_of(BY_NAME[name], rows, CONTRARY_CURVES.get(name, ("attention", "mamba")))
    assert (verdict.verdict, verdict.what_to_run) == ("not reproduced", ""), verdict.numbers
    assert any(part.holds is False for part in verdict.checks)


@pytest.mark.parametrize("name", NAMES)
def test_without_rows_it_says_what_to_run(name):
    verdict = verdict_of(BY_NAME[name], [])
    assert verdict.verdict == "not enough data"
    assert verdict.numbers == "missing: any run at the study's scale"
    assert all(line.startswith("recollect run paper:") for line in verdict.what_to_run.splitlines())
    assert verdict.reduced == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_smaller_scale_decides_nothing_but_is_told(name):
    claim = BY_NAME[name]
    curves = CONTRARY_CURVES.get(name, ("attention", "mamba"))
    agreeing = verdict_of(claim, reduced(made_rows(claim, study_score), name in TWO_SEEDS))
    contrary = verdict_of(
        claim, reduced(made_rows(claim, CONTRARY[name]), name in TWO_SEEDS), curves
    )
    assert (agreeing.verdict, contrary.verdict) == ("not enough data", "not enough data")
    assert agreeing.reduced.startswith("holds ("), agreeing.numbers
    assert contrary.reduced.startswith("does not hold (")
    scale = "alphabet 13" if claim.task == "copying" else "vocabulary 4096"
    assert scale in agreeing.reduced
    assert f"At reduced scale: {agreeing.reduced}." in agreeing.remark
    assert agreeing.what_to_run


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_decides_nothing(name):
    rows = [row for row in made_rows(BY_NAME[name], study_score) if row.spec["seed"] == 42]
    verdict = verdict_of(BY_NAME[name], rows)
    assert verdict.verdict == "not enough data"
    assert "missing: " in verdict.numbers
    assert name in TWO_SEEDS or verdict.reduced.startswith(
        "holds (the study's recipe, but fewer cells, seeds or rates"
    )


@pytest.mark.parametrize("name", NAMES)
def test_runs_without_a_result_decide_nothing(name):
    rows = [
        replace(row, status="todo", accuracy=None, exact=None)
        for row in made_rows(BY_NAME[name], study_score)
        if row.spec["seed"] == 42
    ]
    verdict = verdict_of(BY_NAME[name], rows)
    assert (verdict.verdict, verdict.reduced) == ("not enough data", "")


@pytest.mark.parametrize("claim", CLAIMS, ids=NAMES)
def test_a_rule_names_its_thresholds_and_no_others(claim):
    known = {
        name: value
        for name, value in vars(thresholds).items()
        if isinstance(value, thresholds.Threshold)
    }
    words = re.findall(r"\b[A-Z_]{3,}\b", claim.rule.__doc__)
    named = {known[word].name for word in words if word in known}
    implied = (
        {"window"} if any(word in claim.rule.__doc__ for word in ("window", "Wherever")) else set()
    )
    assert named <= {threshold.name for threshold in claim.thresholds}
    assert {threshold.name for threshold in claim.thresholds} - named <= implied | {
        "least evaluations",
        "one pair, most",
        "solved",
    }
    assert not re.search(r"\b[A-Z]+_[A-Z]+\b", claim.rule_text)  # all were replaced by their values
    assert all(threshold.why for threshold in claim.thresholds)


def is_role(name: str, depth: int, **options: Any) -> Callable[[RunSpec], bool]:
    return lambda run: (
        (mixer(run), run.model.depth) == (name, depth)
        and all(getattr(run.model.mixer, key) == wanted for key, wanted in options.items())
    )


def middling(run: RunSpec) -> float:
    """Solves it in a narrow window and is half good elsewhere."""
    return within(run, NARROW, 0.995, 0.6)


def split_seeds(run: RunSpec) -> float:
    """Half good at one of Zoology's rates; at each of three others all seeds but one are good,
    which misleads who asks them.
    """
    misled = {3e-3: 42, 5e-3: 123, 3e-2: 777}
    if run.train.lr in misled:
        return 0.02 if misled[run.train.lr] == run.seed else 0.99
    return 0.5 if run.train.lr == 2.154e-3 else 0.02


# Rules have several parts; here each of the others is wrong alone.
PARTS: list[tuple[str, Callable[[RunSpec], bool], Callable[[RunSpec], float]]] = [
    ("C3", is_role("hyena", 2), wide),
    ("C3", is_role("mamba", 2), middling),
    (
        "C5",
        lambda run: mixer(run) == "h3" and run.model.width == 64 and run.task.length == 64,
        split_seeds,
    ),
    ("C9", lambda run: run.model.width == 2048, never(0.4)),
    ("C10", lambda run: run.model.width == 2048, never(0.001)),
    (
        "C11",
        lambda run: mixer(run) == "hyena" and run.task.length == 512 and run.model.width == 128,
        never(0.2),
    ),
    ("C11", is_role("rwkv4", 1), never(0.3)),
    ("C13", lambda run: run.model.width > 256, never(0.5)),
    ("C14", is_role("attention", 2), never(0.02)),
    ("C14", lambda run: is_role("attention", 1)(run) and run.model.width == 2048, never(0.3)),
    ("C14", is_role("hyena", 1), never(0.3)),
    ("C15", is_role("mamba", 2), lambda run: within(run, (1e-4, 1e-2), 0.95, 0.02)),
    ("C15", is_role("attention", 2), never(0.93)),
    ("C16", lambda run: mixer(run) == "attention", never(0.5)),
    (
        "C16",
        lambda run: (run.model.depth, run.model.width) == (12, 1024) and mixer(run) == "mamba",
        narrow,
    ),
    ("C16", lambda run: run.model.width == 1408, never(0.5)),
    ("C18", is_role("mamba", 1), lambda run: within(run, NARROW, 0.96, 0.02)),
    ("C20", is_role("attention", 1, conv="none"), wide),
    ("C20", is_role("attention", 1, conv="q"), wide),
    ("C20", is_role("attention", 1, conv="k"), never(0.3)),
    ("C20", is_role("attention", 1, conv="qkv"), never(0.3)),
    ("C20", is_role("mamba", 1, kernel=4, gate=True), never(0.3)),
    ("C20", is_role("mamba", 1, gate=False), never(0.3)),
    ("C20", is_role("s6", 1, kernel=4), never(0.3)),
    ("C23", lambda run: mixer(run) == "rwkv4" and run.model.positions == "relative", narrow),
    ("C24", is_role("mamba2", 1), lambda run: within(run, (1e-4, 5e-3), 0.995, 0.02)),
    ("C24", is_role("mamba", 1), lambda run: within(run, (1e-3, 1e-2), 0.995, 0.02)),
    ("C24", is_role("attention", 2), lambda run: within(run, (1e-5, 1e-1), 0.995, 0.02)),
    ("C25", lambda run: run.train.lr in (1e-4, 4.642e-4, 2.154e-3, 1e-2), never(0.9)),
]


@pytest.mark.parametrize(
    ("name", "condition", "score"), PARTS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(PARTS)]
)
def test_every_part_of_a_rule_counts(name, condition, score):
    bumpy = ("attention", "hyena", "mamba") if name == "C18" else ("attention", "mamba")
    rows = made_rows(BY_NAME[name], changed(condition, score))
    if (
        name == "C18"
    ):  # Mamba's loss falls at once and its score does not: a bump without gain, as attention's
        curves = made_curves(rows)
        flat = {row.run_id for row in rows if row.spec["model"]["mixer"]["name"] == "mamba"}
        curves |= {
            run: [replace(point, accuracy=0.96) for point in curve]
            for run, curve in curves.items()
            if run in flat
        }
        (verdict,) = judge([BY_NAME[name]], rows, curves)
    else:
        verdict = verdict_of(BY_NAME[name], rows, bumpy)
    assert verdict.verdict == "not reproduced", verdict.numbers


# ---- parts of the judgement ----


@pytest.mark.parametrize(
    ("table", "change", "told"),
    [
        ("task", {"vocabulary": 64}, "vocabulary 64"),
        ("task", {"train_rows": 50_000}, "50,000 training rows"),
        ("task", {"data": "fresh"}, "fresh training rows"),
        ("train", {"steps": 390}, "2 epochs"),
        ("train", {"batch": 64}, "batch 64"),
        ("train", {"weight_decay": 0.0}, "weight decay 0"),
        ("train", {"warmup": 0.3}, "warmup 0.3"),
    ],
)
def test_what_makes_a_smaller_scale(table, change, told):
    rows = [
        row for row in made_rows(BY_NAME["C7"], study_score) if row.spec["task"]["length"] == 128
    ]
    for row in rows:
        row.spec[table] |= change
    verdict = verdict_of(BY_NAME["C7"], rows)
    assert verdict.verdict == "not enough data"
    assert verdict.numbers == "missing: any run at the study's scale"
    assert told in verdict.reduced


def test_rows_of_another_task_are_not_asked():
    rows = made_rows(BY_NAME["C21"], study_score)
    for row in rows:
        row.spec["task"] = {"name": "recall", "length": 512, "pairs": 64}
    verdict = verdict_of(BY_NAME["C21"], rows)
    assert (verdict.verdict, verdict.reduced) == ("not enough data", "")


def test_a_counterexample_settles_a_claim_about_all_cells():
    rows = [
        row for row in made_rows(BY_NAME["C1"], CONTRARY["C1"]) if row.spec["task"]["length"] == 512
    ]
    assert verdict_of(BY_NAME["C1"], rows).verdict == "not reproduced"
    rows = [
        row for row in made_rows(BY_NAME["C1"], study_score) if row.spec["task"]["length"] == 512
    ]
    verdict = verdict_of(BY_NAME["C1"], rows)
    assert verdict.verdict == "not enough data"
    assert "2-layer attention at (64,4), width 64" in verdict.numbers
    assert "and 15 more" in verdict.numbers


def test_a_witness_settles_a_claim_about_some_cell():
    rows = [
        row for row in made_rows(BY_NAME["C6"], study_score) if row.spec["model"]["width"] == 64
    ]
    assert verdict_of(BY_NAME["C6"], rows).verdict == "reproduced"
    rows = [
        row for row in made_rows(BY_NAME["C6"], CONTRARY["C6"]) if row.spec["model"]["width"] == 64
    ]
    verdict = verdict_of(BY_NAME["C6"], rows)
    assert verdict.verdict == "not enough data"
    assert "2-layer mamba at (512,64), width 128" in verdict.numbers


def test_a_low_score_after_a_sparse_search_is_no_failure():
    rows = [
        row
        for row in made_rows(BY_NAME["C6"], CONTRARY["C6"])
        if 1e-3 <= row.spec["train"]["lr"] <= 1e-2
    ]
    verdict = verdict_of(BY_NAME["C6"], rows)
    assert verdict.verdict == "not enough data"
    assert "at least 8 rates (5 so far)" in verdict.numbers


def test_a_window_that_leaves_the_grid_is_a_lower_bound():
    claim = BY_NAME["C2"]
    rows = made_rows(claim, study_score)
    assert verdict_of(claim, rows).verdict == "reproduced"
    cut = [
        row for row in rows if row.spec["train"]["lr"] <= 1e-3
    ]  # one decade and a half, and who knows how much more
    verdict = verdict_of(claim, cut)
    assert verdict.verdict == "not enough data"
    assert "larger rates" in verdict.numbers


@pytest.mark.parametrize(
    ("name", "unsolved"), [("C24", "mamba2"), ("C15", "mamba"), ("C3", "hyena")]
)
def test_a_window_that_is_not_there_says_nothing(name, unsolved):
    """A size and width that a model never solves neither supports nor contradicts a claim about
    windows.
    """
    hard = changed(lambda run: mixer(run) == unsolved and run.task.length == 256, never(0.5))
    assert verdict_of(BY_NAME[name], made_rows(BY_NAME[name], hard)).verdict == "reproduced"
    never_solved = changed(lambda run: mixer(run) == unsolved, never(0.5))
    assert (
        verdict_of(BY_NAME[name], made_rows(BY_NAME[name], never_solved)).verdict
        == "not enough data"
    )


def test_what_is_known_so_far_is_told():
    rows = [
        row for row in made_rows(BY_NAME["C5"], study_score) if row.spec["task"]["length"] == 64
    ]
    verdict = verdict_of(BY_NAME["C5"], rows)
    assert verdict.verdict == "not enough data"
    assert "mean gain +0.7" in verdict.numbers
    assert "over 16 cells" in verdict.numbers
    assert "missing: 2-layer hyena at (128,8), width 64" in verdict.numbers


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
    assert verdict.verdict == "reproduced"
    assert "With 2-layer mamba: init zoology: does not hold." in verdict.remark
    only = [row for row in rows if row.spec["model"]["mixer"].get("init") != "official"]
    assert verdict_of(claim, only).verdict == "not reproduced"
    assert "Decided with 2-layer mamba: init zoology" in verdict_of(claim, only).remark


def test_another_model_is_not_the_studys():
    claim = BY_NAME["C6"]
    rows = made_rows(claim, study_score)
    for row in rows:
        row.spec["model"]["mixer"]["state"] = 256
    verdict = verdict_of(claim, rows)
    assert verdict.verdict == "not enough data"
    assert verdict.reduced.startswith("holds (")


def test_recipes_are_not_mixed():
    claim = BY_NAME["C7"]
    rows = made_rows(claim, study_score)
    for row in rows:
        if row.spec["model"]["mixer"]["name"] == "hyena":
            row.spec["task"]["vocabulary_split"] = "halves"
    assert verdict_of(claim, rows).verdict == "not enough data"


def test_how_often_a_run_was_looked_at_makes_no_other_cell():
    claim = BY_NAME["C7"]
    rows = made_rows(claim, study_score)
    for row in rows:
        if row.spec["model"]["mixer"]["name"] == "hyena":
            row.spec["train"] |= {"evaluations": 7, "stop_solved": 0.5}
    assert verdict_of(claim, rows).verdict == "reproduced"


def test_a_contradiction_is_told_with_the_measurement():
    for name, words in (
        ("C19", "caption of Fig. 6"),
        ("C20", "contradicts itself"),
        ("C10", "random guessing"),
        ("C16", "160 M"),
    ):
        verdict = verdict_of(BY_NAME[name], made_rows(BY_NAME[name], study_score))
        assert words in verdict.remark
        assert words in to_lines([verdict])
    ablation = verdict_of(BY_NAME["C20"], made_rows(BY_NAME["C20"], study_score))
    assert "attention + conv on V (same) (512,64) width 256: 0.99" in ablation.numbers
    assert "attention + conv on V (causal) (512,64) width 256: 0.01" in ablation.numbers
    assert "mamba without conv (512,64) width 256: 0.01" in ablation.numbers


def test_a_convolution_on_values_counts_with_either_padding():
    claim = BY_NAME["C20"]
    causal = changed(
        lambda run: getattr(run.model.mixer, "conv", "") == "v", lambda run: study_score(run)
    )
    rows = [
        row
        for row in made_rows(claim, causal)
        if row.spec["model"]["mixer"].get("conv_padding") != "same"
    ]
    assert verdict_of(claim, rows).verdict == "not enough data"
    neither = changed(lambda run: getattr(run.model.mixer, "conv", "") == "v", never(0.3))
    assert verdict_of(claim, made_rows(claim, neither)).verdict == "not reproduced"


def test_copying_tells_the_parameters_that_were_counted():
    assert (
        "150 M parameters"
        in verdict_of(BY_NAME["C16"], made_rows(BY_NAME["C16"], study_score)).numbers
    )


def test_bumps_need_curves():
    claim = BY_NAME["C18"]
    (verdict,) = judge([claim], made_rows(claim, study_score), {})
    assert verdict.verdict == "not enough data"
    assert "its curves" in verdict.numbers


def test_small_models_of_different_width_are_compared_as_they_are():
    """The demo matches inner widths, not widths."""
    grid = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
    rows = make_sweep(
        {lr: [1.0 if 3e-4 <= lr <= 3e-2 else 0.3] * 2 for lr in grid}, "attention", width=64
    )
    rows += make_sweep({lr: [1.0 if lr == 3e-3 else 0.3] * 2 for lr in grid}, "mamba", width=32)
    verdict = verdict_of(BY_NAME["C3"], rows)
    assert verdict.verdict == "not enough data"
    assert verdict.reduced.startswith("holds (")


# ---- checks and measures ----

LOW, HIGH, OPEN = (
    Measure(0.2, 0.2, "low"),
    Measure(0.9, 0.9, "high"),
    Measure(0.4, 1.0, "open", "more rates"),
)


def test_comparisons_of_intervals():
    assert [at_least(measure, 0.5).holds for measure in (LOW, HIGH, OPEN)] == [False, True, None]
    assert [at_most(measure, 0.5).holds for measure in (LOW, HIGH, OPEN)] == [True, False, None]
    assert [below(measure, 0.9).holds for measure in (LOW, HIGH, OPEN)] == [True, False, None]
    assert (at_least(HIGH, 0.9).holds, at_most(HIGH, 0.9).holds, at_least(OPEN, 0.4).holds) == (
        True,
        True,
        True,
    )
    gap = difference(HIGH, OPEN)
    assert (gap.low, gap.high, gap.lacks) == (pytest.approx(-0.1), 0.5, "more rates")
    wide_range = spread([LOW, OPEN], "range")
    assert (wide_range.low, wide_range.high) == (pytest.approx(0.2), 0.8)
    assert spread([LOW, LOW], "same").high == 0


def test_all_and_some_know_what_settles_them():
    yes, no, maybe = Check(True, "yes"), Check(False, "no"), Check(None, "", "rows")
    assert [every(parts).holds for parts in ([yes, yes], [yes, no], [yes, maybe], [no, maybe], [])] == [
        True, False, None, False, None,
    ]  # fmt: skip
    assert [some(parts).holds for parts in ([no, no], [yes, no], [no, maybe], [yes, maybe], [])] == [
        False, True, None, True, None,
    ]  # fmt: skip
    assert every([yes, maybe, maybe]).lacks == "rows"
    assert every([], lacks="all of it").lacks == "all of it"
    assert every([no, no, yes]).told == "no (2 of 3 comparisons fail)"
    assert len(every([every([yes, no]), yes]).leaves) == 3


def test_held_out_scores_do_not_profit_from_luck():
    sweep = make_sweep({1e-3: [0.55, 0.55, 0.55], 1e-2: [0.9, 0.1, 0.1], 1e-1: [0.1, 0.9, 0.1]})
    (subject,) = gather(sweep)
    assert held_out(subject.cell.rates) == pytest.approx(
        0.55
    )  # the best mean, 0.55, and not the best of each
    assert held_out(subject.cell.rates[1:]) == pytest.approx(0.1)
    assert held_out([]) is None
    (single,) = gather(make_sweep({1e-3: [0.5]}))
    assert held_out(single.cell.rates) is None


@pytest.mark.parametrize(
    ("length", "pairs", "bound"),
    [(64, 4, 0.2882), (128, 8, 0.1548), (256, 16, 0.0826), (512, 64, 0.0249), (256, 64, 0.0349)],
)
def test_the_bound_on_one_pair_is_worked_out(length, pairs, bound):
    run = RunSpec.parse(
        {
            "task": {"name": "mqar", "length": length, "pairs": pairs},
            "model": {"mixer": "attention"},
        }
    )
    (subject,) = gather([made_row(run, 0.1)])
    assert floor(subject) == pytest.approx(bound, abs=1e-4)


def test_official_values():
    assert len(zoology.STARS) == 5 * 4 * 4
    assert zoology.star("hyena", 128, 8, 128) == (0.65, True)
    assert zoology.star("h3", 128, 8, 512) == (0.76, False)
    assert {zoology.star("attention", *size, 64) for size in zoology.SIZES} == {(1.0, False)}
    assert zoology.star("mamba", 64, 4, 64) is None
    assert all(0 < star.accuracy <= 1 for star in zoology.STARS.values())


# ---- hostile and foreign rows ----


def test_rows_of_no_task_of_the_study_are_left_aside():
    odd = make_row()
    odd.spec["task"] = {"name": "chess"}
    broken = make_row(seed=43)
    broken.spec["task"] |= {"length": 7}
    assert recipe({"task.name": "chess"}) is None
    assert {verdict.verdict for verdict in check([odd, broken], {})} == {"not enough data"}
