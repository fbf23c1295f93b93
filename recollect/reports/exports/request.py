"""A request for an export. Options that do not fit together are refused before any data is read."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from recollect.analysis.export import to_csv, to_json
from recollect.errors import SpecError
from recollect.reports.exports.data_set import write_data_set
from recollect.reports.exports.optional import require_package
from recollect.reports.exports.replay import Exported, Tell, replays
from recollect.reports.exports.trackers import Tracker, choose_tracker, refuse_place
from recollect.running.results import RunSet
from recollect.spec.base import shorten, suggest

FORMS = ("csv", "json", "parquet")
PROJECT = re.compile(r"[A-Za-z0-9_-]{1,64}")  # names that every tracker accepts
LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}")  # short names of licences, as on hubs


@dataclass(frozen=True)
class ExportRequest:
    """An export as a table (csv or json), as a data set (parquet), or into a tracker."""

    form: str
    tracker: Tracker | None
    output: Path | None
    curves: bool
    project: str
    licence: str

    @classmethod
    def read(
        cls,
        form: str | None,
        to: str | None,
        output: Path | None,
        curves: bool,
        project: str,
        licence: str,
        salvage: bool,
    ) -> Self:
        """Check the options of the command line and build the request."""
        if form is not None and form not in FORMS:
            raise SpecError(f"--format {form}: no such format; {suggest(form, FORMS)}")
        if form is None and to is None and output is not None:
            form = _form_of(output)
        if curves and to is None and form != "json":
            raise SpecError(
                f"--curves: for json alone ({form or 'csv'} is asked for); add --format json, or "
                "leave it out"
            )
        tracker = None
        if to is not None:
            if form or curves or salvage:
                raise SpecError(
                    f"--to {to}: replays whole runs with their curves; leave out --format, "
                    "--curves and --salvage"
                )
            tracker = choose_tracker(to)
            refuse_place(tracker, output, project)
        if not PROJECT.fullmatch(project):
            raise SpecError(
                f"--project {shorten(project)}: must be at most 64 of the letters a-z, A-Z, 0-9, "
                "'_' and '-'; for example --project recall"
            )
        if form == "parquet":
            require_package("pyarrow", "parquet", "--format parquet")
            if output is None:
                raise SpecError("--format parquet: is a folder of files; name it with -o FOLDER")
            if not LICENCE.fullmatch(licence):
                raise SpecError(
                    f"--license {shorten(licence)}: must be a licence's short name as hubs write "
                    "it; for example --license cc-by-4.0"
                )
        return cls(form or "csv", tracker, output, curves, project, licence)

    def text(self, results: RunSet) -> str:
        """The table, as csv or json."""
        if self.form == "csv":
            return to_csv(results.rows)
        return to_json(results.rows, results.curves if self.curves else None)

    def write_data_set(self, results: RunSet) -> Path:
        """Write the data set. Returns its folder."""
        assert self.output is not None, "refused by read"
        write_data_set(results.rows, results.curves, self.output, self.licence)
        return self.output

    def replay(self, results: RunSet, tell: Tell) -> Exported:
        """Write the runs to the tracker. Runs that it already has are left unchanged."""
        assert self.tracker is not None
        runs = replays(results.rows, results.curves)
        if not runs:
            raise SpecError(
                "nothing to export: no run has ended with a result; `recollect status DIR` says "
                "more"
            )
        return self.tracker.export_runs(runs, self.project, self.output, tell)


def _form_of(output: Path) -> str:
    """The form that a file's name says; without an ending it is csv."""
    ending = output.suffix.lower().removeprefix(".")
    if ending in ("", "csv", "json"):
        return ending or "csv"
    raise SpecError(
        f"-o {shorten(str(output))}: must end in .csv or .json; for another name say --format csv "
        "or --format json"
    )
