"""Experiments by name: `paper:fig1` at the study's full scale, `paper:fig1:small` for a laptop; and
`paper:why`, which is not in the study.

Each is a plain specification in presets/. Where the study is silent, a comment at the line explains
the choice. To change more than `--set` can, copy the specification
(`recollect presets fig1 > mine.toml`).
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import SpecError
from recollect.spec.base import shorten
from recollect.spec.recipes.label import SCALES, Scale
from recollect.spec.sweep import Sweep, parse_sweep, read_sweep

DIAGRAMS = ("fig8", "fig9", "fig10")
NAMES = (
    *("fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig11", "fig12", "fig13"),
    *("table1", "table2", "table3", "table4"),
)
BEYOND = ("why",)  # experiments that are not in the study
EXPERIMENTS = (*NAMES, *BEYOND)
PREFIX = "paper:"
_FOLDER = Path(__file__).with_name("presets")


@dataclass(frozen=True)
class Preset:
    """One preset in a list: its subject, and by scale the recipe that it names and its runs."""

    name: str
    about: str
    recipes: dict[Scale, str]
    runs: dict[Scale, int]


def read_preset(
    name: str, scale: Scale = "full", overrides: Iterable[str] = (), recipe: str | None = None
) -> Sweep:
    """The sweep of a figure or table, with `a.b=1` overrides. `recipe` replaces the recipe that
    the preset names.
    """
    return parse_sweep(preset_text(name, scale), overrides, recipe, origin=f"{PREFIX}{name}")


def preset_text(name: str, scale: Scale = "full") -> str:
    """The specification of a preset as TOML text, with its comments."""
    if name in DIAGRAMS:
        raise SpecError(
            f"{PREFIX}{name} is a diagram, there is nothing to train; `recollect presets` lists "
            "what there is"
        )
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.6)
        remedy = f"did you mean {PREFIX}{near[0]}?" if near else "`recollect presets` lists them"
        raise SpecError(f"{shorten(PREFIX + name)} is no experiment of the study; {remedy}")
    if scale not in SCALES:
        raise SpecError(
            f"scale = {shorten(scale)}: must be full or small, as in {PREFIX}{name} and "
            f"{PREFIX}{name}:small"
        )
    return (_FOLDER / f"{name}{'.small' if scale == 'small' else ''}.toml").read_text(
        encoding="utf-8"
    )


def split_name(text: str) -> tuple[str, Scale]:
    """Split `fig1` or `fig1:small`, with or without `paper:` in front, into name and scale."""
    name, colon, scale = text.removeprefix(PREFIX).partition(":")
    if colon and scale != "small":
        raise SpecError(
            f"{shorten(text)}: the only other scale is small; write {PREFIX}{name} or "
            f"{PREFIX}{name}:small"
        )
    return name, "small" if colon else "full"


def open_sweep(spec: str, overrides: Iterable[str] = (), recipe: str | None = None) -> Sweep:
    """Read the SPEC of `recollect run SPEC`: one of the study's experiments, or a TOML file."""
    if not spec:
        raise SpecError(
            f"SPEC = '': must be the path of a TOML file, or {PREFIX}NAME, as {PREFIX}fig1"
        )
    if spec.startswith(PREFIX):
        return read_preset(*split_name(spec), overrides, recipe)
    if spec.partition(":")[0] in NAMES and not Path(spec).exists():
        raise SpecError(f"{spec}: no such file; the study's experiment is `{PREFIX}{spec}`")
    return read_sweep(Path(spec), overrides, recipe)


def list_presets() -> list[Preset]:
    """All presets, described by the first lines of their files.

    The number of runs is read there because counting them takes many seconds; a test counts them.
    """
    return [
        Preset(
            name,
            _about(name),
            {scale: _recipe(name, scale) for scale in SCALES},
            {scale: _runs(name, scale) for scale in SCALES},
        )
        for name in EXPERIMENTS
    ]


def _about(name: str) -> str:
    return preset_text(name).splitlines()[0].partition(": ")[2]


def _recipe(name: str, scale: Scale) -> str:
    lines = preset_text(name, scale).splitlines()
    (line,) = (line for line in lines if line.startswith("recipe = "))
    return line.split('"')[1]


def _runs(name: str, scale: Scale) -> int:
    return int(
        preset_text(name, scale)
        .splitlines()[1]
        .rpartition(" = ")[2]
        .removesuffix(" runs")
        .replace(",", "")
    )
