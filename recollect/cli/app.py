"""The verbs. The only place that prints, and the only one that knows about exit codes and signals.

Nothing heavy is imported before it is needed: `recollect --help` and `recollect status` never load
torch. Exit codes: 0 done; 1 some runs failed; 2 bad specification or usage; 3 damaged store; 4 out
of disk or memory; 130/143 stopped.
"""

import contextlib
import io
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from recollect.errors import RecollectError, ResourceError, SpecError

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Can a sequence mixer learn to recall, and how hard is it to train to do so?",
)  # fmt: skip

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="folder of results")]
Folders = Annotated[
    list[Path], typer.Argument(metavar="DIR", help="folders of results, read as one")
]
Out = Annotated[
    Path,
    typer.Option(
        "--out", metavar="DIR", help="folder for the results; an existing one is continued"
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N")]
Plugins = Annotated[
    list[Path],
    typer.Option(
        "--plugin", metavar="FILE.py", help="Python file that registers mixers; may be repeated"
    ),
]
Sets = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="A.B=1", help="override a value of the specification; may be repeated"
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="whose weights are kept: best (of each cell; the default), all, none, "
        "seed:N, a run's id",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES",
        help="stop after so many, start-up included; the most telling runs are trained first",
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=0,
        help="processes that train; 0: as many as suit the cores and the memory",
    ),
]
Snapshots = Annotated[
    int | None, typer.Option(metavar="N", help="keep weights at N steps of the training as well")
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="write there instead")
]


@app.command()
def demo(out: Out = Path("demo-out"), device: Device = "auto") -> None:
    """The main job in miniature on any CPU: attention and Mamba over learning rates, their windows,
    a report.
    """
    from recollect.spec.sweep import read_sweep

    _train_sweep(read_sweep(Path(__file__).with_name("demo.toml")), out, device)
    page = _write_report([out], None)
    if sys.stdout.isatty() and (
        sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


@app.command()
def run(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC.toml",
            help="the sweep to train, or one of the study's: paper:fig1, paper:fig1:small, ...",
        ),
    ],
    out: Out,
    sets: Sets = [],  # noqa: B006 (typer copies it)
    device: Device = "auto",
    plugin: Plugins = [],  # noqa: B006
    budget: Budget = None,
    keep: Keep = None,
    snapshots: Snapshots = None,
    workers: Processes = 0,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="say what would be trained and what it costs; write nothing"
        ),
    ] = False,
) -> None:
    """Plan, train and store a sweep."""
    limit = _limit(budget, workers)
    from recollect.reports.paper.presets import open_sweep

    _load_plugins(plugin)
    sweep = open_sweep(spec, sets)
    if dry_run:
        _print_forecast(sweep, out, device)
    else:
        _train_sweep(sweep, out, device, _policy(keep, snapshots), limit, (workers, plugin))


@app.command()
def resume(
    folder: Folder,
    device: Device = "auto",
    plugin: Plugins = [],  # noqa: B006
    budget: Budget = None,
    workers: Processes = 0,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="try failed runs once more")
    ] = False,
) -> None:
    """Continue a sweep after anything."""
    limit = _limit(budget, workers)
    from recollect.store import Store

    _load_plugins(plugin)
    ready = _make_ready(device)
    with Store.open(folder) as store:
        if retry_failed:
            _say(f"{len(store.reopen_failed())} failed runs will be tried again")
    _work(folder, *ready, limit, (workers, plugin))


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
def report(folders: Folders, output: Output = None) -> None:
    """Write one self-contained HTML page about one or several folders."""
    _write_report(folders, output)


@app.command()
def watch(
    folders: Folders,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65_535, help="to listen on, on this machine alone; 0: any that is free"
        ),
    ] = 8642,
) -> None:
    """Show the same page live while a sweep runs; Ctrl-C ends it."""
    from recollect.reports.page.live import serving

    with serving(folders, port) as server:
        _say(f"{server.address} (Ctrl-C ends it)")
        server.serve_forever()


@app.command()
def inspect(
    folder: Folder,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="a run's id, the beginning of one, or best:MIXER")
    ],
    again: Annotated[
        bool, typer.Option("--again", help="train it once more, to see its scores at many steps")
    ] = False,
    device: Device = "auto",
    plugin: Plugins = [],  # noqa: B006
) -> None:
    """Look inside a trained run: attention, induction scores, how far back it looks."""
    _load_plugins(plugin)
    from recollect.api import choose_device
    from recollect.reports.inspect import examine, summary_lines

    def tell(done: int, of: int) -> None:
        if done == 0:
            _say(
                f"training it once more, {of:,} steps"
                + ("" if again else ": its weights were not kept")
            )
        elif sys.stderr.isatty():
            print(
                f"\rstep {done:,} of {of:,}",
                end="\n" if done == of else "",
                file=sys.stderr,
                flush=True,
            )

    found = examine(folder, run, choose_device(device), again, tell)
    for line in summary_lines(found):
        _say(line)
    for picture in found.pictures:
        _say(f"{picture.title}: {folder / picture.file}")


@app.command()
def figure(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="fig1 to fig7, fig11 to fig13, table1 to table4")
    ],
    folders: Folders,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="ends in .png, .svg or .pdf; a table's also in .md or .tex",
        ),
    ] = None,
    band: Annotated[
        str, typer.Option(help="how far seeds lie apart: min-max, std or interval")
    ] = "min-max",
) -> None:
    """Draw one of the study's figures or tables from rows; NAME.png, or NAME.md for a table, if no
    file is given.
    """
    from recollect.api import Results
    from recollect.reports.paper.figures import write_figure

    results = Results.load_all(folders)
    _say(f"{name}: {write_figure(name, results.rows, results.curves, output, band)}")


@app.command()
def claims(
    folders: Folders,
    as_json: Annotated[bool, typer.Option("--json", help="a list of one object per claim")] = False,
    output: Output = None,
) -> None:
    """Every claim of the study: reproduced, not reproduced, or not enough data, with the numbers."""
    from recollect.api import Results
    from recollect.reports.paper.claims import check
    from recollect.reports.paper.claims.table import commands, summary, table, to_json, to_lines

    results = Results.load_all(folders)
    verdicts = check(results.rows, results.curves)
    text = to_json(verdicts) if as_json else to_lines(verdicts)
    if output is not None:
        from recollect.store.durable import write_atomically

        write_atomically(output, text.encode())
        _say(f"{summary(verdicts)}; written to {output}")
    elif as_json or not sys.stdout.isatty():
        sys.stdout.write(text)
    else:
        _print(table(verdicts))
        for command in commands(verdicts):
            _say(command)


@app.command()
def export(
    folder: Folder,
    form: Annotated[str, typer.Option("--format", help="csv or json")] = "csv",
    output: Output = None,
    curves: Annotated[
        bool, typer.Option("--curves", help="with json: every evaluation of every run")
    ] = False,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="read what is readable of a damaged store")
    ] = False,
) -> None:
    """One row per run, to standard output or a file."""
    from recollect.analysis.export import to_csv, to_json
    from recollect.store import Store

    if form not in ("csv", "json"):
        raise SpecError(f"--format {form}: must be csv or json")
    points = None
    if salvage:
        from recollect.store.salvage import salvage as read_readable

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
        from recollect.store.durable import write_atomically

        write_atomically(output, text.encode())
        _say(f"{len(rows)} runs written to {output}")


@app.command()
def mixers(
    name: Annotated[str | None, typer.Argument(help="show the options of this one")] = None,
    width: Annotated[
        int, typer.Option(min=1, max=65_536, help="width to count parameters and state at")
    ] = 64,
    length: Annotated[
        int, typer.Option(min=1, max=65_536, help="length to count the state at")
    ] = 64,
    plugin: Plugins = [],  # noqa: B006
) -> None:
    """The mixers there are, or the options of one."""
    from recollect.cli import tables as catalogue

    _load_plugins(plugin)
    _print(catalogue.mixer_options(name) if name else catalogue.mixer_table(width, length))


@app.command()
def tasks(
    name: Annotated[str | None, typer.Argument(help="show the options of this one")] = None,
) -> None:
    """The tasks there are, or the options of one."""
    from recollect.cli import tables as catalogue

    _print(catalogue.task_options(name) if name else catalogue.task_table())


@app.command()
def presets(
    name: Annotated[
        str | None, typer.Argument(help="print this one's specification: fig1, fig1:small, ...")
    ] = None,
) -> None:
    """The study's experiments, to be trained with `recollect run paper:NAME`."""
    from recollect.cli import tables as catalogue
    from recollect.reports.paper.presets import list_presets, preset_text, split_name

    if name:
        sys.stdout.write(preset_text(*split_name(name)))
    else:
        _print(catalogue.preset_table(list_presets()))


@app.command()
def doctor() -> None:
    """What this machine can run, and what is missing for more."""
    from recollect.running.planning.doctor import examine

    for finding in examine():
        _say(
            f"{finding.what:<10} {finding.found}"
            + (f"\n{'':<10} {finding.advice}" if finding.advice else "")
        )


@app.command()
def bench(
    mixer: Annotated[
        list[str], typer.Option(help="measure this one; may be repeated; all of them if not given")
    ] = [],  # noqa: B006
    shape: Annotated[
        list[str], typer.Option(help="S1, S2, S3 or WIDTHxLENGTHxPAIRSxBATCH; may be repeated")
    ] = ["S1"],  # noqa: B006
    population: Annotated[
        int, typer.Option(min=0, help="runs together; 0: the fastest number of them")
    ] = 0,
    precision: Annotated[str, typer.Option(help="fp32, tf32 or bf16")] = "bf16",
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="a stored result; what got slower is red")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, to be stored")] = False,
    device: Device = "auto",
) -> None:
    """Speed on this machine: run-steps per second by mixer and shape, and the share of what the
    hardware could do.
    """
    import json

    from recollect.api import choose_device
    from recollect.cli import tables as catalogue
    from recollect.mixers.registry import MIXERS
    from recollect.running.planning.bench import Report, examine, measure, shape_of, slower

    shapes, target = [shape_of(text) for text in shape], choose_device(device)
    stored = Report.from_table(_read_json(against)) if against else None
    runs = [
        (entry.run(name, precision), entry.name) for name in mixer or MIXERS for entry in shapes
    ]
    report = examine(target, runs[0][0].train.precision)
    for run, name in runs:
        report.speeds.append(measure(run, name, population or None, report, target))
        if not as_json and sys.stderr.isatty():
            print(
                f"{run.model.mixer.name} {name}: {report.speeds[-1].run_steps_per_s:,.1f}",
                file=sys.stderr,
                flush=True,
            )
    if as_json:
        _say(json.dumps(report.to_table(), indent=1))
    else:
        _print(
            catalogue.bench_table(report, slower(report.speeds, stored.speeds) if stored else {})
        )


@app.command()
def score(
    mixer: Annotated[
        list[str],
        typer.Argument(
            metavar="MIXER",
            help='names, or tables such as {name="mamba", state=32}; none: the stored baselines',
        ),
    ] = [],  # noqa: B006
    out: Out = Path("score-out"),
    card: Annotated[str, typer.Option(help="cpu or gpu; auto: what the device is")] = "auto",
    budget: Budget = None,
    sets: Sets = [],  # noqa: B006
    device: Device = "auto",
    plugin: Plugins = [],  # noqa: B006
    workers: Processes = 0,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="baselines to compare with, made by --save")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write the finished card there, as baselines"),
    ] = None,
) -> None:
    """Train the standard card of a mixer (windows, width, length, cost) and show it beside the
    baselines.
    """
    limit = _limit(budget, workers)
    from recollect.api import Results, choose_device
    from recollect.reports.score import Asked
    from recollect.store.file import FILE

    _load_plugins(plugin)
    if card == "auto":
        card = "gpu" if choose_device(device).type == "cuda" else "cpu"
    asked = Asked.read(card, mixer, sets, against)
    try:
        if mixer:
            _train_sweep(asked.sweep, out, device, None, limit, (workers, plugin))
    finally:  # what failed or was stopped has a card too
        results = Results.load(out) if mixer and (out / FILE).exists() else Results([], {})
        _print(asked.tables(results.rows, results.curves))
    if save:
        asked.save(save, results.rows, results.curves)
        _say(f"baselines: {save}")


# ---- shared by the verbs ----


def _read_json(path: Path) -> Any:
    import json

    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise SpecError(
            f"{path}: not JSON ({error}); make one with `recollect bench --json`"
        ) from None


def _load_plugins(paths: list[Path]) -> None:
    from recollect.mixers.plugins.load import load_plugin

    for path in paths:
        load_plugin(path)


def _policy(keep: str | None, snapshots: int | None) -> Any:
    """What was asked for, or None: then a folder goes on as it began."""
    if keep is snapshots is None:
        return None
    from recollect.store.weights import Policy

    return Policy.parse(keep or "best", snapshots or 0)


def _limit(budget: float | None, workers: int) -> tuple[float, float] | None:
    """Minutes as asked for, and when they are over."""
    if budget is None:
        return None
    if workers > 1:
        raise SpecError(
            f"--workers {workers} with --budget: one process decides what is trained "
            "first; leave out one of the two"
        )
    if not 0 < budget < float("inf"):
        raise SpecError(
            f"--budget {budget}: must be a number of minutes above 0; for example --budget 10"
        )
    return budget, time.monotonic() + 60 * budget


def _train_sweep(
    sweep: Any,
    out: Path,
    device: str,
    policy: Any = None,
    limit: tuple[float, float] | None = None,
    crew: tuple[int, list[Path]] = (0, []),
) -> None:
    from recollect import api
    from recollect.store import Store

    ready = _make_ready(device)
    api.require_mixers(sweep.runs, ready[0])
    if policy:
        policy.require(sweep.runs)
    with Store.create(out) as store:
        plan = api.plan(store, sweep)
        if policy:
            policy.remember(store)
    known = sum(plan.known.values())
    _say(
        f"{sweep.name}: {len(sweep.runs)} runs, {plan.new} new"
        + (f", {known} known" if known else "")
        + f" -> {out}"
    )
    _work(out, *ready, limit, crew)


def _make_ready(device: str) -> tuple[Any, Any]:
    """The device, refused before anything is written; and who watches for signals, also while torch
    takes its time to load.
    """
    from recollect.running.signals import Interrupts

    interrupts = Interrupts()
    from recollect.api import choose_device

    return choose_device(device), interrupts


def _work(
    folder: Path,
    device: Any,
    interrupts: Any,
    limit: tuple[float, float] | None,
    crew: tuple[int, list[Path]],
) -> None:
    """Train what is todo, with a view of it, stoppable by signals and by the end of a budget; crew:
    processes, plugins.
    """
    from recollect.cli.progress import Progress
    from recollect.running import processes as workers
    from recollect.running.planning import planner
    from recollect.running.planning.priority import budget_text
    from recollect.running.spending import spend
    from recollect.running.worker import Worker
    from recollect.store import Store

    with Store.open(folder) as store:
        count = 1 if limit else workers.count(crew[0], store, device)
        progress = Progress(store.rows(), planner.operations, count)
        with _shown(progress) as say:
            if count > 1:
                many = workers.Workers(folder, device, count, crew[1], interrupts.exit_code)
                many.work(store, lambda: say(progress.look(store.rows())))
            else:
                worker = Worker(
                    store,
                    folder,
                    device,
                    lambda notice: say(progress.told(notice)),
                    stop=interrupts.exit_code,
                )
                if limit:
                    spend(worker, limit[1])
                else:
                    worker.work()
        counts, rows = store.counts(), store.rows()
        failures = [row.failure or "" for row in rows if row.status == "failed"]
    _print_summary(folder)
    if limit:
        _say(budget_text(rows, limit[0], folder))
    if counts["running"]:
        _say(f"{counts['running']} runs are being trained by another process")
    if failures:
        _complain(f"{len(failures)} runs failed, the first with: {failures[0]}")
        raise typer.Exit(4 if all(failure.startswith("oom") for failure in failures) else 1)


@contextlib.contextmanager
def _shown(progress: Any) -> Any:
    """A live view on a terminal, else a line per run: what is said to what this yields."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if console.is_terminal:
        with Live(progress, console=console, refresh_per_second=4):
            yield lambda lines: None
    else:
        yield lambda lines: _say("\n".join(lines)) if lines else None


def _print_summary(folder: Path) -> None:
    from recollect.analysis import count_statuses, counts_text, group_cells, sentence, summarise
    from recollect.api import Results

    results = Results.load(folder)
    _say(counts_text(count_statuses(results.rows)))
    for summary in summarise(group_cells(results.rows), results.curves):
        _say(f"  {sentence(summary)}")


def _write_report(folders: list[Path], output: Path | None) -> Path:
    from recollect.reports.page.gather import write_page

    page = write_page(folders, output)
    _say(f"report: {page}")
    return page


def _print_forecast(sweep: Any, out: Path, device: str) -> None:
    from recollect.api import Results, choose_device, require_mixers
    from recollect.cli.tables import forecast_table
    from recollect.rows import FINISHED
    from recollect.running.planning.forecast import forecast
    from recollect.store.file import FILE

    known = Results.load(out).rows if (out / FILE).exists() else []
    finished = {row.run_id for row in known if row.status in FINISHED}
    target = choose_device(device)
    require_mixers(sweep.runs, target)
    _print(forecast_table(forecast(sweep.runs, finished, target)))


def _print(renderable: Any) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 200).print(
        renderable
    )  # a pipe wants whole lines


def _say(text: str) -> None:
    print(text, flush=True)


def _complain(text: str) -> None:
    print(f"recollect: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Run the command line; every refusal is at most three lines and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a file's name may be anything; to show it must not be an error
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
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # the reader has gone; say no more at exit either
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
            f"internal error: {type(error).__name__}: {error}\nplease report it; "
            "RECOLLECT_DEBUG=1 shows where it happened"
        )
        return 1
