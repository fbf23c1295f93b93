"""Plugin files: what they register is a run of its own version,
and what is wrong with them is one line.
"""

from pathlib import Path

import pytest

from recollect.errors import SpecError
from recollect.mixers.plugins.load import load_plugin
from recollect.spec.run import RunSpec

pytestmark = pytest.mark.usefixtures("plugins")

PLUGIN = """
import recollect
from torch import nn

@recollect.mixer("filed")
class Filed(nn.Linear):
    def __init__(self, width, gain=1.0):
        super().__init__(width, width)
"""


def test_a_changed_file_is_another_run_and_refuses_the_old_one(make_run, tmp_path: Path):
    path = tmp_path / "my mixer.py"
    path.write_text(PLUGIN)
    load_plugin(path)
    old = make_run({"model.mixer": "filed"})
    load_plugin(path)
    assert make_run({"model.mixer": "filed"}).run_id == old.run_id
    path.write_text(PLUGIN + "# a helper beside the class may matter too\n")
    load_plugin(path)
    new = make_run({"model.mixer": "filed"})
    assert new.run_id != old.run_id
    with pytest.raises(SpecError) as caught:
        RunSpec.from_json(old.canonical_json())
    sources = old.model.mixer.source, new.model.mixer.source
    assert str(caught.value) == (
        f"model.mixer.source: {sources[0]} is another version of the plug-in than {sources[1]} "
        "here; bring that file back, or sweep anew"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (", "--plugin {path}: SyntaxError: '(' was never closed (bad.py, line 1)"),
        ("\n1 / 0\n", "--plugin {path}, line 2: ZeroDivisionError: division by zero"),
        ("def f():\n    raise KeyError('a')\nf()\n", "--plugin {path}, line 2: KeyError: 'a'"),
        ("raise ValueError('one\\ntwo')", "--plugin {path}, line 1: ValueError: one"),
        ("raise RuntimeError", "--plugin {path}, line 1: RuntimeError: "),
        ("import sys\nsys.exit(0)\n", "--plugin {path}, line 2: SystemExit: 0"),
        (
            "import nowhere_to_be_found",
            "--plugin {path}, line 1: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        ),
        (
            PLUGIN.replace('"filed"', '"mamba"'),
            "--plugin {path}: mixer 'mamba': the name of a built-in mixer; choose another one",
        ),
        (
            PLUGIN.replace('("filed")', ""),
            "--plugin {path}: @recollect.mixer without a name, above Filed; for example "
            '@recollect.mixer("my_mixer")',
        ),
        (
            'import recollect\n@recollect.mixer("filed")\ndef filed(x): return x\n',
            "--plugin {path}: mixer 'filed': filed is no class of modules; for example class "
            "MyMixer(nn.Module)",
        ),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_one_line(tmp_path: Path, text, message):
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_plugin(path)
    assert str(caught.value) == message.format(path=path)


def test_a_plugin_that_is_no_python_file(tmp_path: Path):
    with pytest.raises(
        SpecError,
        match=r"none\.py: no such file; give the path of a Python file that registers a mixer$",
    ):
        load_plugin(tmp_path / "none.py")
    with pytest.raises(SpecError, match="no such file"):
        load_plugin(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(
        SpecError, match=r"notes\.txt: not a Python file; its name must end in \.py$"
    ):
        load_plugin(tmp_path / "notes.txt")
