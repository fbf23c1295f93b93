"""Gathers everything that the page shows from folders of results.

Files next to a store are not trusted: a file in the folder of `recollect inspect` may be damaged or
come from another program. Such files are left out.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.analysis import count_text, get_setting
from recollect.analysis.settings import DEPTH, WIDTH
from recollect.errors import command_text
from recollect.reports.inspect.record import FOLDER
from recollect.reports.page.context import (
    Context,
    EmbeddedPicture,
    InspectedRun,
    ShownClaim,
    Source,
)
from recollect.reports.page.rendering import write_report
from recollect.reports.page.tables import UNDECIDED
from recollect.rows import Evaluation, RunRow
from recollect.running.planning.order import search_texts, searched_sweeps
from recollect.running.results import RunSet
from recollect.store import Store
from recollect.store.checking.runs import leave_out_wrong
from recollect.store.joining.folders import find_stores

if TYPE_CHECKING:
    from recollect.reports.score.baselines import Baselines
    from recollect.reports.score.folder_cards import FolderCard

MAX_PICTURE_BYTES = 4_000_000  # all pictures together, so that a page is small enough to mail
MAX_RECORD_BYTES = 50_000_000
PNG = b"\x89PNG\r\n\x1a\n"
# By section of the page: the picture of any rows and the figures of the study that show the same.
FIGURES_OF: dict[str, tuple[str, tuple[str, ...]]] = {
    "rates": ("rates", ("fig1", "fig5", "fig7", "fig13")),
    "windows": ("windows", ()),
    "best": ("curves", ("fig6",)),
    "maps": ("", ("fig3", "fig12")),
    "scaling": ("scaling", ("fig2", "fig4", "fig11")),
}


@dataclass(frozen=True)
class Evidence:
    """The data from which a page is made."""

    rows: list[RunRow]
    curves: dict[str, list[Evaluation]]
    context: Context


def write_page(
    folders: Sequence[Path], output: Path | None = None, results: RunSet | None = None
) -> Path:
    """Write the page about `folders` to `output`, or into the first of them; return its path.

    `results` are the results of the folders, or a part of them, if they were read before.
    """
    found = gather(folders, results)
    return write_report(output or folders[0], found.rows, found.curves, found.context)


def gather(folders: Sequence[Path], results: RunSet | None = None) -> Evidence:
    """All data in the folders, joined by run. If `results` are given, only their runs."""
    results = results or RunSet.load_all(folders)
    stores = find_stores(folders)
    sources, notes, facts = _origins(folders, stores)
    cards = _cards(stores)
    beside = _beside(results, sources, cards)
    context = Context(
        sources=sources,
        notes=[
            *(f"damage: {problem}" for problem in results.problems),
            *(f"conflict: {line}" for line in results.conflicts),
            *notes,
        ],
        facts=facts,
        insides=_insides(stores),
        claims=_claims(results, stores),
        verdicts=[sentence for card in cards for sentence in card.verdicts()],
        beside=[row for shown, _ in beside for rows in shown.rows.values() for row in rows],
        beside_text="; ".join(text for _, text in beside),
        commands=_commands(folders, results.rows),
    )
    curves = {run_id: curve for shown, _ in beside for run_id, curve in shown.curves.items()}
    return Evidence(results.rows, curves | results.curves, context)


def _origins(
    folders: Sequence[Path], stores: Sequence[Path]
) -> tuple[list[Source], list[str], list[tuple[str, str]]]:
    sources: list[Source] = []
    notes: list[str] = []
    spans: list[tuple[float | None, float | None]] = []
    searches: list[tuple[str, str]] = []
    for folder in stores:
        with Store.open(folder, read_only=True) as store:
            for sweep in store.sweeps():
                sources.append(
                    Source(f"{sweep.name}, planned {_date(sweep.created)}", sweep.source)
                )
            notes += [f"{note.kind}: {note.text}" for note in store.notes()]
            spans.append(store.span())
            if searched_sweeps(store):
                leave_out_wrong(store)
                searches += [("search", text) for text in search_texts(store, store.rows())]
    started = [start for start, _ in spans if start is not None]
    finished = [end for _, end in spans if end is not None]
    facts = [("folder" if len(folders) == 1 else "folders", ", ".join(map(str, folders)))]
    if started and finished:
        facts.append(("trained", f"{_date(min(started))} to {_date(max(finished))}"))
    return sources, notes, [*facts, *searches]


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _claims(results: RunSet, folders: Sequence[Path]) -> list[ShownClaim]:
    """All claims by the rows of the headline recipe, and the claims that other recipes decide."""
    from recollect.reports.paper.claims import HEADLINE
    from recollect.reports.paper.claims.asking import judge_results
    from recollect.reports.paper.claims.verdicts import firm_words, missing_text

    return [
        ShownClaim(
            found.claim.name,
            found.claim.shown_statement,
            found.outcome,
            found.words,
            found.numbers,
            found.figure,
            found.remark,
            found.reduced,
            recipe=name,
            firm=firm_words(found),
            to_train=missing_text(found) if found.wants else "",
        )
        for name, verdicts in judge_results(results, folders).items()
        for found in verdicts
        if name == HEADLINE or found.outcome != UNDECIDED
    ]


def _cards(stores: Sequence[Path]) -> "list[FolderCard]":
    """The cards that `recollect score` trained in the stores."""
    from recollect.reports.score.folder_cards import folder_cards

    found: list[FolderCard] = []
    for folder in stores:
        with Store.open(folder, read_only=True) as store:
            names = [sweep.name for sweep in store.sweeps()]
        found += folder_cards(folder, names)
    return found


def _beside(
    results: RunSet, sources: Sequence[Source], cards: "Sequence[FolderCard]"
) -> "list[tuple[Baselines, str]]":
    """What is drawn together with the rows, with words about it: the baselines of cards, and for
    the demo the same mixers at the study's size.
    """
    from recollect.reports.demo import at_study_size, is_demo

    found = [
        (card.others, f"{_runs_text(card.others)} of {count_text(len(rows), 'baseline')}")
        for card in cards
        if (rows := card.others.rows)
    ]
    if any(is_demo(source.text) for source in sources):
        mixers = {row.spec["model"]["mixer"]["name"] for row in results.rows}
        if shown := at_study_size(mixers):
            text = "of the same mixers at the study's size, under the recipe study"
            found.append((shown, f"{_runs_text(shown)} {text}"))
    return [(shown, f"{text} ({shown.provenance})") for shown, text in found]


def _runs_text(baselines: "Baselines") -> str:
    return count_text(sum(map(len, baselines.rows.values())), "run")


def _commands(folders: Sequence[Path], rows: Sequence[RunRow]) -> dict[str, list[str]]:
    """By section: the commands that write its pictures or numbers to files."""
    from recollect.reports.paper.figures.all_figures import DEFINITIONS

    ended = [row for row in rows if row.has_result]
    commands = {
        "claims": [command_text("claims", *folders)],
        "runs": _exports(folders, ["--format", "csv"], "csv"),
    }
    for section, (kind, names) in FIGURES_OF.items():
        fitting = [name for name in names if any(DEFINITIONS[name].fits(row) for row in ended)]
        drawn = [kind, *fitting] if kind and _can_be_drawn(kind, ended) else fitting
        commands[section] = [
            command_text("figure", name, *folders, "-o", f"{name}.pdf") for name in drawn
        ]
    commands["curves"] = _exports(folders, ["--format", "json", "--curves"], "json")
    return commands


def _can_be_drawn(kind: str, ended: Sequence[RunRow]) -> bool:
    """Whether there is a result; for `scaling`, whether there are results of two sizes."""
    keys = (WIDTH, DEPTH, "task.length")
    sizes = {tuple(get_setting(row, key) for key in keys) for row in ended}
    return len(sizes) > (1 if kind == "scaling" else 0)


def _exports(folders: Sequence[Path], options: Sequence[str], suffix: str) -> list[str]:
    names = (
        ["runs"]
        if len(folders) == 1
        else [f"runs{place}" for place, _ in enumerate(folders, start=1)]
    )
    named = zip(folders, names, strict=True)
    return [
        command_text("export", folder, *options, "-o", f"{name}.{suffix}") for folder, name in named
    ]


# ---- pictures of the insides of models ----


def _insides(folders: Sequence[Path]) -> list[InspectedRun]:
    found: list[InspectedRun] = []
    left = MAX_PICTURE_BYTES
    for folder in folders:
        for path in sorted((folder / FOLDER).glob("*.json")):
            record = _record(path)
            pictures = list(_pictures(folder, record.get("pictures"), left))
            if pictures:
                left -= sum(len(picture.source) for picture in pictures)
                texts = [str(record.get(key, "")) for key in ("run_id", "name", "command")]
                found.append(
                    InspectedRun(texts[0] or path.stem, texts[1], texts[2], tuple(pictures))
                )
    return found


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes()) if path.stat().st_size <= MAX_RECORD_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _pictures(folder: Path, entries: Any, left: int) -> Iterable[EmbeddedPicture]:
    """The pictures that are PNG files in the folder's own inspect folder, up to `left` bytes."""
    home = (folder / FOLDER).resolve()
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict):
            continue
        try:
            path = (folder / str(entry.get("file", ""))).resolve()
            data = (
                path.read_bytes()
                if path.is_relative_to(home) and path.stat().st_size <= left
                else b""
            )
        except (OSError, ValueError):
            continue
        if data.startswith(PNG):
            source = "data:image/png;base64," + base64.b64encode(data).decode()
            left -= len(source)
            yield EmbeddedPicture(
                str(entry.get("title", "")), str(entry.get("caption", "")), source
            )
