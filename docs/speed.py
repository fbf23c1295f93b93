"""Write docs/speed.md and docs/speed.png from the benchmarks stored in results/bench/.

python docs/speed.py
"""

import json
import textwrap
from pathlib import Path

from matplotlib.figure import Figure

from recollect.plotting.colours import mixer_style
from recollect.plotting.settings import SCREEN, screen_style, to_bytes
from recollect.running.planning.bench import SHAPES, Report, Speed, parse_shape

HERE = Path(__file__).parent
STORED = HERE.parent / "results" / "bench"
RATES = (100, 200, 500, 1_000, 2_000, 4_000, 10_000)
COLUMNS = 100

HEAD = """# Speed

Written by `python docs/speed.py` from `results/bench/`, which `recollect bench --json` and
`bench/scaling.py` wrote on the device named. A run-step is one optimiser step of one run; two
layers of mixer and MLP on multi-query recall, vocabulary 8,192. The limit is the larger of two
times, both at rates measured on the same device: the multiply-adds of a step at the rate of a large
matrix product, and the bytes a step must move at the rate of a copy (see
`recollect/running/planning/bench.py`). "together": members of the population measured. "First
step": of a shape seen before, whose kernels are found compiled on the disk. The last lines are
first steps of new shapes, each from a cold process with an empty cache, and one of them again, as a
loop around `bench.measure` printed them. The figure is some hours older than the tables.
"""


def load(path: Path) -> Report:
    return Report.from_table(json.loads(path.read_text()))


def about(report: Report) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    rates = (
        f"copy {report.copy_bytes_per_s / 1e12:.2f} TB/s, matrix product "
        f"{report.multiply_adds_per_s / 5e11:.0f} TFLOP/s"
    )
    return textwrap.fill(f"{report.device}, {report.date[:10]}: {rates}; {versions}.", COLUMNS)


def table(report: Report) -> str:
    """A column for each shape that was measured."""
    shapes = list(dict.fromkeys(speed.shape for speed in report.speeds))
    heads = [
        f"{shape}: run-steps/s (share), together | memory each | first step" for shape in shapes
    ]
    lines = ["| mixer | " + " | ".join(heads) + " |", "|---" * (1 + 3 * len(shapes)) + "|"]
    by_key = {(speed.mixer, speed.shape): speed for speed in report.speeds}
    for mixer in dict.fromkeys(speed.mixer for speed in report.speeds):
        lines.append(
            f"| `{mixer}` | "
            + " | ".join(_cell(by_key.get((mixer, shape))) for shape in shapes)
            + " |"
        )
    return "\n".join(lines) + "\n"


def _cell(speed: Speed | None) -> str:
    if speed is None or speed.problem:
        return f"{speed.problem if speed else 'not measured'} | - | -"
    memory = f"{speed.memory_per_member / 1e9:.2f} GB" if speed.memory_per_member else "-"
    return (
        f"{speed.run_steps_per_s:,.0f} ({speed.share:.0%}), {speed.population} "
        f"| {memory} | {speed.first_step_s:.1f} s"
    )


def draw(report: Report) -> Figure:
    """Against the number of members at S1, and against width and length with 16 of them."""
    with screen_style():
        figure = Figure(figsize=(12, 3.6), layout="constrained")
        by_members, by_width, by_length = figure.subplots(1, 3)
        for mixer in dict.fromkeys(speed.mixer for speed in report.speeds):
            own = [
                (speed.shape, speed.population, speed.run_steps_per_s)
                for speed in report.speeds
                if speed.mixer == mixer and speed.run_steps_per_s > 0
            ]
            other = [(parse_shape(shape), per_s) for shape, _, per_s in own if shape not in SHAPES]
            plot(
                by_members, mixer, [(count, per_s) for shape, count, per_s in own if shape == "S1"]
            )
            plot(by_width, mixer, [(s.width, per_s) for s, per_s in other if s.length == 64])
            plot(by_length, mixer, [(s.length, per_s) for s, per_s in other if s.width == 64])
        label_axes(by_members, "members together (S1)")
        label_axes(by_width, "width (length 64, 16 members)")
        label_axes(by_length, "length (width 64, 16 members,\nbatch 512, 512, 256, 128)")
        by_members.legend(frameon=False, handlelength=3)
    return figure


def plot(axes, mixer: str, points: list[tuple[int, float]]) -> None:
    x, y = zip(*sorted(points), strict=True)
    style = mixer_style(mixer)
    axes.plot(x, y, color=style.colour, marker=style.marker, ls=style.stroke, label=mixer)


def label_axes(axes, label: str) -> None:
    """Log axes with a tick at every measured x, and at round numbers of run-steps."""
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="run-steps per second")
    axes.grid(alpha=0.3)
    ticks = sorted({round(x) for line in axes.get_lines() for x in line.get_xdata()})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    low, high = axes.get_ylim()
    marks = [mark for mark in RATES if low <= mark <= high]
    axes.set_yticks(marks, [f"{mark:,}" for mark in marks])
    axes.minorticks_off()


def page() -> str:
    text = HEAD
    for path in sorted(STORED.glob("*.json")):
        report = load(path)
        if path.stem.endswith("-scaling"):
            text += "\n![run-steps per second against members, width and length](speed.png)\n"
        else:
            precision = " and ".join(dict.fromkeys(speed.precision for speed in report.speeds))
            text += f"\n## {path.stem}: {precision}\n\n{about(report)}\n\n{table(report)}"
    for path in sorted(STORED.glob("*.txt")):
        text += f"\n## {path.stem}\n\n```\n{path.read_text()}```\n"
    return text


if __name__ == "__main__":
    for stored in STORED.glob("*-scaling.json"):
        (HERE / "speed.png").write_bytes(to_bytes(draw(load(stored)), "png", 120, SCREEN))
    (HERE / "speed.md").write_text(page())
