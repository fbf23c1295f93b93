"""The verbs. The only place that prints, and the only one that knows about exit codes and signals.

Nothing heavy is imported before it is needed: `recollect --help` and `recollect status` never load torch.
Exit codes: 0 done; 1 some runs failed; 2 bad specification or usage; 3 damaged store; 4 out of disk or memory; 130/143 stopped.
"""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from recollect.errors import RecollectError, ResourceError, SpecError

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Can a sequence mixer learn to recall, and how hard is it to train to do so?",
)  # fmt: skip

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="folder of results")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="folder for the results; an existing one is continued")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N")]
Plugins = Annotated[
    list[Path], typer.Option("--plugin", metavar="FILE.py", help="Python file that registers mixers; may be repeated")
]
Sets = Annotated[
    list[str], typer.Option("--set", metavar="A.B=1", help="override a value of the specification; may be repeated")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="write there instead")]


@app.command()
def demo(out: Out = Path("demo-out"), device: Device = "auto") -> None:
    """The main job in miniature on any CPU: attention and Mamba over learning rates, their windows, a report."""
    from recollect.sweep import read_sweep

    _train_sweep(read_sweep(Path(__file__).with_name("demo.toml")), out, device)
    page = _write_report(out, None)
    if sys.stdout.isatty() and (sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


@app.command()
def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="the sweep to train")],
    out: Out,
    sets: Sets = [],  # noqa: B006 (typer copies it)
    device: Device = "auto",
    plugin: Plugins = [],  # noqa: B006
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what would be trained and what it costs; write nothing")
    ] = False,
) -> None:
    """Plan, train and store a sweep."""
    from recollect.sweep import read_sweep

    _load_plugins(plugin)
    sweep = read_sweep(spec, sets)
    if dry_run:
        _print_forecast(sweep, out, device)
    else:
        _train_sweep(sweep, out, device)


@app.command()
def resume(
    folder: Folder,
    device: Device = "auto",
    plugin: Plugins = [],  # noqa: B006
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="try failed runs once more")] = False,
) -> None:
    """Continue a sweep after anything."""
    from recollect.store import Store

    _load_plugins(plugin)
    ready = _make_ready(device)
    with Store.open(folder) as store:
        if retry_failed:
            _say(f"{len(store.reopen_failed())} failed runs will be tried again")
    _work(folder, *ready)


@app.command()
def status(folder: Folder) -> None:
    """What is planned, running and done."""
    from recollect.analysis.wording import counts_text
    from recollect.store import Store

    with Store.open(folder, read_only=True) as store:
        _say(counts_text(store.counts()))
        for note in store.notes()[-5:]:
            _say(f"note: {note.kind}: {note.text.strip().splitlines()[-1]}")


@app.command()
def report(folder: Folder, output: Output = None) -> None:
    """Write one self-contained HTML page."""
    _write_report(folder, output)


@app.command()
def export(
    folder: Folder,
    form: Annotated[str, typer.Option("--format", help="csv or json")] = "csv",
    output: Output = None,
    curves: Annotated[bool, typer.Option("--curves", help="with json: every evaluation of every run")] = False,
    salvage: Annotated[bool, typer.Option("--salvage", help="read what is readable of a damaged store")] = False,
) -> None:
    """One row per run, to standard output or a file."""
    from recollect.export import to_csv, to_json
    from recollect.store import Store

    if form not in ("csv", "json"):
        raise SpecError(f"--format {form}: must be csv or json")
    points = None
    if salvage:
        from recollect.salvage import salvage as read_readable

        rows, problems = read_readable(folder)
        for problem in problems:
            _complain(problem)
    else:
        with Store.open(folder, read_only=True) as store:
            rows, points = store.rows(), store.curves() if curves else None
    text = to_csv(rows) if form == "csv" else to_json(rows, points)
    if output is None:
        sys.stdout.write(text)
    else:
        from recollect.durable import write_atomically

        write_atomically(output, text.encode())
        _say(f"{len(rows)} runs written to {output}")


@app.command()
def mixers(
    name: Annotated[str | None, typer.Argument(help="show the options of this one")] = None,
    width: Annotated[int, typer.Option(min=1, max=65_536, help="width to count parameters and state at")] = 64,
    length: Annotated[int, typer.Option(min=1, max=65_536, help="length to count the state at")] = 64,
    plugin: Plugins = [],  # noqa: B006
) -> None:
    """The mixers there are, or the options of one."""
    from recollect import catalogue

    _load_plugins(plugin)
    _print(catalogue.mixer_options(name) if name else catalogue.mixer_table(width, length))


@app.command()
def tasks(name: Annotated[str | None, typer.Argument(help="show the options of this one")] = None) -> None:
    """The tasks there are, or the options of one."""
    from recollect import catalogue

    _print(catalogue.task_options(name) if name else catalogue.task_table())


@app.command()
def doctor() -> None:
    """What this machine can run, and what is missing for more."""
    from recollect.doctor import examine

    for finding in examine():
        _say(f"{finding.what:<10} {finding.found}" + (f"\n{'':<10} {finding.advice}" if finding.advice else ""))


@app.command()
def bench(
    mixer: Annotated[list[str], typer.Option(help="measure this one; may be repeated; all of them if not given")] = [],  # noqa: B006
    shape: Annotated[list[str], typer.Option(help="S1, S2, S3 or WIDTHxLENGTHxPAIRSxBATCH; may be repeated")] = ["S1"],  # noqa: B006
    population: Annotated[int, typer.Option(min=0, help="runs together; 0: the fastest number of them")] = 0,
    precision: Annotated[str, typer.Option(help="fp32, tf32 or bf16")] = "tf32",
    against: Annotated[Path | None, typer.Option(metavar="FILE", help="a stored result; what got slower is red")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, to be stored")] = False,
    device: Device = "auto",
) -> None:
    """Speed on this machine: run-steps per second by mixer and shape, and the share of what the hardware could do."""
    import json

    from recollect import catalogue
    from recollect.api import choose_device
    from recollect.bench import Report, examine, measure, shape_of, slower
    from recollect.spec import MIXERS

    shapes, target = [shape_of(text) for text in shape], choose_device(device)
    stored = Report.from_table(_read_json(against)) if against else None
    runs = [(entry.run(name, precision), entry.name) for name in mixer or MIXERS for entry in shapes]
    report = examine(target, runs[0][0].train.precision)
    for run, name in runs:
        report.speeds.append(measure(run, name, population or None, report, target))
        if not as_json and sys.stderr.isatty():
            print(f"{run.model.mixer.name} {name}: {report.speeds[-1].run_steps_per_s:,.1f}", file=sys.stderr, flush=True)
    if as_json:
        _say(json.dumps(report.to_table(), indent=1))
    else:
        _print(catalogue.bench_table(report, slower(report.speeds, stored.speeds) if stored else {}))


# ---- shared by the verbs ----


def _read_json(path: Path) -> Any:
    import json

    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise SpecError(f"{path}: not JSON ({error}); make one with `recollect bench --json`") from None


def _load_plugins(paths: list[Path]) -> None:
    from recollect.plugins import load_plugin

    for path in paths:
        load_plugin(path)


def _train_sweep(sweep: Any, out: Path, device: str) -> None:
    from recollect import api
    from recollect.store import Store

    ready = _make_ready(device)
    api.require_mixers(sweep.runs, ready[0])
    with Store.create(out) as store:
        plan = api.plan(store, sweep)
    known = sum(plan.known.values())
    _say(f"{sweep.name}: {len(sweep.runs)} runs, {plan.new} new" + (f", {known} known" if known else "") + f" -> {out}")
    _work(out, *ready)


def _make_ready(device: str) -> tuple[Any, Any]:
    """The device, refused before anything is written; and who watches for signals, also while torch takes its time to load."""
    from recollect.interrupts import Interrupts

    interrupts = Interrupts()
    from recollect.api import choose_device

    return choose_device(device), interrupts


def _work(folder: Path, device: Any, interrupts: Any) -> None:
    """Train what is todo, with a view of it, stoppable by signals."""
    from recollect.progress import Progress
    from recollect.runner import Worker
    from recollect.store import Store

    with Store.open(folder) as store:
        progress = Progress(store.rows())
        worker = Worker(store, folder, device, stop=interrupts.exit_code)
        with _shown(progress, worker):
            worker.work()
        counts = store.counts()
        failures = [row.failure or "" for row in store.rows() if row.status == "failed"]
    _print_summary(folder)
    if counts["running"]:
        _say(f"{counts['running']} runs are being trained by another process")
    if failures:
        _complain(f"{len(failures)} runs failed, the first with: {failures[0]}")
        raise typer.Exit(4 if all(failure.startswith("oom") for failure in failures) else 1)


@contextlib.contextmanager
def _shown(progress: Any, worker: Any) -> Any:
    """A live view on a terminal, else one line per run."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if console.is_terminal:
        with Live(progress, console=console, refresh_per_second=4):
            worker.listen = progress.feed
            yield
    else:

        def listen(notice: Any) -> None:
            progress.feed(notice)
            line = progress.line(notice)
            if line:
                print(line, flush=True)

        worker.listen = listen
        yield


def _print_summary(folder: Path) -> None:
    from recollect.analysis import count_statuses, counts_text, group_cells, sentence, summarise
    from recollect.api import Results

    results = Results.load(folder)
    _say(counts_text(count_statuses(results.rows)))
    for summary in summarise(group_cells(results.rows), results.curves):
        _say(f"  {sentence(summary)}")


def _write_report(folder: Path, output: Path | None) -> Path:
    from recollect.api import Results
    from recollect.report import write_report
    from recollect.store import Store

    results = Results.load(folder)
    with Store.open(folder, read_only=True) as store:
        source = "\n\n".join(sweep.source for sweep in store.sweeps())
        notes = [f"{note.kind}: {note.text}" for note in store.notes()]
    page = write_report(output or folder, results.rows, results.curves, source, notes)
    _say(f"report: {page}")
    return page


def _print_forecast(sweep: Any, out: Path, device: str) -> None:
    from recollect.api import Results, choose_device, require_mixers
    from recollect.catalogue import forecast_table
    from recollect.forecast import forecast
    from recollect.rows import FINISHED
    from recollect.store_file import FILE

    known = Results.load(out).rows if (out / FILE).exists() else []
    finished = {row.run_id for row in known if row.status in FINISHED}
    target = choose_device(device)
    require_mixers(sweep.runs, target)
    _print(forecast_table(forecast(sweep.runs, finished, target)))


def _print(renderable: Any) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 200).print(renderable)  # a pipe wants whole lines


def _say(text: str) -> None:
    print(text, flush=True)


def _complain(text: str) -> None:
    print(f"recollect: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Run the command line; every refusal is at most three lines and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file's name may be anything; to show it must not be an error
    sys.exit(_outcome())


def _outcome() -> int:
    try:
        result = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        return result if isinstance(result, int) else 0
    except RecollectError as error:
        _complain(str(error))
        return error.exit_code
    except typer.TyperException as error:
        _complain(f"{error.format_message().rstrip('.')}; see `recollect --help`")
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone; say no more at exit either
        return 0
    except MemoryError:
        _complain("out of memory; close other programs or use a smaller batch, width or length")
        return ResourceError.exit_code
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}; give another path")
        return SpecError.exit_code
    except Exception as error:
        if os.environ.get("RECOLLECT_DEBUG"):
            raise
        _complain(
            f"internal error: {type(error).__name__}: {error}\nplease report it; RECOLLECT_DEBUG=1 shows where it happened"
        )
        return 1
