"""What a page is gathered from: several folders as one, the pictures beside them,
and commands that are right.
"""

import base64
import html
import json
import shlex
from collections import Counter
from pathlib import Path

import pytest
from rows_made import make_row
from stores_made import make_store

from recollect.reports.demo import demo_sweep
from recollect.reports.page.gather import MAX_PICTURE_BYTES, PNG, gather, write_page
from recollect.reports.paper.figures import FIGURES
from recollect.reports.pictures import KINDS
from recollect.running.results import RunSet
from recollect.spec.recipes.label import scale_of

PICTURE = PNG + b"rest"


def write_inside(folder: Path, run_id: str = "ab12", **changes):
    """What `recollect inspect` leaves behind."""
    (folder / "inspect" / run_id).mkdir(parents=True)
    (folder / "inspect" / run_id / "maps.png").write_bytes(PICTURE)
    record = {
        "run_id": run_id,
        "name": "mamba",
        "command": f"recollect inspect out {run_id}",
        "pictures": [
            {"file": f"inspect/{run_id}/maps.png", "title": "Maps", "caption": "What they show."}
        ],
    }
    (folder / "inspect" / f"{run_id}.json").write_text(json.dumps(record | changes))


def test_the_page_is_written_beside_the_first_store(tmp_path):
    make_store(tmp_path / "a", [make_row()])
    make_store(tmp_path / "b", [make_row("mamba")])
    assert write_page([tmp_path / "a", tmp_path / "b"]) == tmp_path / "a" / "report.html"
    page = (tmp_path / "a" / "report.html").read_text()
    assert "attention, mamba on mqar" in page
    assert f"{tmp_path / 'a'}, {tmp_path / 'b'}" in page


def test_beside_the_demo_stand_its_mixers_at_the_study_size(tmp_path):
    sweep = demo_sweep()
    rows = [make_row("attention"), make_row("mamba")]
    make_store(tmp_path / "demo", rows, sweep.name, sweep.source)
    context = gather([tmp_path / "demo"]).context
    mixers = Counter(row.spec["model"]["mixer"]["name"] for row in context.beside)
    assert mixers == {"attention": 39, "mamba": 39}
    for row in context.beside:
        assert (scale_of(row.spec), row.recipe, row.device) == ("full", "study", "NVIDIA H200")
    assert context.beside_text.startswith("78 runs of the same mixers at the study's size, under")
    assert "NVIDIA H200" in context.beside_text
    page = write_page([tmp_path / "demo"]).read_text()
    assert context.beside_text in html.unescape(page)
    assert "length 64, pairs 4" in page


def test_beside_other_sweeps_stands_nothing(tmp_path):
    sweep = demo_sweep()
    make_store(tmp_path / "named", [make_row("attention")], sweep.name, "task.name = 'mqar'")
    make_store(tmp_path / "without", [make_row("gru")], sweep.name, sweep.source)
    for name in ("named", "without"):
        context = gather([tmp_path / name]).context
        assert (list(context.beside), context.beside_text) == ([], "")


def test_a_run_in_two_folders_is_taken_from_where_it_ended(tmp_path):
    waiting, done = make_row(score=None, status="todo"), make_row(score=0.75)
    make_store(tmp_path / "a", [waiting])
    make_store(tmp_path / "b", [done, make_row("mamba", score=0.5)])
    make_store(tmp_path / "c", [make_row(score=0.25)])
    joined = RunSet.load_all([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    assert [(row.spec["model"]["mixer"]["name"], row.accuracy) for row in joined.rows] == [
        ("attention", 0.75),
        ("mamba", 0.5),
    ]
    assert {run_id: curve[-1].accuracy for run_id, curve in joined.curves.items()} == {
        done.run_id: 0.75,
        joined.rows[1].run_id: 0.5,
    }


def test_where_it_came_from_and_when(tmp_path):
    make_store(
        tmp_path, [make_row()], name="tiny", source="[task]\nname = 'mqar'", time=86_400 * 365.0
    )
    context = gather([tmp_path]).context
    assert [(source.title, source.text) for source in context.sources] == [
        ("tiny, planned 1971-01-01 00:00 UTC", "[task]\nname = 'mqar'")
    ]
    assert ("trained", "1971-01-01 00:00 UTC to 1971-01-01 00:00 UTC") in context.facts


def test_commands_name_the_folder_as_a_shell_needs_it_and_only_figures_with_rows(tmp_path):
    folder = tmp_path / "my results; rm -rf $HOME"
    make_store(folder, [make_row()])  # attention on mqar with two layers
    commands = gather([folder]).context.commands
    quoted = shlex.quote(str(folder))
    assert commands["rates"] == [
        f"recollect figure {name} {quoted} -o {name}.pdf" for name in ("rates", "fig1")
    ]
    assert commands["windows"] == [f"recollect figure windows {quoted} -o windows.pdf"]
    assert commands["best"] == [f"recollect figure curves {quoted} -o curves.pdf"]
    assert commands["maps"] == []
    assert commands["scaling"] == [
        f"recollect figure {name} {quoted} -o {name}.pdf" for name in ("fig2", "fig4", "fig11")
    ]
    assert commands["curves"] == [f"recollect export {quoted} --format json --curves -o runs.json"]
    assert commands["claims"] == [f"recollect claims {quoted}"]


def test_several_folders_stand_in_one_command_where_it_takes_them(tmp_path):
    make_store(tmp_path / "a", [make_row()])
    make_store(tmp_path / "b", [make_row("mamba")])
    commands = gather([tmp_path / "a", tmp_path / "b"]).context.commands
    assert commands["windows"] == [
        f"recollect figure windows {tmp_path / 'a'} {tmp_path / 'b'} -o windows.pdf"
    ]
    assert commands["runs"] == [
        f"recollect export {tmp_path / name} --format csv -o runs{place}.csv"
        for place, name in ((1, "a"), (2, "b"))
    ]


def test_the_commands_on_the_page_work(tmp_path, command, monkeypatch):
    make_store(tmp_path / "out", [make_row(model={"depth": depth}) for depth in (1, 2)])
    monkeypatch.chdir(tmp_path)
    commands = gather([Path("out")]).context.commands
    lines = dict.fromkeys(line for own in commands.values() for line in own)
    words = [shlex.split(line) for line in lines]
    assert {tuple(line[:2]) for line in words} == {
        ("recollect", verb) for verb in ("figure", "claims", "export")
    }
    drawn = [line[2] for line in words if line[1] == "figure"]
    assert drawn == [
        *("rates", "fig1", "windows", "curves", "fig6"),
        *("fig3", "fig12", "scaling", "fig2", "fig4", "fig11"),
    ]
    assert set(drawn) <= {*FIGURES, *KINDS}
    for line in words:
        if line[1] != "figure" or line[2] in ("fig1", *KINDS):
            said = command(*line[1:])
            assert said.code == 0, (line, said.err)
    for name in ("fig1", *KINDS):
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


# --- pictures


def test_pictures_are_looked_for_where_they_are_left():
    from recollect.reports.inspect import record

    assert record.FOLDER == "inspect"  # as write_inside has it


def test_pictures_of_a_model_are_taken_into_the_page(tmp_path):
    make_store(tmp_path, [make_row()])
    write_inside(tmp_path)
    (inside,) = gather([tmp_path]).context.insides
    assert (inside.run_id, inside.name, inside.command) == (
        "ab12",
        "mamba",
        "recollect inspect out ab12",
    )
    (picture,) = inside.pictures
    assert picture.source == "data:image/png;base64," + base64.b64encode(PICTURE).decode()
    assert (picture.title, picture.caption) == ("Maps", "What they show.")


@pytest.mark.parametrize(
    "pictures",
    [
        [{"file": "../secret.png"}],
        [{"file": "inspect/../../secret.png"}],
        [{"file": "/etc/hostname"}],
        [{"file": "inspect/ab12/link.png"}],
        [{"file": "inspect/ab12/page.html"}],
        [{"file": "inspect/ab12"}],
        [{"file": "a\0b"}],
        [{"file": ["x"]}, "x", None, {}],
        "inspect/ab12/maps.png",
        None,
    ],
)
def test_what_is_no_picture_of_ours_stays_out(tmp_path, pictures):
    folder = tmp_path / "out"
    make_store(folder, [make_row()])
    write_inside(folder, pictures=pictures)
    (tmp_path / "secret.png").write_bytes(PICTURE)
    (folder / "inspect/ab12/link.png").symlink_to(tmp_path / "secret.png")
    (folder / "inspect/ab12/page.html").write_text("<script>")
    assert gather([folder]).context.insides == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "[" * 100_000])
def test_a_damaged_record_stays_out(tmp_path, text):
    make_store(tmp_path, [make_row()])
    write_inside(tmp_path)
    (tmp_path / "inspect" / "ab12.json").write_text(text)
    assert gather([tmp_path]).context.insides == []


def test_pictures_stop_where_the_page_would_grow_too_large(tmp_path):
    make_store(tmp_path, [make_row()])
    write_inside(tmp_path, "a")
    write_inside(tmp_path, "b")
    (tmp_path / "inspect/b/maps.png").write_bytes(PNG + b"0" * MAX_PICTURE_BYTES)
    assert [inside.run_id for inside in gather([tmp_path]).context.insides] == ["a"]
