"""The card: which runs it has, in which order."""

import pytest
from cards_made import BASELINES, CAMPAIGN

from recollect.analysis import is_sparse_rate
from recollect.errors import SpecError
from recollect.reports.score import CARDS, card_sweep, read_mixer
from recollect.reports.score.recipe import card_cell
from recollect.reports.score.request import ScoreRequest
from recollect.running.results import RunSet


@pytest.mark.parametrize(
    ("text", "label", "overrides"),
    [
        ("mamba", "mamba", ('model.mixer="mamba"',)),
        (
            ' {name = "mamba", state = 32}',
            "mamba (state 32)",
            ('model.mixer={"name" = "mamba", "state" = 32}',),
        ),
        (
            '{name="attention", positions="rope", conv="k"}',
            "attention (positions rope, conv k)",
            ('model.mixer={"name" = "attention", "conv" = "k"}', 'model.positions="rope"'),
        ),
        (
            '["base_conv", {name="gru"}]',
            "base_conv/gru",
            ('model.mixer=["base_conv", {"name" = "gru"}]',),
        ),
    ],
)
def test_a_mixer_may_be_a_name_a_table_or_a_list(text, label, overrides):
    entry = read_mixer(text)
    assert (entry.label, entry.overrides) == (label, overrides)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "must be a name"),
        ("a\nb", "must be a name"),
        ("{name=", "not TOML"),
        ("[" * 9999, "not TOML"),
    ],
)
def test_what_is_no_mixer_is_refused(text, rule):
    with pytest.raises(SpecError, match=rule):
        read_mixer(text)


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("mixer", [*BASELINES, '{name="attention", positions="rope"}'])
def test_every_cell_of_a_card_has_zoologys_rates_and_three_seeds(card, mixer):
    found = {}
    for run in card_sweep(card, read_mixer(mixer)).runs:
        found.setdefault(card_cell(run.model_dump(mode="json")), []).append(
            (run.train.lr, run.seed)
        )
    for pairs in found.values():
        rates, seeds = {lr for lr, _ in pairs}, {seed for _, seed in pairs}
        assert len(pairs) == len(rates) * len(seeds)
        assert sum(map(is_sparse_rate, rates)) == 4
        assert len(seeds) == 3
        assert max(rates) == 0.3  # beyond every window that was ever seen


def test_what_is_no_mixer_or_no_card_is_refused():
    with pytest.raises(SpecError, match="'nothing' is no mixer here"):
        card_sweep("cpu", read_mixer("nothing"))
    with pytest.raises(SpecError, match="must be a multiple of the 3 mixers in the list"):
        card_sweep("cpu", read_mixer('["gru", "gru", "attention"]'))
    with pytest.raises(SpecError, match="--card 'tpu': did you mean gpu"):
        card_sweep("tpu", read_mixer("mamba"))


def test_the_headline_is_trained_first():
    asked = ScoreRequest.read("cpu", ["mamba", "gru"])
    headline, rest = asked.stages()
    assert (headline.name, rest.name) == ("score:cpu:headline", "score:cpu:rest")
    assert {(run.model.mixer.name, run.task.pairs) for run in headline.runs} == {
        ("mamba", 3),
        ("gru", 3),
    }
    assert {run.task.pairs for run in rest.runs} == {2}
    assert len(ScoreRequest.read("gpu", ["mamba"]).stages()) == 1


def test_the_gpus_card_is_the_campaigns_first_queue():
    """Run for run: rows of the campaign are baselines, and would not be trained again."""
    known = {row.run_id for row in RunSet.load(CAMPAIGN).rows}
    for mixer in ("attention", "mamba", "based_hybrid", "gated_delta_net"):
        assert {run.run_id for run in card_sweep("gpu", read_mixer(mixer)).runs} <= known
