"""Pictures of made rows, and what can be read off them."""

from rows_made import make_curve, make_sweep

from recollect.reports.pictures import PictureRequest, Source, choose_for_picture

WIDE = {1e-4: [0.3, 0.4], 1e-3: [1.0, 0.98], 1e-2: [0.95, 0.93], 1e-1: [0.1, 0.3]}
NARROW = {1e-4: [0.2, 0.2], 1e-3: [0.99, 0.98], 1e-2: [0.2, 0.2], 1e-1: [0.0, 0.0]}
OPEN = {1e-4: [0.2, 0.2], 1e-3: [0.97, 0.95], 1e-2: [1.0, 1.0], 1e-1: [1.0, 1.0]}


def source(rows, name="mine", curves=None):
    return Source(name, rows, curves or {row.run_id: make_curve([0.1, 0.5, 0.9]) for row in rows})


def two_mixers():
    """A mixer of the table and one of a plug-in."""
    return make_sweep(WIDE) + make_sweep(NARROW, "leaky")


def draw(kind, *sources, where=(), **request):
    """The picture as the command line draws it."""
    chosen = [choose_for_picture(kind, source, where).source for source in sources]
    return PictureRequest(kind, **request).draw(*chosen)


def lines(ax, label):
    return [line for line in ax.get_lines() if line.get_label() == label]


def points(line):
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def words(figure):
    found = [text.get_text() for text in figure.texts]
    found += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    for ax in figure.axes:
        found += [ax.get_title(loc="left"), *(text.get_text() for text in ax.texts)]
        found += [tick.get_text() for tick in ax.get_yticklabels()]
    return " ".join(found)
