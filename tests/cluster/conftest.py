"""The sweep, its undisturbed rows and Slurm, for all tests here; and what they found, as a table:
`--figures PAGE` puts it there.
"""

from collections.abc import Generator
from pathlib import Path

import pytest
from cluster_runs import site, submitted, sweep, undisturbed
from figures import Figures, put_into

__all__ = ["site", "submitted", "sweep", "undisturbed"]
_KEY = pytest.StashKey[Figures]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--figures", metavar="PAGE", help="put a table of what was found there")
    parser.addoption(
        "--if-possible", action="store_true", help="a Slurm that does not start is left out"
    )


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """Of one scenario; they count if it passes."""
    found = Figures.begin(request.node.name)
    request.node.stash[_KEY] = found
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    found = item.stash.get(_KEY, None)
    page = item.config.getoption("--figures", default=None)
    if found and page and report.when == "call" and report.passed:
        found.end()
        put_into(Path(page), found)
    return report
