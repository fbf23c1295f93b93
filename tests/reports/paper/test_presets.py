"""The study's experiments as they ship: every one is sound at both scales, and has the runs, rates
and seeds it should.
"""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from recollect.analysis import ZOOLOGY_RATES, is_sparse_rate
from recollect.errors import SpecError
from recollect.reports.paper import presets
from recollect.reports.paper.presets import (
    BEYOND,
    EXPERIMENTS,
    NAMES,
    SCALES,
    list_presets,
    open_sweep,
    preset_text,
    read_preset,
)
from recollect.spec.recipes import recipe_of
from recollect.spec.run import RunSpec

SEEDS = [42, 123, 777, 456, 789]
EVERY = [(name, scale) for name in EXPERIMENTS for scale in SCALES]
# One rate and one seed: all shapes of a sweep, in a fraction of the time.
ONE_EACH = ["sweep.train.lr=[1e-3]", "sweep.seed=[42]"]


def axes(name: str, scale: Any) -> dict[str, Any]:
    sweep: dict[str, Any] = tomllib.loads(preset_text(name, scale))["sweep"]
    return sweep


@cache
def shapes(name: str, scale: Any = "full") -> tuple[RunSpec, ...]:
    return read_preset(name, scale, ONE_EACH).runs


def mixers(name: str, scale: Any = "full") -> set[str]:
    return {run.model.mixer.name for run in shapes(name, scale)}


def test_there_is_a_file_for_every_name_and_no_other():
    folder = Path(presets.__file__).with_name("presets")
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"{name}{'' if scale == 'full' else '.small'}.toml" for name, scale in EVERY
    )


@pytest.mark.parametrize(("name", "scale"), EVERY)
def test_a_preset_has_the_runs_it_says(name, scale):
    rates, seeds = axes(name, scale)["train"]["lr"], axes(name, scale)["seed"]
    factors, said = (
        preset_text(name, scale)
        .splitlines()[1]
        .removeprefix("# ")
        .removesuffix(" runs")
        .split(" = ")
    )
    product = 1
    for factor in factors.split(" x "):
        product *= int(factor.split()[0])
    count = len(shapes(name, scale)) * len(rates) * len(seeds)
    assert (product, said) == (count, f"{count:,}")
    assert f"{len(rates)} rates x {len(seeds)} seeds" in factors


@pytest.mark.parametrize(("name", "scale"), EVERY)
def test_a_preset_holds_zoologys_rates_and_the_studys_seeds(name, scale):
    rates, seeds = axes(name, scale)["train"]["lr"], axes(name, scale)["seed"]
    assert sum(map(is_sparse_rate, rates)) == len(ZOOLOGY_RATES)
    assert rates == sorted(set(rates))
    assert seeds == (SEEDS if scale == "full" and name in NAMES else SEEDS[: len(seeds)])
    if scale == "full":
        assert (rates[0], rates[-1], len(rates)) == (1e-5, 3e-1, 13)


@pytest.mark.parametrize(("name", "scale"), EVERY)
def test_a_preset_goes_by_its_name_and_stops_what_is_solved_unless_curves_matter(name, scale):
    sweep = read_preset(name, scale, ONE_EACH)
    assert sweep.name == f"paper:{name}"
    assert sweep.source.startswith(preset_text(name, scale))
    assert {run.train.stop_solved for run in sweep.runs} == {0.0 if name == "fig6" else 0.99}
    assert all(run.train.evaluations >= 12 for run in sweep.runs)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in ("fig5", "table1")])
def test_the_recipe_is_the_studys(name):
    for run in shapes(name):
        batch = {64: 512, 128: 512, 256: 256, 512: 128}[run.task.train_length]
        assert run.train.batch == batch
        assert run.train.steps == 50 * (100_000 // batch)
        assert (run.train.weight_decay, run.task.test_rows) == (0.1, 3_000)
        assert run.train.warmup == 0.1 or name in BEYOND
        assert run.task.label_vocabulary == 8192


@pytest.mark.parametrize("name", NAMES)
def test_a_small_one_asks_the_same_question_and_is_much_cheaper(name):
    full, small = (
        read_preset(name, "full", ONE_EACH).runs,
        read_preset(name, "small", ONE_EACH).runs,
    )
    asked = {
        "fig1": {"attention", "hyena", "mamba"},
        "fig4": {"attention", "hyena", "mamba"},
        "fig12": mixers("fig12") - {"base_conv"},
    }
    assert mixers(name, "small") == asked.get(name, mixers(name))
    assert {run.task.name for run in small} == {run.task.name for run in full}
    if name not in ("fig5", "fig13", "table1"):
        assert {run.model.depth for run in small} == {run.model.depth for run in full}
    steps = max(run.train.steps * run.train.batch * run.task.train_length for run in small)
    assert (
        steps < min(run.train.steps * run.train.batch * run.task.train_length for run in full) / 100
    )


def test_what_each_figure_is_about():
    sizes = {(64, 4), (128, 8), (256, 16), (512, 64)}
    widths = {64, 128, 256, 512, 1024, 2048}
    for name, depth in (("fig2", 2), ("fig3", 1), ("fig11", 2), ("fig12", 1)):
        runs = shapes(name)
        assert {(run.task.train_length, run.task.labels_per_row) for run in runs} == sizes
        assert {run.model.width for run in runs} == widths
        assert {run.model.depth for run in runs} == {depth}
    assert mixers("fig11") == {"attention", "based_hybrid", "h3", "hyena", "mamba", "rwkv4"}
    assert {(run.task.train_length, run.task.labels_per_row) for run in shapes("fig4")} == {
        (256, 64)
    }
    assert {run.model.depth for run in shapes("fig4")} == {1, 2}
    assert {(run.model.mixer.name, run.model.width) for run in shapes("fig6")} == {
        ("attention", 2048),
        ("hyena", 512),
        ("mamba", 64),
    }
    assert {run.model.depth for run in shapes("fig13")} == {12}
    assert mixers("fig7") == {"mamba", "mamba2", "delta_net"}
    assert {
        run.model.mixer.heads for run in shapes("fig7") if run.model.mixer.name == "delta_net"
    } == {1}
    assert {run.model.mixer.init for run in shapes("fig1") if run.model.mixer.name == "mamba"} == {
        "official",
        "zoology",
    }


def test_why_changes_one_thing_at_a_time_from_the_recipe():
    labels: dict[str, set[str]] = {}
    for run in shapes("why"):
        label = recipe_of(run.model_dump(mode="json"))
        labels.setdefault(run.model.mixer.name, set()).add(label)
    common = {
        *("dropout=0", "vocabulary shared", "fixed rows", "fresh rows", "no MLP"),
        *("warmup=0", "warmup=0.3", "clip=1", "precision fp32"),
    }
    own = {
        "attention": {"RMSNorm"},
        "mamba": {"LayerNorm", "exempt dynamics"},
        "delta_net": {"RMSNorm"},
    }
    assert labels == {
        mixer: {"study"} | {f"study but {words}" for words in common | more}
        for mixer, more in own.items()
    }
    assert {run.model.mixer.init for run in shapes("why") if run.model.mixer.name == "mamba"} == {
        *("official", "zoology", "mimetic")
    }
    normed = [getattr(run.model.mixer, "qk_norm", None) for run in shapes("why")]
    assert (normed.count(True), normed.count(False)) == (2, 22)
    assert {(run.task.train_length, run.task.labels_per_row) for run in shapes("why")} == {
        (64, 4),
        (256, 16),
    }


def test_positions_stand_only_in_attention_and_based():
    for name in (
        "fig1",
        "fig2",
        "fig3",
        "fig4",
        "fig6",
        "fig7",
        "fig11",
        "fig12",
        "fig13",
        "table2",
        "table3",
    ):
        for run in shapes(name):
            with_positions = run.model.mixer.name in (
                "attention",
                "based",
                "based_hybrid",
                "base_conv",
            )
            assert run.model.positions == ("learned" if with_positions else "none"), (
                run.model.mixer.name
            )
    assert {(run.model.mixer.name, run.model.positions) for run in shapes("table4")} == {
        (mixer, positions)
        for mixer in ("mamba", "hyena", "rwkv4", "h3")
        for positions in ("none", "sinusoidal", "relative", "learned")
    }


def test_the_tables_have_the_studys_lines():
    lines = {(run.model.mixer.name, run.model.depth, run.model.width) for run in shapes("table1")}
    assert lines == {
        ("attention", 12, 1024),
        ("mamba", 12, 1024),
        ("mamba", 24, 1024),
        ("mamba", 12, 1408),
    }
    convolved = {
        (
            run.model.mixer.conv,
            run.model.mixer.conv_padding if run.model.mixer.conv != "none" else "",
        )
        for run in shapes("table3")
        if run.model.mixer.name == "attention"
    }
    paddings = ("causal", "same")
    assert convolved == {("none", "")} | {
        (conv, padding) for conv in ("qkv", "q", "k", "v") for padding in paddings
    }
    for name in ("table2", "table3"):
        mambas = {
            (run.model.mixer.kernel, run.model.mixer.gate)
            for run in shapes(name)
            if run.model.mixer.name == "mamba"
        }
        assert mambas == {(4, True), (0, True), (4, False)}
        assert {run.model.block for run in shapes(name) if run.model.mixer.name == "s6"} == {
            "mixer+mlp"
        }


def test_choices_where_the_study_is_silent_are_said():
    for name in NAMES:
        assert "not stated" in preset_text(name).lower() or "nothing is stated" in preset_text(
            name
        ), name


# ---- by name ----


def test_the_list_counts_what_there_is():
    listed = {preset.name: preset for preset in list_presets()}
    assert tuple(listed) == EXPERIMENTS
    assert {preset.recipes["full"] for preset in listed.values()} == {"study"}
    assert listed["fig1"].recipes["small"] == read_preset("fig1", "small").recipe == "plain"
    assert listed["fig6"].runs == {"full": 195, "small": len(read_preset("fig6", "small").runs)}
    assert listed["fig6"].about == "loss and accuracy against training steps, one layer"


def test_a_specification_is_a_name_or_a_file(tmp_path: Path):
    assert open_sweep("paper:fig1:small").runs == read_preset("fig1", "small").runs
    assert len(open_sweep("paper:fig6", ["seed=1", "train.lr=1e-3"]).runs) == 3
    path = tmp_path / "paper.toml"
    path.write_text(preset_text("fig1", "small"))
    assert open_sweep(str(path)).runs == read_preset("fig1", "small").runs


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("paper:fgi1", "'paper:fgi1' is no experiment of the study; did you mean paper:fig1?"),
        (
            "paper:tabel3:small",
            "'paper:tabel3' is no experiment of the study; did you mean paper:table3?",
        ),
        ("paper:", "'paper:' is no experiment of the study; `recollect presets` lists them"),
        ("paper:../fig1", "did you mean paper:fig1?"),
        (
            "paper:fig9",
            "paper:fig9 is a diagram, there is nothing to train; `recollect presets` lists what "
            "there is",
        ),
        (
            "paper:fig1:big",
            "'paper:fig1:big': the only other scale is small; write paper:fig1 or paper:fig1:small",
        ),
        (
            "paper:fig1:",
            "'paper:fig1:': the only other scale is small; write paper:fig1 or paper:fig1:small",
        ),
        (
            "paper:" + "x" * 999,
            "xxx... is no experiment of the study; `recollect presets` lists them",
        ),
    ],
)
def test_other_names_are_refused(spec, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        open_sweep(spec)


def test_another_scale_is_refused():
    with pytest.raises(
        SpecError,
        match="scale = 'tiny': must be full or small, as in paper:fig1 and paper:fig1:small",
    ):
        read_preset("fig1", "tiny")  # type: ignore[arg-type]
