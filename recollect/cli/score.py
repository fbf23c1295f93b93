"""The verb score: the standard card of a mixer, its verdict, its picture, its page."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, ConsoleOptions, RenderResult

from recollect.cli import completing
from recollect.cli.options import (
    Device,
    Minutes,
    Out,
    Plugins,
    Sets,
    Workers,
    as_path,
    load_plugins,
)
from recollect.cli.printing import render, say
from recollect.errors import command_text
from recollect.running.budget import Budget

if TYPE_CHECKING:
    from recollect.reports.score.request import ScoreRequest
    from recollect.running.results import RunSet

PICTURE = "score.png"
REFRESH_S = 5.0  # interval of the live card, which reads the whole store


def score(
    mixer: Annotated[
        list[str],
        typer.Argument(
            metavar="MIXER",
            help='names, or tables such as {name="mamba", state=32}; none: the stored baselines',
            autocompletion=completing.offer(completing.mixers),
        ),
    ] = [],  # noqa: B006
    out: Out = Path("score-out"),
    card: Annotated[
        str,
        typer.Option(
            help="cpu or gpu; auto: what the device is",
            autocompletion=completing.offer(completing.cards),
        ),
    ] = "auto",
    budget: Minutes = None,
    sets: Sets = [],  # noqa: B006
    device: Device = "auto",
    plugin: Plugins = [],  # noqa: B006
    workers: Workers = 0,
    against: Annotated[
        Path | None,
        typer.Option(
            parser=as_path,
            metavar="FILE|DIR",
            help="baselines to compare with: made by --save, or any results",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            parser=as_path, metavar="FILE", help="write the finished card there, as baselines"
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="say what would be trained and what it costs; write nothing"
        ),
    ] = False,
) -> None:
    """Train the standard card of a mixer and rank it among the baselines:
    one sentence, tables, a picture, a page.
    """
    limit = Budget.start(budget)
    from recollect.reports.score.request import ScoreRequest
    from recollect.running.processes.devices import choose_devices

    load_plugins(plugin)
    if card == "auto":
        card = "gpu" if choose_devices(device)[0].type == "cuda" else "cpu"
    asked = ScoreRequest.read(card, mixer, sets, against)
    if dry_run and mixer:
        from recollect.cli.train import show_forecast

        show_forecast(asked.stages(), out, device)
        return
    results = _results(None)
    if not mixer:
        _show(asked, results, None)
    else:
        try:
            options: list[object] = ["--out", out, "--card", card]
            named = [device] if device != "auto" else []
            for name, values in (
                ("--device", named),
                ("--set", sets),
                ("--plugin", plugin),
                ("--against", [against]),
            ):
                options += [word for value in values if value for word in (name, value)]
            again = command_text("score", *mixer, *options)
            _train(asked, out, limit, device, workers, plugin, again)
        finally:  # failed or stopped runs appear on the card too; refused runs were never planned
            results = _results(out)
            if asked.scores(results):
                _show(asked, results, out)
    if save:
        asked.save(save, results)
        say(f"baselines: {save}")


def _train(
    asked: "ScoreRequest",
    out: Path,
    budget: Budget | None,
    device: str,
    workers: int,
    plugins: list[Path],
    again: str,
) -> None:
    """Train the headline first, whatever the budget; the same command goes on with what is left."""
    from recollect.cli.training import train_and_tell

    for stage in asked.stages():
        if budget is None or budget.left_s > 0:
            train_and_tell(
                out,
                [stage],
                budget,
                below=_LiveCard(asked, out),
                again=again,
                device=device,
                workers=workers,
                plugins=plugins,
            )


def _show(asked: "ScoreRequest", results: "RunSet", out: Path | None) -> None:
    """Show the tables; after a training also the picture, the page, and last the verdict."""
    render(asked.tables(results))
    if out is None or not any(row.has_result for row in results.rows):
        return
    from recollect.cli.show import write_report
    from recollect.reports.score.picture import write_card

    figure = asked.picture(results)
    if figure is not None:
        write_card(out / PICTURE, figure)
        say(f"picture: {out / PICTURE}")
    write_report([out], None)
    for sentence in asked.verdicts(results):
        say(sentence)


def _results(out: Path | None) -> "RunSet":
    from recollect.running.results import RunSet
    from recollect.store.database import FILE

    return RunSet.load(out) if out and (out / FILE).exists() else RunSet([], {})


class _LiveCard:
    """The tables with the results so far, below the progress of the training."""

    def __init__(self, asked: "ScoreRequest", out: Path):
        self.asked, self.out = asked, out
        self._tables = asked.tables(_results(None))
        self._read_at = 0.0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if time.monotonic() - self._read_at > REFRESH_S:
            self._tables = self.asked.tables(_results(self.out))
            self._read_at = time.monotonic()
        yield self._tables
