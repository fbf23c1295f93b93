"""What the results page says of one cause: the change, its effect, and why that may be in doubt."""

from page_parts import NONE
from result_remedies import remedy_text, seeds_of

from recollect.analysis import count_text, score_text
from recollect.analysis.naming import join_name
from recollect.analysis.wording import and_text
from recollect.plotting.text import mixer_title
from recollect.reports.paper.causes import is_thin
from recollect.reports.paper.figures.why import THIN
from recollect.spec.cell import cell_id

# Of a difference, by whether the windows before and after are open, that is wider than measured.
BOUNDS = {
    (False, False): "",
    (False, True): " (≥)",
    (True, False): " (≤)",
    (True, True): " (?)",
}


def change_text(cause):
    """Attention, dropout 0.1 to 0, (256, 16), 2 layers: 2.2† to 0.6 decades (from `study`)"""
    gain = cause.gains[0]
    before = width_text(cause.before, gain.before, gain.before_open, 1)
    after = width_text(cause.after, gain.after, gain.after_open, 1)
    unit = " decades" if gain.after else ""
    doubt = other_levels(cause) if gain.is_firm else f"; not settled: {doubt_text(cause)}"
    return f"{cause_title(cause)}: {before} to {after}{unit} (from `{cause.recipe}`{doubt})"


def effect_text(cause):
    gain = cause.gains[0]
    verb = "gains" if gain.decades > 0 else "loses"
    size = f"{abs(gain.decades):.1f} decades of W({gain.tau:g})"
    return f"{cause_title(cause)}: {verb} {size} (from `{cause.recipe}`)"


def unsettled_text(cause):
    """What it did, why that is not certain, and what to train."""
    return f"{effect_text(cause)}. {_capital(doubt_text(cause))}. {remedy_text(cause)}"


def doubt_text(cause):
    gain = cause.gains[0]
    seeds = f"{seeds_text(cause.before)} a rate before the change, {seeds_text(cause.after)} after"
    if gain.interval is None:
        return f"{seeds}, too few to say"
    if gain.interval[0] <= 0 <= gain.interval[1]:
        return f"{seeds}; others may turn its sign"
    return "a wider grid may turn its sign"


def seeds_text(cell):
    few, many = seeds_of(cell)
    return count_text(many, "seed") if few == many else f"{few} to {count_text(many, 'seed')}"


def other_levels(cause):
    """Whether it is beyond the seeds at the first level alone."""
    others = [f"{gain.tau:g}" for gain in cause.gains[1:] if not gain.is_firm]
    return f"; not settled at {and_text(others)}" if others else ""


def width_text(cell, decades, is_open, digits=2):
    """2.18†; ≥ 2.28; or none, best 0.885."""
    if not decades:
        return f"none, best {score_text(cell.best.mean)}"
    return f"{'≥ ' * is_open}{decades:.{digits}f}{THIN * is_thin(cell)}"


def gain_text(gain):
    interval = f" [{gain.interval[0]:+.2f}, {gain.interval[1]:+.2f}]" if gain.interval else ""
    return f"{gain.decades:+.2f}{interval}{BOUNDS[gain.before_open, gain.after_open]}"


def firm_text(cause):
    first = cause.gains[0]
    if first.interval is None:
        return "too few seeds"
    if not first.is_firm:
        return "no"
    return f"at {first.tau:g} alone" if other_levels(cause) else "**yes**"


def cause_title(cause):
    """Mamba without convolution, (64, 4), 2 layers"""
    _, depth = shape_of(cause)
    return f"{changed_text(cause)}, {size_of(cause)}, {count_text(depth, 'layer')}"


def changed_text(cause):
    return join_name(mixer_title(cause.mixer), cause.text)


def size_of(cause):
    return "({}, {})".format(*place_of(cause))


def place_of(cause):
    """Length and pairs."""
    task = cause.before.rows[0].spec["task"]
    return task.get("length", NONE), task.get("pairs", NONE)


def shape_of(cause):
    model = cause.before.rows[0].spec["model"]
    return model["width"], model["depth"]


def id_of(cell):
    return cell_id(cell.rows[0].spec)


def _capital(text):
    return text[:1].upper() + text[1:]
