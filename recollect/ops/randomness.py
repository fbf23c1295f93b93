"""Random numbers as a function: the number at (key, counter) is always the same, on every device
and in any order of evaluation.

A counter is stepped by an odd constant and scrambled by the finaliser of SplitMix64 (Steele, Lea
and Flood 2014), here in wrap-around int64 arithmetic, which is exact everywhere. Keys come from
SHA-256, so two purposes never share a stream.
"""

import hashlib
import math

import torch
from torch import Tensor

STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def key(*parts: int | str) -> int:
    """Return a 64-bit key for a purpose: equal parts give equal keys, and 1 differs from "1"."""
    return _signed(int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8]))


def scramble(z: Tensor) -> Tensor:
    """Apply a bijection of int64 that makes neighbours unrelated."""
    z = (z ^ _shifted(z, 30)) * _signed(FIRST)
    z = (z ^ _shifted(z, 27)) * _signed(SECOND)
    return z ^ _shifted(z, 31)


def bits(stream: int | Tensor, counters: Tensor) -> Tensor:
    """Return 64 random bits for each counter (int64, any shape); several streams broadcast."""
    return scramble(counters * _signed(STEP) + stream)


def below(stream: int, counters: Tensor, bound: int | Tensor) -> Tensor:
    """Return an integer in 0 .. bound - 1 for each counter; no value is favoured by more than bound
    / 2**63.
    """
    return (bits(stream, counters) & 0x7FFFFFFFFFFFFFFF) % bound


def uniform(stream: int | Tensor, counters: Tensor) -> Tensor:
    """Return a float64 strictly between 0 and 1 for each counter: the middle of one of 2**52 equal
    intervals.
    """
    return (_shifted(bits(stream, counters), 12).double() + 0.5) * math.ldexp(1, -52)


def grid(first: int, rows: int, columns: int, device: torch.device) -> Tensor:
    """Return the counters of a table's rows first .. first + rows - 1: a row has the same counters
    in whichever block it is drawn.
    """
    row_B = torch.arange(first, first + rows, device=device)
    return row_B[:, None] * columns + torch.arange(columns, device=device)


def _signed(word: int) -> int:
    """Return the int64 with the bits of a 64-bit word."""
    return word - (1 << 64) if word >> 63 else word


def _shifted(z: Tensor, places: int) -> Tensor:
    """Shift to the right logically; torch's own shift keeps the sign."""
    return (z >> places) & ((1 << (64 - places)) - 1)
