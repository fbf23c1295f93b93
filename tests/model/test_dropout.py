"""Dropout: its share, its masks as a function of seed, step and place,
and runs that do not notice their company.
"""

import pytest
import torch
from populations_made import advance, assert_same_bits, member
from torch import Tensor

from recollect.model.layers import Dropout, Noise, initialise
from recollect.model.model import Model
from recollect.running.planning.cost import cost
from recollect.spec.run import RunSpec

SHAPE = (3, 40, 25, 20)  # P, B, L, D
# More than one layer, so that attention's masks have two places beside the embedding's.
DROPPING = {"model.dropout": 0.3, "model.depth": 2}


def noise(seeds: list[int], step: int = 0) -> Noise:
    made = Noise(len(seeds))
    made.set(torch.tensor(seeds), step)
    return made


def dropped(
    seeds: list[int], step: int = 0, place: str = "here", share: float = 0.25, shape=SHAPE
) -> Tensor:
    """What is gone, as a mask (P, ...)."""
    x = torch.ones(len(seeds), *shape[1:])
    return Dropout(share, noise(seeds, step), place)(x) == 0


# ---- one layer ----


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_is_kept_on_average_and_scaled(share):
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))
    y = Dropout(share, noise([1, 2, 3]), "here")(x)
    kept = y != 0
    torch.testing.assert_close(y[kept], x[kept] / (1 - share))
    # Five standard errors of a count of 20,000, in every member
    assert ((~kept).flatten(1).double().mean(1) - share).abs().max() < 5 * (
        share * (1 - share) / 20_000
    ) ** 0.5


def test_every_row_position_and_channel_loses_its_share():
    """A mask with stripes would have the right share overall."""
    gone = dropped([5], shape=(1, 100, 100, 100), share=0.25)[0].double()
    for axes in ((1, 2), (0, 2), (0, 1)):
        assert (gone.mean(axes) - 0.25).abs().max() < 5.5 * (0.25 * 0.75 / 10_000) ** 0.5


def test_gradients_go_where_values_go():
    x = (torch.rand(SHAPE) + 1).requires_grad_()
    y = Dropout(0.25, noise([1, 2, 3]), "here")(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (y != 0) / 0.75)


def test_off_in_evaluation_and_without_a_share():
    x = torch.randn(SHAPE)
    assert Dropout(0.0, noise([1, 2, 3]), "here")(x) is x
    assert Dropout(0.5, noise([1, 2, 3]), "here").eval()(x) is x


def correlation(one: Tensor, other: Tensor) -> float:
    return float(torch.corrcoef(torch.stack((one.flatten(), other.flatten())).double())[0, 1])


def test_masks_follow_from_seed_step_and_place_and_from_nothing_else():
    reference = dropped([7], step=3, place="here")
    assert torch.equal(dropped([7], step=3, place="here"), reference)
    others = [
        dropped([8], 3),
        dropped([7], 4),
        dropped([7], 3, "there"),
        dropped([7 + 2**62], 3),
        dropped([0], 3),
        dropped([7], 30),
    ]
    for other in others:
        assert abs(correlation(other, reference)) < 5 / reference.numel() ** 0.5


def test_members_have_their_own_masks_in_any_company():
    many = dropped([4, 5, 4])
    assert torch.equal(many[0], many[2])
    assert abs(correlation(many[0], many[1])) < 5 / many[0].numel() ** 0.5
    assert torch.equal(dropped([5, 9])[0], many[1])


def test_rows_behind_change_no_mask_of_those_before():
    few, many = dropped([4, 5], shape=(2, 21, 6, 4)), dropped([4, 5], shape=(2, 32, 6, 4))
    assert torch.equal(few, many[:, :21])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_type_of_the_numbers_is_kept(dtype):
    y = Dropout(0.25, noise([1]), "here")(torch.ones(1, 8, 8, dtype=dtype))
    assert y.dtype == dtype
    assert torch.equal(y == 0, Dropout(0.25, noise([1]), "here")(torch.ones(1, 8, 8)) == 0)


def test_the_global_generator_is_left_alone():
    before = torch.random.get_rng_state()
    dropped([1, 2, 3])
    assert torch.equal(before, torch.random.get_rng_state())


# ---- in a model ----


def model_of(run: RunSpec, population: int = 2) -> Model:
    model = Model(run.model, population, run.task.vocabulary, run.task.length)
    initialise(model, [run.seed] * population)
    return model


def test_every_place_has_its_own_name(make_run):
    """Two places of one name would drop the same elements."""
    model = model_of(make_run(DROPPING))
    places = [module.place for module in model.modules() if isinstance(module, Dropout)]
    assert len(places) == 3
    assert len(set(places)) == 3


def test_the_embedding_is_dropped_with_its_positions(make_run):
    run = make_run({"model.dropout": 0.3, "model.positions": "learned"})
    model, seen = model_of(run), []
    model.dropout.register_forward_hook(
        lambda module, arguments, output: seen.append(output.detach())
    )
    tokens_BL, where_BK = (
        torch.zeros(8, 16, dtype=torch.int64),
        torch.zeros(8, 1, dtype=torch.int64),
    )
    model(tokens_BL, where_BK)
    model.eval()
    model(tokens_BL, where_BK)
    trained, evaluated = seen
    kept = trained != 0
    torch.testing.assert_close(trained[kept], (evaluated / 0.7)[kept])
    assert (~kept).double().mean().item() == pytest.approx(0.3, abs=0.05)


def test_the_tables_of_masks_are_no_part_of_a_state(make_run, make_population):
    """They follow from seed and step; a state of a run with dropout is as large as one without."""
    with_it, without = make_population([make_run(DROPPING)]), make_population([make_run()])
    assert with_it.state().tensors.keys() == without.state().tensors.keys()


def test_memory_can_be_counted(make_run):
    """For the backward pass a mask is kept, a byte for each of 32 rows, 16 positions and 16
    channels, and nothing else.
    """
    with_it, without = (
        cost(make_run({"model.mixer": "rwkv4", "model.dropout": share})) for share in (0.3, 0.0)
    )
    assert with_it.memory_bytes - without.memory_bytes == 32 * 16 * 16


# ---- in a population ----


MIXERS = ["attention", "rwkv4"]  # one that drops its weights too, and one of the many that do not


def family(make_run, mixer: str, count: int, **changes) -> list[RunSpec]:
    return [
        make_run(
            {
                **DROPPING,
                "model.mixer": mixer,
                "train.lr": 10.0 ** -(1 + i % 3),
                "seed": i,
                **changes,
            }
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", [32, 21])
@pytest.mark.parametrize("mixer", MIXERS)
def test_a_member_is_the_same_alone_and_in_company_in_any_order(
    make_run, make_population, mixer, batch, threads
):
    torch.set_num_threads(threads)
    a, b, c, d = family(make_run, mixer, 4, **{"train.batch": batch})
    companies = [[a, b], [b, a], [d, c, b, a], [a]]
    trained = [advance(make_population(company), 3) for company in companies]
    for population in trained[1:]:
        assert_same_bits(member(trained[0], a), member(population, a))
    found = [
        population.evaluate()[company.index(a)]
        for population, company in zip(trained, companies, strict=True)
    ]
    assert all(evaluation == found[0] for evaluation in found)


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_restored_or_thinned_run_goes_on_with_its_masks(make_run, make_population, mixer):
    runs = family(make_run, mixer, 3)
    whole = advance(make_population(runs), 6)
    before = advance(make_population(runs), 2)
    after = make_population(runs)
    after.restore(before.state())
    advance(after, 4)
    assert_same_bits(whole.state().tensors, after.state().tensors)
    before.compact([runs[2].run_id])
    advance(before, 4)
    assert_same_bits(member(whole, runs[2]), member(before, runs[2]))


def test_evaluating_changes_no_mask(make_run, make_population):
    runs = family(make_run, "attention", 2)
    quiet, looked_at = advance(make_population(runs), 4), make_population(runs)
    for _ in range(4):
        looked_at.evaluate()
        advance(looked_at, 1)
    weights = [
        {name: x for name, x in p.state().tensors.items() if name != "loss_sum"}
        for p in (quiet, looked_at)
    ]
    assert_same_bits(*weights)


def test_evaluation_drops_nothing(make_run, make_population):
    """The same numbers twice, and those of the same weights in a model without dropout."""
    with_it, without = (make_run({**DROPPING, "model.dropout": share}) for share in (0.3, 0.0))
    population, plain = advance(make_population([with_it]), 2), make_population([without])
    plain.model.load_state_dict(population.model.state_dict())
    first, second, expected = (
        population.evaluate()[0],
        population.evaluate()[0],
        plain.evaluate()[0],
    )
    assert (first.test_loss, first.accuracy) == (second.test_loss, second.accuracy)
    assert first.test_loss == pytest.approx(expected.test_loss, rel=1e-6)


def test_training_does_drop(make_run, make_population):
    """Runs that differ in dropout alone start alike and part at the first step."""
    with_it, without = (
        make_population([make_run({**DROPPING, "model.dropout": share})]) for share in (0.3, 0.0)
    )
    assert_same_bits(with_it.state().tensors, without.state().tensors)
    advance(with_it, 1)
    advance(without, 1)
    assert not torch.equal(with_it.state().tensors["loss_sum"], without.state().tensors["loss_sum"])


def test_every_step_has_new_masks(make_run, make_population):
    """The same batch at two steps with a rate of nothing to learn gives two losses."""
    population = make_population(
        [make_run({**DROPPING, "train.lr": 1e-30, "train.weight_decay": 0.0})]
    )
    batch, losses = population.task.batch("train", 0), []
    for _ in range(3):
        before = population._loss_sum_P.clone()
        population.train_step(batch)
        losses.append(float((population._loss_sum_P - before)[0]))
    assert len(set(losses)) == 3


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_fill_up_a_batch_drop_nothing_else(make_run, make_population, threads):
    torch.set_num_threads(threads)
    population = make_population(
        [make_run({**DROPPING, "train.batch": 21, "seed": seed}) for seed in (0, 1)]
    )
    population.model.noise.set(population._seeds_P, 0)
    batch = population.task.batch("train", 0)
    filled = population._pad_rows(batch)
    assert filled.rows > batch.rows
    torch.testing.assert_close(population.model.loss(filled), population.model.loss(batch))
