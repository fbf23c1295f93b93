"""Speed against members, width and length:

`python bench/scaling.py > results/bench/DEVICE-scaling.json`.
"""

import json

import torch

from recollect.running.planning.bench import SHAPES, Shape, describe_device, measure

MIXERS = ("attention", "mamba")
PRECISION = "bf16"
TOGETHER = 16  # members where width or length is varied
MEMBERS = (1, 2, 4, 8, 16, 32, 64, 128)
WIDTHS = (64, 128, 256, 512)
LENGTHS = (
    (64, 4, 512),
    (128, 8, 512),
    (256, 16, 256),
    (512, 64, 128),
)  # with the study's pairs and batch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
report = describe_device(device, PRECISION)
for mixer in MIXERS:
    for members in MEMBERS:
        report.speeds.append(
            measure(SHAPES["S1"].run(mixer, PRECISION), "S1", members, report, device)
        )
    shapes = {f"{width}x64x4x512": Shape("", width, 64, 4, 512) for width in WIDTHS}
    shapes |= {
        f"64x{length}x{pairs}x{batch}": Shape("", 64, length, pairs, batch)
        for length, pairs, batch in LENGTHS
    }
    for name, shape in shapes.items():
        report.speeds.append(measure(shape.run(mixer, PRECISION), name, TOGETHER, report, device))
print(json.dumps(report.to_table(), indent=1))
