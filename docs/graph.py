"""Draw docs/architecture.svg, the layers of the package and what imports what, and write the table
of layers in CONTRIBUTING.md: make graph.

A box is a room (a folder or module under recollect/) in one layer; a number is its lines of code.
An arrow points from a room to one that it imports. Those that follow from others are left out, and
so are those to the foundations, which everything may import.
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from layers import LAYERS, import_graph, layer_of, sources  # noqa: E402

Room = tuple[int, str]  # layer, name
FIRST, LAST = "<!-- layers -->", "<!-- end of layers -->"
BOX, ROW, WIDTH = 0.62, 1.15, 13.0
# Where a room stands in its row, from 0 to 1: what computes on the left, what reads on the right.
COLUMNS = {
    "ops": 0.1, "model": 0.1, "mixers": 0.3, "training": 0.38, "tasks": 0.49, "running": 0.49,
    "spec": 0.68, "store": 0.86, "analysis": 1.0, "plotting": 0.7, "reports": 1.0,
    "__main__": 0.3, "api": 1.0, "cli": 0.66, "errors": 0.1, "recollect": 0.3, "rows": 0.49,
}  # fmt: skip
ABOUT = {
    "foundations": "errors, rows, base of all specifications, whole-file writes",
    "options": "what can be written of a task, a mixer, a model",
    "specification": "what a run is; sweeps",
    "database": "the results of a folder",
    "analysis": "rows to numbers, sentences, colours",
    "operations": "plain form and kernels",
    "layers and data": "layers with a population axis; rows of a task",
    "mixers": "one architecture a folder",
    "model and training": "blocks and head; population, loop",
    "weights and checkpoints": "tensors on the disk",
    "running": "planning, engine, workers",
    "reports": "figures, claims, card, page",
    "Python interface": "run, Results",
    "command line": "the verbs and what they print",
}


def rooms() -> dict[Room, set[str]]:
    """Each room with its modules."""
    found: dict[Room, set[str]] = {}
    for module in sources():
        found.setdefault(room_of(module), set()).add(module)
    return found


def room_of(module: str) -> Room:
    return layer_of(module), module.split(".")[0]


def arrows() -> set[tuple[Room, Room]]:
    """From a room to one it imports, without those that a longer way implies."""
    direct: dict[Room, set[Room]] = {room: set() for room in rooms()}
    for module, imported in import_graph().items():
        direct[room_of(module)] |= {room_of(name) for name in imported} - {room_of(module)}
    reach: dict[Room, set[Room]] = {}

    def below(room: Room) -> set[Room]:
        if room not in reach:
            reach[room] = set()  # ends the walk where two rooms of one layer import each other
            reach[room] = set().union(*(below(other) | {other} for other in direct[room]))
        return reach[room]

    return {
        (room, other)
        for room, others in direct.items()
        for other in others
        if not any(other in below(between) for between in others - {other})
    }


def lines_of(modules: set[str]) -> int:
    paths = sources()
    return sum(len(paths[module].read_text().splitlines()) for module in modules)


def draw() -> Figure:
    found = rooms()
    figure = Figure(figsize=(WIDTH, ROW * len(LAYERS) + 0.4))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_xlim(0, WIDTH)
    ax.set_ylim(-0.3, ROW * len(LAYERS) + 0.1)
    ax.axis("off")
    place: dict[Room, tuple[float, float]] = {}
    for number, layer in enumerate(LAYERS):
        y = ROW * number + 0.25
        ax.axhspan(y - 0.18, y + BOX + 0.18, color="#f3f4f6" if number % 2 else "#ffffff", zorder=0)
        ax.text(0.15, y + 0.42, layer, fontsize=11, weight="bold", va="center")
        ax.text(0.15, y + 0.16, ABOUT[layer], fontsize=7.5, color="#555555", va="center")
        here = sorted(room for room in found if room[0] == number)
        for room in here:
            place[room] = (4.2 + (WIDTH - 5.2) * COLUMNS[room[1]] + 0.2, y)
    for room, other in sorted(arrow for arrow in arrows() if arrow[1][0]):
        (x, y), (x_end, y_end) = place[room], place[other]
        same = room[0] == other[0]
        start = (x, y + BOX / 2) if same else (x, y)
        end = (x_end, y_end + BOX / 2) if same else (x_end, y_end + BOX)
        style = FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=9, lw=0.8, color="#8892a0",
            connectionstyle="arc3,rad=0.06", shrinkA=46 if same else 1, shrinkB=46 if same else 1,
            zorder=1,
        )  # fmt: skip
        ax.add_patch(style)
    for room, (x, y) in place.items():
        box = FancyBboxPatch(
            (x - 0.62, y), 1.24, BOX, boxstyle="round,pad=0,rounding_size=0.08",
            fc="#ffffff", ec="#2f5d8a", lw=1.1, zorder=2,
        )  # fmt: skip
        ax.add_patch(box)
        name = room[1] if len(found[room]) > 1 or room[1] in sources() else next(iter(found[room]))
        ax.text(x, y + 0.4, name, ha="center", va="center", fontsize=9.5, zorder=3)
        count = f"{lines_of(found[room]):,} lines"
        ax.text(x, y + 0.17, count, ha="center", va="center", fontsize=7, color="#555555", zorder=3)
    return figure


def table() -> str:
    """The layers from the top down, with the rooms in each."""
    lines = ["| layer | what it is | where |", "|---|---|---|"]
    for number, layer in reversed(list(enumerate(LAYERS))):
        here = sorted(name for at, name in rooms() if at == number)
        lines.append(f"| {layer} | {ABOUT[layer]} | {', '.join(f'`{name}`' for name in here)} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """CONTRIBUTING.md with the table between its two marks."""
    before, _, rest = text.partition(FIRST)
    after = rest.partition(LAST)[2]
    return f"{before}{FIRST}\n{table()}\n{LAST}{after}"


if __name__ == "__main__":
    page = HERE.parent / "CONTRIBUTING.md"
    page.write_text(with_table(page.read_text()))
    draw().savefig(HERE / "architecture.svg", metadata={"Date": None})
    print(HERE / "architecture.svg")
