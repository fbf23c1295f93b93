"""A mixer from outside is known by all of its text: its file, the files it imports, what a cell of
a notebook uses. What has no text is refused.
"""

import hashlib
import linecache
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import recollect
from recollect.errors import SpecError
from recollect.mixers.plugins import identity
from recollect.mixers.plugins.identity import _plain_text, is_own
from recollect.mixers.plugins.load import load_plugin
from recollect.mixers.plugins.register import REGISTERED
from recollect.mixers.registry import MIXERS
from recollect.spec.run import RunSpec

pytestmark = pytest.mark.usefixtures("plugins")

FILE = """
import recollect
from torch import nn
{head}

@recollect.mixer("mine")
class Mine(nn.Linear):
    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x):
        {body}
        return super().forward(x)
"""


def loaded(folder: Path, head: str = "", body: str = "pass") -> str:
    """The digest of a plug-in in this folder."""
    (folder / "mine.py").write_text(FILE.format(head=head, body=body))
    load_plugin(folder / "mine.py")
    return str(MIXERS["mine"].model_validate({"name": "mine"}).source)


# ---- files ----


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("import helper", "pass"),
        ("from helper import K", "pass"),
        ("", "import helper"),
        ("import through", "pass"),
        ("import parts.inner", "pass"),
        ("from parts import inner", "pass"),
    ],
)
def test_a_change_in_a_helper_of_its_folder_is_another_mixer(tmp_path, head, body):
    (tmp_path / "through.py").write_text("from helper import K\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "inner.py").write_text("from helper import K\n")
    helper = tmp_path / "helper.py"
    helper.write_text("K = 1\n")
    first = loaded(tmp_path, head, body)
    assert loaded(tmp_path, head, body) == first
    helper.write_text("K = 2\n")
    assert loaded(tmp_path, head, body) != first
    helper.write_text("K = 1\n")
    assert loaded(tmp_path, head, body) == first


def test_a_relative_import_inside_of_a_package_is_followed(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("from . import inner\n")
    (tmp_path / "parts" / "inner.py").write_text("from .deep import K\n")
    (tmp_path / "parts" / "deep.py").write_text("K = 1\n")
    first = loaded(tmp_path, "import parts")
    (tmp_path / "parts" / "deep.py").write_text("K = 2\n")
    assert loaded(tmp_path, "import parts") != first


def test_what_it_does_not_import_does_not_matter_nor_does_the_place(tmp_path):
    (tmp_path / "helper.py").write_text("K = 1\n")
    first = loaded(tmp_path, "import helper, numpy")
    (tmp_path / "other.py").write_text("K = 1\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "helper.py").write_text("K = 1\n")
    assert loaded(tmp_path, "import helper, numpy") == first
    assert loaded(elsewhere, "import helper, numpy") == first


def test_two_plugins_have_helpers_of_one_name_each_its_own(tmp_path):
    digests = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(f"K = {name!r}\n")
        digests.append(loaded(tmp_path / name, "import helper", "self.seen = helper.K"))
        module = REGISTERED["mine"].module(4)
        module(torch.zeros(1, 1, 4))
        assert module.seen == name
    assert digests[0] != digests[1]


def test_a_plugin_without_helpers_has_the_digest_that_its_stored_rows_have(tmp_path):
    """sha256 of the file's text: rows stored before helpers counted keep their ids."""
    digest = loaded(tmp_path)
    text = (tmp_path / "mine.py").read_text()
    assert digest == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_a_helper_that_no_statement_imports_is_refused(tmp_path):
    (tmp_path / "helper.py").write_text("K = 1\n")
    with pytest.raises(SpecError) as caught:
        loaded(tmp_path, "import importlib; importlib.import_module('helper')")
    what, remedy = str(caught.value).splitlines()
    assert what == (
        f"--plugin {tmp_path / 'mine.py'}: it loads {tmp_path / 'helper.py'} by other means than "
        "an import statement, so a change there would go unnoticed"
    )
    assert remedy == "write `import helper` in mine.py"


@pytest.mark.parametrize("name", ["helper.py", "mine.py"])
def test_a_file_that_changed_after_it_was_loaded_is_refused(tmp_path, name):
    (tmp_path / "helper.py").write_text("K = 1\n")
    loaded(tmp_path, "import helper")
    source = REGISTERED["mine"].source
    source.require_unchanged()
    with (tmp_path / name).open("a") as file:
        file.write("K = 2\n")
    with pytest.raises(SpecError, match=f"{name}: changed since it was loaded; load it again"):
        source.require_unchanged()


@pytest.mark.parametrize(
    ("folder", "path", "own"),
    [
        ("project", "project/parts/helper.py", True),
        ("project", "elsewhere/helper.py", True),
        ("project", "project/.venv/torch/nn.py", False),  # packages installed below the plug-in
        ("project/.venv/plug", "project/.venv/plug/helper.py", True),  # an installed plug-in
        ("project/.venv/plug", "project/.venv/torch/nn.py", False),
    ],
)
def test_installed_packages_are_not_the_users_own(tmp_path, monkeypatch, folder, path, own):
    monkeypatch.setattr(identity, "_libraries", lambda: (tmp_path / "project" / ".venv",))
    assert is_own(tmp_path / path, tmp_path / folder) == own


def made_with(gain: float) -> str:
    @recollect.mixer("made")
    class Made(nn.Linear):
        def __init__(self, width: int):
            super().__init__(width, width)

        def forward(self, x):
            return gain * super().forward(x)

    return str(MIXERS["made"].model_validate({"name": "made"}).source)


def test_what_a_class_takes_from_the_function_around_it_counts():
    assert made_with(1.0) == made_with(1.0) != made_with(2.0)
    with pytest.raises(SpecError, match="Made uses gain, a Tensor from outside the class"):
        made_with(torch.ones(()))


def test_a_file_that_gives_a_name_twice_has_two_mixers(tmp_path: Path):
    """As a notebook that was saved as a script, where a cell was edited."""
    note = (
        "from recollect.mixers.plugins.register import REGISTERED\n"
        "FIRST = REGISTERED['mine'].source.digest()"
    )
    text = FILE.format(head="", body="pass") + FILE.format(head=note, body="x = 2 * x")
    (tmp_path / "mine.py").write_text(text)
    load_plugin(tmp_path / "mine.py")
    second = REGISTERED["mine"].source.digest()
    first = sys.modules["recollect_plugin_mine"].FIRST
    assert first == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert second != first
    load_plugin(tmp_path / "mine.py")
    assert REGISTERED["mine"].source.digest() == second


# ---- notebooks ----


class Notebook:
    """Cells as IPython runs them: in one module without a file, their text in linecache."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.module = ModuleType("notebook_made")
        monkeypatch.setitem(sys.modules, "notebook_made", self.module)
        self.cells = 0

    def run(self, text: str) -> None:
        self.cells += 1
        name = f"/tmp/ipykernel_1/{self.cells}.py"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), self.module.__dict__)


CELL = """
import torch
from torch import nn
import recollect

@recollect.mixer("mine")
class Mine(nn.Linear):
    def __init__(self, width):
        super().__init__(width, width)

    def forward(self, x):
        return {factor} * super().forward(x)
"""


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    return Notebook(monkeypatch)


def test_an_edited_cell_is_another_run_and_refuses_the_old_one(notebook, make_run):
    notebook.run(CELL.format(factor="2"))
    old = make_run({"model.mixer": "mine"})
    notebook.run(CELL.format(factor="2") + "print\n# the rest of a cell is not the mixer\n")
    assert make_run({"model.mixer": "mine"}).run_id == old.run_id
    notebook.run(CELL.format(factor="3"))
    assert make_run({"model.mixer": "mine"}).run_id != old.run_id
    with pytest.raises(SpecError, match="is another version of the plug-in than"):
        RunSpec.from_json(old.canonical_json())


# What stands above a definition, and what it derives from.
MARKED = """
def mark(k):
    def marked(function):
        function.k = k
        return function
    return marked

@mark({})
def factor(): return factor.k
"""
DERIVED = """
class Base:
    def f(self): return {}

class factor(Base):
    def g(self): return self.f()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("factor = 2", "factor = 3"),
        ("factor = {'a': [1, (2, 3)]}", "factor = {'a': [1, (2, 4)]}"),
        ("def factor(): return 1", "def factor(): return 2"),
        ("K = 1\ndef factor(): return K", "K = 2\ndef factor(): return K"),
        ("class factor:\n    def f(self): return 1", "class factor:\n    def f(self): return 2"),
        ("factor = {1, 2}", "factor = {1, 3}"),
        (MARKED.format(1), MARKED.format(2)),
        (DERIVED.format(1), DERIVED.format(2)),
    ],
)
def test_what_a_cell_uses_of_other_cells_counts_as_it_is_now(notebook, make_run, before, after):
    notebook.run("x = object()  # a global of the name of an argument is not used")
    notebook.run(CELL.format(factor="factor"))
    ids = []
    for text in (before, after, before):
        notebook.run(text)
        ids.append(make_run({"model.mixer": "mine"}).run_id)
    assert ids[0] == ids[2] != ids[1]


def test_what_a_class_of_a_cell_takes_from_the_function_around_it_counts(notebook, make_run):
    lines = CELL.format(factor="factor").replace("\n", "\n    ")
    notebook.run(f"def make(factor):{lines}\n")
    ids = []
    for factor in (2, 3, 2):
        notebook.run(f"make({factor})")
        ids.append(make_run({"model.mixer": "mine"}).run_id)
    assert ids[0] == ids[2] != ids[1]


def test_the_text_of_a_set_does_not_depend_on_the_order_of_its_hashes():
    letters = "hgfedcbaponmlkji"
    inner = str([repr(letter) for letter in sorted(letters)])
    assert _plain_text(set(letters), "here") == f"set({inner}, [])"
    assert _plain_text(frozenset(letters), "here") == f"frozenset({inner}, [])"


def test_a_package_comes_before_a_file_of_its_name(tmp_path):
    (tmp_path / "parts").mkdir()
    package, module = tmp_path / "parts" / "__init__.py", tmp_path / "parts.py"
    ids = []
    for one, other in ((1, 1), (1, 2), (2, 1)):
        package.write_text(f"K = {one}\n")
        module.write_text(f"K = {other}\n")
        ids.append(loaded(tmp_path, body="import parts"))
    assert ids[0] == ids[1] != ids[2]


def test_an_end_of_the_last_line_is_no_change(tmp_path):
    first = loaded(tmp_path)
    text = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(text.rstrip("\n"))
    load_plugin(tmp_path / "mine.py")
    assert str(MIXERS["mine"].model_validate({"name": "mine"}).source) == first


def test_what_a_cell_uses_and_cannot_be_digested_is_refused(notebook, make_run):
    notebook.run("table = __import__('torch').ones(3)")
    notebook.run(CELL.format(factor="table"))
    with pytest.raises(SpecError) as caught:
        make_run({"model.mixer": "mine"})
    what, remedy = str(caught.value).splitlines()
    assert what == (
        "mixer: Mine uses table, a Tensor from outside the class, which a digest cannot tell from "
        "another one"
    )
    assert remedy.startswith("make it in __init__, or put the mixer into a file")


def test_a_class_without_any_text_is_refused(make_run):
    names: dict = {}
    exec(CELL.format(factor="1"), names)
    with pytest.raises(SpecError) as caught:
        make_run({"model.mixer": "mine"})
    what, remedy = str(caught.value).splitlines()
    assert what == (
        "mixer Mine: its text cannot be found, so results could not be told from those of another "
        "version"
    )
    assert remedy.startswith("put it into a file and name that with --plugin FILE.py")
