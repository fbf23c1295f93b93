# %% [markdown]
# # Your own mixer
#
# Define a mixer, train it over learning rates, look at its window, change it, look again. All of
# it takes seconds on a laptop. Two files have the same cells: `own_mixer.ipynb`, and
# `own_mixer.py`, which runs as it is and which editors open as cells.

# %%
import torch
from torch import Tensor, nn

import recollect

# %% [markdown]
# A mixer is any module that maps (batch, length, width) to the same shape, causally. This one is
# linear attention: every position asks all positions up to itself.


# %%
@recollect.mixer("lookup")
class Lookup(nn.Module):
    """Linear attention over positions."""

    def __init__(self, width: int):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[-1] ** 0.5
        return self.out(scores.tril() @ self.value(x)) / x.shape[1]


# %% [markdown]
# The task is recall: after two pairs of a key and a value, a key is shown and its value wanted. One
# layer of the mixer is trained at three learning rates.

# %%
sweep = {
    "name": "own mixer",
    "task": {
        "name": "mqar",
        "vocabulary": 32,
        "length": 8,
        "pairs": 2,
        "data": "fresh",
        "test_rows": 200,
    },
    "model": {"mixer": "lookup", "width": 32, "depth": 1},
    "train": {"steps": 100, "batch": 64, "evaluations": 5},
    "sweep": {"train.lr": [1e-3, 1e-2, 1e-1]},
}
first = recollect.run(sweep, out="own-mixer", device="cpu")
first

# %% [markdown]
# It works at no rate: a guess among the two values would be right half of the time. A value stands
# *behind* its key, and a single layer cannot see what stood before a position. So let the keys come
# from one position back. It is the cell above, edited: the name is the same, the class is not.


# %%
@recollect.mixer("lookup")
class Lookup(nn.Module):
    """Linear attention over positions, each known by what stood before it."""

    def __init__(self, width: int):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        scores = self.query(x) @ self.key(before).transpose(1, 2) / x.shape[-1] ** 0.5
        return self.out(scores.tril() @ self.value(x)) / x.shape[1]


# %% [markdown]
# The text of a class is part of the identity of its runs. The same call into the same folder now
# trains three new runs, and those of the first version stay beside them.

# %%
both = recollect.run(sweep, out="own-mixer", device="cpu")
both

# %%
both.windows()[["setting", "decades", "low", "high", "open_high"]]

# %%
both.plot("windows")

# %%
both.plot("rates")

# %% [markdown]
# `both.to_pandas()` has all runs, `both.curves()` every evaluation, `both.report()` writes the
# page. `recollect score lookup --plugin FILE.py` trains a standard card and ranks the mixer among
# the others. Every call: `docs/python.md`.
