"""The report: rows and curves as one HTML file that asks nothing of anybody, so it opens offline, mailed or archived.

Everything on it that came from outside (names, notes, error texts, TOML) is escaped by the template, and the page's own policy
lets no script run but the one that sorts tables. Large sweeps are cut where a reader stops reading, and the page says where.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from recollect.analysis import TAU, count_statuses, count_text, counts_text, describe, group_cells, summarise
from recollect.analysis.cells import Cell
from recollect.report.curve_figures import MAX_LINES, curve_figure, drawn_runs
from recollect.report.figures import line_styles, panel_figure, panels
from recollect.report.style import plain, to_svg
from recollect.report.tables import cell_lines, provenance_lines, run_lines, window_lines
from recollect.rows import Evaluation, RunRow

MAX_PANELS = 24  # four lengths by six widths
MAX_CURVE_CELLS = 12  # curves are the slowest and largest part of a page
MAX_CELL_LINES = 500
MAX_RUN_LINES = 2000
FILE_NAME = "report.html"
HERE = Path(__file__).parent

Curves = Mapping[str, Sequence[Evaluation]]


def write_report(
    path: Path, rows: Sequence[RunRow], curves: Curves, source: str = "", notes: Sequence[str] = (), tau: float = TAU
) -> Path:
    """Write the page to `path`, or to report.html in it if that is a folder, whole or not at all; returns where it is."""
    from recollect.durable import write_atomically  # here, so that rendering alone needs no disk

    target = path / FILE_NAME if path.is_dir() else path
    # A lone surrogate in a name has no UTF-8 form; a question mark is better than no report.
    write_atomically(target, render(rows, curves, source, notes, tau).encode("utf-8", errors="replace"))
    return target


def render(rows: Sequence[RunRow], curves: Curves, source: str = "", notes: Sequence[str] = (), tau: float = TAU) -> str:
    """The page as text, the same for the same rows. `source` is the TOML that was run, `notes` are lines for the reader."""
    cells = group_cells(rows)
    summaries = summarise(cells, curves, tau)
    counts = count_statuses(rows)
    script = (HERE / "sort.js").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(
        (HERE / "page.html").read_text(encoding="utf-8")
    )
    return template.render(
        title=_title(cells),
        lead=_lead(rows, cells),
        counts=counts,
        counts_text=counts_text(counts),
        cells=cell_lines(summaries[:MAX_CELL_LINES]),
        cell_cut=_cut(MAX_CELL_LINES, len(cells), "cell", "listed"),
        facts=describe([row.spec for row in rows]),
        source=source,
        notes=notes,
        tau=f"{tau:g}",
        windows=window_lines(summaries[:MAX_CELL_LINES]),
        runs=run_lines(cells, MAX_RUN_LINES),
        run_count=len(rows),
        provenance=provenance_lines(rows),
        **_rate_section(cells, tau),
        **_curve_section(cells, curves),
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),  # ours, from this package: not escaped
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _title(cells: Sequence[Cell]) -> str:
    tasks = _names(_distinct_settings(cells, "task"))
    mixers = _names([cell.mixer for cell in cells])
    return f"{mixers} on {tasks}" if cells else "No runs yet"


def _lead(rows: Sequence[RunRow], cells: Sequence[Cell]) -> str:
    if not rows:
        return "Nothing is planned in this store."
    rates = {row.spec["train"]["lr"] for row in rows}
    seeds = {row.spec["seed"] for row in rows}
    parts = [count_text(len(rows), "run"), count_text(len(cells), "cell")]
    parts += [count_text(len(rates), "learning rate"), count_text(len(seeds), "seed")]
    hours = sum(row.wall_s or 0.0 for row in rows) / 3600
    spent = f" Training took {hours:.1f} hours." if hours >= 1 else f" Training took {hours * 60:.1f} minutes." if hours else ""
    return f"{', '.join(parts[:-1])} and {parts[-1]}.{spent}"


def _rate_section(cells: Sequence[Cell], tau: float) -> dict[str, Any]:
    drawn = panels(cells)
    styles = line_styles(drawn)
    figures = [_figure(panel_figure(panel, styles, tau), f"rate{n}", panel.title) for n, panel in enumerate(drawn[:MAX_PANELS])]
    return {"rate_figures": figures, "rate_cut": _cut(MAX_PANELS, len(drawn), "panel", "drawn")}


def _curve_section(cells: Sequence[Cell], curves: Curves) -> dict[str, Any]:
    drawn = [cell for cell in cells if drawn_runs(cell, curves)]
    figures = [_figure(curve_figure(cell, curves), f"curve{n}", cell.name) for n, cell in enumerate(drawn[:MAX_CURVE_CELLS])]
    return {"curve_figures": figures, "curve_cut": _cut(MAX_CURVE_CELLS, len(drawn), "cell", "drawn"), "max_lines": MAX_LINES}


def _figure(figure: Any, salt: str, label: str) -> dict[str, Any]:
    # matplotlib has escaped the names in it; see test_hostile_text_stays_text.
    return {"svg": Markup(to_svg(figure, salt)), "label": plain(label)}


def _cut(limit: int, total: int, noun: str, verb: str) -> str:
    return f"The first {limit} of {count_text(total, noun)} are {verb}." if limit < total else ""


def _distinct_settings(cells: Sequence[Cell], section: str) -> list[str]:
    return [str(cell.rows[0].spec.get(section, {}).get("name", section)) for cell in cells]


def _names(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique) if len(unique) <= 6 else f"{', '.join(unique[:5])} and {len(unique) - 5} more"
