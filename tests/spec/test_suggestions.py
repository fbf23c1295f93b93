"""What a message says about a name that is not known: a similar one, or those there are."""

from typing import Any

import pytest

from recollect.errors import SpecError
from recollect.mixers.registry import MIXERS
from recollect.spec.base import shorten, suggest
from recollect.spec.run import RunSpec
from recollect.tasks.options import TASKS

MINIMUM: dict[str, Any] = {
    "task": {"name": "mqar"},
    "model": {"mixer": "attention", "width": 64},
    "train": {"epochs": 1},
    "seed": 1,
}
MANY = [f"name{number:02}" for number in range(60)]


def test_a_long_value_is_cut():
    assert shorten("a" * 100, 10) == "'aaaaaa..."
    assert shorten("a" * 8, 10) == "'aaaaaaaa'"


def test_a_similar_name_is_suggested():
    assert suggest("matmba", ["attention", "mamba"]) == "did you mean mamba?"


def test_a_few_names_are_all_told():
    assert suggest("zzz", ["b", "a"]) == "known: a, b"
    assert suggest("x18", MANY[:15]) == f"known: {', '.join(MANY[:15])}"


def test_of_many_names_the_nearest_are_told_and_where_the_others_stand():
    told = suggest("x18", MANY, "recollect names", " (or yours)")
    assert told.startswith("known: name18, name")
    assert told.endswith(" and 56 more; `recollect names` lists all (or yours)")
    assert suggest("x18", MANY).endswith(" and 56 more")


def test_where_a_command_lists_the_names_fewer_are_told():
    assert suggest("x18", MANY[:15], "recollect names").endswith("`recollect names` lists all")


def test_a_hostile_name_takes_no_time():
    assert suggest("x" * 10**7, MANY).startswith("known: ")


@pytest.mark.parametrize(
    ("part", "most"),
    [
        ({"model": {"mixer": "zzz"}}, 220),
        *(({"task": {"name": name, "zzz": 1}}, 220) for name in TASKS),
        *(({"model": {"mixer": {"name": name, "zzz": 1}}}, 220) for name in MIXERS),
        # No command lists the keys of these tables.
        ({"model": {"zzz": 1}}, 330),
        ({"train": {"zzz": 1}}, 330),
    ],
)
def test_no_refusal_lists_names_over_many_lines(part, most):
    with pytest.raises(SpecError) as refused:
        RunSpec.parse(
            {
                key: own | part.get(key, {}) if isinstance(own, dict) else own
                for key, own in MINIMUM.items()
            }
        )
    assert len(str(refused.value)) <= most
