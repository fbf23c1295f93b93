"""A plug-in cannot fool its author: one of each kind of mistake, as a file that is named on the
command line, is refused once, with its file, its line and the remedy, before anything is planned.
"""

from pathlib import Path

import pytest
import torch

from recollect.errors import SpecError
from recollect.mixers.base import Site
from recollect.mixers.plugins.load import load_plugin
from recollect.mixers.plugins.preflight import try_mixer
from recollect.mixers.registry import MIXERS
from recollect.model.layers import Noise

pytestmark = pytest.mark.usefixtures("plugins")

CPU = torch.device("cpu")
WIDTH, LENGTH = 6, 11
FILE = """
import random

import torch
from torch import nn

import recollect


@recollect.mixer("mine")
class Mine(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.a = nn.Linear(width, width)
        {init}

    def forward(self, x):
        y = self.a(x)
        {body}
"""
INIT_LINE, FORWARD_LINE, BODY_LINE = 15, 17, 19


@pytest.fixture
def write(tmp_path: Path):
    def written(body: str, init: str = "pass") -> Path:
        path = tmp_path / "mine.py"
        path.write_text(FILE.format(body=body.replace("\n", "\n        "), init=init))
        return path

    return written


def refused(path: Path, name: str = "mine", **site) -> list[str]:
    """The lines of the refusal."""
    load_plugin(path)
    with pytest.raises(SpecError) as caught:
        fly(name, **site)
    return str(caught.value).splitlines()


def fly(name: str, width: int = WIDTH, length: int = LENGTH) -> None:
    own_name = name.partition("@")[0]
    spec = MIXERS[own_name].model_validate({"name": name})
    try_mixer(spec, Site(2, width, length, 1, "none", noise=Noise(2)), 4, CPU)


# ---- what it may not see ----

FUTURE = "a mixer may see its own past alone; fix forward, or name it mine@future to train one "
PEEKS = [
    ("return y.roll(-1, 1)", "pass"),
    (
        "return y + self.c(x.transpose(1, 2)).transpose(1, 2)",
        "self.c = nn.Conv1d(width, width, 3, padding=1)",
    ),
    ("return y + x.max(1, keepdim=True).values", "pass"),
    ("return y + x.mean(1, keepdim=True)", "pass"),
    ("return (y - y.mean((1, 2), keepdim=True))", "pass"),
    ("return y + x.flip(1).cumsum(1).flip(1)", "pass"),
    # hidden at the start: what it reads ahead is multiplied by zero
    ("return y + self.gain * x.mean(1, keepdim=True)", "self.gain = nn.Parameter(torch.zeros(()))"),
    # only while training, and only while evaluating
    ("return y + (x.roll(-1, 1) if self.training else 0)", "pass"),
    ("return y if self.training else y + x.roll(-1, 1)", "pass"),
    # only in shorter sequences than those of the task, as its test splits may have
    ("return y if x.shape[1] == 11 else y + x.roll(-1, 1)", "pass"),
    # no gradient shows it
    ("return y + (x.sum((1, 2), keepdim=True) > 0)", "pass"),
    # random, and looks ahead all the same
    ("return nn.functional.dropout(y, 0.3, self.training) + x.roll(-1, 1)", "pass"),
    # in blocks, of which only the inside is seen
    (
        "n = y.shape[1]\npadded = nn.functional.pad(y, (0, 0, 0, -n % 4)).unflatten(1, (-1, 4))\n"
        "return padded.mean(2, keepdim=True).expand_as(padded).flatten(1, 2)[:, :n]",
        "pass",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "init"), PEEKS)
def test_a_mixer_that_looks_ahead_is_refused_with_both_positions(write, body, init):
    path = write(body, init)
    what, remedy = refused(path)
    assert what.startswith(f"mixer mine ({path}, line {FORWARD_LINE}): the output at position ")
    seen, at = (int(text.split()[0]) for text in what.split("position ")[1:])
    assert seen < at < LENGTH
    assert remedy == f"{FUTURE}that looks ahead"
    fly("mine@future")


@pytest.mark.parametrize("length", [2, 3, 100])
def test_neighbours_are_named(write, length):
    what, _ = refused(write("return y.roll(-1, 1)"), length=length)
    seen = "the output at position 0 depends on the input at position 1"
    assert what.endswith(f"): {seen} (in training, length {length})")


def test_one_pair_of_positions_in_a_long_sequence_is_found(write):
    """Not at the border of any round block: position 70 sees position 77 of 100."""
    path = write("y = y.clone()\nif x.shape[1] > 77:\n    y[:, 70] += x[:, 77]\nreturn y")
    what, _ = refused(path, length=100)
    assert "the output at position 70 depends on the input at position 77" in what


ROWS = [
    ("return self.n(y.transpose(1, 2)).transpose(1, 2)", "self.n = nn.BatchNorm1d(width)"),
    ("return y - y.mean(0, keepdim=True)", "pass"),
    ("return y * x.softmax(0)", "pass"),
    ("return y.roll(1, 0)", "pass"),
]


@pytest.mark.parametrize(("body", "init"), ROWS)
def test_a_mixer_that_sees_other_rows_is_refused(write, body, init):
    path = write(body, init)
    what, remedy = refused(path)
    assert what == (
        f"mixer mine ({path}, line {FORWARD_LINE}): the output of row 0 at position 0 depends on "
        f"the inputs of rows 1, 2 (in training, length {LENGTH})"
    )
    assert remedy == (
        "rows are separate sequences; normalise over the width, set batch_first=True, or name it "
        "mine@rows to train one that mixes them"
    )
    if "BatchNorm" not in init:  # its sums run over positions, too
        fly("mine@rows")
    fly("mine@everything")


@pytest.mark.parametrize(
    ("body", "init"),
    [
        ("return self.g(y)[0]", "self.g = nn.GRU(width, width)"),
        ("return y.cumsum(0)", "pass"),
    ],
)
def test_a_mixer_that_takes_rows_for_time_is_refused(write, body, init):
    what, remedy = refused(write(body, init))
    assert "the output of row 2 at position 0 depends on the inputs of rows 0, 1" in what
    assert "batch_first=True" in remedy
    fly("mine@rows")


def test_what_is_allowed_is_all_that_is_allowed(write):
    path = write("return y - y.mean(0, keepdim=True) + x.roll(-1, 1)")
    assert "depends on the input at position" in refused(path, "mine@rows")[0]
    assert "rows 1, 2" in refused(path, "mine@future")[0]
    fly("mine@everything")


REPEATABLE = "keep nothing between calls, and draw with torch alone: a run must be repeatable"


@pytest.mark.parametrize(
    ("body", "init"),
    [
        ("self.h = self.h + float(y.detach().mean())\nreturn y + self.h", "self.h = 0.0"),
        ("return y * random.random()", "pass"),
        ("return y * torch.empty(1).normal_(generator=self.g)", "self.g = torch.Generator()"),
    ],
)
def test_a_mixer_that_is_not_repeatable_is_refused(write, body, init):
    path = write(body, init)
    what, remedy = refused(path)
    assert "the same input gives another output at the second call" in what
    assert f"({path}, line {FORWARD_LINE})" in what
    assert remedy == REPEATABLE


SOUND = [
    ("return y.cumsum(1)", "pass"),
    ("return nn.functional.dropout(y.cumsum(1), 0.3, self.training)", "pass"),
    ("return self.g(y)[0]", "self.g = nn.GRU(width, width, batch_first=True)"),
    (
        "return self.c(y.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)",
        "self.c = nn.Conv1d(width, width, 3, padding=2)",
    ),
    (  # a long convolution by a transform over the whole length
        "n = 2 * x.shape[1]\nk = torch.fft.rfft(self.k[: x.shape[1]], n, dim=0)\n"
        "return y + torch.fft.irfft(torch.fft.rfft(x, n, dim=1) * k, n, dim=1)[:, : x.shape[1]]",
        "self.k = nn.Parameter(torch.randn(length, width))",
    ),
    ("return (self.mask @ y)", "self.register_buffer('mask', torch.ones(length, length).tril())"),
    (
        "return (self.mask @ y)",
        "self.mask = nn.Parameter(torch.ones(length, length).tril(), requires_grad=False)",
    ),
    ("return (self.mix.tril() @ y)", "self.mix = nn.Parameter(torch.ones(length, length))"),
    ("return y @ torch.zeros(x.shape[-1], x.shape[-1])", "pass"),  # float32 alone
    ("self.calls += 1\nreturn y + self.calls", "self.register_buffer('calls', torch.zeros(()))"),
]


@pytest.mark.parametrize(("body", "init"), SOUND)
@pytest.mark.parametrize("length", [1, LENGTH])
def test_a_causal_mixer_passes(write, body, init, length):
    load_plugin(write(body, init))
    fly("mine", length=length)


# ---- what fails ----

NO_RATE = "no learning rate can fix that; look for "


@pytest.mark.parametrize(
    ("body", "init", "line", "what", "remedy"),
    [
        (
            "return y[:, 1:]",
            "pass",
            FORWARD_LINE,
            f"forward gives (4, 10, {WIDTH}) for an input of (4, 11, {WIDTH})",
            "the output must have the shape of the input: (batch, length, width)",
        ),
        (
            "return y, None",
            "pass",
            FORWARD_LINE,
            f"forward gives tuple for an input of (4, 11, {WIDTH})",
            "the output must have the shape of the input: (batch, length, width)",
        ),
        (
            "return y.double()",
            "pass",
            FORWARD_LINE,
            "forward gives torch.float64 for an input of torch.float32",
            "make constants with dtype=x.dtype, or end with .to(x.dtype)",
        ),
        (
            "raise ValueError('a bad day\\nand more')",
            "pass",
            BODY_LINE,
            f"forward fails at width {WIDTH}, length {LENGTH}: ValueError: a bad day",
            "fix it there: the same would happen in every run",
        ),
        (
            "return y",
            "self.heads = 64 // (width - 6)",
            INIT_LINE,
            f"__init__ fails at width {WIDTH}, length {LENGTH}: ZeroDivisionError: integer "
            "division or modulo by zero",
            "fix it there: the same would happen in every run",
        ),
        (
            "return y",
            "self.b = nn.Linear(width, width)",
            INIT_LINE,
            "the output does not depend on the parameter b.weight",
            "use it in forward or take it out, or set requires_grad=False for a constant",
        ),
        (
            "return y.detach() + x",
            "pass",
            INIT_LINE - 1,
            "the output does not depend on the parameter a.weight",
            "use it in forward or take it out, or set requires_grad=False for a constant",
        ),
        (
            "z = y.log()\nreturn z + y",
            "pass",
            BODY_LINE,
            "forward gives values that are not finite with its initial weights, for a normal input",
            f"{NO_RATE}a division by 0, a logarithm or root of what may be negative",
        ),
        (
            "return y * self.b",
            "self.b = nn.Parameter(torch.full((width,), float('nan')))",
            INIT_LINE,
            "the parameter b is not finite at the start",
            "initialise it: torch.empty holds whatever the memory held before",
        ),
        (
            "return y + (y - y.detach()).norm(dim=-1, keepdim=True).sqrt()",
            "pass",
            INIT_LINE - 1,
            "the gradient of a.weight is not finite at the initial weights",
            f"{NO_RATE}a root or norm of what may be 0",
        ),
        (  # infinite, but a number
            "return y + x * self.b.sqrt()",
            "self.b = nn.Parameter(torch.zeros(()))",
            INIT_LINE,
            "the gradient of b is not finite at the initial weights",
            f"{NO_RATE}a root or norm of what may be 0",
        ),
    ],
)  # fmt: skip
def test_a_mixer_that_fails_is_refused_once_with_its_line(write, body, init, line, what, remedy):
    path = write(body, init)
    assert refused(path) == [f"mixer mine ({path}, line {line}): {what}", remedy]


def test_a_state_size_that_fails_is_refused_before_anything_is_trained(write):
    path = write("return y")
    path.write_text(f"{path.read_text()}\n    def state_size(self):\n        return 1\n")
    what, remedy = refused(path)
    line = path.read_text().splitlines().index("    def state_size(self):") + 1
    assert what.startswith(f"mixer mine ({path}, line {line}): state_size fails at width {WIDTH}")
    assert remedy == "fix it there: the same would happen in every run"


def test_a_constant_need_not_be_used(write):
    load_plugin(write("return y", "self.c = nn.Parameter(torch.zeros(3), requires_grad=False)"))
    fly("mine")


def test_an_error_inside_of_a_helper_names_the_helpers_line(write, tmp_path):
    (tmp_path / "beside.py").write_text("def act(y):\n    return y / ''\n")
    what, _ = refused(write("import beside\nreturn beside.act(y)"))
    assert what.startswith(f"mixer mine ({tmp_path / 'beside.py'}, line 2): forward fails at width")


# ---- the name says what it sees, everywhere ----


def test_what_a_mixer_looks_at_is_part_of_its_name_and_its_identity(make_run, write):
    load_plugin(write("return y.roll(-1, 1)"))
    plain, peeking = (make_run({"model.mixer": name}) for name in ("mine", "mine@future"))
    assert plain.run_id != peeking.run_id
    assert peeking.model.mixer.name == "mine@future"
    assert make_run({"model.mixer": ["attention", "mine@future"]}).model.mixer.name == (
        "attention+mine@future"
    )
    for name in ("mine@past", "attention@future"):
        with pytest.raises(SpecError, match="only a mixer from outside has a name with @, and af"):
            make_run({"model.mixer": name})


def test_a_class_without_forward_is_named_in_its_own_file(tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_text(FILE.format(body="return y", init="pass").replace("forward", "advance"))
    what, _ = refused(path)
    assert what.startswith(f"mixer mine ({path}, line 11): forward fails at width 6, length 11: ")
    assert what.endswith('Module [Mine] is missing the required "forward" function')
