"""Write examples/zoo.toml, a sweep over all mixers of the registry: python docs/zoo.py."""

from collections.abc import Iterator
from pathlib import Path

from recollect.mixers.registry import MIXERS

FILE = Path(__file__).parents[1] / "examples/zoo.toml"

HEAD = """\
# Every mixer and the study's ablations for a few steps: shows that all of them train here, not how
# well (about a minute on two cores). Written by
# `python docs/zoo.py`.
name = "zoo"

[task]
name = "mqar"
vocabulary = 128
length = 16
pairs = 2
data = "fresh"
test_rows = 256

[model]
width = 32
depth = 2

[train]
lr = 3e-3
steps = 200
batch = 32
evaluations = 4

[sweep]
seed = [42, 123]
model.mixer = [
"""
# The study's ablations, after the mixer they change.
ABLATIONS = {
    "attention": (
        '{ name = "attention", conv = "k" }',
        '{ name = "attention", conv = "v", conv_padding = "same" }',
    ),
    "mamba": ('{ name = "mamba", kernel = 0 }', '{ name = "mamba", gate = false }'),
}
STACK = '["base_conv", "attention"]'  # several kinds, by layer


def mixers() -> Iterator[str]:
    for name in MIXERS:
        yield f'"{name}"'
        yield from ABLATIONS.get(name, ())
    yield STACK


def sweep() -> str:
    return HEAD + "".join(f"    {mixer},\n" for mixer in mixers()) + "]\n"


if __name__ == "__main__":
    FILE.write_text(sweep())
