"""A virtual environment over the one that runs this: it sees what is installed here, and what is
installed into it comes first. `python tests/overlay.py FOLDER` makes one.

The package under test is not taken over where it is installed as a link to this checkout.
"""

import sys
import venv
from pathlib import Path


def make_overlay(folder: Path) -> Path:
    """Its Python."""
    venv.create(folder, clear=True, with_pip=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Paths alone: the .pth files in them, among them a link to the checkout, are not read.
    below = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "below.pth").write_text("\n".join(below) + "\n")
    return folder.resolve() / "bin" / "python"


if __name__ == "__main__":
    make_overlay(Path(sys.argv[1]))
