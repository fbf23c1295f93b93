"""Products with few columns, such as a gate's number per head, padded to the number of columns that
tensor cores need.

Shapes: P population, E channels, G columns.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

ALIGNED = 8  # columns: 16 bytes in bfloat16


def few_columns(x: Tensor, weight_PEG: Tensor) -> Tensor:
    """Return x (P, ..., E) times a matrix per member, (P, ..., G); columns of zeros are added for
    the product and removed afterwards.
    """
    columns = weight_PEG.shape[2]
    product_PMG = torch.bmm(x.flatten(1, -2), F.pad(weight_PEG, (0, -columns % ALIGNED)))
    return product_PMG[..., :columns].reshape(*x.shape[:-1], columns)
