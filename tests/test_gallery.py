"""The generated pages: every picture there is or a line that says why not, sizes and recipes never
mixed, and the same text on every machine.
"""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from study_made import RATES, study_curve, study_rows

from recollect.analysis import group_cells
from recollect.reports.paper.comparable import choose_for_figure
from recollect.reports.paper.evidence import StoredResults, load_stores
from recollect.reports.paper.presets import NAMES
from recollect.reports.pictures import Source

DOCS = Path(__file__).parent.parent / "docs"
ROOT = DOCS.parent / "results"
FINE = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)  # fine enough to know a window by


def store(folder, rows):
    return StoredResults(ROOT / folder, rows, {row.run_id: study_curve(row) for row in rows})


def full(**more):
    mixers = ("attention", "mamba", "hyena")
    return study_rows(mixers, rates=FINE, seeds=(1, 2, 3), **more)


def small(**more):
    task = {"name": "mqar", "length": 12, "pairs": 3, "vocabulary": 64}
    return study_rows(("attention", "mamba"), rates=(1e-3, 1e-2), seeds=(1,), task=task, **more)


def ignore(path, figure):
    """In place of writing a picture."""


def test_sizes_and_recipes_are_never_drawn_together(docs, tmp_path):
    import gallery

    drawn = {}
    stores = [
        store("h200/study", full()),
        store("paper/fig1.small", small()),
    ]
    page = gallery.page(
        stores, tmp_path / "gallery", lambda path, figure: drawn.update({path.name: figure})
    )
    whole, appendix = page.split("## Appendix")
    assert "fig1.small" not in whole
    assert "results/h200/study" not in appendix
    titles = {
        name: {ax.get_title(loc="left").split(",")[0] for ax in figure.axes} - {""}
        for name, figure in drawn.items()
    }
    assert titles["fig1.png"] == {"length 64"}
    assert titles["fig1.small.png"] == {"length 12"}


def test_every_figure_is_drawn_or_says_what_to_run(docs, tmp_path):
    import gallery

    page = gallery.page([store("h200/study", full())], tmp_path / "gallery")
    assert "![fig1](gallery/fig1.png)" in page
    assert "recollect figure fig1 results/h200/study --where recipe=plain -o fig1.png" in page
    assert "63 planned = " in page
    for name in NAMES:
        assert f"### {name}\n" in page
        assert f"### {name}, small\n" in page
    assert "No rows yet: `recollect run paper:fig13 --out ...`" in page
    pictures = list((tmp_path / "gallery").iterdir())
    assert {picture.name for picture in pictures} >= {"fig1.png", "fig2.png"}
    for picture in pictures:
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < 150_000


def test_results_compare_models_and_name_what_a_change_did(docs, tmp_path):
    import results

    changed = study_rows(("attention",), rates=FINE, seeds=(1, 2, 3), dropout=0.2)
    page = results.page([store("h200/a", full()), store("h200/b", changed)], tmp_path, ignore)
    assert "### Recipe: plain\n" in page
    assert "### Recipe: plain but" not in page, "what differs from a recipe stands in one table"
    assert "| plain but dropout=0.2 | mqar, length 64, pairs 4 | 64 | 2 | Attention |" in page
    assert "The widest window is that of Attention" in page
    assert "| dropout 0 to 0.2 | Attention | mqar, length 64, pairs 4 | 64 | 2 | plain |" in page
    assert "| `results/h200/b` | 21 |" in page


def test_results_name_every_figure_and_the_commits(docs, tmp_path):
    import results

    page = results.page([store("h200/study-mqar64", full())], tmp_path, ignore)
    assert "### Figure 1. " in page
    missing = page.split("### Table 1. ")[1].split("\n### ")[0]
    assert "- C16: Copying" in missing
    assert "No rows of this size yet: `recollect run paper:table1 --out ...`" in missing
    line = next(line for line in page.splitlines() if "| `results/h200/study-mqar64` |" in line)
    assert "| be4d9e8 to 0b47aaf (4) |" in line
    assert "`results/commits.csv` has all. Rows that do not name their code" in " ".join(
        page.split()
    )
    elsewhere = results.page([store("h200/none", full())], tmp_path, ignore)
    assert "commits.csv" not in elsewhere


def with_positions(*kinds):
    """Mamba of one layer with each kind of positions at two rates, and searched without any."""
    few = [
        row
        for kind in kinds
        for row in study_rows(
            ("mamba",), depths=(1,), rates=(1e-3, 2e-3), seeds=(1, 2, 3), positions=kind
        )
    ]
    return study_rows(("mamba",), depths=(1,), rates=RATES, seeds=(1, 2, 3)) + few


def test_what_a_table_varies_makes_one_table_of_one_recipe(docs, tmp_path):
    import gallery

    import results

    rows = with_positions("sinusoidal", "learned")
    page = results.page([store("h200/a", rows)], tmp_path, ignore)
    assert page.count("**Table 4.") == 1
    [line] = [line for line in page.splitlines() if line.startswith("| Mamba | 0.")]
    assert line.count("not run") == 1, "relative alone"
    shown = gallery.page([store("h200/a", rows)], tmp_path, ignore)
    [command] = [
        block
        for block in shown.split("## Appendix")[0].split("```\n")
        if block.startswith("recollect figure table4")
    ]
    words = shlex.split(command)
    wanted = words[words.index("--where") + 1]
    assert wanted == "recipe=plain"
    drawn = choose_for_figure("table4", Source("a", rows, {}), [wanted])
    assert drawn.source.rows == rows, "it draws what the page shows"


def test_a_few_rates_are_tried_and_no_window(docs, tmp_path):
    import results

    page = results.page([store("h200/a", with_positions("learned"))], tmp_path, ignore)
    assert "### Recipe: plain but positions learned" not in page
    [line] = [line for line in page.splitlines() if line.startswith("| plain but positions")]
    assert "| 2 rates tried | – | – | – | – |" in line
    assert "≥" not in line


def test_a_table_has_room_for_more_sizes_than_a_picture(docs):
    import result_windows

    widths = range(8, 8 * 31, 8)
    rows = study_rows(("attention", "mamba"), rates=(1e-3, 1e-2), seeds=(1,), widths=widths)
    source = Source("plain", rows, {})
    _, lines = result_windows.compared(source)
    assert len(lines) == len(rows) // 2 == 60
    told = result_windows.drawn("windows", source, Path("w.png"), ignore)
    assert told.startswith("windows: 30 panels, one for each task and size, are more than the 24")


def test_results_begin_with_what_a_reader_takes_away(docs, tmp_path):
    import results

    changed = study_rows(("attention",), rates=FINE, seeds=(1, 2, 3), dropout=0.2)
    stores = [store("h200/a", full()), store("h200/b", changed)]
    page = results.page(stores, tmp_path, ignore)
    short = page.split("## In short\n")[1].split("\n## ")[0]
    assert "- Under the recipe `plain`, of 30 claims of the study: " in short
    assert "of 2 claims of ours: " in " ".join(short.split())
    assert "a window most so far: Attention, dropout 0 to 0.2, (64, 4), 2 layers: " in " ".join(
        short.split()
    )
    assert f"- Behind it: {len(full()) + len(changed)} runs, " in short
    assert page.index("## In short") < page.index("## The study's claims")
    assert "| layers | task | width | Attention | Mamba | DeltaNet | Hyena |" in short
    [line] = [line for line in short.splitlines() if line.startswith("| 2 |")]
    attention, mamba, delta_net, _ = line.strip("| ").split(" | ")[3:]
    window = group_cells(full())[0].window()
    assert attention == f"≥ {window.decades:.1f}", "the grid ends at its lower edge"
    assert (mamba.startswith("none, best 0."), delta_net) == (True, "–")


def test_what_untrained_runs_may_move_is_marked(docs, tmp_path):
    """And so are the best score of a single seed and a window of rates with one seed."""
    import results

    rows = [
        replace(row, status="todo", accuracy=None)
        if row.spec["seed"] > 1 or row.spec["train"]["lr"] == 1e-3
        else row
        for row in full()
    ]
    page = results.page([store("h200/a", rows)], tmp_path, ignore)
    lines = [line for line in page.splitlines() if line.startswith("| mqar, length 64")]
    [attention] = [line.strip("| ").split(" | ") for line in lines if "| Attention |" in line]
    assert attention[4].endswith("*")
    assert re.fullmatch(r"~\d\.\d\d† \[\d\.\d\d, \d\.\d\d\]", attention[6])
    whole = results.page([store("h200/a", full())], tmp_path, ignore)
    told = whole.split("## Windows")[1]
    assert not re.search(r"[~*{†]", "".join(line for line in told.splitlines() if "| mqar" in line))


def test_runs_that_were_trained_twice_are_told(docs):
    import results

    once, again = store("h200/a", full()), store("h200/b", full())
    assert results.repeats_text([once, again]) == ""
    row = full()[0]
    moved = store("h200/c", [replace(row, accuracy=row.accuracy - 0.002), *full()[1:]])
    assert results.repeats_text([once, moved]) == (
        " 1 run was trained twice with other scores, at most 0.0020 apart; those of the first store"
        " count."
    )


def test_the_same_cells_under_several_recipes_stand_beside_each_other(docs):
    import result_windows

    two = full()
    one = [row for row in two if row.spec["model"]["mixer"]["name"] == "attention"]
    recipes = {"study": two, "plain but dropout=0.2": two, "zoology": one}
    lines = result_windows.recipes_summary(recipes, {}).splitlines()
    assert lines[0] == "| layers | task | width | model | `study` | `zoology` |"
    [line] = lines[2:]
    assert line.startswith("| 2 | mqar, length 64, pairs 4 | 64 | Attention | ≥ ")
    assert len(set(line.strip("| ").split(" | ")[4:])) == 1
    assert result_windows.recipes_summary({"study": two}, {}) == ""


@pytest.mark.parametrize("name", ["gallery", "results"])
def test_the_stored_pages_are_those_of_the_stored_rows(docs, name):
    """Whoever adds rows runs `make gallery`; a stranger gets the same text."""
    import gallery

    import results

    written = {"gallery": gallery, "results": results}[name]
    page = written.page(load_stores(ROOT), DOCS / name, ignore)
    assert page == (DOCS / f"{name}.md").read_text()


def test_the_headline_shows_equal_widths_at_the_study_s_size(docs):
    import figures

    found = figures.headline(Source.load([figures.ROWS]))
    assert len(found.axes) == 1
    names = [text.get_text() for text in found.legends[0].get_texts()]
    assert names[:4] == ["Attention", "Mamba", "Hyena", "DeltaNet"]
