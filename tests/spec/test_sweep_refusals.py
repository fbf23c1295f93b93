"""What a sweep is refused for, word by word."""

import pytest

from recollect.errors import SpecError
from recollect.spec import sweep
from recollect.spec.sweep import parse_sweep

BASE = 'task = "mqar"\nmodel.mixer = "attention"\n'

REFUSALS = [
    ("sweep = 3\n", "sweep = 3: must be a table of axes, for example seed = [42, 123]"),
    (
        "[sweep]\nseed = 3\n",
        "sweep.seed = 3: must be a list or a grid such as { from = 1e-4, to = 1e-1, points = 7 }",
    ),
    (
        "[sweep]\ntrain = {}\n",
        "sweep.train = {}: must be a list or a grid such as { from = 1e-4, to = 1e-1, points = 7 }",
    ),
    ("[sweep]\nseed = []\n", "sweep.seed = []: an axis needs at least one value"),
    (
        "[sweep]\nzip = 3\n",
        "sweep.zip: must be written as [[sweep.zip]] with lists of equal length below it",
    ),
    (
        "[sweep]\nzip = [1]\n",
        "sweep.zip: must be written as [[sweep.zip]] with lists of equal length below it",
    ),
    (
        "[[sweep.zip]]\nseed = [1, 2]\ndata_seed = [1]\n",
        "sweep.zip: lists must have equal lengths, not {'seed': 2, 'data_seed': 1}",
    ),
    (
        '[sweep]\n"train.lr" = [0.5]\ntrain.lr = [0.25]\n',
        "sweep: train.lr is an axis twice; keep one of them",
    ),
    (
        "[sweep]\nseed = [1]\n[[sweep.zip]]\nseed = [2]\n",
        "sweep: seed is an axis twice; keep one of them",
    ),
    (
        "[sweep]\ntrain.lr = { from = 1e-3, points = 3 }\n",
        "sweep.train.lr: a grid has exactly the keys from, to and points, not 'from, points'",
    ),
    (
        "[sweep]\ntrain.lr = { from = 0, to = 1, points = 3 }\n",
        "sweep.train.lr: from and to must be finite numbers greater than 0, not 0",
    ),
    (
        '[sweep]\ntrain.lr = { from = "1", to = 1, points = 3 }\n',
        "sweep.train.lr: from and to must be finite numbers greater than 0, not '1'",
    ),
    (
        "[sweep]\ntrain.lr = { from = 1e-3, to = 1e-4, points = 3 }\n",
        "sweep.train.lr: from = 0.001 must be less than to = 0.0001",
    ),
    (
        "[sweep]\ntrain.lr = { from = 1e-3, to = 1e-1, points = 0 }\n",
        "sweep.train.lr.points = 0: must be a whole number from 1 to 10,000",
    ),
    (
        "[sweep]\ntrain.lr = [0.5, 0.5]\n",
        "sweep: the same run comes twice, with {'train.lr': 0.5}; remove the repeated value",
    ),
    (
        "[sweep]\nseed = [1]\ntask.pairs = [4, 40]\n",
        "task.pairs = 40: 4 * pairs must be at most length = 64; use at most 16 pairs\n"
        "(in the run with seed = 1, task.pairs = 40)",
    ),
    ("nme = 'x'\n", "nme: unknown key; did you mean name?"),
    (
        "recipe = 'studi'\n",
        "recipe = 'studi': must be one of study, zoology, plain; `recollect recipes` explains them",
    ),
    (
        "[sweep]\nvariant = 3\n",
        "sweep.variant: must be written as [[sweep.variant]] with lists of equal length below it",
    ),
    (
        "[[sweep.variant]]\ntrain.warmup = 0.0\n",
        "sweep.variant.train.warmup = 0.0: must be a list or a grid such as "
        "{ from = 1e-4, to = 1e-1, points = 7 }",
    ),
    (
        "[[sweep.variant]]\ntrain.warmup = [0.0, 0.3]\ntrain.clip = [1.0]\n",
        "sweep.variant: lists must have equal lengths, not {'train.warmup': 2, 'train.clip': 1}",
    ),
    (
        "[[sweep.variant]]\nwhere.model.mixer = 'mamba'\n",
        "sweep.variant: needs a list of values to change, for example train.warmup = [0.0], and "
        'may have where.model.mixer = "mamba"',
    ),
    (
        "[[sweep.variant]]\nwhere = 3\ntrain.warmup = [0.0]\n",
        "sweep.variant: needs a list of values to change, for example train.warmup = [0.0], and "
        'may have where.model.mixer = "mamba"',
    ),
    (
        "[sweep]\ntrain.lr = [0.5]\n[[sweep.variant]]\ntrain.lr = [0.25]\n",
        "sweep.variant: train.lr is an axis already; a variant changes what is no axis",
    ),
    (
        "[[sweep.variant]]\ntrain.warmup = [0.0]\n[[sweep.variant]]\ntrain.warmup = [0.0]\n",
        "sweep: the same run comes twice, with {'train.warmup': 0.0}; remove the repeated value",
    ),
    (
        "[[sweep.variant]]\ntrain.warmup = [2.0]\n",
        "train.warmup = 2.0: must be at most 1.0; for example warmup = 0.1 (share of the steps "
        "with a rising rate)\n(in the run with train.warmup = 2.0)",
    ),
    ("name = ''\n", "name = '': must be a text of 1 to 200 printable characters"),
]


@pytest.mark.parametrize(("text", "message"), REFUSALS, ids=[text[:40] for text, _ in REFUSALS])
def test_a_bad_sweep_is_refused(text, message):
    with pytest.raises(SpecError) as caught:
        parse_sweep(BASE + text)
    assert str(caught.value) == message


def test_too_many_runs_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(sweep, "_expand", lambda *_: pytest.fail("runs were made"))
    text = BASE + "".join(
        f"{key} = {list(range(1, 10_000))}\n" for key in ("sweep.seed", "sweep.data_seed")
    )
    with pytest.raises(
        SpecError,
        match=r"^sweep: 99,980,001 runs; at most 100,000 fit into one sweep: shorten an axis",
    ):
        parse_sweep(text)


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("x = " + "[" * 5000, []),
        ("model" + ".a" * 5000 + " = 1\n", []),
        ("sweep" + ".a" * 5000 + " = [1]\n", []),
        (BASE, ["model" + ".a" * 5000 + "=1"]),
        (BASE, ["train.lr=" + "[" * 5000]),
    ],
    ids=["list", "table", "axis", "override path", "override value"],
)
def test_bottomless_nesting_is_refused(text, overrides):
    with pytest.raises(SpecError) as caught:
        parse_sweep(text, overrides)
    assert len(str(caught.value)) < 300


def test_a_refusal_has_three_lines_at_most():
    with pytest.raises(SpecError) as caught:
        parse_sweep(
            BASE
            + "train.lr = 0\ntrain.clip = -1\ntrain.batch = 0\ntrain.eps = 0\n[sweep]\nseed = [1]\n"
        )
    assert len(str(caught.value).splitlines()) == 3
    assert str(caught.value).splitlines()[-1] == "(in the run with seed = 1)"
