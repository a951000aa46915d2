"""Arms without features, as the corners of a regular simplex: as far apart as vectors of length 1 can be.

A single 1 at the place of an arm would do, with one feature more; beside a constant it says nothing that corners do not
say, and its arms are nearer to each other: sqrt 2, where corners are sqrt(2 n/(n - 1)) apart. Noise is the same.
"""

from __future__ import annotations

import math

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats


def corners(n: int) -> Floats:
    """`n` vectors of length 1 with n - 1 coordinates, any two at the same angle: (n, n - 1).

    >>> corners(3).round(3).tolist()
    [[1.0, 0.0], [-0.5, 0.866], [-0.5, -0.866]]
    """
    count = require.whole("n", n, least=2, most=10_000)
    made = np.zeros((count, count - 1))
    for place in range(count - 1):
        left = count - place  # corners that are not yet placed, as seen from the centre of theirs
        height = math.sqrt(count * (left - 1) / ((count - 1) * left))  # of this one above the others' centre
        made[place, place] = height
        made[place + 1 :, place] = -height / (left - 1)
    return made
