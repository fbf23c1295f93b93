"""A table and its output formats: Markdown, LaTeX (booktabs) and a picture."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from recollect.plotting import sheet
from recollect.plotting.colours import INK
from recollect.plotting.settings import print_style
from recollect.plotting.text import markdown_text, one_line, plain, write

LETTER, COLUMN_GAP, LINE = 0.066, 0.22, 0.19  # inches
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    "…": r"\dots{}",
}


@dataclass(frozen=True)
class Table:
    """A title, a head, lines with one text per column, and notes below.

    All texts are plain; every output format does its own escaping.
    """

    name: str  # table1
    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    names: int = 1  # the first columns that name a line; they are left-aligned, the others right

    def markdown(self) -> str:
        rule = [":--"] * self.names + ["--:"] * (len(self.head) - self.names)
        rows = [[markdown_text(text) for text in line] for line in (self.head, *self.lines)]
        table = [_piped(line) for line in (rows[0], rule, *rows[1:])]
        notes = [f"{markdown_text(note)}  " for note in self.notes]
        return "\n".join([f"**{markdown_text(self.title)}**", "", *table, "", *notes, ""])

    def latex(self) -> str:
        columns = "l" * self.names + "r" * (len(self.head) - self.names)
        head, *lines = [
            " & ".join(_latex(text) for text in line) + r" \\" for line in (self.head, *self.lines)
        ]
        return (
            "\n".join(
                [
                    "% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}",
                    r"\begin{table}",
                    r"\centering",
                    rf"\caption{{{_latex(self.title)}. {_latex(' '.join(self.notes))}}}",
                    rf"\label{{tab:{self.name}}}",
                    rf"\begin{{tabular}}{{{columns}}}",
                    r"\toprule",
                    head,
                    r"\midrule",
                    *lines,
                    r"\bottomrule",
                    r"\end{tabular}",
                    r"\end{table}",
                ]
            )
            + "\n"
        )

    def figure(self) -> Figure:
        """The table as a picture, with rules above, below and under the head."""
        texts = [[plain(text) for text in line] for line in (self.head, *self.lines)]
        widths = [
            max(len(line[column]) for line in texts) * LETTER + COLUMN_GAP
            for column in range(len(self.head))
        ]
        edges = [sum(widths[:column]) for column in range(len(widths) + 1)]
        with print_style():
            figure, axes = sheet.panel_grid(1, 1, (edges[-1] + 0.2, LINE * (len(texts) + 0.6)))
            ax = axes[0, 0]
            ax.set_axis_off()
            ax.set_xlim(0, edges[-1])
            ax.set_ylim(len(texts) + 0.3, -0.3)
            for number, line in enumerate(texts):
                for column, text in enumerate(line):
                    left, right = edges[column] + COLUMN_GAP / 2, edges[column + 1] - COLUMN_GAP / 2
                    x, side = (left, "left") if column < self.names else (right, "right")
                    weight = "bold" if number == 0 else "normal"
                    label = ax.text(x, number + 0.5, " ", ha=side, va="center", weight=weight)
                    write(label, text)
            for y, thickness in ((-0.1, 1.1), (1.0, 0.6), (len(texts) + 0.1, 1.1)):
                ax.plot([0, edges[-1]], [y, y], color=INK, lw=thickness, clip_on=False)
            return sheet.finish(figure, self.title, [], self.notes)


def _piped(texts: list[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in one_line(text))
