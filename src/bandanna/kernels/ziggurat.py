"""Standard normal numbers as NumPy draws them with SFC64, bit for bit, without a call for each.

Where the words of a generator are known, nearly every number is a word, a product and a comparison (ziggurat; Marsaglia
and Tsang 2000). The tables are NumPy's, as Numba has them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.np.random import _constants
from numpy.typing import NDArray

from bandanna.core.arrays import Floats
from bandanna.kernels.jit import jit

Words = NDArray[np.uint64]

_WIDTHS, _WITHIN, _HEIGHTS = _constants.wi_double, _constants.ki_double, _constants.fi_double
_END, _INVERSE = _constants.ziggurat_nor_r, _constants.ziggurat_nor_inv_r
_LAYERS, _DIGITS, _UNIT = np.uint64(0xFF), np.uint64((1 << 52) - 1), 2.0**-53
_1, _2, _3, _7, _8, _9, _11, _24, _40 = (np.uint64(n) for n in (1, 2, 3, 7, 8, 9, 11, 24, 40))


@jit
def normals(words: Words, n: int, out: Floats) -> None:
    """The next numbers of the generator whose state is `words` (4,), changed: the first n columns of out (m, N)."""
    a, b, c, count = words[0], words[1], words[2], words[3]
    for k in range(n):
        for i in range(len(out)):
            word = a + b + count  # SFC64
            count += _1
            a, b, c = b ^ (b >> _11), c + (c << _3), ((c << _24) | (c >> _40)) + word
            layer, digits = np.int64(word & _LAYERS), (word >> _9) & _DIGITS
            x = np.int64(digits) * _WIDTHS[layer] * (1.0 - np.int64((word >> _7) & _2))  # the sign, without a branch
            if digits >= _WITHIN[layer]:
                words[0], words[1], words[2], words[3] = a, b, c, count
                x = _beside(words, layer, digits, x)
                a, b, c, count = words[0], words[1], words[2], words[3]
            out[i, k] = x
    words[0], words[1], words[2], words[3] = a, b, c, count


@jit
def one_of(words: Words, which: int, count: int) -> float:
    """Number `which` of the next `count` uniform numbers in [0, 1)."""
    a, b, c, counter, found = words[0], words[1], words[2], words[3], words[0]
    for k in range(count):
        word = a + b + counter  # SFC64
        counter += _1
        a, b, c = b ^ (b >> _11), c + (c << _3), ((c << _24) | (c >> _40)) + word
        found = word if k == which else found
    words[0], words[1], words[2], words[3] = a, b, c, counter
    number: float = np.float64(found >> _11) * _UNIT
    return number


@jit
def _beside(words: Words, layer: Any, digits: Any, x: float) -> float:
    """A number that is not inside of its layer: one in a hundred."""
    while True:
        if layer == 0:
            return _tail(words, digits)
        if (_HEIGHTS[layer - 1] - _HEIGHTS[layer]) * _uniform(words) + _HEIGHTS[layer] < math.exp(-0.5 * x * x):
            return x
        word = _next(words)
        layer, digits = np.int64(word & _LAYERS), (word >> _9) & _DIGITS
        x = np.int64(digits) * _WIDTHS[layer] * (1.0 - np.int64((word >> _7) & _2))
        if digits < _WITHIN[layer]:
            return x


@jit
def _tail(words: Words, digits: Any) -> float:
    """Beyond the last layer."""
    while True:
        x, y = -_INVERSE * math.log1p(-_uniform(words)), -math.log1p(-_uniform(words))
        if y + y > x * x:
            found: float = -(_END + x) if (digits >> _8) & _1 else _END + x
            return found


@jit
def _uniform(words: Words) -> float:
    number: float = np.float64(_next(words) >> _11) * _UNIT
    return number


@jit
def _next(words: Words) -> Any:
    """The next word of SFC64."""
    word = words[0] + words[1] + words[3]
    words[3] += _1
    words[0] = words[1] ^ (words[1] >> _11)
    words[1] = words[2] + (words[2] << _3)
    words[2] = ((words[2] << _24) | (words[2] >> _40)) + word
    return word
