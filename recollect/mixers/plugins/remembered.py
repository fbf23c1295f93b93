"""The plug-ins that a folder's runs came from: file and digest of each, used for advice.

Nothing is ever loaded from this record: a file runs only when the user names it.
"""

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from recollect.errors import SpecError, command_text
from recollect.mixers.options import MixerSpec
from recollect.mixers.plugins.identity import shown
from recollect.mixers.plugins.register import REGISTERED
from recollect.mixers.registry import MIXERS
from recollect.store import Store

_KEY = "plugins"


class _Origin(TypedDict):
    file: str | None  # None for a class typed into a notebook
    source: str  # the digest


def remember_plugins(store: Store, kinds: Iterable[MixerSpec]) -> None:
    """Store where the code of these mixers is."""
    known = _origins(store)
    found = dict(known)
    for kind in kinds:
        entry = REGISTERED.get(kind.own_name)
        if entry is not None:
            files = entry.source.files
            found[kind.own_name] = {
                "file": str(files[0]) if files else None,
                "source": entry.source.digest(),
            }
    if found != known:
        store.set_meta(_KEY, json.dumps(found, sort_keys=True))


def has_plugins(store: Store) -> bool:
    return bool(_origins(store))


def require_plugins(store: Store, specs: Iterable[Mapping[str, Any]]) -> None:
    """Refuse to continue runs whose mixers are not loaded, and name the file they came from."""
    origins = _origins(store)
    if not origins:
        return
    for name in dict.fromkeys(name for spec in specs for name in _mixer_names(spec)):
        if name not in origins or name in MIXERS:
            continue
        file = origins[name]["file"]
        if file is None:
            raise SpecError(
                f"mixer {name}: its class was typed into a notebook; run that cell again, and go "
                "on from there with recollect.run(None, out=...)"
            )
        moved = "" if Path(file).is_file() else " (it is no longer there; name its new place)"
        raise SpecError(
            f"mixer {name}: comes from a plug-in, whose code runs only if you name it: add "
            f"--plugin {_quoted(file)}{moved}"
        )


def resume_command(store: Store) -> str:
    """Return the command that continues a folder, with its plug-ins."""
    files = dict.fromkeys(
        origin["file"] for origin in _origins(store).values() if origin["file"] is not None
    )
    options = [word for file in files for word in ("--plugin", shown(Path(file)))]
    return command_text("resume", store.path.parent, *options)


def _origins(store: Store) -> dict[str, _Origin]:
    found: dict[str, _Origin] = json.loads(store.meta(_KEY) or "{}")
    return found


def _mixer_names(spec: Mapping[str, Any]) -> list[str]:
    """Return the names of a run's mixers without what they look at."""
    mixer = spec["model"]["mixer"]
    return [str(entry["name"]).partition("@")[0] for entry in mixer.get("layers", [mixer])]


def _quoted(file: str) -> str:
    """Return a file's path quoted for a shell, relative to the current folder if possible."""
    return shlex.quote(shown(Path(file)))
