"""The numbers that rules compare with, each with its name and its reason."""

from recollect.analysis import TAU
from recollect.reports.paper import study


class Threshold(float):
    """A number with a name and a reason; otherwise a float."""

    name: str
    why: str

    def __new__(cls, value: float, name: str, why: str) -> "Threshold":
        made = super().__new__(cls, value)
        made.name, made.why = name, why
        return made

    def __repr__(self) -> str:
        return f"{self:g}"


# ---- what a row of the study needs before a claim about it is decided ----
LEAST_SEEDS = Threshold(
    3, "least seeds", "the study's first version had three, its last five; two show no spread"
)
LEAST_RATES = Threshold(8, "least rates", "twice Zoology's four: what the study calls a finer grid")
LEAST_SPAN = Threshold(2, "least span, decades", "Zoology's grid spans two, 1e-4 to 1e-2")
FINEST_STEP = Threshold(
    0.55,
    "widest step, decades",
    "1, 3, 10, 30, ...: an edge is then known to about a quarter of a decade",
)

LEAST_EVALUATIONS = Threshold(
    20, "least evaluations", "the default number; a sudden change needs points before and after it"
)

# A limit for noise in a score. If one seed of three is lost, the standard errors cover all scores.
MOST_NOISE = 0.2
NOISES = Threshold(
    4,
    "standard errors",
    "of a mean over seeds: what a rule allows for seed noise. Two would be too few, since rules "
    f"make two dozen comparisons at once. A deviation of more than {MOST_NOISE:g} is not excused: "
    "if it is within so many standard errors, the check stays open",
)
LEAST_SIZES = Threshold(
    2,
    "least sizes",
    "(length, pairs) that settle a claim whose panels the study does not name",
)
LEAST_LENGTH = Threshold(
    256, "least length", "of one of these at least: (64,4) is easy for every model"
)

# ---- scores ----
SOLVED = Threshold(
    study.SOLVED,
    "solved",
    "the study's own definition, in an earlier version of it (C26); a best score reaches it if its "
    "mean over seeds does, and misses it if the mean is lower by more than the noise of the seeds",
)
PERFECT = Threshold(0.99, "perfect", "curves that coincide at the top; Zoology stops a run there")
SPLIT = Threshold(0.9, "lower line", "the score from which this package calls a task solved")
FAILS = Threshold(0.5, "fails", "half of the pairs")
MISSED = Threshold(0.5, "missed", "a search that ends below it would be called a failure")
GAP = Threshold(0.1, "gap", "a gap one sees in a figure")
GAIN = Threshold(0.1, "gain", "a gain one sees in a figure")
FLAT = Threshold(0.05, "flat", "no effect that one would see in a figure")
DIP = Threshold(
    0.02,
    "dip",
    "in addition to seed noise, which is allowed for: a fall too small to see in a figure",
)
NO_FURTHER = Threshold(
    0.02,
    "no further gain",
    "in addition to seed noise: a gain too small to see near the top of a figure",
)
FAR_BELOW = Threshold(0.25, "far below", "a width of a quarter of the length, for the study's >>")
TRIVIAL = Threshold(
    0.05, "at chance", "above what position alone gives; whatever binds nothing is alike there"
)
FASTER_DECAY = Threshold(
    2.0, "faster decay", "times the share of the mass that the other model loses per token"
)
VANISHED = Threshold(
    0.1,
    "vanished",
    "share of the mass next to the diagonal that is left at the far corner of a map, between the "
    "last token and the first: the study argues with that corner, where the decays of all tokens "
    "are multiplied; below a tenth a figure shows nothing there",
)
STAR_SLACK = Threshold(0.05, "slack below a star", "0.02 of digitising, and seed noise")
SEED_NOISE = Threshold(
    0.05, "seed noise", "by how much a held-out seed may contradict a paired comparison"
)
BETTER = Threshold(0.01, "better on average", "below a hundredth two curves coincide in a figure")
NEAR_FLOOR = Threshold(
    0.1, "near the floor", "above what position alone gives; the study says near zero"
)
ONE_PAIR_LEAST = Threshold(
    0.9,
    "one pair, least",
    "times 1 / pairs; further below is more than the sampling error of 3,000 test rows",
)
ONE_PAIR_MOST = Threshold(
    1.3,
    "one pair, most",
    "times the best position-only accuracy: room for seeds and for the best of many rates",
)
TWO_PERCENT = Threshold(
    0.1, "fails in an ablation", "the study prints 2 %; or the one-pair bound where that is higher"
)
POSITIONS_ALIKE = Threshold(0.1, "positions alike", "the study's own errors there are .01 to .16")
COPY_FAILS = Threshold(0.05, "copying fails", "the study prints 0 %")
COPY_HALF = Threshold(0.5, "copying in part", "the study prints 16 %")
BETWEEN = Threshold(
    0.1,
    "in between",
    "share of cells whose verdict would turn, beyond seed noise, if .95 were .9 or .99",
)
LEAST_CELLS = Threshold(10, "least cells", "a share of fewer says little")

# ---- windows, in decades of learning rate ----
WINDOW = Threshold(
    TAU,
    "window",
    "the score from which a rate belongs to the window, as everywhere in this package",
)
NARROW = Threshold(
    1.0,
    "narrow",
    "a grid with a rate per decade may miss it, and so may one of Zoology's steps at its edge",
)
WIDE = Threshold(
    1.5,
    "wide",
    "Zoology's rates are 2/3 apart: a window this wide holds two of them wherever it lies",
)
NARROWER = Threshold(
    1.0, "narrower", "one step and a half of Zoology's grid, and far more than the error of an edge"
)
COPY_NARROWER = Threshold(
    0.5,
    "narrower in copying",
    "one step of a grid such as 1e-4, 3e-4, 1e-3; there is one size only",
)
SAME_WINDOW = Threshold(0.5, "same window", "one step of a grid such as 1e-4, 3e-4, 1e-3")
ORDER_SLACK = Threshold(
    0.1,
    "slack in an order",
    "windows are known to a tenth of a decade; a smaller difference says nothing of their order",
)
