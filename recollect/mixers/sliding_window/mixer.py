"""Softmax attention over the present and the last few positions (Beltagy et al. 2020).

    [q, k, v] = W x + b        a_ij = softmax_j(q_i . k_j / sqrt(D) + r_ij)
    y_i = W_o sum_{i-window<j<=i} a_ij v_j + b_o

Glossary: P population, L length, D channels of a head, a_ij attention weights, r_ij bias of the
scores (positions `alibi` and `relative`), window the number of positions a query sees, its own
included.
Everything except the window is as in attention: see attention/mixer.py for positions, dropout and
the step-by-step form, whose state is the keys and values inside the window.
Initialisation as attention's: N(0, 0.02^2), the output's divided by sqrt(2 depth), biases 0.
Differs from Zoology's layer, where a window of w covers w positions before the present, so w + 1 in
total, with one head and without dropout. Beltagy's window is centred; a causal model keeps only its
past half. Mistral counts as here.
"""

from recollect.mixers.attention.mixer import Attention
from recollect.mixers.attention.options import AttentionSpec
from recollect.mixers.base import Site
from recollect.mixers.sliding_window.options import SlidingWindowSpec


class SlidingWindow(Attention):
    def __init__(self, spec: SlidingWindowSpec, site: Site):
        super().__init__(AttentionSpec(heads=spec.heads), site, window=spec.window)
