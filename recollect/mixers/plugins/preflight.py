"""Trial of a mixer from outside before anything is planned: one forward and one backward pass at
the requested size, then a test whether it sees only its own past (causality.py). A failure ends the
command with one message that names the user's file and line, and the remedy.
"""

import contextlib
import sys
import traceback
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from recollect.errors import SpecError
from recollect.mixers.base import Mixer, Site
from recollect.mixers.build import build_mixer, mixer_class
from recollect.mixers.fla.options import FlaSpec
from recollect.mixers.options import MixerSpec
from recollect.mixers.plugins.causality import Leak, find_leak
from recollect.mixers.plugins.identity import own_modules
from recollect.mixers.plugins.load import refuse_unseen
from recollect.mixers.plugins.register import REGISTERED
from recollect.mixers.plugins.stack import WrongShapeError
from recollect.mixers.plugins.where import Place, last_own, place_in, place_of
from recollect.model.layers import initialise

MOST_ROWS = 32  # of the batch that is tried
_SHAPE = "the output must have the shape of the input: (batch, length, width)"

_REMEDY = {
    "future": "a mixer may see its own past alone; fix forward, or name it {name}@future to train "
    "one that looks ahead",
    "rows": "rows are separate sequences; normalise over the width, set batch_first=True, or name "
    "it {name}@rows to train one that mixes them",
    "members": "no operation may mix or sum over the population's axis, the first one",
    "calls": "keep nothing between calls, and draw with torch alone: a run must be repeatable",
}


def try_mixer(spec: MixerSpec, site: Site, rows: int, device: torch.device) -> None:
    """Refuse a mixer that does not work at this site; `site` has two members."""
    flight = _Flight(spec, site, device)
    # Without enough memory for this, the runs themselves fail and report it.
    with contextlib.suppress(MemoryError, torch.OutOfMemoryError):
        flight.train_once(min(rows, MOST_ROWS))
        flight.look_around()


class _Flight:
    def __init__(self, spec: MixerSpec, site: Site, device: torch.device):
        self.spec, self.site, self.device = spec, site, device
        # The class whose lines are shown; the user cannot change a layer of fla.
        self.module = None if isinstance(spec, FlaSpec) else mixer_class(spec)
        entry = REGISTERED.get(spec.own_name)
        files = entry.source.files if entry else ()
        if entry:
            entry.source.require_unchanged()
        self.plugin = files[0] if files else None
        self.folder = files[0].parent if files else Path.cwd()

    def train_once(self, rows: int) -> None:
        before = own_modules(self.folder)
        mixer = self._built()
        generator = torch.Generator().manual_seed(0)
        x_PBLD = torch.randn(
            self.site.population, rows, self.site.length, self.site.width, generator=generator
        )
        x_PBLD = x_PBLD.to(self.device).requires_grad_()
        y_PBLD = self._guarded("forward", lambda: mixer(x_PBLD))
        self._check_output(x_PBLD, y_PBLD, mixer)
        self._guarded("backward", lambda: y_PBLD.square().mean().backward())
        self._check_gradients(mixer)
        self._guarded("state_size", mixer.state_size)  # the runs ask for it when they end
        if self.plugin is not None:
            after = own_modules(self.folder)
            refuse_unseen({name: after[name] for name in after.keys() - before}, self.plugin)

    def look_around(self) -> None:
        leak = self._guarded("forward", lambda: self._leak(self._built()))
        if leak is not None:
            raise self._refusal(
                f"{leak.text}",
                _REMEDY[leak.kind].format(name=self.spec.own_name),
                self._place("def forward"),
            )

    def _leak(self, mixer: Mixer) -> Leak | None:
        is_rounded = isinstance(self.spec, FlaSpec) and self.spec.precision == "bf16"
        return find_leak(mixer, self.site.width, self.site.length, self.spec.looks_at, is_rounded)

    def _built(self) -> Mixer:
        def build() -> Mixer:
            mixer = build_mixer(self.spec, self.site)
            initialise(mixer, list(range(self.site.population)))
            return mixer.to(self.device)

        return self._guarded("__init__", build)

    # ---- what may be wrong ----

    def _check_output(self, x_PBLD: Tensor, y_PBLD: Any, mixer: Mixer) -> None:
        forward = self._place("def forward")
        if not isinstance(y_PBLD, Tensor) or y_PBLD.shape != x_PBLD.shape:
            got = tuple(y_PBLD.shape) if isinstance(y_PBLD, Tensor) else type(y_PBLD).__name__
            raise self._refusal(
                f"forward gives {got} for an input of {tuple(x_PBLD.shape)}",
                _SHAPE,
                forward,
            )
        if y_PBLD.dtype != x_PBLD.dtype:
            raise self._refusal(
                f"forward gives {y_PBLD.dtype} for an input of {x_PBLD.dtype}",
                "make constants with dtype=x.dtype, or end with .to(x.dtype)",
                forward,
            )
        if y_PBLD.isfinite().all():
            return
        self._check_weights(mixer)
        first = _FirstNaN(self.folder)
        with torch.no_grad(), first:
            mixer(x_PBLD.detach())
        raise self._refusal(
            "forward gives values that are not finite with its initial weights, for a normal input",
            "no learning rate can fix that; look for a division by 0, a logarithm or root of what "
            "may be negative",
            first.place or forward,
        )

    def _check_weights(self, mixer: Mixer) -> None:
        for own_name, value, place in self._parameters(mixer):
            if not value.isfinite().all():
                raise self._refusal(
                    f"the parameter {own_name} is not finite at the start",
                    "initialise it: torch.empty holds whatever the memory held before",
                    place,
                )

    def _parameters(self, mixer: Mixer) -> Iterator[tuple[str, Tensor, Place | None]]:
        """Yield parameters with the names that the module uses, and their lines."""
        for name, value in mixer.named_parameters():
            own_name = name.removeprefix("own/").replace("/", ".")
            yield own_name, value, self._place(f"self.{own_name.split('.')[0]}")

    def _check_gradients(self, mixer: Mixer) -> None:
        for own_name, value, place in self._parameters(mixer):
            if value.grad is not None and not value.grad.isfinite().all():
                raise self._refusal(
                    f"the gradient of {own_name} is not finite at the initial weights",
                    "no learning rate can fix that; look for a root or norm of what may be 0",
                    place,
                )
            if value.grad is None and value.requires_grad and self.module is not None:
                raise self._refusal(
                    f"the output does not depend on the parameter {own_name}",
                    "use it in forward or take it out, or set requires_grad=False for a constant",
                    place,
                )

    def _guarded(self, what: str, act: Any) -> Any:
        """Return what `act` returns; turn an error in the user's code into one refusal."""
        try:
            return act()
        except (SpecError, MemoryError, torch.OutOfMemoryError):
            raise
        except WrongShapeError as error:
            raise self._refusal(str(error), _SHAPE, self._place("def forward")) from error
        except Exception as error:
            text = (str(error).splitlines() or [""])[0]
            raise self._refusal(
                f"{what} fails at width {self.site.width}, length {self.site.length}: "
                f"{type(error).__name__}: {text}",
                "fix it there: the same would happen in every run",
                place_of(error, self.folder) or self._place(f"def {what}"),
            ) from error

    def _place(self, text: str) -> Place | None:
        return place_in(self.module, text) if self.module is not None else None

    def _refusal(self, what: str, remedy: str, place: Place | None) -> SpecError:
        where = f" ({place})" if place is not None else ""
        return SpecError(f"mixer {self.spec.name}{where}: {what}\n{remedy}")


class _FirstNaN(TorchDispatchMode):
    """Finds the user's line whose operation first gives NaN; infinity alone may be a mask."""

    def __init__(self, folder: Path):
        super().__init__()
        self.folder = folder
        self.place: Place | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        found = output if isinstance(output, tuple | list) else [output]
        if self.place is None and any(
            isinstance(value, Tensor) and value.is_floating_point() and bool(value.isnan().any())
            for value in found
        ):
            # Only frames inside of the trial: the caller's may be in files of the user's, too.
            inner = traceback.walk_stack(sys._getframe(1))
            frames = takewhile(lambda at: at[0].f_code.co_filename != __file__, inner)
            found_at = traceback.StackSummary.extract(frames, lookup_lines=False)
            self.place = last_own(found_at[::-1], self.folder)
        return output
