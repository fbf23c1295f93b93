"""The commands of docs/exports.md, run as they stand there."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from rows_made import make_row
from stores_made import make_store

PAGE = (Path(__file__).parents[2] / "docs" / "exports.md").read_text()
COMMANDS = list(dict.fromkeys(re.findall(r"^(?:\|.*\| `)?recollect (export [^`\n]+)", PAGE, re.M)))
# The module that a command needs besides this package, by a word of it.
NEEDED = {"parquet": "pyarrow"} | {
    name: name for name in ("tensorboard", "wandb", "trackio", "mlflow")
}


def test_the_page_has_a_command_for_each_program():
    assert len(COMMANDS) == 8
    assert all(any(word in command for command in COMMANDS) for word in NEEDED)


@pytest.mark.parametrize("text", COMMANDS)
def test_a_documented_command_works(text, command, tmp_path, monkeypatch, request):
    words = shlex.split(text)
    for word in NEEDED.keys() & set(words):
        pytest.importorskip(NEEDED[word])
    if "mlflow" in words:
        store = request.getfixturevalue("mlflow_folder")
        shutil.copy(store / "mlflow.db", tmp_path)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)
    make_store(tmp_path / "out", [make_row(seed=11), make_row(seed=12)])
    said = command(*words)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(("2 runs added to", "2 runs written to"))
