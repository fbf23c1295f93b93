"""The card of a data set, which a hub shows and uses to find the tables.

It is made only from the rows. The publisher of the data adds a licence and may add text.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from recollect.analysis.naming import describe
from recollect.analysis.settings import MIXER, get_setting
from recollect.analysis.summary import count_statuses
from recollect.analysis.wording import and_text, count_text, rate_text, value_text
from recollect.plotting.text import markdown_text
from recollect.reports.exports.columns import CURVES, describe_runs
from recollect.rows import RunRow

CARD = "README.md"
MARK = "<!-- written by `recollect export`, which replaces a file with this line -->"
UNKNOWN = "unknown"  # the hub's term for an unknown licence
TAGS = ("recollect", "associative-recall", "sequence-models", "learning-rate")
# The hub's names of sizes, by the exclusive upper limit of the number of rows.
SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
LARGEST = "n>1M"
MOST_VALUES = 12  # the most values that a line lists


def write_card(
    rows: Sequence[RunRow],
    run_types: Mapping[str, str],
    curve_types: Mapping[str, str],
    points: int,
    licence: str,
) -> str:
    """The card as Markdown with YAML front matter; `points` is the number of evaluations."""
    tasks = _values(rows, "task.name")
    title = f"Recall by sequence mixers: {and_text(tasks)}"
    mixers = _values(rows, MIXER)
    return "\n".join(
        [
            *_front_matter(title, licence, max(len(rows), points)),
            "",
            MARK,
            "",
            f"# {markdown_text(title)}",
            "",
            "Sequence mixers trained on tasks of recall, one model per run, over learning rates "
            "and seeds.",
            "",
            f"`runs` has {count_text(len(rows), 'run')} ({_statuses(rows)}), `curves` their "
            f"{count_text(points, 'evaluation')} during training; `run_id` joins the two.",
            "",
            *_facts(rows, mixers),
            "",
            "## Reading it",
            "",
            "```python",
            "from datasets import load_dataset",
            "",
            'runs = load_dataset("FOLDER_OR_NAME", "runs", split="train")',
            'curves = load_dataset("FOLDER_OR_NAME", "curves", split="train")',
            "```",
            "",
            "There is one split, which the hub calls train. Test scores are those of rows that no "
            "run has trained on.",
            "",
            "## `runs`",
            "",
            *_table(run_types, describe_runs(run_types, mixers)),
            "",
            "## `curves`",
            "",
            *_table(curve_types, CURVES),
            "",
        ]
    )


def _front_matter(title: str, licence: str, largest: int) -> list[str]:
    # JSON is valid YAML, and its quoting is safe for any name.
    size = next((name for limit, name in SIZES.items() if largest < limit), LARGEST)
    return [
        "---",
        f"license: {json.dumps(licence)}",
        f"pretty_name: {json.dumps(title)}",
        "tags:",
        *(f"- {tag}" for tag in TAGS),
        "size_categories:",
        f"- {json.dumps(size)}",
        "configs:",
        "- config_name: runs",
        "  default: true",
        "  data_files: runs.parquet",
        "- config_name: curves",
        "  data_files: curves.parquet",
        "---",
    ]


def _statuses(rows: Sequence[RunRow]) -> str:
    counts = count_statuses(rows)
    return ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)


def _facts(rows: Sequence[RunRow], mixers: Sequence[str]) -> list[str]:
    """Lines about what was trained, with which settings, devices and versions."""
    rates = sorted({rate for row in rows if isinstance(rate := _rate(row), float)})
    facts = {
        "tasks": _listed(_values(rows, "task.name")),
        "mixers": _listed(mixers),
        "recipes": _counted(row.recipe for row in rows),
        "learning rates": _listed([rate_text(rate) for rate in rates]),
        "seeds": _listed(_values(rows, "seed")),
        "devices": _counted(row.device for row in rows if row.device),
        "trained with": _counted(_versions(row) for row in rows if row.versions),
    }
    lines = [f"- {topic}: {markdown_text(text)}" for topic, text in facts.items() if text]
    settings = [
        f"- {markdown_text(fact.topic)}: {markdown_text(fact.text)}"
        for fact in describe([row.spec for row in rows])
    ]
    return [*lines, "", "## Settings", "", *settings]


def _rate(row: RunRow) -> Any:
    return get_setting(row, "train.lr")


def _versions(row: RunRow) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(row.versions.items()))


def _values(rows: Sequence[RunRow], key: str) -> list[str]:
    """The distinct values of a setting, in the order of first occurrence."""
    found = dict.fromkeys(value_text(get_setting(row, key, "?")) for row in rows)
    return list(found)


def _listed(texts: Sequence[str]) -> str:
    if len(texts) <= MOST_VALUES:
        return ", ".join(texts)
    return f"{len(texts)} from {texts[0]} to {texts[-1]}"


def _counted(texts: Any) -> str:
    counts = Counter(texts).most_common()
    said = [f"{text} ({count_text(count, 'run')})" for text, count in counts[:MOST_VALUES]]
    rest = len(counts) - len(said)
    return "; ".join([*said, *([count_text(rest, "other")] if rest else [])])


def _table(types: Mapping[str, str], meanings: Mapping[str, str]) -> list[str]:
    return [
        "| column | type | what it is |",
        "|---|---|---|",
        *(
            f"| {markdown_text(name)} | {kind} | {markdown_text(meanings[name])} |"
            for name, kind in types.items()
        ),
    ]
