"""Information in the position of a question in mqar.

This module computes the accuracy of a model that knows the position but no bindings.

Keys draw their slots one after the other, without replacement, with weight (g + 1) ** (power - 1).
So early slots tend to belong to early keys. Under the power law, guessing "the pair most often
asked at this slot" is right more often than 1 / pairs.
"""

from functools import cache

import numpy as np

from recollect.tasks.options.pairs import MqarSpec


def position_only_accuracy(spec: MqarSpec) -> float:
    """Best accuracy of guessing the pair from the slot of the question alone.

    It is 1 / pairs under uniform placement.
    """
    return float(
        draw_probabilities(spec.slots, spec.pairs, spec.slot_power).max(0).sum() / spec.pairs
    )


@cache
def draw_probabilities(slots: int, pairs: int, power: float) -> np.ndarray:
    """P(draw k takes slot g) as a (pairs, slots) table.

    Computed by integration over the arrival times of an exponential race. Slot g arrives in dt
    around t with probability w_g exp(-w_g t) dt; it is draw k if exactly k of the others arrived
    before.
    """
    weights_S = np.arange(1, slots + 1, dtype=float) ** (power - 1)
    nodes_T, node_weights_T = np.polynomial.legendre.leggauss(240)
    # Integrated over log t, from a time before the first arrival to one after the last.
    low, high = np.log(1e-9 / weights_S.sum()), np.log(40 / weights_S.min())
    time_T = np.exp((nodes_T + 1) / 2 * (high - low) + low)
    measure_T = node_weights_T * (high - low) / 2 * time_T
    here_ST = np.exp(-weights_S[:, None] * time_T)
    table_KS = np.empty((pairs, slots))
    for slot in range(slots):
        arrived_KT = _arrived(np.delete(here_ST, slot, axis=0), pairs)
        table_KS[:, slot] = arrived_KT @ (weights_S[slot] * here_ST[slot] * measure_T)
    return table_KS


def _arrived(waiting_ST: np.ndarray, most: int) -> np.ndarray:
    """P(exactly k have arrived) for k < most, at each time.

    `waiting_ST` is the probability of each slot not to have arrived yet.
    """
    arrived_KT = np.zeros((most, waiting_ST.shape[1]))
    arrived_KT[0] = 1
    for waiting_T in waiting_ST:
        moved_KT = arrived_KT * (1 - waiting_T)
        arrived_KT *= waiting_T
        arrived_KT[1:] += moved_KT[:-1]
    return arrived_KT
