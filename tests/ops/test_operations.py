"""The shape of recollect/ops: a folder is an operation, its `__init__.py` alone decides which form
runs, and a kernel has a plain form beside it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

import recollect

PACKAGE = Path(recollect.__file__).parent
OPERATIONS = sorted(path.parent for path in (PACKAGE / "ops").glob("*/__init__.py"))
DECISIONS = ("use_triton", "use_numba")


def test_only_an_operation_decides_which_form_runs():
    allowed = {PACKAGE / "ops/dispatch.py", *(folder / "__init__.py" for folder in OPERATIONS)}
    deciding = {
        path
        for path in PACKAGE.rglob("*.py")
        if any(name in path.read_text() for name in DECISIONS)
    }
    assert deciding <= allowed


@pytest.mark.parametrize("folder", OPERATIONS, ids=lambda folder: folder.name)
def test_a_kernel_has_a_plain_form(folder: Path):
    if list(folder.glob("*_kernel.py")):
        assert (folder / "plain.py").exists()


def test_kernels_are_imported_when_they_run():
    names = [f"recollect.ops.{folder.name}" for folder in OPERATIONS]
    code = f"import sys, {', '.join(names)}; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in ended.stdout.split() if name.startswith("recollect.ops.")}
    assert set(names) <= loaded
    assert not [name for name in loaded if "triton" in name or "numba" in name]
