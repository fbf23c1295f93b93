"""A folder remembers where its plug-ins were; their code runs only if the user names it."""

import json
import linecache
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from recollect.errors import SpecError, Stopped
from recollect.mixers.plugins.load import load_plugin
from recollect.mixers.plugins.register import REGISTERED
from recollect.mixers.registry import MIXERS
from recollect.running import engine
from recollect.running.events import PackStarted
from recollect.spec.sweep import build_sweep
from recollect.store import Store

pytestmark = pytest.mark.usefixtures("plugins")

PLUGIN = """
import recollect
from torch import nn

@recollect.mixer("kept")
class Kept(nn.Linear):
    def __init__(self, width):
        super().__init__(width, width)
"""
TABLE = {
    "task": {"name": "mqar", "vocabulary": 32, "length": 16, "train_rows": 64, "test_rows": 32},
    "model": {"width": 8, "depth": 1, "mixer": "kept"},
    "train": {"batch": 32, "steps": 4, "evaluations": 2},
}


@pytest.fixture
def stopped(tmp_path: Path) -> tuple[Path, Path, str]:
    """A plug-in in a folder whose name a shell would split, a sweep of it that was stopped, and
    what the stop advised.
    """
    plugin = tmp_path / "my code" / "kept.py"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    load_plugin(plugin)
    begun: list[object] = []
    with pytest.raises(Stopped) as caught:
        engine.train(
            tmp_path / "out",
            [build_sweep(TABLE)],
            device="cpu",
            listen=lambda event: begun.append(event) if isinstance(event, PackStarted) else None,
            stop=lambda: 130 if begun else 0,
        )
    return plugin, tmp_path / "out", str(caught.value)


def forget(name: str = "kept") -> None:
    """As in another process."""
    del MIXERS[name], REGISTERED[name]


def test_the_advice_at_a_stop_works_as_printed(stopped, command):
    plugin, out, advice = stopped
    assert advice == f"stopped; continue with `recollect resume {out} --plugin '{plugin}'`"
    forget()
    words = shlex.split(advice.partition("`")[2].rstrip("`"))
    said = command(*words[1:], "--device", "cpu")
    assert (said.code, said.err) == (0, "")
    assert "1 planned = 1 done" in said.out


@pytest.mark.parametrize("call", [("resume",), ("inspect", "best:kept")], ids=["resume", "inspect"])
def test_without_the_plugin_its_place_is_named_and_nothing_is_loaded(stopped, command, call):
    plugin, out, _ = stopped
    if call[0] == "inspect":
        engine.train(out, device="cpu")
    forget()
    said = command(call[0], out, *call[1:], "--device", "cpu")
    assert (said.code, said.err) == (
        2,
        "recollect: mixer kept: comes from a plug-in, whose code runs only if you name it: add "
        f"--plugin '{plugin}'\n",
    )
    assert "kept" not in MIXERS
    plugin.unlink()
    said = command(call[0], out, *call[1:], "--device", "cpu")
    assert said.err.endswith("kept.py' (it is no longer there; name its new place)\n")


def test_what_only_reads_needs_no_plugin(stopped, command, tmp_path):
    _, out, _ = stopped
    forget()
    for call in (("status", out), ("export", out), ("report", out), ("failures", out)):
        assert command(*call).code == 0, call


def test_path_and_digest_are_stored(stopped):
    plugin, out, _ = stopped
    with Store.open(out, read_only=True) as store:
        assert json.loads(store.meta("plugins") or "") == {
            "kept": {"file": str(plugin), "source": REGISTERED["kept"].source.digest()}
        }


def test_another_version_of_the_file_is_refused(stopped, command):
    plugin, out, _ = stopped
    plugin.write_text(PLUGIN + "\n# another\n")
    said = command("resume", out, "--plugin", plugin, "--device", "cpu")
    assert said.code == 2
    assert "is another version of the plug-in than" in said.err


def test_a_file_that_was_loaded_without_being_named_is_loaded_by_processes_too(
    stopped, monkeypatch
):
    plugin, out, _ = stopped
    given = []

    class Processes:
        def __init__(self, folder, shares, plugins, stop, listen, homes, allow_drift, stages):
            given.append((len(shares), plugins, homes))

        def work(self, store):
            pass

    monkeypatch.setattr("recollect.running.processes.parent.WorkerProcesses", Processes)
    engine.train(out, device="cpu", workers=2)
    assert given == [(2, (plugin,), None)]


def test_a_mixer_typed_into_a_notebook_trains_in_this_process(tmp_path, monkeypatch):
    name = "/tmp/ipykernel_1/1.py"
    monkeypatch.setitem(sys.modules, "cell_made", ModuleType("cell_made"))
    linecache.cache[name] = (len(PLUGIN), None, PLUGIN.splitlines(keepends=True), name)
    exec(compile(PLUGIN, name, "exec"), sys.modules["cell_made"].__dict__)
    sweep = [build_sweep(TABLE)]
    with pytest.raises(SpecError) as caught:
        engine.train(tmp_path, sweep, device="cpu", workers=3)
    assert str(caught.value) == (
        "--workers 3: Kept was typed into a notebook and is in this process alone; use 1, or put "
        "it into a file of its own"
    )
    assert engine.train(tmp_path, sweep, device="cpu", workers=0).counts["done"] == 1
    with Store.open(tmp_path, read_only=True) as store:
        assert json.loads(store.meta("plugins") or "")["kept"]["file"] is None
