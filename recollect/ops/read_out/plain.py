"""Steps from the heads' read of a memory to the input of an mLSTM's last projection:

    out = (norm(h / divisor) * scale + skip * c) * SiLU(z)

norm is a layer norm over a head, without shift. Shapes: P population, H heads, D channels of a
head, E = H D channels; `...` is any number of axes in between.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.silu_gate import silu_gate


def read_out(
    h: Tensor,
    divisor: Tensor | None,
    c: Tensor,
    z: Tensor,
    scale_PE: Tensor,
    skip_PE: Tensor,
    eps: float,
) -> Tensor:
    """Return (P, ..., E) from h (P, ..., H, D), a divisor (P, ..., H), and c and z (P, ..., E)."""
    divided = h if divisor is None else (h / divisor[..., None]).to(h.dtype)
    normed = F.layer_norm(divided, h.shape[-1:], eps=eps).flatten(-2)
    members = (slice(None), *[None] * (c.dim() - 2))
    return silu_gate(torch.addcmul(normed * scale_PE[members], skip_PE[members], c), z)
