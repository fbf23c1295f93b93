"""Fault tests: the option that replays a failing sequence of kills."""

import secrets

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kill-seed", type=int, help="replay the random kills of a failed run, which printed this number")


@pytest.fixture
def kill_seed(request: pytest.FixtureRequest) -> int:
    # Without this folder on the command line pytest reads the option too late to know it; then the default holds.
    given = request.config.getoption("--kill-seed", default=None)
    seed = secrets.randbelow(2**31) if given is None else given
    print(f"replay with: pytest tests/faults -k {request.node.name} --kill-seed {seed}")  # noqa: T201 (shown when the test fails)
    return seed
