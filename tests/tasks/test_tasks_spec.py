"""Task specifications: what they say about themselves, and every refusal word by word."""

import json
import subprocess
import sys

import pytest

from recollect.errors import SpecError
from recollect.spec.base import by_name
from recollect.tasks.options import (
    TASKS,
    CopyingSpec,
    MqarSpec,
    NgramLookupSpec,
    RecallSpec,
)


@pytest.mark.parametrize("cls", TASKS.values(), ids=list(TASKS))
def test_every_field_explains_itself_and_is_bounded(cls):
    for name, field in cls.model_fields.items():
        if name == "name":
            continue
        assert field.description, name
        if field.annotation in (int, float):
            kinds = {type(rule).__name__ for rule in field.metadata}
            assert {"Ge", "Le"} <= kinds, name


@pytest.mark.parametrize("cls", TASKS.values(), ids=list(TASKS))
def test_a_task_survives_the_round_trip_through_json(cls):
    spec = cls()
    assert by_name(TASKS, "task")(json.loads(spec.model_dump_json())) == spec
    assert cls.parse(spec.model_dump()) == spec


def test_properties_of_the_defaults():
    mqar, recall, copying, lookup = (cls() for cls in TASKS.values())
    assert [spec.score_name for spec in (mqar, recall, copying, lookup)] == [
        "accuracy",
        "accuracy",
        "exact",
        "exact",
    ]
    assert (
        mqar.chance,
        mqar.labels_per_row,
        mqar.longest,
        mqar.train_length,
        mqar.label_vocabulary,
    ) == (0.25, 4, 64, 64, 8192)
    assert (mqar.train_rows, mqar.test_rows, mqar.test_splits, recall.labels_per_row) == (
        100_000,
        3_000,
        ("test",),
        1,
    )
    assert (copying.vocabulary, copying.train_length, copying.test_splits) == (
        30,
        220,
        ("length 20",),
    )
    assert CopyingSpec(eval_lengths=(200,)).longest == 2 * 200 + 2


@pytest.mark.parametrize(
    ("length", "batch"), [(64, 512), (128, 512), (256, 256), (512, 128), (514, 64)]
)
def test_default_batch_follows_the_length(length, batch):
    assert MqarSpec(length=length).default_batch == batch
    assert MqarSpec(length=length, train_rows=10).default_batch == 10


REFUSALS = [
    (
        MqarSpec,
        {"pairs": 40},
        "task: pairs = 40: 4 * pairs must be at most length = 64; use at most 16 pairs",
    ),
    (
        MqarSpec,
        {"length": 63},
        "task: length = 63: must be even, questions stand at even positions; use 64",
    ),
    (
        MqarSpec,
        {"vocabulary": 9},
        "task: vocabulary = 9: must be at least 2 * pairs + 2 = 10 (filler, the tokens of a row, "
        "one to spare); use at most 3 pairs",
    ),
    (
        MqarSpec,
        {"vocabulary": 101, "vocabulary_split": "halves"},
        "task: vocabulary = 101: must be even to be cut in halves; use 102",
    ),
    (
        MqarSpec,
        {"vocabulary": 16, "pairs": 8, "vocabulary_split": "halves"},
        "task: pairs = 8: half of vocabulary = 16 holds only 7 keys; use a vocabulary of at least "
        "18",
    ),
    (
        MqarSpec,
        {"placement": "uniform", "power": 0.5},
        'task: power = 0.5: has no effect under placement = "uniform"; leave power out',
    ),
    (
        MqarSpec,
        {"vocabulary": 10**9},
        "task.vocabulary = 1000000000: must be at most 1000000; for example vocabulary = 8192",
    ),
    (
        MqarSpec,
        {"pairs": 0},
        "task.pairs = 0: must be at least 1; for example pairs = 4 (key-value pairs of a row)",
    ),
    (MqarSpec, {"pairs": "4"}, "task.pairs = '4': must be a whole number"),
    (MqarSpec, {"power": float("nan")}, "task.power = nan: must be"),
    (MqarSpec, {"lenght": 64}, "task.lenght: unknown key; did you mean length?"),
    (
        MqarSpec,
        {"train_rows": 10_000_000, "length": 65_536},
        "task: 10000000 rows of length 65536 are 655360000000 tokens: must be at most 2000000000; "
        "use fewer rows",
    ),
    (
        RecallSpec,
        {"pairs": 32},
        "task: pairs = 32: 2 * pairs + 1 must be at most length = 64; use at most 31 pairs",
    ),
    (RecallSpec, {"query": "first"}, "task.query = 'first': must be one of 'last' or 'anywhere'"),
    (
        CopyingSpec,
        {"eval_lengths": []},
        "task.eval_lengths = []: must have at least 1 entries; for example eval_lengths = [20]",
    ),
    (
        CopyingSpec,
        {"eval_lengths": [0]},
        "task: eval_lengths has 0: every length must be between 1 and 32000",
    ),
    (
        CopyingSpec,
        {"eval_lengths": [9, 9]},
        "task: eval_lengths = [9, 9]: every length must stand there once; drop the repeats",
    ),
    (
        CopyingSpec,
        {"context": 42},
        "task: context = 42: must hold one example of max_length = 20; use at least 43",
    ),
    (
        CopyingSpec,
        {"min_length": 21},
        "task: min_length = 21: must be at most max_length = 20; exchange them",
    ),
    (CopyingSpec, {"data": "fixed"}, "task.data = 'fixed': must be one of 'fresh'"),
    (CopyingSpec, {"alphabet": 1}, "task.alphabet = 1: must be at least 2"),
    (
        CopyingSpec,
        {"context": 65_536, "max_length": 16_384},
        "task: context = 65536: may begin 5042 examples of up to 16384 letters, more than 4000000 "
        "letters a row; raise min_length or lower context",
    ),
    (
        NgramLookupSpec,
        {"ngram": 5},
        "task: min_length = 5: must be at least 6 to hold a question and an answer",
    ),
    (
        NgramLookupSpec,
        {"kind": "prefix", "context": 43},
        "task: context = 43: must hold one example of max_length = 20; use at least 44",
    ),
]


@pytest.mark.parametrize(
    ("cls", "raw", "text"), REFUSALS, ids=[f"{cls.__name__}-{raw}" for cls, raw, _ in REFUSALS]
)
def test_refusals_name_value_rule_and_remedy(cls, raw, text):
    with pytest.raises(SpecError) as caught:
        cls.parse(raw, "task")
    message = str(caught.value)
    assert message.startswith(text)
    assert len(message.splitlines()) <= 3


@pytest.mark.parametrize(
    ("cls", "raw"),
    [
        (MqarSpec, {"pairs": 16}),
        (MqarSpec, {"vocabulary": 10}),
        (MqarSpec, {"length": 256, "pairs": 64}),
        (MqarSpec, {"vocabulary": 18, "pairs": 8, "vocabulary_split": "halves"}),
        (RecallSpec, {"pairs": 31, "length": 63}),
        (CopyingSpec, {"context": 43}),
        (NgramLookupSpec, {"ngram": 4}),
        (NgramLookupSpec, {"kind": "prefix", "context": 44}),
    ],
)
def test_the_edge_itself_is_allowed(cls, raw):
    cls.parse(raw)


def test_specifications_load_no_torch():
    code = (
        "import sys, recollect.tasks.options, recollect.tasks.options.placement; sys.exit('torch' "
        "in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
