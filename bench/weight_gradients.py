"""How long the gradients of weights take on a GPU when their sum over rows is made in groups:

`python bench/weight_gradients.py [ROWS]`: for each precision, number of members and number of
groups, microseconds per member of dW = x^T dy over so many rows (65,536 unless given: 256 rows of
256 tokens), for the matrices of one layer of Mamba and its MLP at width 64. One group is one
product per member.
"""

import sys
from collections.abc import Callable

import torch
from torch import Tensor

MATRICES = ((64, 256), (128, 160), (128, 64), (64, 256), (256, 64))  # inputs, outputs
MEMBERS, GROUPS = (1, 2, 4, 16), (1, 4, 16, 64)
PRECISIONS = {
    "fp32": (torch.float32, "highest"),
    "tf32": (torch.float32, "high"),
    "bf16": (torch.bfloat16, "high"),
}
REPEATS = 10


def in_groups(x_PMI: Tensor, y_PMO: Tensor, groups: int) -> Tensor:
    population, _, inputs = x_PMI.shape
    x_GMI, y_GMO = (z.view(population * groups, -1, z.shape[-1]) for z in (x_PMI, y_PMO))
    parts_GIO = torch.bmm(x_GMI.mT, y_GMO)
    return parts_GIO.view(population, groups, inputs, -1).sum(1, dtype=torch.float32)


def microseconds(work: Callable[[], object]) -> float:
    """The shortest of several calls; a first one is not counted."""
    work()
    times = []
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(1e3 * start.elapsed_time(end))
    return min(times)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 65_536
    print("precision members " + " ".join(f"{groups:>3} groups" for groups in GROUPS))
    for name, (dtype, precision) in PRECISIONS.items():
        torch.set_float32_matmul_precision(precision)
        for members in MEMBERS:
            pairs = [
                tuple(
                    torch.randn(members, rows, width, device="cuda", dtype=dtype) for width in size
                )
                for size in MATRICES
            ]
            times = [
                sum(
                    microseconds(lambda x=x, y=y, groups=groups: in_groups(x, y, groups))
                    for x, y in pairs
                )
                / members
                for groups in GROUPS
            ]
            print(f"{name:9} {members:7} " + " ".join(f"{each:10.0f}" for each in times))


if __name__ == "__main__":
    main()
