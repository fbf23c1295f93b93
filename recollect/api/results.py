"""What folders hold, for Python and notebooks: numbers as data frames, pictures, the page."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.analysis import TAU, count_statuses, count_text, group_cells
from recollect.analysis.wording import short_counts_text
from recollect.api import frames
from recollect.api.arguments import (
    FLAG,
    NUMBER,
    PATH,
    SIZE,
    TEXT,
    Rule,
    as_list,
    or_none,
    require,
)
from recollect.errors import SpecError
from recollect.rows import RunRow
from recollect.running.results import RunSet
from recollect.spec.base import shorten

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

KIND = "rates"  # the picture that is drawn unless another is asked for
FOLDERS = Rule(
    "a tuple of paths",
    lambda value: isinstance(value, tuple) and all(isinstance(one, Path) for one in value),
)
KEYS = Rule(
    "a tuple of texts",
    lambda value: isinstance(value, tuple) and all(isinstance(one, str) for one in value),
)


@dataclass(frozen=True, repr=False)
class Results:
    """The runs of one or several folders, as they were when they were read.

    `recollect.run` returns one, `Results.load` reads one. Methods that give a table give a pandas
    data frame; `rows` is the same without pandas.

    >>> import recollect
    >>> results = recollect.Results.load("out")
    >>> results
    Results('out': 18 runs, 18 done; 2 cells)
    >>> results.rows[0].status, results.rows[0].score
    ('done', 0.25)
    """

    runs: RunSet
    folders: tuple[Path, ...] = ()
    together: tuple[str, ...] = ()  # the keys of which `where` was given several values

    def __post_init__(self) -> None:
        if not isinstance(self.runs, RunSet):
            raise SpecError(
                f"Results({shorten(self.runs)}): is made of runs that were read; "
                "`Results.load(FOLDER)` reads a folder"
            )
        require(FOLDERS, '(Path("out"),)', folders=self.folders)
        require(KEYS, '("recipe",)', together=self.together)

    @classmethod
    def load(cls, folder: Path | str, *more: Path | str) -> "Results":
        """The results of a folder, also while it is being trained. A folder without results of its
        own stands for those inside it, and several are read as one: a run that is in more than one
        is taken from the first where it ended in a result.

        >>> import recollect
        >>> recollect.Results.load("out").folders
        (PosixPath('out'),)
        """
        from recollect.running.cluster.collect import collect_planned

        require(PATH, '"out"', folder=folder)
        as_list(PATH, '"out"', more=more)
        folders = collect_planned([Path(folder), *map(Path, more)])
        return cls(RunSet.load_all(folders), tuple(folders))

    @property
    def rows(self) -> list[RunRow]:
        """One entry per run: its specification and its latest numbers."""
        return self.runs.rows

    @property
    def problems(self) -> tuple[str, ...]:
        """What is not as it should be, a line each: rows that were left out because they are not as
        they were written, and runs of which folders have different results.
        """
        return (*self.runs.problems, *self.runs.conflicts)

    def where(self, *conditions: str) -> "Results":
        """The runs that meet every KEY=VALUE, written as for `overrides`; several values are a
        list. `recipe=NAME` and `scale=full` (or `small`) are conditions, too.

        >>> import recollect
        >>> results = recollect.Results.load("out")
        >>> results.where('model.mixer.name="mamba"', "train.lr=[1e-3, 1e-2]")
        Results('out': 6 runs, 6 done; 1 cell)
        """
        from recollect.reports.pictures import choose_rows, keys_of_several

        as_list(TEXT, '"model.width=64"', conditions=conditions)
        rows = choose_rows(self.rows, conditions)
        curves = {row.run_id: self.runs.curves.get(row.run_id, []) for row in rows}
        kept = {run_id: curve for run_id, curve in curves.items() if curve}
        together = (*self.together, *keys_of_several(conditions))
        return replace(self, runs=replace(self.runs, rows=rows, curves=kept), together=together)

    # ---- tables ----

    def to_pandas(self) -> "pandas.DataFrame":
        """One line per run: id, the specification as dotted columns, recipe, `score` and the other
        results; the columns of `recollect export`.

        >>> import recollect
        >>> frame = recollect.Results.load("out").to_pandas()
        >>> frame.groupby(["model.mixer.name", "train.lr"])["score"].mean().round(3).tolist()
        [0.25, 0.96, 0.95, 0.5, 0.92, 0.25]
        """
        return frames.runs_frame(self.rows)

    def curves(self) -> "pandas.DataFrame":
        """One line per evaluation of every run: losses, accuracy, exact match, `score`.

        >>> import recollect
        >>> curves = recollect.Results.load("out").curves()
        >>> curves.groupby("mixer")["step"].max().to_dict()
        {'attention': 100, 'mamba': 100}
        """
        return frames.curves_frame(self.runs)

    def windows(self, tau: float = TAU) -> "pandas.DataFrame":
        """One line per cell (all runs that differ only in rate and seed): the decades of the widest
        contiguous range of learning rates where the mean score is at least `tau` everywhere and
        within 0.01 of the best somewhere.

        `decades` is 0 where no rate reaches tau, and a lower bound where `open_low` or `open_high`
        says that the grid ended first; with other seeds it lies between `decades_low` and
        `decades_high` (95 %; NaN with fewer than three seeds); `grid_luck` is the chance that a
        grid of four rates has one inside.

        >>> import recollect
        >>> windows = recollect.Results.load("out").windows(tau=0.9)
        >>> print(windows[["mixer", "decades", "open_low", "open_high"]].round(2).to_string())
               mixer  decades  open_low  open_high
        0  attention     1.08     False       True
        1      mamba     0.08     False      False
        """
        return frames.windows_frame(self.rows, tau)

    def best(self, tau: float = TAU) -> "pandas.DataFrame":
        """One line per cell: the rate with the best mean score, the worst and the best seed there,
        how many seeds reach `tau` and after how many steps, and the run with the best score.

        >>> import recollect
        >>> best = recollect.Results.load("out").best()
        >>> print(best[["mixer", "lr", "score", "lowest", "highest", "seeds"]].to_string())
               mixer     lr  score  lowest  highest  seeds
        0  attention  0.001   0.96    0.94     0.98      3
        1      mamba  0.001   0.92    0.88     0.96      3
        """
        return frames.best_frame(self.runs, tau)

    def claims(
        self, only: str | Iterable[str] | None = None, recipe: str | None = None
    ) -> "pandas.DataFrame":
        """One line per claim of the study and recipe: its verdict, the numbers behind it, what to
        train next. `only` names claims, as "C3,C15" or a list; `recipe` takes rows of that one.

        >>> import recollect
        >>> claims = recollect.Results.load("out").claims(only="C1")
        >>> claims["verdict"].tolist()
        ['not enough data']
        """
        from recollect.reports.paper.claims.asking import choose_claims, judge_results
        from recollect.store.joining.folders import find_stores

        require(or_none(TEXT), '"study"', recipe=recipe)
        names = None if only is None else ",".join(as_list(TEXT, '"C3,C15"', only=only))
        found = judge_results(self.runs, find_stores(self.folders), recipe, choose_claims(names))
        return frames.claims_frame(found)

    # ---- pictures and the page ----

    def plot(
        self,
        kind: str = KIND,
        tau: float = TAU,
        band: str = "min-max",
        against: str | None = None,
        compare: "Results | None" = None,
        size: tuple[float, float] | float | None = None,
        title: bool = True,
        caption: bool = True,
    ) -> "list[Axes]":
        """Draw "rates", "windows", "curves" or "scaling" and return the axes, a panel each.

        A notebook shows the figure below the cell; elsewhere `matplotlib.pyplot.show()` does, and
        `axes[0].figure.savefig("rates.pdf")` writes it. `tau` is the level of the windows, `band`
        how far seeds lie apart (min-max, std, interval), `against` the axis of "scaling";
        `compare` are results to draw over these; `size` is the width in inches, or both sides.

        Of several recipes and sizes it shows one, and the caption says what is left out; `where`
        chooses: "recipe=plain", "scale=small", 'recipe=["study", "plain"]', "recipe=all".

        >>> import recollect
        >>> axes = recollect.Results.load("out").plot("windows")
        >>> axes[0].get_xlabel()
        'learning rate'
        """
        from recollect.api.drawing import draw
        from recollect.plotting.sheet import Frame
        from recollect.reports.pictures import (
            Choice,
            Look,
            PictureRequest,
            Source,
            names_of,
            of_one_recipe,
            read_size,
        )

        require(TEXT, '"windows"', kind=kind)
        require(NUMBER, "0.9", tau=tau)
        require(TEXT, '"std"', band=band)
        require(or_none(TEXT), '"length"', against=against)
        require(or_none(SIZE), "(7, 4)", size=size)
        require(FLAG, "False", title=title, caption=caption)
        loaded = Rule("Results, or None", lambda value: value is None or isinstance(value, Results))
        require(loaded, 'Results.load("out")', compare=compare)
        sides = size if isinstance(size, tuple) else (size,)
        inches = read_size(None if size is None else "x".join(map(str, sides)))
        frame = Frame(*inches, title=title, caption=caption)
        results = [self] if compare is None else [self, compare]
        names = names_of(*(one.folders for one in results))
        choices = [
            Choice(Source(name, one.rows, one.runs.curves), frozenset(one.together))
            for name, one in zip(names, results, strict=True)
        ]
        sources = [of_one_recipe(choice).source for choice in choices]
        return draw(PictureRequest(kind, Look(band, tau, against), frame), sources)

    def report(self, output: Path | str | None = None) -> Path:
        """Write the page about these runs, one HTML file that needs nothing else, to `output` or
        into their folder as report.html; returns its path.

        >>> import recollect
        >>> recollect.Results.load("out").report("page.html")
        PosixPath('page.html')
        """
        from recollect.reports.page.gather import write_page

        require(or_none(PATH), '"page.html"', output=output)
        return write_page(self.folders, None if output is None else Path(output), self.runs)

    # ---- how they look ----

    @property
    def _name(self) -> str:
        return ", ".join(folder.resolve().name for folder in self.folders)

    def __repr__(self) -> str:
        runs = short_counts_text(count_statuses(self.rows))
        cells = count_text(len(group_cells(self.rows)), "cell")
        left_out = f"; {count_text(len(self.problems), 'problem')}" if self.problems else ""
        return f"Results({self._name!r}: {runs}; {cells}{left_out})"

    def _repr_html_(self) -> str:
        from recollect.api.card import card

        return card(self.runs, self._name)
