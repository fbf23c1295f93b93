"""Code that the user names on the command line. The only place that runs a file, and only one that
was asked for by its path.

Nothing stored ever names code to run: a resumed sweep with plugin mixers asks for `--plugin` again.
"""

import importlib.util
import sys
import traceback
from pathlib import Path

from recollect.errors import RecollectError, SpecError


def load_plugin(path: Path) -> None:
    """Run a Python file so that it can register its mixers."""
    if not path.is_file():
        raise SpecError(
            f"--plugin {path}: no such file; give the path of a Python file that registers a mixer"
        )
    name = f"recollect_plugin_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise SpecError(f"--plugin {path}: not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = (
        module  # so that the source of its classes can be found and be part of a run's identity
    )
    try:
        specification.loader.exec_module(module)
    except RecollectError as error:
        raise SpecError(f"--plugin {path}: {error}") from None
    except (Exception, SystemExit) as error:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        where = f", line {frames[-1].lineno}" if frames else ""
        raise SpecError(
            f"--plugin {path}{where}: {type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else ''}"
        ) from None
