"""Write docs/mixers.md from the registry and from the deviations that `make peers` measured: python docs/mixers.py."""

import json
from collections import defaultdict
from pathlib import Path

from recollect.catalogue import layer_size
from recollect.spec import MIXERS

HERE = Path(__file__).parent
LENGTH = 64
WIDTHS = (64, 128)

HEAD = f"""# The mixers

Written by `make mixers`: parameters and states are counted, deviations measured. One layer's mixer with default options,
without the block around it. State: floats that a step-by-step decoder keeps per sequence of length {LENGTH}; the mean, where
layers differ. `recollect mixers NAME` shows the options, the file `recollect/mixers/NAME.py` the equations, a glossary, the
initialisation, and where it deviates from the official code.

| mixer | family | paper | parameters, width {WIDTHS[0]} / {WIDTHS[1]} | state, width {WIDTHS[0]} / {WIDTHS[1]} | what it is |
|---|---|---|---|---|---|
"""

PEERS = """
## Against what other people wrote

The largest deviation over all outputs, and over the gradients of the input and of every copied weight, relative to the largest
value of the tensor compared, measured by `tests/peers/`. About 1e-15 is agreement of float64, 1e-7 of float32, in which some of
the others compute whatever they are given.

| mixer | compared with | outputs | gradients |
|---|---|---|---|
"""


def table() -> str:
    lines = []
    for name, options in MIXERS.items():
        spec = options.model_validate({"name": name})
        sizes = [layer_size(spec, width, LENGTH) for width in WIDTHS]
        parameters = " / ".join(f"{size[0]:,}" for size in sizes)
        states = " / ".join(f"{size[1]:,}" for size in sizes)
        lines.append(f"| `{name}` | {options.family} | {options.paper} | {parameters} | {states} | {options.summary} |")
    return "\n".join(lines) + "\n"


def peers() -> str:
    by_mixer = defaultdict(list)
    for row in json.loads((HERE / "deviations.json").read_text()):
        by_mixer[row["mixer"]].append(row)
    order = [*MIXERS, *sorted(set(by_mixer) - set(MIXERS))]
    lines = [
        f"| `{name}` | {row['against']} | {_number(row, 'outputs')} | {_number(row, 'gradients')} |"
        for name in order
        for row in by_mixer.get(name, [])
    ]
    return "\n".join(lines) + "\n"


def _number(row: dict, kind: str) -> str:
    if kind not in row:
        return "-"
    return f"{row[kind]:.0e}" if row[kind] else "0"


def page() -> str:
    return HEAD + table() + PEERS + peers()


if __name__ == "__main__":
    (HERE / "mixers.md").write_text(page())
