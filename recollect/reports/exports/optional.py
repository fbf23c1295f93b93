"""Optional packages that only some exports need. Each has its own extra."""

from importlib.util import find_spec

from recollect.errors import SpecError


def require_package(package: str, extra: str, asked: str) -> None:
    """Raise SpecError if the package is not installed. `asked` is the option that needs it."""
    if find_spec(package) is None:
        raise SpecError(f"{asked}: {package} is not installed; `pip install 'recollect[{extra}]'`")
