"""What the command line refuses: exit codes, at most three lines, and nothing written."""

from pathlib import Path

import pytest

from recollect.store import Store

RUN = "; see `recollect run --help`"
REFUSALS = [
    (["fly"], 2, "No such command 'fly'; see `recollect --help`"),
    (["run"], 2, f"Missing argument 'SPEC.toml'{RUN}"),
    (["run", "sound.toml"], 2, f"Missing option '--out'{RUN}"),
    (
        ["run", "sound.toml", "--out"],
        2,
        "Option '--out' requires an argument; see `recollect --help`",
    ),
    (["run", "sound.toml", "--out", "OUT", "--zzz"], 2, f"No such option: --zzz{RUN}"),
    (
        ["run", "sound.toml", "--out", "OUT", "--workers", "two"],
        2,
        f"--workers 'two': must be a whole number{RUN}",
    ),
    (
        ["run", "sound.toml", "--out", "OUT", "--workers", "-2"],
        2,
        f"--workers '-2': must be at least 0{RUN}",
    ),
    (
        ["run", "sound.toml", "--out", "OUT", "--budget", "ten"],
        2,
        f"--budget 'ten': must be a number{RUN}",
    ),
    (
        ["status", "a", "b"],
        2,
        "Got unexpected extra argument(s) (b); see `recollect status --help`",
    ),
    (
        ["run", "none.toml", "--out", "OUT"],
        2,
        "none.toml: cannot be read (No such file or directory); give the path of a TOML file",
    ),
    (
        ["run", "sound.toml", "--out", "OUT", "--set", "lr"],
        2,
        "--set 'lr': must look like a.b=1, for example --set train.lr=1e-3",
    ),
    (
        ["run", "sound.toml", "--out", "OUT", "--set", "train.ler=1"],
        2,
        "train.ler: unknown key; did you mean lr?\n(in the run with train.lr = 0.001)",
    ),
    (
        ["run", "sound.toml", "--out", "OUT", "--set", "train.learning_rate=1"],
        2,
        "train.learning_rate: unknown key; did you mean lr?\n(in the run with train.lr = 0.001)",
    ),
    (
        ["run", "fig1:small", "--out", "OUT"],
        2,
        "fig1:small: no such file; the study's experiment is `paper:fig1:small`",
    ),
    (
        ["run", "sound.toml", "--out", "OUT", "--plugin", "none.py"],
        2,
        "--plugin none.py: no such file; give the path of a Python file that registers a mixer",
    ),
    (
        ["run", "sound.toml", "--out", "OUT", "--device", "tpu"],
        2,
        "device = 'tpu': unknown; use auto, cpu, cuda (every GPU), cuda:1 (one) or cuda:0,2 (some)",
    ),
    (["status", "OUT"], 2, "no results in OUT; run `recollect run SPEC --out OUT` first"),
    (["resume", "OUT"], 2, "no results in OUT; run `recollect run SPEC --out OUT` first"),
    (["report", "OUT"], 2, "no results in OUT; run `recollect run SPEC --out OUT` first"),
    (["watch", "OUT"], 2, "no results in OUT; run `recollect run SPEC --out OUT` first"),
    (["export", "OUT"], 2, "no results in OUT; run `recollect run SPEC --out OUT` first"),
    *(
        (
            [verb, "sound.toml"],
            2,
            "sound.toml is a file; results are read from a folder: name the one that holds "
            "recollect.db",
        )
        for verb in ("status", "check", "report", "export", "watch")
    ),
    (
        ["export", "OUT", "--format", "xml"],
        2,
        "--format xml: no such format; known: csv, json, parquet",
    ),
    (
        ["figure", "windws", "OUT"],
        2,
        "'windws': no figure of that name; did you mean windows?",
    ),
    (
        ["score", "gru", "--card", "tpu", "--out", "OUT"],
        2,
        "--card 'tpu': did you mean gpu?",
    ),
    (["mixers", "mambo"], 2, "'mambo' is no mixer here; did you mean mamba?"),
    (["tasks", "mqr"], 2, "'mqr' is no task here; did you mean mqar?"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "message"), REFUSALS, ids=[" ".join(row[0]) for row in REFUSALS]
)
def test_a_refusal_is_an_exit_code_and_at_most_three_lines(
    command, arguments, code, message, tmp_path: Path, monkeypatch
):
    (tmp_path / "sound.toml").write_text(
        'task = "mqar"\nmodel.mixer = "attention"\n[sweep]\ntrain.lr = [1e-3]\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    said = command(*arguments)
    assert (said.code, said.out) == (code, "")
    assert said.err == f"recollect: {message}\n"
    assert len(said.err.splitlines()) <= 3
    assert not (tmp_path / "OUT").exists()


def test_a_damaged_store_has_its_own_exit_code(command, tmp_path: Path):
    with Store.create(tmp_path):
        pass
    (tmp_path / "recollect.db").write_bytes((tmp_path / "recollect.db").read_bytes()[:5000])
    said = command("status", tmp_path)
    assert said.code == 3
    assert len(said.err.splitlines()) <= 3


def test_an_unknown_error_is_two_lines_and_can_be_looked_into(command, monkeypatch):
    def broken() -> None:
        raise KeyError("oops")

    monkeypatch.setattr("recollect.running.planning.machine.describe_machine", broken)
    monkeypatch.delenv("RECOLLECT_DEBUG", raising=False)
    text = (
        "recollect: internal error: KeyError: 'oops'\n"
        "please report it; RECOLLECT_DEBUG=1 shows where it happened\n"
    )
    assert command("doctor") == (1, "", text)
    monkeypatch.setenv("RECOLLECT_DEBUG", "1")
    with pytest.raises(KeyError, match="oops"):
        command("doctor")


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (MemoryError(), 4)])
def test_interruption_and_exhaustion_have_their_exit_codes(command, monkeypatch, error, code):
    def broken() -> None:
        raise error

    monkeypatch.setattr("recollect.running.planning.machine.describe_machine", broken)
    assert command("doctor").code == code
