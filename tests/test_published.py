"""The numbers of docs/results.md, worked out again from exported rows.

Nothing of the package's analysis is used: a table of runs goes through pandas and NumPy.
"""

import io
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "results.md").read_text()
FOLDERS = ("results/h200", "results/paper/fig1")  # all that has the study's size
TAUS = (0.9, 0.95, 0.98)
NAMES = {
    "attention": "Attention",
    "based": "Based",
    "based_hybrid": "Based (hybrid)",
    "delta_net": "DeltaNet",
    "gated_delta_net": "Gated DeltaNet",
    "h3": "H3",
    "hyena": "Hyena",
    "mamba": "Mamba",
    "mamba2": "Mamba2",
    "rwkv4": "RWKV",
}
# Of a four-point grid: the range it searches, in log10 of the rate, and one slice of it.
LOWEST, HIGHEST, SLICE = -13 / 3, -5 / 3, 2 / 3


def exported(folder: str) -> pd.DataFrame:
    command = [sys.executable, "-m", "recollect", "export", folder, "--format", "csv"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return pd.read_csv(io.StringIO(text), low_memory=False)


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    """One line per run with a result."""
    found = pd.concat(map(exported, FOLDERS)).drop_duplicates("run_id")
    found = found[found["status"].isin(["done", "diverged"])].copy()
    name = found["model.mixer.name"].map(NAMES)
    found["model"] = name.where(found["model.mixer.kernel"] != 0, name + " without convolution")
    return found


def tables() -> list[tuple[str, list[str]]]:
    """The lines of the tables of windows: the recipe, and the entries."""
    found = []
    sections = PAGE.split("## Windows\n")[1].split("\n## ")[0].split("\n### Recipe: ")[1:]
    for section in sections:
        recipe, _, text = section.partition("\n")
        lines = text.split("\n### ")[0].splitlines()
        found += [
            (recipe, [entry.strip() for entry in line.strip("|").split(" | ")])
            for line in lines
            if line.startswith("| mqar, ")
        ]
    return found


def means_of(runs: pd.DataFrame, recipe: str, entries: list[str]) -> pd.DataFrame:
    """Mean score and number of seeds by rate, of one line of a table."""
    length, pairs = re.fullmatch(r"mqar, length (\d+), pairs (\d+)", entries[0]).groups()
    own = runs[
        (runs["recipe"] == recipe)
        & (runs["task.length"] == int(length))
        & (runs["task.pairs"] == int(pairs))
        & (runs["model.width"] == int(entries[1]))
        & (runs["model.depth"] == int(entries[2]))
        & (runs["model"] == entries[3])
    ]
    return own.groupby("train.lr")["score"].agg(["mean", "count", "min", "max"])


def window_of(means: pd.Series, tau: float) -> tuple[float, float] | None:
    """The ends in log10 of the rate: the widest of the ranges above tau that hold a score within a
    hundredth of the best.
    """
    logs, scores = np.log10(means.index.to_numpy()), means.to_numpy()
    found = []
    for inside, places in groupby(range(len(scores)), key=lambda place: scores[place] >= tau):
        own = list(places)
        if not inside or scores[own].max() < scores.max() - 0.01:
            continue
        ends = []
        for last, beyond in ((own[0], own[0] - 1), (own[-1], own[-1] + 1)):
            if 0 <= beyond < len(scores):
                pair = sorted((last, beyond), key=lambda place: scores[place])
                ends.append(np.interp(tau, scores[pair], logs[pair]))
            else:
                ends.append(logs[last])
        found.append(tuple(ends))
    return max(found, key=lambda ends: ends[1] - ends[0], default=None)


def test_there_are_lines_to_check():
    assert len(tables()) >= 30
    assert {recipe for recipe, _ in tables()} == {"study", "plain", "zoology"}


@pytest.mark.parametrize(
    ("recipe", "entries"),
    tables(),
    ids=[f"{recipe}-{'-'.join(entries[:4])}" for recipe, entries in tables()],
)
def test_a_line_of_windows_follows_from_the_rows(runs, recipe, entries):
    _, _, _, _, score, rate, *widths, ends, luck, _, seeds = entries
    found = means_of(runs, recipe, entries)
    means = found["mean"]
    best = found.loc[means.idxmax()]
    assert float(score.split(" ")[0].rstrip("*")) == pytest.approx(best["mean"], abs=1.1e-3)
    assert score.endswith("*") == (best["count"] == 1)
    if "(" in score:
        low, high = map(float, re.findall(r"[\d.]+", score)[1:])
        assert (low, high) == (
            pytest.approx(best["min"], abs=1.1e-3),
            pytest.approx(best["max"], abs=1.1e-3),
        )
    few, many = found["count"].min(), found["count"].max()
    assert seeds == (str(many) if few == many else f"{few} to {many}")
    # Of rates that are equally good to all digits any may be named.
    named = means[np.isclose(means.index, float(rate), rtol=5e-3)]
    assert len(named) == 1
    assert named.iloc[0] == pytest.approx(means.max(), abs=1e-9)
    if widths[0].endswith("tried"):  # too few rates to know a window by
        return
    for tau, width in zip(TAUS, widths, strict=True):
        window = window_of(means, tau)
        shown = re.match(r"[≥~ ]*(none|[\d.]+)", width).group(1)
        assert (shown == "none") == (window is None), tau
        if window:
            assert float(shown) == pytest.approx(window[1] - window[0], abs=0.0051), tau
            at_an_end = {*np.round(window, 9)} & {
                *np.round(np.log10([means.index[0], means.index[-1]]), 9)
            }
            assert ("≥" in width) == bool(at_an_end), tau
    window = window_of(means, TAUS[0])
    if window:
        assert [float(end) for end in ends.split(" – ")] == [
            pytest.approx(10**end, rel=5.1e-3) for end in window
        ]
        covered = min(window[1], HIGHEST) - max(window[0], LOWEST)
        assert float(luck.rstrip("%")) == pytest.approx(min(100, 100 * covered / SLICE), abs=0.51)


def test_runs_and_minutes_are_those_of_the_rows(runs):
    told = re.search(r"Behind it: ([\d,]+) runs, (\d+) minutes", " ".join(PAGE.split()))
    counted, minutes = (int(number.replace(",", "")) for number in told.groups())
    assert counted == runs["run_id"].nunique() == len(runs)
    assert minutes == pytest.approx(runs["wall_s"].sum() / 60, abs=0.51)
