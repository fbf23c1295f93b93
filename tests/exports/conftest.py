"""Exports read back by the programs they are for. These are heavy and in extras of their own:
`make exports` installs and runs them. No network: whoever reaches for one fails.
"""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from exported_runs import CURVES, DIVERGED, DONE, FAILED, TODO
from stores_made import begin

from recollect.store import Result, Store


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """Sockets of this machine are how some trackers talk to themselves; others are a failure."""
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: object) -> None:
        here = isinstance(address, tuple) and address[0] in ("127.0.0.1", "::1", "localhost")
        if self.family != socket.AF_UNIX and not here:
            pytest.exit(f"an export tried to reach {address}", returncode=1)
        connect(self, address)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        yield


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each kind: two have a result."""
    folder = tmp_path_factory.mktemp("results")
    with Store.create(folder) as store:
        claims = begin(store, [DONE, DIVERGED, FAILED, TODO])
        for run_id, curve in CURVES.items():
            store.record(claims, [(run_id, point) for point in curve[:-1]])
        store.finish(
            [
                Result(
                    row.run_id,
                    claims[row.run_id],
                    row.status,  # type: ignore[arg-type]
                    steps=100 if row is DONE else 70,
                    wall_s=4.0,
                    last=CURVES[row.run_id][-1] if row.run_id in CURVES else None,
                    diverged_step=61 if row is DIVERGED else None,
                    failure="oom: too wide" if row is FAILED else None,
                    parameters=1234,
                    device="cpu",
                    threads=1,
                    versions={"torch": "2.13"},
                )
                for row in (DONE, DIVERGED, FAILED)
            ]
        )
    return folder


@pytest.fixture(autouse=True, scope="session")
def trackio_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Trackio reads its place once for a process: this is the one of all tests here."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("trackio")
        patch.setenv("TRACKIO_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def mlflow_folder(
    results: Path, tmp_path_factory: pytest.TempPathFactory, command: Callable[..., Any]
) -> Iterator[Path]:
    """MLflow takes ten seconds to make a store: one for all tests here."""
    pytest.importorskip("mlflow")
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        said = command("export", results, "--to", "mlflow", "-o", folder)
        uri = f"sqlite:///{folder}/mlflow.db"
        assert (said.code, said.err) == (0, "")
        assert said.out == (
            f"2 runs added to {uri}, 0 there already, 2 without a result left out\n"
            f"show them with `mlflow ui --backend-store-uri {uri}`\n"
        )
        yield folder
