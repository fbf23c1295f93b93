"""Tables of a sweep's expected cost, of its progress, and of this machine's speed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from recollect.analysis import Cell, decades_text, rate_text, score_text
from recollect.analysis.naming import differing_keys, join_name, settings_text, short_labels
from recollect.analysis.settings import cell_settings
from recollect.cli.tables import plain_table
from recollect.reports.live.time_left import TimeLeft
from recollect.rows import RunRow

if TYPE_CHECKING:
    from recollect.running.planning.bench import Report
    from recollect.running.planning.forecast import Forecast
    from recollect.running.planning.order import AskedFor
    from recollect.running.processes.devices import DeviceShare
    from recollect.spec.run import RunSpec

SLOWER = 0.95  # fraction of a stored speed below which a row is marked


def forecast_table(forecasts: Sequence["Forecast"]) -> Table:
    """Return a table with one line per shape of a sweep, and their sum."""
    table = plain_table("shape", "runs", "done", "populations", "parameters", "memory each", "time")
    for shape, entry in zip(_shape_names(forecasts), forecasts, strict=True):
        populations = f"{entry.populations} of up to {entry.together}"
        cells = [
            f"{entry.runs}",
            f"{entry.runs - entry.todo}",
            populations,
            f"{entry.parameters:,}",
        ]
        table.add_row(
            shape,
            *cells,
            f"{entry.memory_bytes / 1e9:.2f} GB",
            ("~" if entry.scaled else "") + duration(entry.seconds),
        )
    runs, todo = sum(entry.runs for entry in forecasts), sum(entry.todo for entry in forecasts)
    packs = sum(entry.populations for entry in forecasts)
    memory = max((entry.memory_bytes for entry in forecasts), default=0)
    scaled = any(entry.scaled for entry in forecasts)
    total = ("~" if scaled else "") + duration(sum(entry.seconds for entry in forecasts))
    table.add_row(
        "all",
        f"{runs}",
        f"{runs - todo}",
        f"{packs}",
        "",
        f"<= {memory / 1e9:.2f} GB",
        total,
        style="bold",
    )
    note = "; ~ is scaled by operations from what was measured" if scaled else ""
    table.caption, table.caption_justify = f"time if no run ends early{note}", "left"
    return table


def spread_text(
    forecasts: Sequence["Forecast"], todo: Sequence["RunSpec"], shares: Sequence["DeviceShare"]
) -> str:
    """Return the time that several devices need together."""
    from recollect.running.processes.spread import spread_seconds

    each_s = {
        entry.example.shape_id: entry.seconds / entry.todo for entry in forecasts if entry.todo
    }
    together_s = spread_seconds(todo, shares, each_s) if todo else 0.0
    names = ", ".join(share.device for share in shares)
    return f"the table is for {shares[0].device} alone; {names} together: {duration(together_s)}"


def _shape_names(forecasts: Sequence["Forecast"]) -> list[str]:
    """Return task, mixer, width and depth of each shape, and other differences if these are
    equal.
    """
    runs = [entry.example for entry in forecasts]
    names = [
        f"{run.task.name} {run.task.train_length}, {run.model.mixer.name}, width "
        f"{run.model.width}, depth {run.model.depth}"
        for run in runs
    ]
    settings = [cell_settings(run.model_dump(mode="json")) for run in runs]
    alike = {
        name: [own for n, own in zip(names, settings, strict=True) if n == name] for name in names
    }
    told = [
        settings_text(own, short_labels(sorted(differing_keys(alike[name]))))
        for name, own in zip(names, settings, strict=True)
    ]
    return [join_name(name, variant) for name, variant in zip(names, told, strict=True)]


def state_table(cells: Sequence[Cell], left: TimeLeft, asked: "AskedFor", most: int) -> Table:
    """Return a table with a line per mixer and cell: the number of runs with a result, the best
    score so far, and the time left for the runs that are asked for.
    """
    table = plain_table("cell", "done", "best so far", "window so far", "left")
    for cell in cells[:most]:
        window = cell.window()
        table.add_row(
            Text(cell.name),
            _done(cell.rows),
            _best_so_far(cell),
            decades_text(window) if window and len(cell.scored_rates) > 1 else "-",
            left.text(cell.rows, asked),
        )
    if len(cells) > 1:
        rows = [row for cell in cells for row in cell.rows]
        table.add_row("all", _done(rows), "", "", left.text(rows, asked), style="bold")
    return table


def _done(rows: Sequence[RunRow]) -> str:
    """Return how many runs have a result, and how many failed."""
    failed = sum(row.status == "failed" for row in rows)
    text = f"{sum(row.has_result for row in rows)}/{len(rows)}"
    return f"{text}, {failed} failed" if failed else text


def _best_so_far(cell: Cell) -> str:
    if cell.best is None:
        return "-"
    if cell.all_diverged:
        return "all diverged"
    return f"{score_text(cell.best.mean)} at {rate_text(cell.best.lr)}"


def bench_table(report: "Report", ratios: Mapping[tuple[str, str], float]) -> Group:
    """Return a table with one line per mixer and shape; if there is a stored result to compare
    with, it shows today's speed relative to it.
    """
    products = f"matrix product {report.multiply_adds_per_s / 5e11:,.1f} TFLOP/s"
    about = f"{report.device}: copy {report.copy_bytes_per_s / 1e9:,.0f} GB/s, {products}"
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    columns = [
        "mixer",
        "shape",
        "together",
        "precision",
        "run-steps/s",
        "of the limit",
        "first step",
        "memory each",
    ]
    table = plain_table(*columns, *(["against stored"] if ratios else []))
    for speed in report.speeds:
        numbers = [
            f"{speed.run_steps_per_s:,.1f}",
            f"{speed.share:.0%}",
            duration(speed.first_step_s),
        ]
        memory = f"{speed.memory_per_member / 1e9:.2f} GB" if speed.memory_per_member else "-"
        cells = [*numbers, memory] if not speed.problem else ["-", "-", "-", speed.problem]
        ratio = ratios.get((speed.mixer, speed.shape))
        compared = [] if not ratios else [f"{ratio:.2f}x" if ratio else "-"]
        style = "red" if ratio is not None and ratio < SLOWER else None
        table.add_row(
            speed.mixer,
            speed.shape,
            f"{speed.population}",
            speed.precision,
            *cells,
            *compared,
            style=style,
        )
    return Group(Text(about), Text(versions), table)


def duration(seconds: float) -> str:
    """Return "1.5 s", "12 min" or "3.4 h", with two significant digits."""
    for limit, divisor, unit in ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.2g} {unit}"
    return f"{seconds / 86_400:.1f} days"
