"""The card's sweep for one mixer: a specification (cpu.toml, gpu.toml) with the mixer inserted."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.analysis.wording import value_text
from recollect.errors import SpecError
from recollect.spec.base import shorten, suggest
from recollect.spec.sweep import Sweep, parse_sweep

CARDS = ("cpu", "gpu")
# Settings of the model, not of the mixer; but a mixer is scored together with them.
SURROUNDINGS = ("block", "norm", "positions")


@dataclass(frozen=True)
class ScoredMixer:
    """A mixer as the user wrote it."""

    label: str
    overrides: tuple[str, ...]  # overrides that insert it into a specification


def read_mixer(text: str) -> ScoredMixer:
    """Parse `mamba`, `{name = "mamba", state = 32}`, or a list of these by layer."""
    if not text.strip() or not text.isprintable():
        raise SpecError(
            f"mixer {shorten(text)}: must be a name, or a table such as "
            '{name = "mamba", state = 32}'
        )
    if text.lstrip()[0] not in "{[":
        return ScoredMixer(text.strip(), (f"model.mixer={_inline(text.strip())}",))
    try:
        mixer = tomllib.loads(f"mixer = {text}")["mixer"]
    except (tomllib.TOMLDecodeError, RecursionError):
        raise SpecError(
            f'mixer {shorten(text)}: not TOML; write it as {{name = "mamba", state = 32}}'
        ) from None
    options, overrides = mixer, []
    if isinstance(mixer, dict):
        options = {key: entry for key, entry in mixer.items() if key not in SURROUNDINGS}
        overrides = [f"model.{key}={_inline(mixer[key])}" for key in SURROUNDINGS if key in mixer]
    return ScoredMixer(value_text(mixer), (f"model.mixer={_inline(options)}", *overrides))


def card_sweep(card: str, mixer: ScoredMixer, overrides: Sequence[str] = ()) -> Sweep:
    """The runs that score a mixer. `a.b=1` overrides change the recipe, so that no stored baseline
    fits.
    """
    if card not in CARDS:
        raise SpecError(f"--card {shorten(card)}: {suggest(card, (*CARDS, 'auto'))}")
    text = Path(__file__).with_name(f"{card}.toml").read_text(encoding="utf-8")
    return parse_sweep(text, [*mixer.overrides, *overrides], origin=f"score:{card}")


def join_sweeps(sweeps: Sequence[Sweep]) -> Sweep:
    """Join the cards of several mixers into one sweep, to train them together."""
    runs = {run.run_id: run for sweep in sweeps for run in sweep.runs}
    return Sweep(
        sweeps[0].name,
        "\n\n".join(dict.fromkeys(sweep.source for sweep in sweeps)),
        tuple(runs.values()),
        sweeps[0].recipe,
    )


def _inline(value: Any) -> str:
    """A value as TOML on one line. Strings, numbers and booleans are the same in JSON."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)} = {_inline(entry)}" for key, entry in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)
