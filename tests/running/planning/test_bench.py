"""The benchmark: shapes, the limit it compares with, what it prints and stores.

No test asserts a speed.
"""

import json
from pathlib import Path

import pytest
import torch

from recollect.errors import SpecError
from recollect.running.planning import bench
from recollect.running.planning.bench import Report, Shape, Speed, compare_speeds, parse_shape
from recollect.running.planning.cost import cost

CPU = torch.device("cpu")
TINY = "8x12x2x32"


def test_shapes_are_named_or_written_out():
    assert parse_shape("S2") == Shape("S2", width=128, length=256, pairs=16, batch=256)
    assert parse_shape(TINY) == Shape(TINY, width=8, length=12, pairs=2, batch=32)
    run = parse_shape("S1").run("mamba")
    assert (run.model.block, run.model.depth, run.task.vocabulary, run.train.batch) == (
        "mixer+mlp",
        2,
        8192,
        512,
    )


@pytest.mark.parametrize("text", ["S4", "8x12x2", "8x12x2x0", "axbxcxd", "8x12x2x-3", ""])
def test_a_bad_shape_says_what_is_meant(text):
    with pytest.raises(
        SpecError,
        match=r"--shape .*: must be one of S1, S2, S3 or WIDTHxLENGTHxPAIRSxBATCH, "
        r"e\.g\. 64x64x4x512",
    ):
        parse_shape(text)


def made(speeds: list[Speed]) -> Report:
    return Report(
        "a device",
        copy_bytes_per_s=1e9,
        multiply_adds_per_s=1e9,
        versions={"torch": "2"},
        date="today",
        speeds=speeds,
    )


def speed(mixer: str, per_s: float) -> Speed:
    return Speed(mixer, "S1", 8, "tf32", per_s, 0.5, 10, 10, limit_run_steps_per_s=4 * per_s)


def test_the_limit_is_the_slower_of_bytes_and_products():
    run = parse_shape(TINY).run("attention")
    counted = cost(run)
    found = bench.measure(run, TINY, 2, made([]), CPU)
    assert found.limit_run_steps_per_s == pytest.approx(
        1e9 / max(counted.operations, 2 * counted.memory_bytes)
    )
    assert found.population == 2
    assert found.run_steps_per_s > 0
    assert found.first_step_s > 0
    assert found.share == found.run_steps_per_s / found.limit_run_steps_per_s


def test_a_shape_that_fails_is_told_and_does_not_stop_the_rest(monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("out of memory\nwith advice")

    monkeypatch.setattr(bench, "_timed", fail)
    found = bench.measure(parse_shape(TINY).run("attention"), TINY, None, made([]), CPU)
    assert (found.population, found.run_steps_per_s, found.problem) == (0, 0, "out of memory")


def test_every_shape_has_the_threads_that_suit_it_whatever_came_before(monkeypatch):
    torch.set_num_threads(4)
    used = []

    def timed(run, size, device):
        used.append(torch.get_num_threads())
        return 1.0, 1.0, 0

    monkeypatch.setattr(bench, "_timed", timed)
    for shape in ("8x12x2x32", "256x64x4x128"):
        bench.measure(parse_shape(shape).run("attention"), shape, 1, made([]), CPU)
    assert used == [1, 4]
    assert torch.get_num_threads() == 4


def test_a_stored_report_comes_back_and_is_compared_with(tmp_path: Path):
    before, now = made([speed("a", 100), speed("b", 50)]), made([speed("a", 90), speed("c", 1)])
    path = tmp_path / "stored.json"
    path.write_text(json.dumps(before.to_table()))
    assert Report.from_table(json.loads(path.read_text())) == before
    assert compare_speeds(now.speeds, before.speeds) == {("a", "S1"): pytest.approx(0.9)}


def test_the_command_prints_a_table_or_json(command, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(bench, "TIMED_S", 0.0)
    arguments = (
        "bench",
        "--mixer",
        "attention",
        "--mixer",
        "gru",
        "--shape",
        TINY,
        "--population",
        2,
        "--device",
        "cpu",
    )
    said = command(*arguments, "--json")
    assert said.code == 0
    stored = tmp_path / "stored.json"
    stored.write_text(said.out)
    assert [row["mixer"] for row in json.loads(said.out)["speeds"]] == ["attention", "gru"]
    lines = command(*arguments, "--against", stored).out.splitlines()
    assert lines[0].startswith("CPU, ")
    assert "torch" in lines[1]
    assert lines[2].split()[:3] == ["mixer", "shape", "together"]
    assert [line.split()[0] for line in lines[3:]] == ["attention", "gru"]
    assert all(line.rstrip().endswith("x") for line in lines[3:])


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not JSON"), ('{"a": 1}', "not a stored benchmark")]
)
def test_a_file_that_is_no_benchmark_is_refused(command, tmp_path: Path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    said = command(
        "bench", "--mixer", "attention", "--shape", TINY, "--against", path, "--device", "cpu"
    )
    assert said.code == 2
    assert message in said.err
    assert "recollect bench --json" in said.err
