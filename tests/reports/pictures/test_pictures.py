"""Pictures of any rows, whatever their kind: panels, names, sizes, what is refused, two folders
over each other.
"""

import itertools

import pytest
from pictures_made import NARROW, WIDE, draw, lines, points, source, two_mixers, words
from rows_made import HOSTILE, make_row, make_sweep
from stores_made import make_store
from study_made import study_rows

from recollect.analysis import group_cells
from recollect.errors import SpecError
from recollect.plotting.colours import mixer_style
from recollect.plotting.settings import to_bytes
from recollect.plotting.sheet import Frame
from recollect.reports.pictures import KINDS, Look, PictureRequest, Source, names_of, read_size

# ---- what every kind has in common ----


@pytest.mark.parametrize("kind", ["rates", "curves", "scaling"])
def test_beside_chance_stands_what_positions_give_away(kind):
    rows = make_sweep(WIDE) + make_sweep(WIDE, width=128)
    figure = draw(kind, source(rows))
    levels = {line.get_ydata()[0] for ax in figure.axes for line in lines(ax, "position alone")}
    assert levels == {group_cells(rows)[0].position_only}
    assert "position alone" in words(figure)


@pytest.mark.parametrize("kind", KINDS)
def test_any_mixer_is_drawn_in_a_colour_of_its_own(kind):
    rows = two_mixers() + make_sweep(WIDE, width=128)
    figure = draw(kind, source(rows))
    assert "leaky" in words(figure)
    colours = {line.get_color() for ax in figure.axes for line in ax.get_lines()}
    colours |= {
        f"#{''.join(f'{round(255 * part):02X}' for part in patch.get_facecolor()[:3])}"
        for ax in figure.axes
        for patch in ax.patches
    }
    assert {mixer_style("attention").colour, mixer_style("leaky").colour} <= colours


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_the_same_file_every_time_and_a_pdf_has_its_fonts(kind):
    rows = two_mixers() + make_sweep(WIDE, width=128)
    first, second = (draw(kind, source(rows)) for _ in range(2))
    for form in ("png", "svg", "pdf"):
        data = to_bytes(first, form, 50)
        assert data == to_bytes(second, form, 50), form
    assert b"/FontFile2" in data
    assert b"/Type3" not in data


@pytest.mark.parametrize("kind", KINDS)
def test_the_caption_names_what_is_shown(kind):
    rows = make_sweep(WIDE) + make_sweep(NARROW, "leaky") + make_sweep(NARROW, width=128)
    rows += [make_row("later", score=None, status="todo")]
    text = words(draw(kind, source(rows)))
    assert "2 layers" in text
    assert "2 seeds" in text
    assert "24 of 25 planned runs have a result, none diverged" in text
    assert "No result yet: later" in text
    assert "weight decay 0.1" in text


@pytest.mark.parametrize(
    ("seeds", "told"),
    [
        ((2, 2, 2), "2 seeds"),
        ((2, 1), "Seeds: width 64: 2 seeds; width 128: 1 seed. "),
        ((2, 1, 2), "Seeds: width 128: 1 seed; every other panel: 2 seeds. "),
    ],
)
def test_the_caption_says_how_many_seeds_each_panel_has(seeds, told):
    rows = []
    for count, width in zip(seeds, (64, 128, 256), strict=False):
        rows += make_sweep({lr: own[:count] for lr, own in WIDE.items()}, width=width)
    text = " ".join(words(draw("rates", source(rows))).split())
    assert told in text
    assert ("Seeds: " in text) == ("Seeds: " in told)


@pytest.mark.parametrize("kind", KINDS)
def test_title_and_caption_may_be_left_out(kind):
    rows = two_mixers() + make_sweep(WIDE, width=128)
    whole, bare = (
        draw(kind, source(rows), frame=frame)
        for frame in (Frame(), Frame(title=False, caption=False))
    )
    assert "planned runs" in words(whole)
    assert bare.texts == []
    assert bare.get_size_inches()[1] < whole.get_size_inches()[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_has_the_size_that_was_asked_for(kind):
    rows = two_mixers() + make_sweep(WIDE, width=128)
    figure = draw(kind, source(rows), frame=Frame(7.0, 6.0))
    assert tuple(figure.get_size_inches()) == (7.0, 6.0)
    assert draw(kind, source(rows), frame=Frame(3.4)).get_size_inches()[0] == 3.4
    with pytest.raises(SpecError, match=r"--size: 1.* inches of height leave 0 .*\ngive at least"):
        draw(kind, source(rows), frame=Frame(7.0, 1.0))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_means_nothing_to_the_picture(name):
    kind = list(KINDS)[HOSTILE.index(name) % len(KINDS)]
    rows = make_sweep(WIDE, name) + make_sweep(WIDE, name, width=128)
    assert to_bytes(draw(kind, source(rows, name)), "svg").startswith(b"<?xml")


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_means_anything_to_any_kind(kind):
    rows = [
        row
        for name in HOSTILE
        for row in make_sweep(WIDE, name) + make_sweep(WIDE, name, width=128)
    ]
    assert to_bytes(draw(kind, source(rows, HOSTILE[0])), "svg").startswith(b"<?xml")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_a_result_are_refused_with_a_way_out(kind):
    waiting = [make_row(score=None, status="todo")]
    with pytest.raises(SpecError, match=r"mine: none of 1 runs has a result yet.*resume DIR"):
        draw(kind, source(waiting))
    failed = [make_row(score=None, status="failed", lr=lr) for lr in (1e-3, 1e-2)]
    with pytest.raises(SpecError, match=r"^mine: 2 runs failed; `recollect failures DIR` shows"):
        draw(kind, source(failed))
    with pytest.raises(SpecError, match=r"of 3 runs .*\(2 failed: `recollect failures DIR` shows"):
        draw(kind, source([*failed, *waiting]))


def test_leaving_out_where_is_advised_to_those_who_gave_it():
    waiting = [make_row(score=None, status="todo")]
    with pytest.raises(SpecError, match=r"resume DIR`$"):
        draw("rates", source(waiting))
    with pytest.raises(SpecError, match=r"resume DIR`,\nor leave out --where model.width=64$"):
        draw("rates", source(waiting), where=("model.width=64",))
    with pytest.raises(SpecError, match=r"^--where model.width=3: none of the 1 runs of mine fits"):
        draw("rates", source(waiting), where=("model.width=3",))


def test_a_value_that_no_run_has_is_refused_with_those_there_are():
    rows = make_sweep(WIDE, "mamba", width=128) + make_sweep(WIDE)
    for where, there in (
        (("model.width=64.5", "model.mixer=mamba"), "there model.width is 64; 128"),
        (("model.mixer=mama",), 'there model.mixer.name is "attention"; "mamba"'),
        (("scale=full", "train.lr=7"), "there train.lr is 0.0001; 0.001; 0.01; 0.1"),
        (("scale=[]",), "there scale is "),
        (("model.mixer=mamba", "model.width=64"), "some fit each condition alone: leave one out"),
    ):
        with pytest.raises(SpecError) as refused:
            draw("rates", source(rows), where=where)
        assert there in str(refused.value).splitlines()[1]
    spec = {**rows[0].spec, "task": {"name": "copying", "eval_lengths": [20, 30]}}
    copying = source([make_row(spec=spec)])
    with pytest.raises(SpecError, match=r"there task.eval_lengths is \[\[20, 30\]\]$"):
        draw("rates", copying, where=("task.eval_lengths=20",))
    draw("rates", copying, where=("task.eval_lengths=[[20, 30]]",))
    with pytest.raises(SpecError, match="must be written KEY=VALUE"):
        draw("rates", source(rows), where=("=64",))


def test_a_folder_is_named_in_the_advice(tmp_path):
    make_store(tmp_path, [make_row(score=None, status="failed", failure="error: boom")])
    with pytest.raises(SpecError, match=f"1 run failed; `recollect failures {tmp_path}`"):
        draw("rates", Source.load([tmp_path]))


@pytest.mark.parametrize("kind", KINDS)
def test_titles_of_panels_stay_apart_in_a_narrow_picture(kind):
    rows = [row for width in (64, 128) for depth in (1, 2) for row in two_mixers_of(width, depth)]
    figure = draw(kind, source(rows), frame=Frame(3.4))
    figure.draw_without_rendering()
    titles = [ax._left_title for ax in figure.axes]
    boxes = [title.get_window_extent() for title in titles if title.get_text().strip()]
    assert len(boxes) > 1
    assert all(box.x1 <= figure.bbox.x1 for box in boxes)
    assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))


def test_windows_of_many_mixers_refuse_a_height_in_which_names_overlap():
    rows = [row for number in range(20) for row in make_sweep(WIDE, f"mixer{number}")]
    with pytest.raises(SpecError, match=r"--size: 3 inches .* which need 3.2;\ngive at least 4"):
        draw("windows", source(rows), frame=Frame(6.0, 3.0))
    draw("windows", source(rows), frame=Frame(6.0, 4.8))


def two_mixers_of(width, depth):
    return make_sweep(WIDE, width=width, depth=depth) + make_sweep(
        NARROW, "leaky", width=width, depth=depth
    )


def test_a_panel_for_each_task_and_size_in_the_order_of_numbers():
    rows = make_sweep(WIDE, width=128) + make_sweep(WIDE, width=16) + make_sweep(WIDE, depth=1)
    figure = draw("rates", source(rows))
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "width 16, 2 layers",
        "width 64, 1 layer",
        "width 128, 2 layers",
    ]
    assert "mqar, length 64, pairs 4" in figure.texts[0].get_text()
    many = [row for width in range(25) for row in make_sweep({1e-3: [1.0]}, width=width + 1)]
    with pytest.raises(SpecError, match=r"25 panels.*\n.*--where model.width=64"):
        draw("rates", source(many))


def test_panels_in_the_order_of_the_rows_if_that_is_asked_for():
    rows = [row for width in (64, 8, 16) for row in make_sweep(NARROW, width=width)]
    figure = draw("windows", source(rows), look=Look(by_rows=True))
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["width 64", "width 8", "width 16"]


@pytest.mark.parametrize(
    ("tau", "levels"), [(0.9, [0.9, 0.95, 0.98]), (0.5, [0.5, 0.9, 0.95]), (0.99, [0.99])]
)
def test_windows_are_drawn_at_the_level_asked_for_and_the_usual_ones_above(tau, levels):
    figure = draw("windows", source(make_sweep(WIDE)), look=Look(tau=tau))
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"τ = {tau:g}" for tau in levels]
    assert f"W({tau:g}) in decades" in " ".join(words(figure).split())


@pytest.mark.parametrize(
    ("kind", "look", "message"),
    [
        (
            "curves",
            Look(tau=0.5),
            "--tau 0.5: curves shows no such thing; leave it out, or draw rates or windows or "
            "scaling",
        ),
        (
            "windows",
            Look(band="std"),
            "--band std: windows shows no such thing; leave it out, or draw rates or scaling",
        ),
        (
            "rates",
            Look(against="width"),
            "--against width: rates shows no such thing; leave it out, or draw scaling",
        ),
    ],
)
def test_a_setting_that_a_picture_does_not_show_is_refused(kind, look, message):
    with pytest.raises(SpecError) as caught:
        draw(kind, source(two_mixers()), look=look)
    assert str(caught.value) == message


def test_only_the_rows_that_were_asked_for():
    rows = make_sweep(WIDE) + make_sweep(WIDE, width=128)
    figure = draw("rates", source(rows), where=("model.width=128",))
    assert len(figure.axes) == 1
    assert "width 128" in figure.texts[0].get_text()
    both = draw("rates", source(rows), where=("model.width=[64, 128]",))
    assert len(both.axes) == 2
    whole = study_rows(("attention", "mamba"), widths=(64,), rates=(1e-3, 1e-2), seeds=(1,))
    one = draw("windows", source(whole), where=("model.mixer=mamba",))
    assert [label.get_text() for label in one.axes[0].get_yticklabels()] == ["Mamba"]
    assert len(draw("rates", source(whole), where=("recipe=plain",)).axes) == 1
    with pytest.raises(SpecError, match=r"^--where 'recipe=zoology': rates shows no run of that "):
        draw("rates", source(whole), where=("recipe=zoology",))
    with pytest.raises(SpecError, match=r"--where 'model.wdth=3': did you mean model.width\?"):
        draw("rates", source(rows), where=("model.wdth=3",))
    with pytest.raises(SpecError, match=r"must be written KEY=VALUE; for example model.width=64"):
        draw("rates", source(rows), where=("model.width",))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (PictureRequest("rate"), "'rate': no picture; did you mean rates?"),
        (PictureRequest("rates", Look(band="sd")), "--band 'sd': did you mean std?"),
        (PictureRequest("rates", Look(tau=0.0)), "--tau 0: must be above 0 and at most 1"),
        (
            PictureRequest("scaling", Look(against="widht")),
            "--against widht: did you mean width?",
        ),
        (PictureRequest("scaling", Look(against="depth")), "the runs have 1 value of depth"),
    ],
)
def test_a_bad_request_says_what_would_be_right(request_, message):
    with pytest.raises(SpecError) as caught:
        request_.draw(source(two_mixers()))
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


def test_sizes_are_inches():
    assert read_size(None) == (None, None)
    assert read_size("3.4") == (3.4, None)
    assert read_size("7x4") == (7.0, 4.0)
    for text in ("wide", "7x", "0x3", "1x2x3", "nan", "7x1e9"):
        with pytest.raises(SpecError, match="give WIDTH or WIDTHxHEIGHT in inches from 1 to 60"):
            read_size(text)


def test_the_file_must_be_a_picture(tmp_path):
    request = PictureRequest("rates")
    target = tmp_path / "a.pdf"
    assert request.write(source(two_mixers()), output=target) == target
    assert target.read_bytes().startswith(b"%PDF")
    with pytest.raises(
        SpecError, match=r"-o 'a.md': the file's name must end in .png, .svg or .pdf"
    ):
        request.write(source(two_mixers()), output=tmp_path / "a.md")


# ---- two folders ----


def test_two_folders_share_panels_and_labels_and_say_in_what_they_differ():
    mine = make_sweep(WIDE) + make_sweep(NARROW, "leaky")
    theirs = make_sweep(NARROW, dropout=0.1)
    figure = draw("rates", source(mine), source(theirs, "theirs"))
    (ax,) = figure.axes
    first, second = lines(ax, "Attention")
    assert first.get_color() == second.get_color() == mixer_style("attention").colour
    assert not first.is_dashed()
    assert second.is_dashed()
    text = words(figure)
    assert "mine: dropout none; theirs: dropout 0.1" in text
    legend = [entry.get_text() for entry in figure.legends[0].get_texts()]
    assert legend[:4] == ["Attention", "leaky", "mine", "theirs"]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("mine", "theirs"), ("mine", "theirs")),
        (("mqar-of-length-256-long", "short"), ("mqar-of-length-25…", "short")),
        (
            ("plain-mqar256-of-rwkv", "plain-mqar256-of-mamba"),
            ("…n-mqar256-of-rwkv", "…-mqar256-of-mamba"),
        ),
        (("both-begin-like-this-1-and-end-like-this", "both-begin-like-this-2-and-end-like-this"),)
        * 2,
    ],
)
def test_names_of_two_folders_stay_apart_when_shortened(names, shown):
    rows = make_sweep(WIDE)
    (ax,) = draw("windows", *(source(rows, name) for name in names)).axes
    ends = [text.get_text().partition(" · ")[2] for text in ax.get_yticklabels()]
    assert sorted(ends) == sorted(shown)


def test_folders_of_one_name_are_called_by_more_of_their_paths(tmp_path):
    mine, theirs, other = (tmp_path / name for name in ("mine/out", "theirs/out", "other"))
    assert names_of([mine]) == ["out"]
    assert names_of([mine], [other]) == ["out", "other"]
    assert names_of([mine], [theirs]) == ["mine/out", "theirs/out"]
    assert names_of([mine, other], [theirs, other])[0] == f"mine/out, {tmp_path.name}/other"
    assert names_of([mine], [mine]) == ["out", "out, compared"]
    assert names_of((), ()) == ["", "compared"]


def test_what_differs_inside_a_folder_stays_in_the_label():
    mine = make_sweep(WIDE, "leaky", dropout=0.1)
    theirs = [row for d in (0.1, 0.2) for row in make_sweep(NARROW, "leaky", dropout=d)]
    (ax,) = draw("rates", source(mine), source(theirs, "theirs")).axes
    assert len(lines(ax, "leaky, dropout 0.1")) == 2
    assert len(lines(ax, "leaky, dropout 0.2")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_compares(kind):
    mine, theirs = (
        make_sweep(WIDE, width=64, dropout=d) + make_sweep(WIDE, width=128, dropout=d)
        for d in (0.0, 0.1)
    )
    text = words(draw(kind, source(mine), source(theirs, "theirs")))
    assert "theirs" in text


def test_the_time_of_day_is_in_no_file(monkeypatch):
    """Fonts inside a PDF would hold it."""
    rows = two_mixers()
    first = to_bytes(draw("curves", source(rows)), "pdf", 50)
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert to_bytes(draw("curves", source(rows)), "pdf", 50) == first


def test_windows_mark_no_best_rate_where_every_run_diverged():
    lost = [
        make_row("leaky", lr, 1, score=None, status="diverged", diverged_step=3)
        for lr in (1e-2, 1e-1)
    ]
    figure = draw("windows", source([*make_sweep(WIDE), *lost]))
    marks = [line for ax in figure.axes for line in lines(ax, "best rate")]
    assert marks
    assert not {1e-2, 1e-1} & {x for line in marks for x, _ in points(line)}
    assert "every run diverged" in words(figure)
