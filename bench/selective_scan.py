"""Mamba's selection and scan, forward and backward in milliseconds: `python
bench/selective_scan.py`; needs a CUDA device.

Timed as training runs it: the operation that Mamba calls, with the products that choose step sizes,
B and C, as a recording that is replayed. Launches from Python would cost more than the smallest
shape. (docs/decisions/selective-scan-on-a-gpu.md has the scan without the products.)
"""

from collections.abc import Callable

import torch

from recollect.ops.selective_scan import selective_scan

STATE, EXPAND, REPEATS, WARM = 16, 2, 10, 3
SHAPES = (
    (16, 512, 128, 64),
    (4, 256, 1024, 256),
    (1, 256, 256, 256),
    (1, 128, 4096, 512),
)  # members, batch, channels, length


def milliseconds(work: Callable[[], object]) -> float:
    """Of one replay, the mean of some."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(WARM):  # the first compiles
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    start.record()
    for _ in range(REPEATS):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / REPEATS


def both(members: int, batch: int, channels: int, length: int) -> tuple[float, float]:
    """Forward alone; what the backward adds to it."""
    rank = -(-channels // EXPAND // 16)
    shapes = {
        "u": (members, batch, length, channels),
        "select": (members, channels, rank + 2 * STATE),
        "raise": (members, rank, channels),
        "bias": (members, channels),
        "a_log": (members, channels, STATE),
        "skip": (members, channels),
    }
    drawn = {name: torch.randn(shape, device="cuda") for name, shape in shapes.items()}
    drawn["select"] *= channels**-0.5
    drawn["bias"] -= 3  # step sizes around 0.05
    tensors = [x.requires_grad_() for x in drawn.values()]
    ones = torch.ones_like(tensors[0])
    forward = milliseconds(lambda: selective_scan(*tensors))
    return forward, milliseconds(
        lambda: torch.autograd.grad(selective_scan(*tensors), tensors, ones)
    ) - forward


if __name__ == "__main__":
    for shape in SHAPES:
        forward, backward = both(*shape)
        print(f"{shape}: {forward:.2f} + {backward:.2f} ms")
