"""The study's tables: numbers, holes,
and text that no reader of Markdown or LaTeX mistakes for anything else.
"""

import json
from dataclasses import replace

import pytest
from study_made import study_row, study_rows

from recollect.errors import SpecError
from recollect.reports.paper.figures import TABLES, Table, write_figure
from recollect.reports.paper.figures.all_figures import DEFINITIONS
from recollect.reports.paper.presets import read_preset
from recollect.rows import RunRow

COPY = {"name": "copying"}
SETTING = "length 64, 4 pairs, width 64, 1 layer. Best of the rates tried. "


def scored(rows, *scores):
    """Rows with these scores, in turn."""
    return [
        replace(row, accuracy=score, exact=score) for row, score in zip(rows, scores, strict=True)
    ]


def runs(mixer, *scores, **more):
    """Three seeds (or as many as there are scores) of one model at one rate."""
    depth = more.pop("depth", 1)
    seeds = range(1, len(scores) + 1)
    return scored(study_rows([mixer], depths=(depth,), rates=(1e-3,), seeds=seeds, **more), *scores)


def ablated():
    rows = (
        runs("attention", 0.25, 0.27)
        + runs("mamba", 1.0, 1.0)
        + runs({"name": "mamba", "kernel": 0}, 0.25, 0.25)
    )
    rows += runs({"name": "attention", "conv": "k"}, 0.9996, 1.0)
    rows += runs({"name": "attention", "conv": "v", "conv_padding": "same"}, 0.98, 0.99)
    return rows + runs({"name": "mamba", "gate": False}, 0.5, 0.7)


def test_table_2_in_markdown():
    text = TABLES["table2"](ablated(), {}, "min-max").markdown()
    assert text == (
        "**Table 2. MQAR, 1 layer: ablations**\n\n"
        "| Model | Accuracy (%) |\n| :-- | --: |\n"
        "| Attention | 26.0 (25.0 to 27.0) |\n"
        "| Attention + conv on QKV | not run |\n"
        "| Mamba | 100 (100 to 100) |\n"
        "| Mamba without convolution | 25.0 (25.0 to 25.0) |\n"
        "| Mamba without gate | 60.0 (50.0 to 70.0) |\n"
        "| S6 + MLP (Mamba as a Transformer) | not run |\n\n"
        + SETTING
        + "Mean over 2 seeds, in brackets: lowest to highest seed. 8 of 8 "
        "planned "
        "runs have a result, none diverged. "
        "Not run: S6 + MLP.  \n"
        "Recipe: plain, vocabulary 8192, data reshuffled, batch 512, "
        "steps 9750, "
        "weight decay 0.1, warmup 0.1, schedule cosine, "
        "precision bf16.  \n"
    )


def test_taps_are_said_only_where_convolutions_differ_in_them():
    """Plain attention has the option too, and no use for it."""
    one = ablated() + runs({"name": "attention", "conv": "q", "conv_kernel": 4}, 0.3, 0.3)
    three = [{"name": "attention", "conv": letters, "conv_kernel": 3} for letters in ("qkv", "k")]
    same = runs("attention", 0.25, 0.27) + [row for mixer in three for row in runs(mixer, 1.0, 1.0)]
    assert "kernel" not in TABLES["table3"](one, {}, "min-max").markdown()
    assert "kernel" not in TABLES["table3"](same, {}, "min-max").markdown()
    assert "conv kernel 3" in TABLES["table3"](one + same[2:], {}, "min-max").markdown()


def test_table_3_in_latex():
    text = TABLES["table3"](ablated(), {}, "std").latex()
    assert text.startswith(
        "% needs \\usepackage{booktabs} and "
        "\\usepackage[T1]{fontenc}\n\\begin{table}\n\\centering\n"
        "\\caption{Table 3. MQAR, 1 layer: all ablations. "
        + SETTING
        + "Mean over 2 seeds, $\\pm$: one standard deviation"
    )
    assert text.endswith(
        "\\label{tab:table3}\n\\begin{tabular}{lr}\n\\toprule\nModel & "
        "Accuracy "
        "(\\%) \\\\\n\\midrule\n"
        "Attention & 26.0 $\\pm$ 1.4 \\\\\n"
        "Attention + conv on QKV & not run \\\\\n"
        "Attention + conv on K (causal) & 99.9 $\\pm$ 0.0 \\\\\n"
        "Attention + conv on V (centred) & 98.5 $\\pm$ 0.7 \\\\\n"
        "Attention + conv on Q & not run \\\\\n"
        "Mamba & 100 $\\pm$ 0.0 \\\\\n"
        "Mamba without convolution & 25.0 $\\pm$ 0.0 \\\\\n"
        "Mamba without gate & 60.0 $\\pm$ 14.1 \\\\\n"
        "S6 + MLP (Mamba as a Transformer) & not run \\\\\n"
        "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    )


def lines(name, rows, kind="min-max"):
    return TABLES[name](rows, {}, kind).lines


def test_a_setting_is_a_column_where_something_was_ablated_in_it():
    rows = (
        ablated()
        + runs("attention", 0.1, 0.1, widths=(128,))
        + runs("mamba", 0.2, 0.3, widths=(128,))
    )
    assert TABLES["table2"](rows, {}, "min-max").head == (
        "Model",
        "Accuracy (%)",
    )  # at width 128 there is nothing to compare
    rows += runs({"name": "mamba", "kernel": 0}, 0.5, 0.5, widths=(128,))
    table = TABLES["table2"](rows, {}, "min-max")
    assert table.head[1:] == (
        "length 64, 4 pairs, width 64, 1 layer",
        "length 64, 4 pairs, width 128, 1 layer",
    )
    assert table.lines[2] == ("Mamba", "100 (100 to 100)", "25.0 (20.0 to 30.0)")
    assert table.lines[4] == ("Mamba without gate", "60.0 (50.0 to 70.0)", "not run")


def test_variants_of_a_line_are_told_apart():
    rows = (
        runs("mamba", 1.0)
        + runs({"name": "mamba", "init": "zoology"}, 0.4)
        + runs({"name": "mamba", "kernel": 0}, 0.25)
    )
    named = [line[0] for line in lines("table2", rows)]
    assert named[2:5] == [
        "Mamba",
        "Mamba, init zoology",
        "Mamba without convolution",
    ]


def test_diverged_and_missing_runs_are_said():
    rows = runs("mamba", 1.0, 1.0) + runs({"name": "mamba", "kernel": 0}, 0.5, 0.5)
    rows = [replace(row, status="diverged") if row.spec["seed"] == 1 else row for row in rows]
    rows += [
        replace(row, status="failed", accuracy=None)
        for row in runs({"name": "mamba", "gate": False}, 0.5)
    ]
    assert [line[1] for line in lines("table2", rows)[2:5]] == [
        "50.0 (0.0 to 100), 1 diverged",
        "25.0 (0.0 to 50.0), 1 diverged",
        "no result",
    ]


def test_table_1_has_a_line_per_size_in_the_studys_order():
    rows = runs("mamba", 0.1, 0.3, task=COPY, widths=(96,), depth=3) + runs(
        "mamba", 0.0, 0.0, task=COPY, depth=6
    )
    rows += runs("mamba", 0.0, 0.02, task=COPY, depth=3) + runs(
        "attention", 1.0, 1.0, task=COPY, depth=3, positions="rope"
    )
    table = TABLES["table1"](rows, {}, "min-max")
    assert table.head == (
        "Architecture",
        "Layers",
        "Width",
        "Parameters (M)",
        "Exact match (%)",
        "Rate",
        "Seeds",
    )
    assert table.lines == (
        ("Attention (RoPE)", "3", "64", "0.149", "100 (100 to 100)", "1e-3", "2"),
        ("Mamba", "3", "64", "0.149", "1.0 (0.0 to 2.0)", "1e-3", "2"),
        ("Mamba", "6", "64", "0.297", "0.0 (0.0 to 0.0)", "1e-3", "2"),
        ("Mamba", "3", "96", "0.335", "20.0 (10.0 to 30.0)", "1e-3", "2"),
    )
    assert table.notes[0].startswith("up to 20 letters. Best of the rates tried.")
    waiting = [
        replace(row, status="todo", exact=None, parameters=None)
        for row in runs("mamba", 0.0, task=COPY, depth=12)
    ]
    assert lines("table1", rows + waiting)[3] == ("Mamba", "12", "64", "-", "no result", "-", "0")


def test_table_4_has_the_encodings_as_columns():
    rows = (
        runs("mamba", 0.99, 1.0)
        + runs("mamba", 0.9, 0.9, positions="learned")
        + runs("h3", 0.2, positions="sinusoidal")
    )
    rows += runs({"name": "mamba", "kernel": 0}, 0.1, positions="learned")  # another table's
    table = TABLES["table4"](rows, {}, "min-max")
    assert table.head == ("Architecture", "No PE", "Absolute PE", "Relative PE", "Learned PE")
    assert table.lines == (
        ("Mamba", "0.99 (0.99 to 1.00)", "not run", "not run", "0.90 (0.90 to 0.90)"),
        ("Hyena", *["not run"] * 4),
        ("RWKV", *["not run"] * 4),
        ("H3", "not run", "0.20", "not run", "not run"),
    )
    two = TABLES["table4"](rows + runs("mamba", 0.5, positions="relative", depth=2), {}, "min-max")
    assert two.head[:2] == ("Setting", "Architecture")
    assert two.names == 2
    assert two.lines[4][:2] == ("length 64, 4 pairs, width 64, 2 layers", "Mamba")


def test_rows_of_a_recipe_that_compares_nothing_lengthen_no_name():
    """Beside Table 4's rows stand those of another recipe, without any positions."""
    other = runs("mamba", 0.5, dropout=0.3)
    rows = runs("mamba", 0.99) + runs("mamba", 0.9, positions="learned")
    assert lines("table4", other + rows) == lines("table4", rows)
    assert lines("table2", other + ablated()) == lines("table2", ablated())
    compared = other + runs("mamba", 0.4, positions="learned", dropout=0.3)
    named = [line[0] for line in lines("table4", compared + rows)]
    assert named[:2] == ["Mamba, dropout 0", "Mamba, dropout 0.3"]


def test_hostile_text_stays_text():
    table = Table(
        "table1",
        "A_b $x$ & 100 %",
        ("a|b", "#{}\\"),
        (("<img src=x>", "*~^ `code` [a](b)"), ("\x1b\n\ud800é", "±…")),
        ("n",),
    )
    markdown = table.markdown()
    assert "| a\\|b | \\#{}\\\\ |" in markdown
    assert "| &lt;img src=x&gt; | \\*\\~^ \\`code\\` \\[a\\](b) |" in markdown
    assert "| é | ±… |" in markdown
    assert markdown.startswith("**A\\_b \\$x\\$ &amp; 100 %**")
    latex = table.latex()
    assert "a\\textbar{}b & \\#\\{\\}\\textbackslash{} \\\\" in latex
    assert (
        "\\textless{}img src=x\\textgreater{} & "
        "*\\textasciitilde{}\\textasciicircum{} "
        "`code` [a](b) \\\\" in latex
    )
    assert "é & $\\pm$\\dots{} \\\\" in latex
    assert "\\caption{A\\_b \\$x\\$ \\& 100 \\%. n}" in latex
    drawn = [text.get_text() for text in table.figure().axes[0].texts]
    assert drawn == ["a|b", "#{}\\", "<img src=x>", "*~^ `code` [a](b)", "é", "±…"]


def test_a_table_is_written_in_five_forms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = ablated()
    assert str(write_figure("table2", rows, {})) == "table2.md"
    assert write_figure("table2", rows, {}, tmp_path / "t.tex").read_text().startswith("% needs")
    for form, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert (
            write_figure("table2", rows, {}, tmp_path / f"t.{form}", dpi=40)
            .read_bytes()
            .startswith(start)
        )
    with pytest.raises(
        SpecError,
        match=r"-o 't\.csv': the file's name must end in \.png, \.svg, \.pdf, \.md or \.tex",
    ):
        write_figure("table2", rows, {}, tmp_path / "t.csv")


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_a_presets_runs_belong_to_its_figure(definition):
    planned = [
        RunRow(
            run.run_id,
            json.loads(run.canonical_json()),
            "todo",
            run.task.score_name,
            run.task.chance,
        )
        for run in read_preset(definition.name, "small").runs
    ]
    unfit = [row.spec["model"]["depth"] for row in planned if not definition.fits(row)]
    assert set(unfit) <= (
        {2} if definition.name == "table2" else set()
    )  # the text beside Table 2 speaks of two layers as well
    assert len(unfit) < len(planned)
    with pytest.raises(
        SpecError, match=f"{definition.name}: .* runs fit but none has a result yet"
    ):
        write_figure(definition.name, planned, {})


def test_the_verb_draws_from_several_folders(tmp_path, command, monkeypatch):
    from recollect.running.results import RunSet

    rows = ablated()
    monkeypatch.setattr(
        RunSet,
        "load_all",
        classmethod(lambda cls, folders: RunSet(rows[: 4 * len(list(folders))], {})),
    )
    said = command("figure", "table2", "a", "b", "-o", tmp_path / "t.md", "--band", "std")
    assert said == (0, f"table2: {tmp_path / 't.md'}\n", "")
    assert "| Attention | 26.0 ± 1.4 |" in (tmp_path / "t.md").read_text()
    said = command("figure", "fig13", "a")
    assert said.code == 2
    assert "recollect: fig13: none of 4 runs fits" in said.err


def test_made_rows_are_those_of_the_specification():
    assert study_row("mamba").spec["model"]["mixer"]["kernel"] == 4
