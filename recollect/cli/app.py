"""The command line: its verbs, and how errors become messages and exit codes.

Only this package prints, and only it knows about exit codes and signals. Nothing heavy is imported
before it is needed: `recollect --help` and `recollect status` never load torch.
Exit codes: 0 done; 1 some runs failed or are left; 2 bad specification or usage; 3 damaged store;
4 out of disk or memory; 128 + the signal's number: stopped (docs/guarantees.md has the table).
"""

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

import recollect
from recollect.cli import about, completing, exporting, folders, score, show, train
from recollect.cli.cluster import verbs as cluster
from recollect.cli.printing import complain, say
from recollect.errors import (
    ReaderGone,
    RecollectError,
    ResourceError,
    StoreError,
    as_refusal,
    noticing_damage,
)

EXAMPLES = """Can a sequence mixer learn to recall, and how hard is it to train to do so?

\b
recollect demo                       minutes on two CPU cores, and a page
recollect run sweep.toml --out out   train a sweep; `resume out` goes on
recollect score mamba                a mixer's card beside stored baselines
recollect report out                 one HTML page; also `figure` and `claims`
"""

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=EXAMPLES,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        say(f"recollect {recollect.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            is_eager=True,
            callback=_say_version,
        ),
    ] = False,
) -> None:
    """Options before any verb: all of them have done their work when this is called."""


def _short_help(verb: Callable[..., None]) -> str:
    """Return the whole first paragraph of a verb's docstring; by default, click would cut it."""
    return " ".join((verb.__doc__ or "").split("\n\n")[0].split())


for verb in (
    train.demo,
    train.run,
    train.resume,
    folders.status,
    folders.check,
    folders.unplan,
    folders.merge,
    show.report,
    show.watch,
    show.inspect,
    exporting.figure,
    show.claims,
    train.failures,
    exporting.export,
    about.mixers,
    about.tasks,
    about.presets,
    about.recipes,
    about.doctor,
    about.bench,
    score.score,
    cluster.submit,
    cluster.work,
    cluster.collect,
):
    app.command(short_help=_short_help(verb))(verb)


def main() -> None:
    """Run the command line; every refusal is at most three lines and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file name may contain any bytes; printing one must not fail.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_exit_code())


def _exit_code() -> int:
    with noticing_damage() as damage:
        code = _run_verb()
    if damage:
        more = f", and {len(damage) - 1} more" if len(damage) > 1 else ""
        complain(f"{damage[0]}{more}\n`recollect check DIR` lists all of it and says what to do")
    return StoreError.exit_code if damage and code in (0, 1, ResourceError.exit_code) else code


def _run_verb() -> int:
    try:
        arguments = sys.argv[1:] or ["--help"]
        with completing.in_whole_words():
            result = app(arguments, prog_name="recollect", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except ReaderGone as gone:
        return gone.exit_code
    except RecollectError as error:
        complain(str(error))
        return error.exit_code
    except typer.TyperException as error:
        complain(_usage(error))
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except SystemExit as ended:  # raised by typer after it has shown a completion
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException as error:  # a plug-in may raise anything
        if os.environ.get("RECOLLECT_DEBUG"):
            raise
        refusal = as_refusal(error)
        complain(str(refusal))
        return refusal.exit_code


def _usage(error: typer.TyperException) -> str:
    """Describe a misuse of the command line: the value, the rule, and where options are
    explained.
    """
    from pydantic import ValidationError

    from recollect.spec.base import broken_rule, shorten

    context, option = getattr(error, "ctx", None), getattr(error, "param", None)
    verb = context.command_path if context else "recollect"
    what = error.format_message().rstrip(".")
    if isinstance(error.__cause__, ValidationError) and option is not None:
        problem = error.__cause__.errors(include_url=False)[0]
        what = f"{option.opts[0]} {shorten(problem['input'])}: {broken_rule(problem)}"
    return f"{what}; see `{verb} --help`"
