"""Loading of code that the user names on the command line. This is the only place that runs a file,
and only one that was given by its path; its imports may come from its own folder.

Nothing stored ever names code to run: a folder remembers where its plug-ins were
(plugins/remembered.py), and a resumed sweep asks for `--plugin` again.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import RecollectError, SpecError
from recollect.mixers.plugins.identity import own_modules, shown
from recollect.mixers.plugins.register import REGISTERED
from recollect.mixers.plugins.where import place_of

# Modules that plug-ins imported from their folders. They are removed before the next plug-in is
# loaded, so that each gets its own helpers in their current state.
_helpers: set[str] = set()


def load_plugin(path: Path) -> None:
    """Run a Python file so that it can register its mixers."""
    if not path.is_file():
        raise SpecError(
            f"--plugin {path}: no such file; give the path of a Python file that registers a mixer"
        )
    name, file = f"recollect_plugin_{path.stem}", path.resolve()
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise SpecError(f"--plugin {path}: not a Python file; its name must end in .py")
    for helper in _helpers:
        sys.modules.pop(helper, None)
    _helpers.clear()
    before = set(sys.modules)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = (
        module  # needed to find the source of its classes, which is part of a run's identity
    )
    try:
        with _importable(file.parent):
            specification.loader.exec_module(module)
    except RecollectError as error:
        raise SpecError(f"--plugin {path}: {error}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        place = place_of(error, file.parent)
        where = "" if place is None else f", line {place.line}"
        if place is not None and place.file != file:
            where = f" ({shown(place.file)}{where})"
        raise SpecError(
            f"--plugin {path}{where}: {type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else ''}"
        ) from None
    finally:
        imported = own_modules(file.parent)
        _helpers.update(imported.keys() - before - {name})
    refuse_unseen({key: imported[key] for key in _helpers}, file)


def refuse_unseen(imported: dict[str, Path], plugin: Path) -> None:
    """Refuse a helper that no import statement names, since its changes would not be noticed."""
    known = {path for entry in REGISTERED.values() for path in entry.source.files}
    for path in imported.values():
        if path not in known and plugin in known:
            raise SpecError(
                f"--plugin {shown(plugin)}: it loads {shown(path)} by other means than an import "
                "statement, so a change there would go unnoticed\n"
                f"write `import {path.stem}` in {plugin.name}"
            )


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Put the folder first on the path within the context, as for a script in it, and last
    afterwards, for imports inside of functions. No byte code is written there: its time stamps miss
    changes within a second.
    """
    place, before = str(folder), sys.dont_write_bytecode
    sys.path.insert(0, place)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        with contextlib.suppress(ValueError):  # the plug-in may have changed sys.path too
            sys.path.remove(place)
        if place not in sys.path:
            sys.path.append(place)
