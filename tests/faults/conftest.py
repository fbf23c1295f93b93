"""Fault tests: the option that replays a failing sequence of kills, and the undisturbed runs that
all others must equal.
"""

import secrets
from collections.abc import Callable
from functools import cache

import pytest
import run_workers
from harness import child, preload

preload("run_workers", "warm")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kill-seed",
        type=int,
        help="replay the random kills of a failed run, which printed this number",
    )


@pytest.fixture
def kill_seed(request: pytest.FixtureRequest) -> int:
    # Without this folder on the command line pytest reads the option too late to know it; then the
    # default holds.
    given = request.config.getoption("--kill-seed", default=None)
    seed = secrets.randbelow(2**31) if given is None else given
    # Shown when the test fails.
    replay = f"pytest tests/faults -k {request.node.name} --kill-seed {seed}"
    print(f"replay with: {replay}")  # noqa: T201
    return seed


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], dict[str, str]]:
    """The outcome of a sweep that nothing disturbs, each computed once a session."""

    @cache
    def undisturbed(text: str, pack_size: int = 6) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("reference")
        with child(
            folder / "journal", run_workers.train_all, folder / "out", text, pack_size
        ) as running:
            assert running.end() == 0
        found = run_workers.outcome(folder / "out")
        assert {entry.split()[0] for entry in found.values()} == {"done"}
        return found

    return undisturbed
