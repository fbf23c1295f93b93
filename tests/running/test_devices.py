"""What `--device` names: every GPU, some, one; and what is refused, in which words."""

from types import SimpleNamespace

import pytest
import torch

from recollect.errors import SpecError
from recollect.running.processes.devices import (
    DeviceShare,
    choose_device,
    choose_devices,
    share_devices,
)


@pytest.fixture
def gpus(monkeypatch):
    """A machine with so many."""

    def have(count: int) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)

    return have


@pytest.mark.parametrize(
    ("count", "name", "devices"),
    [
        (0, "auto", ["cpu"]),
        (0, "cpu", ["cpu"]),
        (1, "auto", ["cuda"]),
        (1, "cuda", ["cuda"]),
        (1, "cuda:0", ["cuda:0"]),
        (1, "cuda:0,0", ["cuda:0", "cuda:0"]),
        (3, "cpu", ["cpu"]),
        (3, "auto", ["cuda:0", "cuda:1", "cuda:2"]),
        (3, "cuda", ["cuda:0", "cuda:1", "cuda:2"]),
        (3, "cuda:1", ["cuda:1"]),
        (3, "cuda:2,0", ["cuda:2", "cuda:0"]),
    ],
)
def test_a_name_stands_for_devices(gpus, count, name, devices):
    gpus(count)
    assert list(map(str, choose_devices(name))) == devices


@pytest.mark.parametrize(
    ("count", "name", "text"),
    [
        (2, "cuda:7", "device = 'cuda:7': there is no cuda:7 here, but 2 GPUs, cuda:0 to cuda:1"),
        (1, "cuda:0,1", "device = 'cuda:0,1': there is no cuda:1 here, but 1 GPU, cuda:0"),
        (
            2,
            "cuda:0,x",
            "device = 'cuda:0,x': 'x' is no number of a GPU; write cuda:1 for one, cuda:0,2 for "
            "some, cuda for every one",
        ),
        (
            2,
            "cuda:",
            "device = 'cuda:': '' is no number of a GPU; write cuda:1 for one, cuda:0,2 for some, "
            "cuda for every one",
        ),
        (
            2,
            "cuda:-1",
            "device = 'cuda:-1': '-1' is no number of a GPU; write cuda:1 for one, cuda:0,2 for "
            "some, cuda for every one",
        ),
        (
            2,
            "tpu",
            "device = 'tpu': unknown; use auto, cpu, cuda (every GPU), cuda:1 (one) or cuda:0,2 "
            "(some)",
        ),
        (
            2,
            "cpu:0",
            "device = 'cpu:0': unknown; use auto, cpu, cuda (every GPU), cuda:1 (one) or cuda:0,2 "
            "(some)",
        ),
    ],
)
def test_a_name_that_stands_for_none_is_refused(gpus, count, name, text):
    gpus(count)
    with pytest.raises(SpecError) as caught:
        choose_devices(name)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("built_for", "why"),
    [
        (None, "this torch is a CPU build; an NVIDIA GPU needs a CUDA build of it"),
        ("13.0", "torch is a CUDA build but finds no GPU; look at nvidia-smi and the driver"),
    ],
)
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_without_a_gpu_the_refusal_says_why_there_is_none(gpus, monkeypatch, name, built_for, why):
    gpus(0)
    monkeypatch.setattr(torch.version, "cuda", built_for)
    with pytest.raises(SpecError) as caught:
        choose_devices(name)
    assert str(caught.value) == (
        f"device = {name!r}: torch finds no GPU here; use cpu, or fix it:\n{why}"
    )


def test_work_that_does_not_spread_has_one_device(gpus):
    gpus(2)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(SpecError) as caught:
        choose_device("cuda:0,1")
    assert str(caught.value) == "device = 'cuda:0,1': this uses one device; name one, as cuda:0"
    gpus(0)
    assert choose_device("auto") == torch.device("cpu")


def test_a_device_that_is_named_twice_is_shared(monkeypatch):
    sizes = {0: (80, 100), 1: (16, 40)}
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda device: SimpleNamespace(
            total_memory=sizes[device.index][0],
            multi_processor_count=sizes[device.index][1],
            name=f"GPU of {sizes[device.index][0]}",
        ),
    )
    shares = share_devices([torch.device(name) for name in ("cuda:0", "cuda:1", "cuda:0")])
    assert shares == (
        DeviceShare("cuda:0", 2, 80, 100.0, "GPU of 80"),
        DeviceShare("cuda:1", 1, 16, 40.0, "GPU of 16"),
        DeviceShare("cuda:0", 2, 80, 100.0, "GPU of 80"),
    )
    assert [share.room for share in shares] == [40, 16, 40]
