"""Write docs/mixers.md from the registry and from the deviations
that `make peers` measured: python docs/mixers.py.
"""

import json
from collections import defaultdict
from pathlib import Path

from recollect.cli.tables import layer_size, option_values
from recollect.mixers.registry import MIXERS
from recollect.spec.base import toml_value
from recollect.spec.model import ModelSpec
from recollect.spec.train import TrainSpec
from recollect.tasks.options import MqarSpec

HERE = Path(__file__).parent
LENGTH = 64
WIDTHS = (64, 128)
SIZES = " / ".join(map(str, WIDTHS))

HEAD = f"""# The mixers

Written by `make mixers`: parameters and states are counted, deviations measured. One layer's mixer
with default options, without the block around it. State: floats that a step-by-step decoder keeps
per sequence of length {LENGTH}; the mean, where layers differ. `recollect mixers NAME` shows the
options, the file `recollect/mixers/NAME/mixer.py` the equations, a glossary, the initialisation,
and where it deviates from the official code.

| mixer | family | paper | parameters, width {SIZES} | state, width {SIZES} | what it is |
|---|---|---|---|---|---|
"""

OPEN_HEAD = """
## What the study leaves open

Each question is an option with a default; what a run used is part of its identity and of its row.
Where a default depends on the mixer, `recollect mixers NAME` says it. Stated, and so not in the
table: a layer has an MLP, of every model, and attention and Based alone have positions (A.2, as in
the recipe `study`); attention's convolutions sit before the projections (section 7).

| question | option | values | default |
|---|---|---|---|
"""
OPEN = [  # the question, and where its option is
    ("how Mamba is initialised (Zoology overwrote it until January 2025)", "mamba.init"),
    ("the same for Mamba2", "mamba2.init"),
    ("which parameters weight decay spares", "train.exempt"),
    ("whether attention's convolutions look ahead", "attention.conv_padding"),
    ("how many taps they have", "attention.conv_kernel"),
    ("which positions attention and Based have", "model.positions"),
    (
        "what Based is at two layers: all linear attention (`based`), or "
        "convolution and linear attention (`based_hybrid`)",
        "model.mixer",
    ),
    ("how many layers RWKV's initialisation believes in", "rwkv4.ratio_layers"),
    ("RWKV's linear layers at the start", "rwkv4.init"),
    ("how lags enter Hyena's filter", "hyena.filter"),
    ("Hyena's linear layers at the start", "hyena.init"),
    ("heads of DeltaNet", "delta_net.heads"),
    ("whether DeltaNet rounds q, k, v", "delta_net.precision"),
    ("state of Mamba2", "mamba2.state"),
    ("inner width of S6 + MLP", "s6.expand"),
    ("its norm", "model.norm"),
    ("what fills the gaps between questions", "task.filler"),
    ("dropout (Zoology: 0.1 for all but Mamba)", "model.dropout"),
    ("the rate after the warmup", "train.decay"),
    ("how output projections start where a layer has an MLP", "model.rescale"),
    ("whether the halves of a layer follow each other (GPT-NeoX: no)", "model.residual"),
    ("whether the head is the embedding once more (GPT-NeoX: no)", "model.head"),
    ("whether seeds share the order of the training rows", "train.order"),
    ("what becomes of rows that fill no batch (Zoology keeps them)", "train.last_batch"),
    ("how often in a row counts as solved (Zoology: once)", "train.solved_evaluations"),
]

PEERS = """
## Against what other people wrote

The largest deviation over all outputs, and over the gradients of the input and of every copied
weight, relative to the largest value of the tensor compared, measured by `tests/peers/`. About
1e-15 is agreement of float64, 1e-7 of float32, in which some of the others compute whatever they
are given.

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
        lines.append(
            f"| `{name}` | {options.family} | {options.paper} | {parameters} | "
            f"{states} | {options.summary} |"
        )
    return "\n".join(lines) + "\n"


def open_questions() -> str:
    """The table of options, their values and defaults as the specifications have them."""
    owners = {"model": ModelSpec, "train": TrainSpec, "task": MqarSpec, **MIXERS}
    lines = []
    for question, path in OPEN:
        owner, option = path.split(".")
        field = owners[owner].model_fields[option]
        default = f"`{toml_value(field.default)}`" if not field.is_required() else _depends(option)
        where = path if owner in ("model", "train", "task") else f"model.mixer.{option} of {owner}"
        values = ", ".join(f"`{part}`" for part in option_values(field).split(", ") if part)
        lines.append(f"| {question} | {where} | {values or 'a mixer'} | {default} |")
    return "\n".join(lines) + "\n"


def _depends(option: str) -> str:
    return "must be named" if option == "mixer" else "the mixer's own"


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
    return HEAD + table() + OPEN_HEAD + open_questions() + PEERS + peers()


if __name__ == "__main__":
    (HERE / "mixers.md").write_text(page())
