"""What there is here: mixers and tasks with their options, and this machine."""

from recollect.mixers.registry import MIXERS


def test_mixers_and_tasks_are_listed_with_their_options(command):
    listed = command("mixers", "--width", 128, "--length", 64).out.splitlines()
    assert [line.split()[0] for line in listed] == ["mixer", *MIXERS]
    assert listed[1].split()[1:6] == [
        "attention",
        f"{4 * 128**2 + 4 * 128:,}",
        f"{2 * 128 * 64:,}",
        "matrix",
        "products",
    ]
    about, wants, *options = command("mixers", "mamba").out.splitlines()
    assert about == "mamba: selective state space with gate and short convolution (Gu and Dao 2023)"
    assert (
        wants == 'model.block = "mixer", model.norm = "rms", model.positions = "none" unless given'
    )
    assert [line.split()[:2] for line in options[1:]] == [
        ["state", "16"],
        ["kernel", "4"],
        ["expand", "2"],
        ["gate", "true"],
        ["init", '"official"'],
    ]
    assert '"official", "zoology"' in options[-1]
    assert [line.split()[:2] for line in command("tasks").out.splitlines()[1:]] == [
        ["mqar", "accuracy"],
        ["recall", "accuracy"],
        ["copying", "exact"],
        ["ngram_lookup", "exact"],
    ]
    assert "pairs             4 " in command("tasks", "mqar").out


def test_a_mixer_that_does_not_fit_a_width_says_so_in_the_list(command):
    listed = {line.split()[0]: line for line in command("mixers", "--width", 24).out.splitlines()}
    assert "not at this width: mixer.head = 64: must divide expand * width = 48" in listed["mamba2"]
    assert "not at this width" not in listed["attention"]


def test_doctor_looks_at_everything(command):
    said = command("doctor")
    assert said.code == 0
    found = [line.split()[0] for line in said.out.splitlines() if not line.startswith(" ")]
    assert found == ["recollect", "python", "torch", "cpu", "gpu", "triton", "sqlite"]
