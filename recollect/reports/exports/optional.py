"""Packages that only some exports need, each in an extra of its own."""

from importlib.util import find_spec

from recollect.errors import SpecError


def require_package(package: str, extra: str, asked: str) -> None:
    """Refuses what was asked for where its package is missing."""
    if find_spec(package) is None:
        raise SpecError(f"{asked}: {package} is not installed; `pip install 'recollect[{extra}]'`")
