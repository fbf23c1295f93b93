"""The Docker file, read without Docker: what it copies is there and is sent to the builder, it ends
as a user without rights, and it starts this program.
"""

import fnmatch
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer

from recollect.cli import app as cli

ROOT = Path(__file__).parent.parent
TEXT = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
STEPS = [
    tuple(line.split(maxsplit=1)) for line in TEXT.replace("\\\n", " ").splitlines() if line.strip()
]


def steps(kind: str) -> list[str]:
    return [text for name, text in STEPS if name == kind]


def copied() -> list[str]:
    return [source for step in steps("COPY") for source in step.split()[:-1]]


def is_sent(path: str) -> bool:
    """By the rules of .dockerignore: the last line that fits decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern = line.removeprefix("!")
            parts = [Path(path), *Path(path).parents]
            names = [part.name if pattern.startswith("**/") else str(part) for part in parts]
            if any(fnmatch.fnmatchcase(name, pattern.removeprefix("**/")) for name in names):
                sent = line.startswith("!")
    return sent


@pytest.mark.parametrize("source", copied())
def test_what_is_copied_is_there_and_is_sent_to_the_builder(source):
    assert (ROOT / source).exists()
    assert is_sent(source)


@pytest.mark.parametrize("path", ["results", "tests", ".git", ".venv", "recollect/__pycache__"])
def test_nothing_else_is_sent(path):
    assert not is_sent(path)


def test_all_that_the_build_of_the_package_reads_is_copied():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {"pyproject.toml", project["project"]["readme"]}
    wanted |= set(project["project"]["license-files"])
    wanted |= set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert wanted <= set(copied())


def test_it_runs_a_supported_python():
    (image,) = steps("FROM")
    version = re.fullmatch(r"python:(3\.\d+)-slim", image)
    assert version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]


def test_every_install_is_constrained_and_leaves_no_cache():
    installs = [step for step in steps("RUN") if "pip install" in step]
    assert len(installs) == 2
    assert all("--constraint /src/constraints.txt" in step for step in installs)
    assert all("--no-cache-dir" in step for step in installs)


def test_what_is_installed_ahead_are_dependencies_of_the_package():
    ahead = next(step for step in steps("RUN") if "pip install" in step)
    names = ahead.partition("constraints.txt ")[2].split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = {re.split(r"[^\w-]", entry)[0] for entry in project["dependencies"]}
    assert names
    assert set(names) <= known


def test_it_ends_as_a_user_without_rights_and_starts_this_program():
    order = [name for name, _ in STEPS]
    assert steps("USER") == ["recollect"]
    assert "RUN" not in order[order.index("USER") :]
    assert json.loads(steps("ENTRYPOINT")[0]) == ["recollect"]
    assert json.loads(steps("CMD")[0]) == ["--help"]


def documented(verb: str) -> list[list[str]]:
    """The words of the commands `docker VERB` in the documentation."""
    page = (ROOT / "docs" / "exports.md").read_text()
    return [shlex.split(line) for line in re.findall(rf"^docker {verb} (.*)$", page, re.MULTILINE)]


def test_the_documented_commands_are_of_this_image_and_this_program():
    (build,) = documented("build")
    verbs = typer.main.get_command(cli.app).commands
    assert len(documented("run")) >= 3
    for words in documented("run"):
        image = words.index(build[build.index("-t") + 1])
        assert words[words.index("-v") + 1] == f"$PWD:{steps('WORKDIR')[0]}"
        verb, *rest = words[image + 1 :]
        known = {flag for one in verbs[verb].params for flag in one.opts}
        assert {word for word in rest if word.startswith("-")} <= known


@pytest.mark.parametrize(
    "name", re.findall(r"--build-arg (\w+)=", (ROOT / "docs/exports.md").read_text())
)
def test_a_documented_build_argument_is_one(name):
    assert name in {step.partition("=")[0] for step in steps("ARG")}
