"""What a card is set beside: stored baselines, those of a file or a folder, and other recipes."""

from dataclasses import replace

import pytest
from cards_made import CAMPAIGN, TINY, rows_of, specs
from shown import rendered

from recollect.errors import SpecError
from recollect.reports.score import (
    CARDS,
    card_sweep,
    read_baselines,
    read_mixer,
    save_baselines,
)
from recollect.reports.score.baselines import folder_baselines
from recollect.reports.score.recipe import refuse_other_recipe
from recollect.reports.score.request import ScoreRequest
from recollect.rows import Evaluation
from recollect.running import engine
from recollect.running.results import RunSet
from recollect.store import Store
from recollect.store.records import Result


def test_baselines_survive_being_stored(tmp_path):
    rows = {"mamba": rows_of(score=lambda run: 1 / 3), "two": rows_of('{name="mamba", state=32}')}
    rows["two"][0] = replace(
        rows["two"][0], status="diverged", train_loss=float("nan"), diverged_step=7
    )
    curves = {rows["two"][1].run_id: [Evaluation(5, float("inf"), 0.123456789, 0.5, 0.25)]}
    save_baselines(tmp_path / "b.json", rows, curves)
    back = read_baselines(tmp_path / "b.json")
    assert list(back.rows) == ["mamba", "two"]
    assert [row.spec for own in back.rows.values() for row in own] == [
        row.spec for own in rows.values() for row in own
    ]
    assert back.rows["mamba"][3].accuracy == pytest.approx(1 / 3, rel=1e-5)
    first = back.rows["two"][0]
    assert (first.status, first.train_loss, first.score) == ("diverged", None, 0.0)
    assert back.curves[rows["two"][1].run_id][0].test_loss == 0.123457
    assert "recollect" in back.provenance
    assert (
        tmp_path / "b.json"
    ).stat().st_size < 500 * 108  # what is the same everywhere stands there once


def test_an_unfinished_card_is_no_baseline(tmp_path):
    rows = rows_of()
    rows[0] = replace(rows[0], status="todo", accuracy=None)
    with pytest.raises(SpecError, match=r"1 of 27 runs without a result in 1 cell \(1 todo\)"):
        save_baselines(tmp_path / "b.json", {"mamba": rows}, {})
    with pytest.raises(SpecError, match="nothing was scored"):
        save_baselines(tmp_path / "b.json", {}, {})
    assert not (tmp_path / "b.json").exists()


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("nothing", "no stored baselines"),
        ("[]", "no stored baselines"),
        ('{"format": 9}', "another version"),
        ("{}", "KeyError"),
    ],
)
def test_a_file_that_holds_no_baselines_is_refused(tmp_path, content, rule):
    (tmp_path / "b.json").write_text(content)
    with pytest.raises(SpecError, match=rule):
        read_baselines(tmp_path / "b.json")
    with pytest.raises(SpecError, match="cannot be read"):
        read_baselines(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"overrides": ["train.steps=300"]}, "train.steps: 800 here, 300 there"),
        ({"overrides": ["sweep.seed=[1]"]}, "seed: 42, 123, 777 here, 1 there"),
        ({"overrides": ["sweep.train.lr=[1e-2]"]}, "train.lr: "),
        ({"overrides": ["model.dropout=0.1"]}, "model.dropout: 0 here, 0.1 there"),
        ({"card": "gpu"}, "no depth, width and length that both have"),
    ],
)
def test_other_recipes_are_refused(changes, reason):
    with pytest.raises(SpecError, match="scores of another recipe cannot be compared") as refusal:
        refuse_other_recipe(specs(), specs(**changes), "file")
    assert reason in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 3


def test_other_mixers_surroundings_and_missing_cells_are_no_other_recipe():
    refuse_other_recipe(specs(), specs(mixer='{name="attention", positions="rope"}'), "file")
    refuse_other_recipe(specs(mixer="based_hybrid"), specs(mixer="mamba2"), "file")


def test_a_baseline_from_before_an_option_existed_still_fits():
    old = specs()
    for spec in old:
        del spec["train"]["exempt"], spec["task"]["placement"]
    refuse_other_recipe(specs(), old, "file")


def test_stored_baselines_that_do_not_fit_are_left_out_and_asked_for_ones_refused(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("recollect.reports.score.baselines._STORED", tmp_path)
    assert "no baselines are stored for the card cpu" in ScoreRequest.read("cpu", ["mamba"]).note
    save_baselines(tmp_path / "cpu.json", {"hyena": rows_of("hyena")}, {})
    fits = ScoreRequest.read("cpu", ["mamba"])
    assert list(fits.baselines.rows) == ["hyena"]
    assert "hyena" in rendered(fits.tables(RunSet(rows_of(), {})), width=200)
    other = ScoreRequest.read("cpu", ["mamba"], TINY)
    assert other.baselines is None
    assert "train.steps: 2 here, 800 there" in other.note
    with pytest.raises(SpecError, match="another recipe"):
        ScoreRequest.read("cpu", ["mamba"], TINY, tmp_path / "cpu.json")


def test_stored_baselines_fit_their_card():
    for card in CARDS:
        asked = ScoreRequest.read(card, [])
        assert "another recipe" not in asked.note
        assert (asked.baselines is None) == ("no baselines are stored" in asked.note)


def test_any_folder_serves_as_baselines_with_what_fits_of_it(tmp_path):
    card = [run.model_dump(mode="json") for run in card_sweep("gpu", read_mixer("gru")).runs]
    found = folder_baselines(CAMPAIGN, card)
    assert len(found.rows) == 9
    assert {len(rows) for rows in found.rows.values()} == {39}
    assert found.provenance == f"from {CAMPAIGN}, on NVIDIA H200"
    asked = ScoreRequest.read("gpu", ["gru"], against=CAMPAIGN)
    stored = ScoreRequest.read("gpu", ["gru"])
    assert [score.label for score in asked.others()] == [score.label for score in stored.others()]
    with pytest.raises(SpecError) as caught:
        ScoreRequest.read("cpu", ["gru"], against=CAMPAIGN)
    what, remedy = str(caught.value).splitlines()
    assert what == f"--against {CAMPAIGN}: none of its 351 runs was trained as this card"
    assert remedy.startswith("make some with `recollect score MIXER... --out DIR`")


def test_variants_of_one_mixer_in_a_folder_are_told_apart(tmp_path):
    card = card_sweep("cpu", read_mixer("gru"))
    with Store.create(tmp_path) as store:
        for mixer in ("mamba", '{name="mamba", state=32}', "hyena"):
            engine.plan(store, card_sweep("cpu", read_mixer(mixer)))
        todo = store.todo()
        claims = store.claim([entry.run_id for entry in todo], "made", 1e9)
        last = Evaluation(800, 1.0, 1.0, 0.5, 0.0)
        store.finish(Result(run, at, "done", 800, 1.0, last) for run, at in claims.items())
    found = folder_baselines(tmp_path, [run.model_dump(mode="json") for run in card.runs])
    assert list(found.rows) == ["mamba", "mamba, state 32", "hyena"]
    assert {len(rows) for rows in found.rows.values()} == {54}
