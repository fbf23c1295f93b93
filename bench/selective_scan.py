"""The selective scan alone, forward and backward in milliseconds: `python bench/selective_scan.py`; needs a CUDA device."""

import torch
import torch.nn.functional as F

from recollect.ops.selective_scan import selective_scan

STATE, REPEATS = 16, 6
SHAPES = ((16, 512, 128, 64), (4, 256, 1024, 256), (1, 256, 256, 256), (1, 128, 4096, 512))  # members, batch, channels, length


def milliseconds(members: int, batch: int, channels: int, length: int) -> tuple[float, float]:
    device = torch.device("cuda")
    u, delta = (torch.randn(members, batch, length, channels, device=device) for _ in range(2))
    b, c = (torch.randn(members, batch, length, STATE, device=device) for _ in range(2))
    a = -16 * torch.rand(members, channels, STATE, device=device)
    tensors = [x.requires_grad_() for x in (u, 0.1 * F.softplus(delta), a, b, c)]
    found = []
    for _ in range(1 + REPEATS):  # the first compiles
        start, middle, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        start.record()
        y = selective_scan(*tensors)
        middle.record()
        torch.autograd.grad(y, tensors, torch.ones_like(y))
        end.record()
        torch.cuda.synchronize()
        found.append((start.elapsed_time(middle), middle.elapsed_time(end)))
    return min(forward for forward, _ in found[1:]), min(backward for _, backward in found[1:])


for shape in SHAPES:
    forward, backward = milliseconds(*shape)
    print(f"{shape}: {forward:.2f} + {backward:.2f} ms")
