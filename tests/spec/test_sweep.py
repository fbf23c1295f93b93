"""From a specification file to runs: axes of every kind, overrides,
refusals word by word, and packing by shape.
"""

import itertools
import math
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import SpecError
from recollect.spec.axes import log_grid
from recollect.spec.sweep import build_sweep, group_by_shape, parse_sweep, read_sweep

BASE = 'task = "mqar"\nmodel.mixer = "attention"\n'


def rates(text: str, *overrides: str) -> list[float]:
    return [run.train.lr for run in parse_sweep(text, overrides).runs]


# ---- axes ----


def test_no_axis_is_one_run():
    sweep = parse_sweep(BASE)
    assert len(sweep.runs) == 1
    assert (sweep.name, sweep.source) == ("sweep", BASE)


def test_axes_multiply_in_the_order_of_the_file():
    sweep = parse_sweep(
        BASE + '[sweep]\nmodel.mixer = ["attention", "mamba"]\ntrain.lr = '
        "[1e-3, 1e-2]\n"
        "seed = [1, 2, 3]\n"
    )
    found = [(run.model.mixer.name, run.train.lr, run.seed) for run in sweep.runs]
    assert found == list(itertools.product(["attention", "mamba"], [1e-3, 1e-2], [1, 2, 3]))


@pytest.mark.parametrize("key", ["train.lr", '"train.lr"', 'train."lr"', '"train".lr'])
def test_a_key_may_be_nested_or_quoted(key):
    assert rates(f"{BASE}[sweep]\n{key} = [0.5, 0.25]\n") == [0.5, 0.25]


def test_an_axis_stands_above_the_base():
    assert rates("train.lr = 1.0\n" + BASE + "[sweep]\ntrain.lr = [0.5]\n") == [0.5]


def test_options_of_a_mixer_can_be_an_axis():
    runs = parse_sweep(BASE + "[sweep]\nmodel.mixer.heads = [1, 2]\n").runs
    assert [run.model.mixer.heads for run in runs] == [1, 2]


def test_zipped_lists_move_together():
    text = (
        BASE
        + "[sweep]\nseed = [1, 2]\n[[sweep.zip]]\ntask.length = [64, 128]\ntask.pairs = [4, 8]\n"
    )
    found = [(run.seed, run.task.length, run.task.pairs) for run in parse_sweep(text).runs]
    assert found == [(1, 64, 4), (1, 128, 8), (2, 64, 4), (2, 128, 8)]


def test_two_zips_multiply():
    text = (
        BASE + "[[sweep.zip]]\nseed = [1, 2]\ndata_seed = [3, "
        "4]\n[[sweep.zip]]\ntrain.lr = "
        "[0.5, 0.25]\ntrain.clip = [1, 2]\n"
    )
    assert len(parse_sweep(text).runs) == 4


# ---- log grids ----


def test_a_grid_is_equally_spaced_in_the_logarithm_with_both_ends():
    text = BASE + "[sweep]\ntrain.lr = { from = 1e-4, to = 1e-1, points = 7 }\n"
    assert rates(text) == [1e-4, 3.162e-4, 1e-3, 3.162e-3, 1e-2, 3.162e-2, 1e-1]


@given(st.floats(1e-6, 1), st.floats(1.5, 1e6), st.integers(2, 30))
def test_grid_ends_are_the_numbers_that_were_written(low, ratio, points):
    grid = log_grid(low, low * ratio, points)
    assert (len(grid), grid[0], grid[-1]) == (points, low, low * ratio)
    expected = [low * ratio ** (i / (points - 1)) for i in range(points)]
    assert all(math.isclose(a, b, rel_tol=5.1e-4) for a, b in zip(grid, expected, strict=True))


def test_a_grid_of_one_point_is_its_beginning():
    assert rates(BASE + "[sweep]\ntrain.lr = { from = 1e-3, to = 1e-1, points = 1 }\n") == [1e-3]


# ---- overrides ----


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


# ---- variants ----


def test_variants_change_one_thing_at_a_time():
    text = BASE + (
        "[sweep]\nseed = [1, 2]\n[[sweep.variant]]\ntrain.warmup = [0.0, 0.3]\n"
        "[[sweep.variant]]\nmodel.dropout = [0.5]\ntrain.clip = [1.0]\n"
    )
    found = [
        (run.train.warmup, run.model.dropout, run.train.clip, run.seed)
        for run in parse_sweep(text).runs
    ]
    assert found == [
        (warmup, dropout, clip, seed)
        for warmup, dropout, clip in [(0.1, 0, 0), (0, 0, 0), (0.3, 0, 0), (0.1, 0.5, 1)]
        for seed in (1, 2)
    ]


@pytest.mark.parametrize("where", ['where.model.mixer = "mamba"', 'where.model.mixer = ["mamba"]'])
@pytest.mark.parametrize("mamba", ['"mamba"', '{ name = "mamba", state = 8 }'])
def test_a_variant_of_some_runs_alone(where, mamba):
    text = BASE + (
        f'[sweep]\nmodel.mixer = ["attention", {mamba}]\n'
        f'[[sweep.variant]]\n{where}\nmodel.mixer.init = ["zoology"]\n'
    )
    runs = parse_sweep(text).runs
    assert [run.model.mixer.name for run in runs] == ["attention", "mamba", "mamba"]
    assert [run.model.mixer.init for run in runs[1:]] == ["official", "zoology"]
    assert runs[1].model.mixer.state == runs[2].model.mixer.state


def test_a_variant_that_changes_nothing_adds_no_run():
    text = BASE + "[sweep]\nseed = [1, 2]\n[[sweep.variant]]\ntrain.warmup = [0.0, 0.1, 0.3]\n"
    assert [run.train.warmup for run in parse_sweep(text).runs] == [0.1, 0.1, 0.0, 0.0, 0.3, 0.3]
    assert len(parse_sweep(text, ["train.warmup=0.3"]).runs) == 6


def test_an_override_reaches_the_mixers_of_variants():
    text = BASE + '[[sweep.variant]]\nmodel.mixer = ["delta_net"]\n'
    for heads, overrides in ((1, []), (2, ["model.mixer.heads=2"])):
        runs = parse_sweep(text, overrides).runs
        assert [(run.model.mixer.name, run.model.mixer.heads) for run in runs] == [
            ("attention", heads),
            ("delta_net", heads),
        ]


# ---- recipes ----


def test_a_recipe_fills_what_the_file_leaves_open():
    text = f'recipe = "study"\n{BASE}'
    sweep = parse_sweep(text)
    assert sweep.recipe == "study"
    assert sweep.runs[0].task.vocabulary_split == "halves"
    assert sweep.runs[0].model.dropout == 0.1
    assert parse_sweep(text, ["model.dropout=0.3"]).runs[0].model.dropout == 0.3
    assert parse_sweep("model.dropout = 0.2\n" + text).runs[0].model.dropout == 0.2


def test_without_a_recipe_nothing_is_filled_in():
    assert parse_sweep(BASE).recipe is None
    assert (
        parse_sweep(BASE).runs
        == parse_sweep(
            f'recipe = "plain"\n{BASE}', ["train.evaluations=20", "train.stop_solved=0.0"]
        ).runs
    )


def test_a_recipe_from_outside_takes_the_place_of_the_files():
    text = f'recipe = "study"\n{BASE}'
    sweep = parse_sweep(text, ["recipe=zoology"], "plain")
    assert (sweep.recipe, sweep.runs[0].task.vocabulary_split) == ("plain", "shared")
    assert sweep.source == f"{text}\n# --set recipe=zoology\n# --recipe plain"
    assert parse_sweep(text, ["recipe=zoology"]).runs[0].train.precision == "fp32"


def test_a_recipe_goes_by_the_mixer_of_each_run():
    text = 'recipe = "zoology"\ntask = "mqar"\n[sweep]\nmodel.mixer = ["hyena", "mamba"]\n'
    assert [run.model.block for run in parse_sweep(text).runs] == ["mixer+identity", "mixer"]


# ---- refusals ----

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


def test_too_many_runs_are_refused_before_they_are_made():
    text = BASE + "".join(
        f"{key} = {list(range(1, 10_000))}\n" for key in ("sweep.seed", "sweep.data_seed")
    )
    start = time.perf_counter()
    with pytest.raises(
        SpecError,
        match=r"^sweep: 99,980,001 runs; at most 100,000 fit into one sweep: shorten an axis",
    ):
        parse_sweep(text)
    assert time.perf_counter() - start < 2


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


# ---- files ----


def test_a_file_gives_its_name_to_the_sweep(tmp_path: Path):
    (tmp_path / "first light.toml").write_text(BASE)
    assert read_sweep(tmp_path / "first light.toml").name == "first light"
    (tmp_path / "named.toml").write_text('name = "other"\n' + BASE)
    assert read_sweep(tmp_path / "named.toml").name == "other"


def test_a_byte_order_mark_is_accepted(tmp_path: Path):
    path = tmp_path / "from an editor.toml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.encode())
    assert read_sweep(path).runs == parse_sweep(BASE).runs
    assert read_sweep(path).source == BASE


def test_unreadable_files_are_refused(tmp_path: Path):
    with pytest.raises(
        SpecError,
        match=r"none\.toml: cannot be read \(No such file or directory\); "
        "give the path of a TOML file",
    ):
        read_sweep(tmp_path / "none.toml")
    with pytest.raises(SpecError, match=r"cannot be read \(Is a directory\)"):
        read_sweep(tmp_path)
    path = tmp_path / "bad.toml"
    path.write_bytes(b'name = "\xff"')
    with pytest.raises(
        SpecError, match=r"bad\.toml: not UTF-8 at byte 8; save the file as UTF-8 text"
    ):
        read_sweep(path)
    path.write_text("a = = 1")
    with pytest.raises(SpecError, match=r"bad\.toml: not TOML: .*line 1, column 5"):
        read_sweep(path)
    path.write_bytes(b"#" * 1_000_001)
    with pytest.raises(
        SpecError, match=r"more than 1,000,000 bytes; a specification has at most that many"
    ):
        read_sweep(path)


@pytest.mark.parametrize("name", ["examples/mqar.toml", "recollect/cli/demo.toml"])
def test_what_is_shipped_is_sound(name):
    sweep = read_sweep(Path(__file__).parents[2] / name)
    assert len({run.run_id for run in sweep.runs}) == len(sweep.runs) > 1


# ---- packing ----


def test_runs_of_one_shape_are_packed_in_the_order_of_their_first():
    table = {
        "task": "mqar",
        "model": {"depth": 1},
        "sweep": {
            "model": {"mixer": ["attention", "mamba"], "width": [32, 64]},
            "train": {"lr": [0.5, 0.25]},
            "seed": [1, 2],
        },
    }
    runs = build_sweep(table).runs
    shuffled = runs[1::2] + runs[0::2]
    packs = group_by_shape(shuffled)
    assert [(group[0].model.mixer.name, group[0].model.width, len(group)) for group in packs] == [
        ("attention", 32, 4),
        ("attention", 64, 4),
        ("mamba", 32, 4),
        ("mamba", 64, 4),
    ]
    assert sorted(run.run_id for group in packs for run in group) == sorted(
        run.run_id for run in runs
    )
    for group in packs:
        assert [run for run in shuffled if run in group] == list(group)


def test_the_base_is_not_changed_by_building_runs():
    table = {
        "task": {"name": "mqar"},
        "model": {"mixer": "attention"},
        "sweep": {"task": {"pairs": [2, 3]}},
    }
    before = repr(table)
    build_sweep(table)
    assert repr(table) == before
