"""What `--set` changes of a sweep: values, axes, what is inside a swept table; and what it
refuses to change.
"""

import pytest

from recollect.errors import SpecError
from recollect.spec.sweep import parse_sweep

BASE = 'task = "mqar"\nmodel.mixer = "attention"\n'


def rates(text: str, *overrides: str) -> list[float]:
    return [run.train.lr for run in parse_sweep(text, overrides).runs]


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("train.lr=0.5", lambda run: run.train.lr == 0.5),
        (" train.lr = 5e-1", lambda run: run.train.lr == 0.5),
        ("seed=7", lambda run: run.seed == 7),
        ("task.data=fresh", lambda run: run.task.data == "fresh"),
        ('task.data="fresh"', lambda run: run.task.data == "fresh"),
        ("task=recall", lambda run: run.task.name == "recall"),
        ("model.mixer=mamba", lambda run: run.model.mixer.name == "mamba"),
        ("model.mixer={name='mamba', state=4}", lambda run: run.model.mixer.state == 4),
        ("model.mixer.heads=2", lambda run: run.model.mixer.heads == 2),
        ("task.pairs=3", lambda run: run.task.pairs == 3),
        ("train.epochs=1", lambda run: run.train.steps == 195),
    ],
)
def test_an_override_sets_a_value(override, read):
    (run,) = parse_sweep(BASE, [override]).runs
    assert read(run)


def test_an_override_may_make_or_replace_an_axis():
    assert rates(BASE, "sweep.train.lr=[0.5, 0.25]") == [0.5, 0.25]
    assert rates(BASE + "[sweep]\ntrain.lr = [1.0]\n", "sweep.train.lr=[0.5, 0.25]") == [0.5, 0.25]
    assert rates(
        BASE + '[sweep]\n"train.lr" = [1.0]\n', "sweep.train.lr={from=1e-3, to=1e-1, points=3}"
    ) == [1e-3, 1e-2, 1e-1]


@pytest.mark.parametrize("key", ["train.lr", '"train.lr"', 'train."lr"'])
def test_a_fixed_value_takes_the_axis_away(key):
    text = f"{BASE}[sweep]\n{key} = [1.0, 2.0]\nseed = [1, 2]\n"
    assert rates(text, "train.lr=0.5") == [0.5, 0.5]


def test_a_fixed_value_takes_a_zipped_list_away():
    text = BASE + "[[sweep.zip]]\ntask.length = [64, 128]\ntask.pairs = [4, 8]\n"
    assert [
        (run.task.length, run.task.pairs) for run in parse_sweep(text, ["task.pairs=2"]).runs
    ] == [(64, 2), (128, 2)]
    assert len(parse_sweep(text, ["task.pairs=2", "task.length=64"]).runs) == 1


def test_the_last_of_two_overrides_counts_and_all_are_remembered():
    sweep = parse_sweep(BASE, ["seed=1", "seed=2"])
    assert sweep.runs[0].seed == 2
    assert sweep.source == BASE + "\n# --set seed=1\n# --set seed=2"


@pytest.mark.parametrize("zipped", [False, True])
def test_what_is_set_inside_a_swept_table_is_set_in_every_value_of_it(zipped):
    axis = 'model.mixer = ["attention", { name = "delta_net", kernel = 3 }]\n'
    text = BASE + (f"[[sweep.zip]]\n{axis}seed = [1, 2]\n" if zipped else f"[sweep]\n{axis}")
    runs = parse_sweep(text, ["model.mixer.heads=4"]).runs
    assert [(run.model.mixer.name, run.model.mixer.heads) for run in runs] == [
        ("attention", 4),
        ("delta_net", 4),
    ]
    assert runs[1].model.mixer.kernel == 3


def test_the_same_with_a_quoted_key_and_a_swept_task():
    text = 'model.mixer = "mamba"\n[sweep]\n"task" = ["mqar", "recall"]\n'
    runs = parse_sweep(text, ["task.pairs=2"]).runs
    assert [(run.task.name, run.task.pairs) for run in runs] == [("mqar", 2), ("recall", 2)]


def test_an_option_that_one_of_the_swept_mixers_has_not_is_refused():
    text = BASE + '[sweep]\nmodel.mixer = ["attention", "mamba"]\n'
    with pytest.raises(SpecError) as caught:
        parse_sweep(text, ["model.mixer.heads=4"])
    assert str(caught.value) == (
        "model.mixer.heads: unknown key; known: expand, gate, init, kernel, name, state\n"
        "(in the run with model.mixer = {'name': 'mamba', 'heads': 4})"
    )


@pytest.mark.parametrize(
    ("axis", "override", "message"),
    [
        (
            "train.lr = [0.5, 0.25]",
            "train.lr.x=1",
            "train.lr.x: lr = 0.5 is no table, so nothing can be set inside it",
        ),
        (
            '"train.lr" = [0.5]',
            "train.lr.x.y=1",
            "train.lr.x.y: lr = 0.5 is no table, so nothing can be set inside it",
        ),
        (
            "train.lr = { from = 1e-3, to = 1e-1, points = 3 }",
            "train.lr.points=4",
            "train.lr.points: lr = {'from': 0.001, 'to': 0.1, 'points': 3} is no list of tables, "
            "so nothing can be set in it",
        ),
        (
            'model.mixer = [["attention", "mamba"]]',
            "model.mixer.heads=1",
            "model.mixer.heads: mixer = ['attention', 'mamba'] is no table, so nothing can be set "
            "inside it",
        ),
    ],
)
def test_nothing_can_be_set_inside_swept_values(axis, override, message):
    with pytest.raises(SpecError) as caught:
        parse_sweep(f"{BASE}[sweep]\n{axis}\n", [override])
    assert str(caught.value) == message


def test_a_table_and_what_is_inside_it_may_both_be_axes_in_any_order():
    axes = ["model.mixer.heads = [1, 2]", '"model.mixer" = ["attention", "delta_net"]']
    for order in (axes, axes[::-1]):
        runs = parse_sweep(BASE + "[sweep]\n" + "\n".join(order)).runs
        assert {(run.model.mixer.name, run.model.mixer.heads) for run in runs} == {
            ("attention", 1),
            ("attention", 2),
            ("delta_net", 1),
            ("delta_net", 2),
        }


@pytest.mark.parametrize("override", ["train.lr", "=1", "a..b=1", ".=1", ""])
def test_a_misshapen_override_is_refused(override):
    with pytest.raises(SpecError, match=r"must look like a\.b=1, for example --set train\.lr=1e-3"):
        parse_sweep(BASE, [override])


def test_nothing_can_be_set_inside_a_plain_value():
    with pytest.raises(
        SpecError, match=r"^task\.pairs\.x: pairs = 4 is no table, so nothing can be set inside it$"
    ):
        parse_sweep(
            "task = { name = 'mqar', pairs = 4 }\nmodel.mixer = 'mamba'\n", ["task.pairs.x=1"]
        )
