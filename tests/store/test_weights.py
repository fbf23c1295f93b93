"""Whose weights are kept: the policy's words, the best of a cell in any order,
resumed sweeps, damaged files.
"""

import itertools
from pathlib import Path
from urllib.parse import quote

import pytest
import torch

from recollect import api
from recollect.analysis import group_cells
from recollect.errors import SpecError, StoreError
from recollect.rows import Evaluation
from recollect.running import engine
from recollect.spec.cell import cell_id
from recollect.spec.sweep import build_sweep
from recollect.store import PlannedRun, Result, Store
from recollect.store import weights as keep
from recollect.store.keep_policy import KeepPolicy
from recollect.store.ownership import this_process
from recollect.store.weights import Keeper, WeightsHeader
from recollect.training.loop import End, Evaluated

CELL = {
    "task": {
        "name": "mqar",
        "vocabulary": 32,
        "length": 8,
        "pairs": 2,
        "data": "fresh",
        "test_rows": 32,
    },
    "model": {"mixer": "attention", "width": 16, "depth": 1},
    "train": {"steps": 8, "batch": 32, "evaluations": 4},
    "sweep": {"train.lr": [1e-3, 1e-2], "seed": [1, 2]},
}


def kept_runs(folder: Path) -> set[str]:
    return {about.run_id for about in keep.list_kept(folder / keep.FOLDER)}


def files(folder: Path) -> dict[str, bytes]:
    models = folder / keep.FOLDER
    return {
        str(path.relative_to(models)): path.read_bytes()
        for path in sorted(models.rglob("*"))
        if path.is_file()
    }


# ---- words ----


def test_words_say_which_runs_are_kept(make_run):
    run = make_run(seed=7)
    assert [
        KeepPolicy.parse(text).asks_for(run)
        for text in ("all", "seed:7", run.run_id, run.run_id[:4])
    ] == [True] * 4
    assert [
        KeepPolicy.parse(text).asks_for(run) for text in ("none", "best", "seed:77", "seed:1")
    ] == [False] * 4
    assert KeepPolicy.parse("best, seed:7").best
    assert not KeepPolicy.parse("seed:7").best


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bets",
        "seed:",
        "seed:x",
        "abc",
        "best,none",
        "none,all",
        "0123456789abcdef0",
        "best;all",
    ],
)
def test_other_words_are_refused(text):
    with pytest.raises(SpecError, match="--keep ") as refusal:
        KeepPolicy.parse(text)
    assert str(refusal.value).count("\n") < 3


def test_refusals_name_what_can_be_said(make_run):
    with pytest.raises(
        SpecError, match="must be best, all, none, seed:N or the beginning of a run id"
    ):
        KeepPolicy.parse("worst")
    with pytest.raises(SpecError, match="--snapshots -1: must be between 0 and 1000"):
        KeepPolicy.parse("best", -1)
    run = make_run()
    KeepPolicy.parse(run.run_id[:6]).require([run])
    with pytest.raises(
        SpecError,
        match=f"--keep {'0' * 16}: no run of this sweep begins like that; the first one is "
        f"{run.run_id}",
    ):
        KeepPolicy.parse("0" * 16).require([run])


def test_snapshots_are_spread_over_the_evaluations_before_the_last(make_run):
    run = make_run({"train.steps": 100, "train.evaluations": 10})
    assert KeepPolicy(snapshots=3).snapshot_steps(run) == [20, 50, 80]
    assert KeepPolicy(snapshots=99).snapshot_steps(run) == [10, 20, 30, 40, 50, 60, 70, 80, 90]
    assert KeepPolicy(snapshots=0).snapshot_steps(run) == []


def test_a_cell_is_what_the_tables_call_a_cell(tmp_path):
    changed = {
        **CELL,
        "sweep": {**CELL["sweep"], "model.depth": [1, 2], "train.weight_decay": [0.1, 0.0]},
    }
    sweep = build_sweep(changed)
    with Store.create(tmp_path) as store:
        engine.plan(store, sweep)
        cells = group_cells(store.rows())
    mine = {}
    for run in sweep.runs:
        mine.setdefault(cell_id(run.model_dump(mode="json")), set()).add(run.run_id)
    assert sorted(map(sorted, mine.values())) == sorted(
        sorted(row.run_id for row in cell.rows) for cell in cells
    )
    assert len(mine) == 4


# ---- the best of a cell ----


def end_with(keeper: Keeper, population, run, score: float, loss: float) -> None:
    """One run of a population ends as told, and its end is stored."""
    found = Evaluation(8, loss, loss, score, score)
    keeper.write_evaluated(population, Evaluated(8, {run.run_id: found}, (End(run, "done"),)))
    keeper.remove_beaten([run.run_id])


OUTCOMES = [(0.5, 1.0), (0.9, 0.3), (0.9, 0.2), (0.9, 0.2)]  # the last two tie: the lower id wins


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5])
def test_the_best_of_a_cell_stays_in_whatever_order_runs_end(
    tmp_path, make_run, make_population, order
):
    runs = sorted((make_run(seed=seed) for seed in range(4)), key=lambda run: run.run_id)
    population, keeper = make_population(runs), Keeper(tmp_path, KeepPolicy())
    for place in order:
        end_with(keeper, population, runs[place], *OUTCOMES[place])
    assert kept_runs(tmp_path) == {runs[2].run_id}
    about, weights = keep.read(tmp_path / keep.FOLDER / f"{runs[2].run_id}.safetensors")
    assert (about.score, about.test_loss, about.step, about.why) == (0.9, 0.2, 8, "best")
    expected = population.weights(runs[2].run_id)
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in weights)


def test_what_was_asked_for_stays_beside_the_best(tmp_path, make_run, make_population):
    runs = [make_run(seed=seed) for seed in range(3)]
    population, keeper = make_population(runs), Keeper(tmp_path, KeepPolicy.parse("best,seed:0"))
    for run, score in zip(runs, (0.1, 0.2, 0.3), strict=True):
        end_with(keeper, population, run, score, 1.0)
    assert kept_runs(tmp_path) == {runs[0].run_id, runs[2].run_id}


def test_of_runs_that_end_together_only_the_best_is_written(
    tmp_path, make_run, make_population, monkeypatch
):
    runs = [make_run(seed=seed) for seed in range(3)]
    written = []
    monkeypatch.setattr(keep, "write", lambda path, weights, about: written.append(about.run_id))
    found = {
        run.run_id: Evaluation(6, 1.0, 1.0, score, score)
        for run, score in zip(runs, (0.1, 0.3, 0.2), strict=True)
    }
    Keeper(tmp_path, KeepPolicy()).write_evaluated(
        make_population(runs), Evaluated(6, found, tuple(End(run, "done") for run in runs))
    )
    assert written == [runs[1].run_id]


def test_a_diverged_run_is_not_kept_and_its_snapshots_go(tmp_path, make_run, make_population):
    run = make_run()
    population, keeper = make_population([run]), Keeper(tmp_path, KeepPolicy.parse("all", 9))
    keeper.write_evaluated(
        population, Evaluated(2, {run.run_id: Evaluation(2, 1.0, 1.0, 0.1, 0.1)}, ())
    )
    assert set(files(tmp_path)) == {f"{run.run_id}/2.safetensors"}
    keeper.write_evaluated(population, Evaluated(4, {}, (End(run, "diverged", 3),)))
    keeper.remove_beaten([run.run_id])
    assert files(tmp_path) == {}


def test_a_run_that_ends_early_has_its_weights_once(tmp_path, make_run, make_population):
    run = make_run()
    population, keeper = make_population([run]), Keeper(tmp_path, KeepPolicy.parse("all", 9))
    found = {run.run_id: Evaluation(2, 1.0, 1.0, 1.0, 1.0)}
    end = End(run, "done", stopped_early="solved")
    keeper.write_evaluated(population, Evaluated(2, found, (end,)))
    assert set(files(tmp_path)) == {f"{run.run_id}.safetensors"}


@pytest.mark.parametrize(("words", "count"), [("none", 0), ("seed:8", 0), ("seed:7", 1)])
def test_snapshots_are_of_runs_that_may_be_kept(tmp_path, make_run, make_population, words, count):
    run = make_run(seed=7)
    keeper = Keeper(tmp_path, KeepPolicy.parse(words, 9))
    found = {run.run_id: Evaluation(2, 1.0, 1.0, 0.1, 0.1)}
    keeper.write_evaluated(make_population([run]), Evaluated(2, found, ()))
    assert len(files(tmp_path)) == count


def test_weights_that_somebody_removed_are_beaten_by_the_next_run(
    tmp_path, make_run, make_population
):
    runs = [make_run(seed=seed) for seed in range(2)]
    population, keeper = make_population(runs), Keeper(tmp_path, KeepPolicy())
    end_with(keeper, population, runs[0], 0.9, 1.0)
    (tmp_path / keep.FOLDER / f"{runs[0].run_id}.safetensors").unlink()
    with Store.create(tmp_path) as store:
        keeper.tidy(store)
    end_with(keeper, population, runs[1], 0.5, 1.0)
    assert kept_runs(tmp_path) == {runs[1].run_id}


def test_half_written_files_of_the_dead_are_tidied(tmp_path, make_run):
    machine, boot, pid, start = this_process().rsplit("|", 3)
    owner = quote(f"{machine}|{boot}|{pid}|{int(start) - 1}", safe="")
    snapshots = tmp_path / keep.FOLDER / make_run().run_id
    snapshots.mkdir(parents=True)
    orphans = [folder / f".{owner}.7.tmp" for folder in (snapshots, snapshots.parent)]
    for path in orphans:
        path.touch()
    with Store.create(tmp_path) as store:
        Keeper(tmp_path, KeepPolicy()).tidy(store)
    assert [path.exists() for path in orphans] == [False, False]


# ---- in a sweep ----


def train(folder: Path, **options) -> list[str]:
    """The ids of the cell's runs, best first."""
    rows = api.run(build_sweep(CELL), folder, device="cpu", **options).rows
    return [
        row.run_id
        for row in sorted(rows, key=lambda row: (-row.accuracy, row.test_loss, row.run_id))
    ]


def test_a_sweep_keeps_the_best_run_and_its_snapshots(tmp_path):
    best, *_ = train(tmp_path, snapshots=2)
    assert set(files(tmp_path)) == {
        f"{best}.safetensors",
        f"{best}/2.safetensors",
        f"{best}/6.safetensors",
    }


@pytest.mark.parametrize(("words", "count"), [("all", 4), ("none", 0), ("seed:2", 2)])
def test_a_sweep_keeps_what_is_asked_for(tmp_path, words, count):
    train(tmp_path, keep=words)
    assert len(files(tmp_path) if (tmp_path / keep.FOLDER).exists() else {}) == count


def test_a_resumed_sweep_keeps_what_was_asked_for_at_first(tmp_path, command):
    spec = tmp_path / "sweep.toml"
    spec.write_text(
        '[task]\nname = "mqar"\nvocabulary = 32\nlength = 8\npairs = '
        "2\ndata = "
        '"fresh"\ntest_rows = 32\n'
        '[model]\nmixer = "attention"\nwidth = 16\ndepth = '
        "1\n[train]\nsteps = "
        "8\nbatch = 32\nevaluations = 4\n"
    )
    out = tmp_path / "out"
    assert command("run", spec, "--out", out, "--keep", "none").code == 0
    assert command("run", spec, "--out", out, "--set", "train.lr=0.1").code == 0
    assert not (out / keep.FOLDER).exists()
    assert (
        command(
            "run", spec, "--out", out, "--set", "train.lr=0.2", "--keep", "all", "--snapshots", "1"
        ).code
        == 0
    )
    assert len(files(out)) == 2
    refused = command("run", spec, "--out", tmp_path / "other", "--keep", "feed")
    assert (refused.code, (tmp_path / "other").exists()) == (2, False)
    assert "no run of this sweep begins like that" in refused.err


def test_what_a_killed_process_left_is_tidied(tmp_path):
    best, second, third, last = train(tmp_path, keep="all", snapshots=1)
    models, found = tmp_path / keep.FOLDER, files(tmp_path)
    for run_id in (second, third):  # as if they had been kept as the best and beaten
        about, weights = keep.read(models / f"{run_id}.safetensors")
        keep.write(
            models / f"{run_id}.safetensors",
            weights,
            WeightsHeader(**{**vars(about), "why": "best"}),
        )
    (
        models / f"{last}.safetensors"
    ).unlink()  # killed between its own file's removal and its snapshots'
    (models / "unknown").mkdir()
    with Store.open(tmp_path) as store:
        Keeper(tmp_path, KeepPolicy()).tidy(store)
    assert set(files(tmp_path)) == {name for name in found if name.startswith(best)}
    assert (models / "unknown").exists(), "what is not ours stays"


def test_a_run_that_goes_on_keeps_its_snapshots(tmp_path, make_run):
    run = make_run()
    models = tmp_path / keep.FOLDER
    with Store.create(tmp_path) as store:
        store.plan([PlannedRun(run.run_id, run.canonical_json(), "accuracy", 0.25)], "s", "")
        about = WeightsHeader(run.run_id, cell_id(run.model_dump(mode="json")), 2, 0.5, 1.0, "best")
        keep.write(models / run.run_id / "2.safetensors", {"x": torch.ones(1)}, about)
        keep.write(
            models / f"{run.run_id}.safetensors", {"x": torch.ones(1)}, about
        )  # written, but its end was not stored
        keeper = Keeper(tmp_path, KeepPolicy())
        keeper.tidy(store)
        assert len(files(tmp_path)) == 2
        assert keeper._best == {}, "a run that is not done beats nobody"


@pytest.mark.parametrize(
    ("ends", "left"),
    [
        ([("done", 0.5), ("done", 0.9)], {1}),
        ([("done", 0.9), ("done", 0.5)], {0}),
        ([("done", 0.5), ("failed", 0.9)], {0, 1}),  # a run without a result beats nobody
    ],
)
def test_of_two_files_of_a_cell_the_better_finished_run_stays(tmp_path, make_run, ends, left):
    runs = sorted((make_run(seed=seed) for seed in range(2)), key=lambda run: run.run_id)
    with Store.create(tmp_path) as store:
        planned = [PlannedRun(run.run_id, run.canonical_json(), "accuracy", 0.25) for run in runs]
        store.plan(planned, "s", "")
        claims = store.claim([run.run_id for run in runs], "me", 60.0)
        for run, (status, score) in zip(runs, ends, strict=True):
            about = WeightsHeader.of(run, 2, score, 1.0, "best")
            path = tmp_path / keep.FOLDER / f"{run.run_id}.safetensors"
            keep.write(path, {"x": torch.ones(1)}, about)
            failure = "lost: twice" if status == "failed" else None
            result = Result(run.run_id, claims[run.run_id], status, 2, 1.0, failure=failure)
            store.finish([result])
        Keeper(tmp_path, KeepPolicy()).tidy(store)
    assert kept_runs(tmp_path) == {runs[place].run_id for place in left}


# ---- files ----


def test_every_flipped_bit_is_found(tmp_path):
    path = tmp_path / "x.safetensors"
    keep.write(
        path,
        {"a": torch.arange(3.0), "b": torch.tensor([True])},
        WeightsHeader("id", "cell", 1, 0.5, 0.25, "asked"),
    )
    sound = path.read_bytes()
    about, weights = keep.read(path)
    assert about == WeightsHeader("id", "cell", 1, 0.5, 0.25, "asked")
    assert torch.equal(weights["a"], torch.arange(3.0))
    length = 8 + int.from_bytes(sound[:8], "little")
    for place in range(length, len(sound)):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        with pytest.raises(StoreError, match="damaged or foreign"):
            keep.read(path)
    for broken in (b"", sound[:7], sound[: length - 1], b"x" * 100):
        path.write_bytes(broken)
        with pytest.raises(StoreError, match="damaged or foreign"):
            keep.read(path)
        assert keep.list_kept(tmp_path) == []


def test_kept_files_are_in_the_order_of_steps(tmp_path):
    models = tmp_path / keep.FOLDER
    about = WeightsHeader("id", "cell", 1, 0.5, 0.25, "asked")
    assert keep.kept_files(tmp_path, "id") == []
    for name in ("id/100", "id/20", "id/3"):
        keep.write(models / f"{name}.safetensors", {}, about)
    assert keep.kept_files(tmp_path, "id") == [], "without its end a run is not kept"
    keep.write(models / "id.safetensors", {}, about)
    assert [path.stem for path in keep.kept_files(tmp_path, "id")] == ["3", "20", "100", "id"]
