"""The selective scan alone, forward and backward in milliseconds: `python bench/selective_scan.py`;
needs a CUDA device.

Timed as training runs it, as a recording that is replayed: launches from Python would cost more
than the smallest shape.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from recollect.ops.selective_scan import selective_scan

STATE, REPEATS, WARM = 16, 10, 3
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
    device = torch.device("cuda")
    u, delta = (torch.randn(members, batch, length, channels, device=device) for _ in range(2))
    b, c = (torch.randn(members, batch, length, STATE, device=device) for _ in range(2))
    a = -16 * torch.rand(members, channels, STATE, device=device)
    tensors = [x.detach().requires_grad_() for x in (u, 0.1 * F.softplus(delta), a, b, c)]
    ones = torch.ones_like(u)
    forward = milliseconds(lambda: selective_scan(*tensors))
    return forward, milliseconds(
        lambda: torch.autograd.grad(selective_scan(*tensors), tensors, ones)
    ) - forward


if __name__ == "__main__":
    for shape in SHAPES:
        forward, backward = both(*shape)
        print(f"{shape}: {forward:.2f} + {backward:.2f} ms")
