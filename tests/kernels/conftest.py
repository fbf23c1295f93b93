"""Kernels against their plain references. Without a GPU they run through Triton's interpreter: the same code, slowly.

The interpreter is chosen when a kernel's module is first imported, so the variable is set before any of them is.
"""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
