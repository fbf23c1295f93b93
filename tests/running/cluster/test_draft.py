"""How a sweep is cut into packs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.running.cluster.draft import FEWEST_RUNS, MOST_RUNS, draft_packs
from recollect.spec.sweep import Sweep, build_sweep


def make_sweep(seeds: int) -> Sweep:
    return build_sweep(
        {
            "task": {"name": "mqar", "vocabulary": 32, "length": 16, "pairs": 2},
            "train": {"steps": 10},
            "model": {"width": 8, "depth": 1},
            "sweep": {"model": {"mixer": ["attention", "hyena"]}, "seed": list(range(seeds))},
        }
    )


SWEEPS = {seeds: make_sweep(seeds) for seeds in (1, 7, 100)}


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(sorted(SWEEPS)),
    st.none() | st.integers(1, 80),
    st.none() | st.integers(1, 50),
    st.none() | st.floats(1e-3, 1e6),
)
def test_every_run_is_in_one_pack_of_its_shape(
    seeds: int, most: int | None, at_once: int | None, limit_s: float | None
):
    runs = {run.run_id: run for run in SWEEPS[seeds].runs}
    packs = draft_packs(list(runs.values()), "cpu", limit_s, most, at_once)
    assert sorted(run.run_id for pack in packs for run in pack.runs) == sorted(runs)
    for pack in packs:
        assert 1 <= len(pack.runs) <= (most or MOST_RUNS)
        assert len({runs[run.run_id].shape_id for run in pack.runs}) == 1
    sizes: dict[str, list[int]] = {}
    for pack in packs:
        sizes.setdefault(runs[pack.runs[0].run_id].shape_id, []).append(len(pack.runs))
    assert all(max(of_shape) - min(of_shape) <= 1 for of_shape in sizes.values())
    assert [pack.seconds for pack in packs] == sorted((p.seconds for p in packs), reverse=True)


def test_devices_get_several_packs_each():
    packs = draft_packs(SWEEPS[100].runs, "cpu", at_once=8)
    assert {len(pack.runs) for pack in packs} <= {FEWEST_RUNS, FEWEST_RUNS - 1}


def test_a_short_limit_makes_small_packs():
    whole = draft_packs(SWEEPS[100].runs, "cpu")
    one = whole[0].seconds / len(whole[0].runs)
    packs = draft_packs(SWEEPS[100].runs, "cpu", limit_s=10 * one)
    assert max(len(pack.runs) for pack in packs) <= 7
