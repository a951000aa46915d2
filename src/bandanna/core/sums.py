"""Sums over users that do not depend on rounding errors.

Adding n floats one by one leaves an error that grows like n^2, and neighbours' errors need not agree: one replaced user
can then move the computed sum by more than the domain allows (Casacuberta, Shoemate, Vadhan and Wagaman 2022). Here
every value is cut into a whole number of units 2^-31 of the bound or finer, which integers add up exactly, and a rest
below half a unit.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_DIGITS = 32  # of a value in whole units: fewer than 2^30 users fit into 64-bit integers


def exact_sum(values: Floats, bound: float) -> Floats:
    """Sum over users of values in [-bound, bound], (..., users, dim) -> (..., dim).

    Wrong by at most n bound 2^-52 + n^2 bound 2^-85: two roundings of the sum, and those of the rests.
    """
    unit = math.ldexp(1.0, math.frexp(bound)[1] - _DIGITS)
    whole = np.rint(values / unit)  # the division is exact, and so is the rest
    rests = np.sum(values - whole * unit, axis=-2)
    return np.asarray(np.sum(whole.astype(np.int64), axis=-2) * unit + rests)
