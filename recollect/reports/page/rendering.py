"""The page: rows and curves as one self-contained HTML file, which opens offline.

The template, or the script that inserts text into a plot, escapes everything that came from outside
(names, notes, error texts, TOML). The page's content security policy allows only its own two
scripts. Tables of large sweeps are cut off at a limit, and the page says so.
"""

import base64
import hashlib
import zlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from recollect.analysis import (
    TAU,
    Fact,
    count_statuses,
    count_text,
    counts_text,
    describe,
    group_cells,
    summarise,
)
from recollect.analysis.cells import Cell
from recollect.errors import printable
from recollect.plotting.colours import DARK_PAGE, PAGE
from recollect.plotting.coordinates import find_coordinates
from recollect.reports.page.context import Context
from recollect.reports.page.findings import cell_finding, comparisons, mixer_findings
from recollect.reports.page.layout import rooms, section_attributes
from recollect.reports.page.plot_data import Curves, plot_data, to_json
from recollect.reports.page.tables import (
    UNDECIDED,
    claim_lines,
    claims_count,
    open_claim_lines,
    provenance_lines,
    run_lines,
    window_lines,
)
from recollect.rows import RunRow
from recollect.spec.recipes import recipe_name, recipe_of
from recollect.spec.recipes.label import UNCOVERED
from recollect.store.durable import write_output

MAX_CELL_LINES = 500
MAX_RUN_LINES = 2000
FILE_NAME = "report.html"
HERE = Path(__file__).parent
# The sections that offer a command to copy.
SECTIONS = ("rates", "windows", "best", "maps", "scaling", "curves", "claims", "runs")
ASK_EVERY_MS = 2000
NO_CONTEXT = Context()


def write_report(
    path: Path,
    rows: Sequence[RunRow],
    curves: Curves,
    context: Context = NO_CONTEXT,
    tau: float = TAU,
) -> Path:
    """Write the page atomically to `path`, or to report.html in it if `path` is a folder.

    Returns the path of the file.
    """
    target = path / FILE_NAME if path.is_dir() else path
    write_output(target, to_bytes(render(rows, curves, context, tau)))
    return target


def to_bytes(page: str) -> bytes:
    """Encode the page as UTF-8. A lone surrogate in a name has no UTF-8 form and becomes a question
    mark.
    """
    return page.encode("utf-8", errors="replace")


def render(
    rows: Sequence[RunRow], curves: Curves, context: Context = NO_CONTEXT, tau: float = TAU
) -> str:
    """The page as text. The same rows give the same text."""
    return add_scripts(render_bare(rows, curves, context, tau))


def add_scripts(page: str) -> str:
    """Add the scripts that draw the plots to the output of `render_bare`."""
    head, _, end = page.rpartition("</body>")
    scripts = f"{_packed_library()}<script>{_scripts().own}</script>\n"
    return "".join([head, scripts, "</body>", end])


def render_bare(
    rows: Sequence[RunRow],
    curves: Curves,
    context: Context = NO_CONTEXT,
    tau: float = TAU,
    is_live: bool = False,
) -> str:
    """The page without its scripts, which is the part that changes as results come in.

    A live page polls its server for updates.
    """
    own = group_cells(rows)
    cells = group_cells([*rows, *context.beside]) if context.beside else own
    summaries = summarise(cells, curves, tau)
    places = find_coordinates(cells)
    counts = count_statuses(rows)
    return _template().render(
        title=_title(own),
        lead=_lead(rows, own, context.beside_text),
        counts=counts,
        counts_text=counts_text(counts),
        card_verdicts=context.verdicts,
        verdicts=comparisons(summaries, places),
        findings=mixer_findings(summaries, places),
        room=partial(section_attributes, rooms(summaries, places, curves)),
        cells=[cell_finding(summary) for summary in summaries[:MAX_CELL_LINES]],
        cell_cut=_cut(MAX_CELL_LINES, len(cells), "cell"),
        facts=[*describe([row.spec for row in rows]), *(Fact(*fact) for fact in context.facts)],
        sources=context.sources,
        notes=context.notes,
        tau=f"{tau:g}",
        windows=window_lines(summaries[:MAX_CELL_LINES]),
        runs=run_lines(own, MAX_RUN_LINES),
        run_count=len(rows),
        provenance=provenance_lines(rows),
        claims=claim_lines(context.claims),
        open_claims=open_claim_lines(context.claims),
        claims_count=claims_count(context.claims),
        any_decided=any(claim.outcome != UNDECIDED for claim in context.claims),
        insides=context.insides,
        commands={section: context.commands.get(section, []) for section in SECTIONS},
        ask_every_ms=ASK_EVERY_MS if is_live else 0,
        data=Markup(to_json(plot_data(summaries, places, curves, tau))),  # to_json escapes it
        style=Markup(_style()),  # part of this package, so it needs no escaping
        policy=_policy(is_live),
    )


@cache
def _style() -> str:
    """The page's colours, light and dark, as CSS variables, and its style sheet."""
    light, dark = (
        "".join(f"--{name}: {value}; " for name, value in page.items())
        for page in (PAGE, DARK_PAGE)
    )
    return (
        f":root {{ color-scheme: light dark; {light}}}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
        + (HERE / "page.css").read_text(encoding="utf-8")
    )


class _Scripts(NamedTuple):
    library: str  # plotly's basic bundle as it was published
    own: str


@cache
def _scripts() -> _Scripts:
    parts = [path.read_text(encoding="utf-8") for path in sorted((HERE / "scripts").glob("*.js"))]
    library = (HERE / "plotly" / "plotly-basic.min.js").read_text(encoding="utf-8")
    return _Scripts(library, '"use strict";\n(async () => {\n' + "\n".join(parts) + "})();\n")


@cache
def _packed_library() -> str:
    """The library as compressed data that the page's own script unpacks and runs. The library's
    licence notice precedes it in plain text.
    """
    library = _scripts().library
    notice = library[library.index("/*") + 2 : library.index("*/")].strip("*\n")
    packed = base64.b64encode(zlib.compress(library.encode(), level=9)).decode()
    return f'<!--\n{notice}\n--><script type="text/plain" id="library">{packed}</script>\n'


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    return environment.from_string((HERE / "page.html").read_text(encoding="utf-8"))


def _shown(value: object) -> object:
    """Escape characters in a text that would reverse or hide the words next to it."""
    return printable(value) if type(value) is str else value


@cache
def _policy(is_live: bool) -> str:
    """The content security policy: it allows the page's own two scripts and no connections, except
    to its own server on a live page.
    """
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in _scripts()
    ]
    allowed = {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",  # plotly places its parts by style attributes
        "img-src": "data: blob:",  # blob: is needed to save a plot as a file
        "script-src": " ".join(f"'sha256-{digest}'" for digest in hashes),
        "connect-src": "'self'" if is_live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def _title(cells: Sequence[Cell]) -> str:
    tasks = _names(_distinct_settings(cells, "task"))
    mixers = _names([cell.mixer for cell in cells])
    return f"{mixers} on {tasks}" if cells else "No runs yet"


def _lead(rows: Sequence[RunRow], cells: Sequence[Cell], beside: str) -> str:
    if not rows:
        return "Nothing is planned in this store."
    rates = {row.spec["train"]["lr"] for row in rows}
    seeds = {row.spec["seed"] for row in rows}
    parts = [count_text(len(rows), "run"), count_text(len(cells), "cell")]
    parts += [count_text(len(rates), "learning rate"), count_text(len(seeds), "seed")]
    hours = sum(row.wall_s or 0.0 for row in rows) / 3600
    others = f" Drawn beside them: {beside}." if beside else ""
    return f"{', '.join(parts[:-1])} and {parts[-1]}.{_recipes(cells)}{_spent(hours)}{others}"


def _recipes(cells: Sequence[Cell]) -> str:
    """The recipes by name; with their deviations if there are at most two."""
    labels = list(dict.fromkeys(recipe_of(cell.rows[0].spec) for cell in cells))
    names = list(dict.fromkeys(recipe_name(cell.rows[0].spec) for cell in cells))
    shown = [name for name in (labels if len(labels) <= 2 else names) if name != UNCOVERED]
    return f" {'Recipe' if len(shown) == 1 else 'Recipes'}: {'; '.join(shown)}." if shown else ""


def _spent(hours: float) -> str:
    if not hours:
        return ""
    time = f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"
    return f" Training took {time}."


def _cut(limit: int, total: int, noun: str) -> str:
    return f"The first {limit} of {count_text(total, noun)} are listed." if limit < total else ""


def _distinct_settings(cells: Sequence[Cell], section: str) -> list[str]:
    return [str(cell.rows[0].spec.get(section, {}).get("name", section)) for cell in cells]


def _names(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return (
        ", ".join(unique)
        if len(unique) <= 6
        else f"{', '.join(unique[:5])} and {len(unique) - 5} more"
    )
