"""Arguments of a wrong type: each of every call is refused by name, before anything is done."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recollect
from recollect import Results
from recollect.errors import SpecError

TABLE: dict[str, Any] = {
    "task": {"name": "mqar", "vocabulary": 32, "length": 16, "train_rows": 64, "test_rows": 32},
    "model": {"mixer": "attention", "width": 8, "depth": 1},
    "train": {"batch": 32, "steps": 2, "evaluations": 1, "lr": 1e-3},
}
CALLS: dict[str, Callable[..., Any]] = {
    "run": recollect.run,
    "load": Results.load,
    **{name: getattr(Results, name) for name in ("where", "windows", "best", "claims", "plot")},
    "report": Results.report,
    "Results": Results,
}
ARGUMENTS = [
    (call, name)
    for call, function in CALLS.items()
    for name in inspect.signature(function).parameters
    if name != "self"
]


def call_with(call: str, name: str, value: Any, out: Path) -> None:
    """Call with one argument as given and the others as they are usually."""
    function = CALLS[call]
    if name in ("more", "conditions"):
        first = (out,) if call == "load" else (Results.load(out),)
        function(*first, value)
        return
    usual: dict[str, dict[str, Any]] = {
        "run": {"sweep": TABLE, "out": out / "trained", "device": "cpu"},
        "load": {"folder": out},
        "Results": {"runs": Results.load(out).runs},
    }
    own = usual.get(call, {"self": Results.load(out)} if call in CALLS else {})
    function(**own | {name: value})


def test_every_method_with_arguments_is_tried():
    public = [name for name in vars(Results) if not name.startswith("_")]
    methods = [name for name in public if callable(getattr(Results, name))]
    assert {
        name for name in methods if len(inspect.signature(getattr(Results, name)).parameters) > 1
    } | {"load"} == set(CALLS) - {"run", "Results"}


@pytest.mark.parametrize(("call", "name"), ARGUMENTS)
@pytest.mark.parametrize("value", [object(), [3, {}], b"7", 1 + 2j])
def test_a_value_of_a_wrong_type_is_refused_by_name(out: Path, call: str, name: str, value: Any):
    before = sorted(out.rglob("*"))
    with pytest.raises(SpecError) as refused:
        call_with(call, name, value, out)
    message = str(refused.value)
    shown = "Results(" if name == "runs" else name
    assert message.startswith(shown), message
    assert len(message.splitlines()) <= 3
    assert all(len(line) <= 200 for line in message.splitlines())
    assert sorted(out.rglob("*")) == before


@pytest.mark.parametrize(
    ("call", "name", "value", "message"),
    [
        ("run", "workers", "2", "workers = '2': must be a whole number; for example workers = 2"),
        ("run", "workers", True, "workers = True: must be a whole number; for example workers = 2"),
        ("run", "workers", 1.5, "workers = 1.5: must be a whole number; for example workers = 2"),
        ("run", "budget", True, "budget = True: must be a number, or None; for example budget = 1"),
        ("run", "signals", 1, "signals = 1: must be True or False; for example signals = True"),
        ("run", "plugins", [3], "plugins[0] = 3: must be a path; for example plugins[0] = "),
        ("run", "out", None, 'out = None: must be a path; for example out = "out"'),
        ("run", "plugins", "", "plugins = '': must be a path, or a list of such; for example "),
        ("run", "out", "", "out = '': must be a path; for example out = "),
        ("windows", "tau", "0.9", "tau = '0.9': must be a number; for example tau = 0.9"),
        ("where", "conditions", 64, "conditions[0] = 64: must be a text; for example conditions"),
        ("plot", "size", "7x4", "size = '7x4': must be a width in inches, or (width, height), or"),
        ("plot", "compare", "out", "compare = 'out': must be Results, or None; for example comp"),
    ],
)
def test_the_message_says_what_would_do(out, call: str, name: str, value: Any, message: str):
    with pytest.raises(SpecError) as refused:
        call_with(call, name, value, out)
    assert str(refused.value).startswith(message)


def test_numbers_of_numpy_and_iterables_do(tmp_path: Path):
    overrides = (text for text in ("train.lr=1e-2", "seed=7"))
    found = recollect.run(
        TABLE, tmp_path, device="cpu", overrides=overrides, workers=np.int64(1), snapshots=None
    )
    assert [row.spec["seed"] for row in found.rows] == [7]
    assert list(found.windows(np.float32(0.5))["tau"]) == [0.5]
