"""The grid on which secure noise lives: fine enough that rounding to it costs next to nothing."""

from __future__ import annotations

import math

from bandanna.core import require

_FINEST = 20  # at least 2^20 steps per standard deviation
_SHARE = 2.0**-14  # rounding may raise the sensitivity by this share


def fine_grid(std: float, change: float, touched: int) -> float:
    """A grid of std / 2^k with grid sqrt(touched) <= change / 2^14, k >= 20.

    `change` is the l2 sensitivity before rounding and `touched` the number of released coordinates that one user can
    change: rounding moves each by at most one step. Powers of two keep std/grid exact and let prices be remembered.
    (In l1, one step for each of `dim` coordinates: pass touched = dim^2.)
    """
    std, change = require.positive("std", std), require.positive("sensitivity", change)
    steps = std * math.sqrt(touched) / (_SHARE * change)
    return std * 2.0 ** -max(_FINEST, math.ceil(math.log2(steps)))
