"""Write examples/own_mixer.ipynb from examples/own_mixer.py, which has the same cells.

A cell begins with `# %%`, text with `# %% [markdown]`, as editors and Jupytext read it. Outputs are
not kept: the notebook is executed by its tests.
"""

import json
import re
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parent.parent / "examples"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebook(script: str) -> str:
    """The cells of a script as a notebook, format 4.5."""
    found = re.split(r"^# %%(.*)\n", script, flags=re.MULTILINE)[1:]
    cells = [
        _cell(number, kind.strip() == "[markdown]", text.strip("\n"))
        for number, (kind, text) in enumerate(zip(found[::2], found[1::2], strict=True))
    ]
    whole = {
        "cells": cells,
        "metadata": {"kernelspec": KERNEL, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, is_text: bool, text: str) -> dict[str, Any]:
    if is_text:
        text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        return {
            "cell_type": "markdown",
            "id": f"cell-{number}",
            "metadata": {},
            "source": text.splitlines(keepends=True),
        }
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": f"cell-{number}",
        "metadata": {},
        "outputs": [],
        "source": text.splitlines(keepends=True),
    }


if __name__ == "__main__":
    (EXAMPLES / "own_mixer.ipynb").write_text(notebook((EXAMPLES / "own_mixer.py").read_text()))
