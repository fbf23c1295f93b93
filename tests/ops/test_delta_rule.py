"""The delta rule by triangular solves against the recurrence as it is written: awkward lengths,
hard keys, extreme decays.
"""

import pytest
import torch
from torch import Tensor

import recollect.training.population  # noqa: F401  (tells MKL not to let sums depend on alignment)
from recollect.ops.delta_rule import CHUNK, delta_rule, delta_rule_step
from recollect.ops.delta_rule import plain as module

LENGTHS = [1, 2, 7, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 5]
NAMES = ("q", "k", "v", "beta", "g")


def drawn(
    length: int,
    decay: bool,
    P: int = 2,
    B: int = 2,
    H: int = 2,
    D: int = 5,
    E: int = 7,
    dtype=torch.float64,
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)

    def draw(*shape: int) -> Tensor:
        return torch.randn(P, B, H, length, *shape, generator=generator, dtype=dtype)

    q, k, v, beta = draw(D), unit(draw(D)), draw(E), 2 * draw().sigmoid()
    return [q, k, v, beta, -draw().exp() * 0.2] if decay else [q, k, v, beta]


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def recurrence(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None = None) -> Tensor:
    """S_t = exp(g_t) (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T, o_t = S_t^T q_t,
    with the matrices written out.
    """
    g = torch.zeros_like(beta) if g is None else g
    state = torch.zeros(*k.shape[:-2], k.shape[-1], v.shape[-1], dtype=k.dtype)
    identity, outputs = torch.eye(k.shape[-1], dtype=k.dtype), []
    for q_t, k_t, v_t, beta_t, g_t in zip(
        q.unbind(-2), k.unbind(-2), v.unbind(-2), beta.unbind(-1), g.unbind(-1), strict=True
    ):
        strength, write = beta_t[..., None, None], k_t[..., :, None]
        state = (
            g_t.exp()[..., None, None] * (identity - strength * write * k_t[..., None, :]) @ state
        )
        state = state + strength * write * v_t[..., None, :]
        outputs.append(torch.einsum("...de,...d->...e", state, q_t))
    return torch.stack(outputs, -2)


def gradients(rule, arguments: list[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
    leaves = [x.detach().requires_grad_() for x in arguments]
    o = rule(*leaves)
    weight = torch.cos(torch.arange(o.numel(), dtype=o.dtype)).view_as(o)
    return o.detach(), torch.autograd.grad((o * weight).sum(), leaves)


def deviation(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted).abs().max() / wanted.abs().max())


both = pytest.mark.parametrize("decay", [False, True], ids=["plain", "decay"])


@both
@pytest.mark.parametrize("length", LENGTHS)
def test_outputs_and_gradients_are_those_of_the_recurrence(length, decay):
    arguments = drawn(length, decay)
    o, ours = gradients(delta_rule, arguments)
    expected, theirs = gradients(recurrence, arguments)
    assert deviation(o, expected) < 1e-12
    for name, one, other in zip(NAMES, ours, theirs, strict=False):
        torch.testing.assert_close(
            one, other, rtol=1e-10, atol=1e-11, msg=lambda text, name=name: f"{name}: {text}"
        )


@both
def test_steps_are_the_recurrence(decay):
    arguments = drawn(9, decay)
    state, outputs = torch.zeros(2, 2, 2, 5, 7, dtype=torch.float64), []
    for t in range(9):
        q, k, v, beta, *g = (x[:, :, :, t] for x in arguments)
        o, state = delta_rule_step(q, k, v, beta, state, *g)
        outputs.append(o)
    assert deviation(torch.stack(outputs, 3), recurrence(*arguments)) < 1e-13


@both
def test_gradcheck(monkeypatch, decay):
    monkeypatch.setattr(module, "CHUNK", 3)
    arguments = [x.requires_grad_() for x in drawn(7, decay, P=1, B=1, H=1, D=2, E=2)]
    assert torch.autograd.gradcheck(delta_rule, arguments)


@both
@pytest.mark.parametrize("chunk", [1, 5, 32, 1000])
def test_the_length_of_a_chunk_does_not_matter(monkeypatch, chunk, decay):
    arguments = drawn(CHUNK + 9, decay)
    expected = recurrence(*arguments)
    monkeypatch.setattr(module, "CHUNK", chunk)
    assert deviation(delta_rule(*arguments), expected) < 1e-12


def test_a_write_replaces_what_its_key_recalled():
    """beta = 1: the last value written with a key comes back; beta = 2 goes beyond it by what the
    old one was short of it.
    """
    keys = torch.eye(3, dtype=torch.float64)[[0, 1, 0, 2, 1, 0]]
    values = torch.arange(1.0, 7, dtype=torch.float64)[:, None]
    once = delta_rule(keys[None], keys[None], values[None], torch.ones(1, 6, dtype=torch.float64))
    assert once.flatten().tolist() == [1, 2, 3, 4, 5, 6]
    twice = delta_rule(
        keys[None], keys[None], values[None], torch.full((1, 6), 2.0, dtype=torch.float64)
    )
    assert twice.flatten().tolist() == [2, 4, 4, 8, 6, 8]


# ---- conditioning ----


@pytest.mark.parametrize(
    ("beta", "tolerance"), [(0.5, 2e-6), (1 - 1e-6, 2e-6), (1.0, 2e-6), (1.98, 4e-5), (2.0, 1e-4)]
)
@both
def test_one_key_at_three_of_four_positions_is_solved_in_float32(beta, tolerance, decay):
    arguments = drawn(512, decay, P=1, B=1, H=1, D=32, E=16)
    arguments[0], arguments[3] = unit(arguments[0]), torch.full_like(arguments[3], beta)
    arguments[1][..., torch.arange(512) % 4 != 0, :] = arguments[1][..., :1, :].clone()
    single = [x.float() for x in arguments]
    arguments = [x.double() for x in single]
    o, ours = gradients(delta_rule, single)
    expected, theirs = gradients(recurrence, arguments)
    assert deviation(o, expected) < tolerance
    for name, one, other in zip(NAMES, ours, theirs, strict=False):
        assert deviation(one, other) < 2 * tolerance, name


def test_weak_decay_after_strong_decay_keeps_its_digits():
    """A difference of sums from the start, 500 t,
    would have an error of 1e-3 in the exponent in float32.
    """
    arguments = drawn(CHUNK, True)
    arguments[4] = torch.full_like(arguments[4], -1e-3)
    arguments[4][..., : CHUNK // 2] = -500.0
    single = [x.float() for x in arguments]
    assert deviation(delta_rule(*single), recurrence(*(x.double() for x in single))) < 2e-6


@pytest.mark.parametrize("g", [-1e4, -1.0, 0.0])
def test_extreme_decays_have_finite_gradients(g):
    arguments = drawn(200, True, dtype=torch.float32)
    arguments[4] = torch.full_like(arguments[4], g)
    o, ours = gradients(delta_rule, arguments)
    expected, theirs = gradients(recurrence, [x.double() for x in arguments])
    assert deviation(o, expected) < 2e-5
    for name, one, other in zip(NAMES, ours, theirs, strict=True):
        assert one.isfinite().all(), name
        assert deviation(one, other) < 2e-4 or not other.any(), name


# ---- the population ----


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_member_has_the_same_bits_in_any_company(decay, dtype):
    """Stacks of at least two and whole vectors of rows, as a population makes them on a CPU."""
    arguments = drawn(CHUNK + 7, decay, P=4, B=32, H=1, D=7, E=9, dtype=dtype)
    everyone = with_squares_gradients(arguments)
    for company in ([0, 1], [3, 1], [2, 0, 3]):
        for one, other in zip(
            everyone, with_squares_gradients([x[company] for x in arguments]), strict=True
        ):
            assert torch.equal(one[company], other)


def with_squares_gradients(arguments: list[Tensor]) -> list[Tensor]:
    """Outputs, and the gradients of their squares: a weight would depend on a member's place."""
    leaves = [x.clone().requires_grad_() for x in arguments]
    o = delta_rule(*leaves)
    return [o.detach(), *torch.autograd.grad(o.square().sum(), leaves)]


def test_members_do_not_see_each_other():
    arguments = drawn(CHUNK + 5, True, P=3)
    o, ours = gradients(delta_rule, arguments)
    poisoned = [x.clone() for x in arguments]
    for x in poisoned:
        x[1] = float("nan")
    o_poisoned, theirs = gradients(delta_rule, poisoned)
    for one, other in zip((o, *ours), (o_poisoned, *theirs), strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
        assert other[1].isnan().any()


@both
def test_shapes_are_known_without_data(decay):
    arguments = [x.to("meta").requires_grad_() for x in drawn(CHUNK + 5, decay)]
    o = delta_rule(*arguments)
    assert o.shape == arguments[2].shape
    o.sum().backward()
