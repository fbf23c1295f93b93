"""The examples in the docstrings of the Python interface give what they show."""

import doctest
from pathlib import Path

import pytest

from recollect.api import results, training
from recollect.mixers.plugins import register

EXAMPLES = [
    example
    for module in (results, training, register)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module)
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_shows_what_it_gives(example: doctest.DocTest, out: Path, plugins, capsys):
    runner = doctest.DocTestRunner()
    runner.run(example)
    assert runner.failures == 0, capsys.readouterr().out


def test_every_public_method_has_an_example():
    named = {example.name.rpartition(".")[2] for example in EXAMPLES}
    methods = {name for name in vars(results.Results) if not name.startswith("_")}
    fields = {"runs", "folders", "together", "rows", "problems"}
    assert methods - fields | {"Results"} <= named
