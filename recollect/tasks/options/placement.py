"""What the position of a question betrays in mqar:
the accuracy of a model that sees positions but binds nothing.

Keys draw their slots one after the other, without replacement, with weight (g + 1) ** (power - 1).
So early slots tend to belong to early keys, and under the power law "the pair most often asked at
this slot" is right more often than 1 / pairs.
"""

from functools import cache

import numpy as np

from recollect.tasks.options.pairs import MqarSpec


def position_only_accuracy(spec: MqarSpec) -> float:
    """The best accuracy a guess of the pair from the question's own slot can reach;
    1 / pairs under uniform placement.
    """
    return float(
        draw_probabilities(spec.slots, spec.pairs, spec.slot_power).max(0).sum() / spec.pairs
    )


@cache
def draw_probabilities(slots: int, pairs: int, power: float) -> np.ndarray:
    """P(draw k takes slot g) as a (pairs, slots) table,
    by integration over the arrival times of an exponential race.

    Slot g arrives in dt around t with probability w_g exp(-w_g t) dt; it is draw k when exactly k
    of the others came before.
    """
    weights_S = np.arange(1, slots + 1, dtype=float) ** (power - 1)
    nodes_T, node_weights_T = np.polynomial.legendre.leggauss(240)
    # Integrated over log t, from when nothing has arrived to when everything has.
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
    """P(exactly k have arrived) for k < most, at each time,
    from each one's chance to be still waiting.
    """
    arrived_KT = np.zeros((most, waiting_ST.shape[1]))
    arrived_KT[0] = 1
    for waiting_T in waiting_ST:
        moved_KT = arrived_KT * (1 - waiting_T)
        arrived_KT *= waiting_T
        arrived_KT[1:] += moved_KT[:-1]
    return arrived_KT
