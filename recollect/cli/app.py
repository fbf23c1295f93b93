"""The command line: its verbs, and what becomes of errors.

Only this package prints, and only it knows about exit codes and signals. Nothing heavy is imported
before it is needed: `recollect --help` and `recollect status` never load torch.
Exit codes: 0 done; 1 some runs failed; 2 bad specification or usage; 3 damaged store; 4 out of disk
or memory; 130/143 stopped.
"""

import io
import os
import sys

import typer

from recollect.cli import about, folders, show, train
from recollect.cli.printing import complain
from recollect.errors import RecollectError, ResourceError, SpecError

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Can a sequence mixer learn to recall, and how hard is it to train to do so?",
)
for verb in (
    train.demo,
    train.run,
    train.resume,
    folders.status,
    folders.merge,
    show.report,
    show.watch,
    show.inspect,
    show.figure,
    show.claims,
    show.failures,
    folders.export,
    about.mixers,
    about.tasks,
    about.presets,
    about.recipes,
    about.doctor,
    about.bench,
    train.score,
):
    app.command()(verb)


def main() -> None:
    """Run the command line; every refusal is at most three lines and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file's name may be anything; to show it must not be an error.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        result = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        return result if isinstance(result, int) else 0
    except RecollectError as error:
        complain(str(error))
        return error.exit_code
    except typer.TyperException as error:
        complain(f"{error.format_message().rstrip('.')}; see `recollect --help`")
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        return 0  # the reader has all it wanted
    except MemoryError:
        complain("out of memory; close other programs or use a smaller batch, width or length")
        return ResourceError.exit_code
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}; give another path")
        return SpecError.exit_code
    except Exception as error:
        if os.environ.get("RECOLLECT_DEBUG"):
            raise
        complain(
            f"internal error: {type(error).__name__}: {error}\nplease report it; "
            "RECOLLECT_DEBUG=1 shows where it happened"
        )
        return 1
