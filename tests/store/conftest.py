"""A store in which a few runs are planned."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from named_runs import RUNS, planned

from recollect.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "out") as store:
        store.plan(planned(*RUNS), "sweep", "text")
        yield store
