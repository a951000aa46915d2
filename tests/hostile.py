"""Values that no argument expects: every input has an answer, or a refusal of one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bandanna.errors import BandannaError, format_value


class Rude:
    """Fails at every operation."""

    def _no(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no")

    __float__ = __int__ = __index__ = __array__ = __len__ = __iter__ = __bool__ = __repr__ = _no  # type: ignore[assignment]


class RudeNumber(float):
    """A float whose conversion fails."""

    def __float__(self) -> float:
        raise RuntimeError("no")


NUMBERS = [0, 1, -1, 2, 3, 7, 10**6, 10**9, 2**31, 2**53 + 1, 2**63, 10**30, 10**400, 10**5000, -(10**400)]
NUMBERS += [-0.0, 0.5, 1.5, -1.0, 5e-324, 1e-300, 1 - 1e-16, 1e16, 1e300, 1.7e308, math.inf, -math.inf, math.nan]
NUMBERS += [1j, Fraction(1, 3), Fraction(1, 10**400), Fraction(10**400), Decimal(1), Decimal("NaN"), True, False]
SCALARS = [np.float16(0.5), np.float32("inf"), np.longdouble("1e400"), np.int8(3), np.uint64(2**64 - 1), np.bool_(True)]
SCALARS += [
    np.str_("a"),
    np.bytes_(b"a"),
    np.timedelta64(3, "s"),
    np.timedelta64("NaT", "s"),
    np.datetime64("2020-01-01"),
]
SCALARS += [np.complex64(1), np.void(b"a"), pd.NA, pd.NaT, np.ma.masked]
TEXTS = ["", "a", "1", "nan", "x\ny", "x" * 10**5, "\ud800", "blt", "paper", "best", b"", b"1"]
THINGS: list[Any] = [None, [], (), {}, set(), range(3), type, len, Rude(), RudeNumber(0.5), object()]
THINGS += [[1.0], [[1.0], [1.0, 2.0]], ["1", "2"], [None], [10**400], {"a": [1.0]}, {"a": ["1", "2"]}, [[[[1.0]]]]]
SHAPES = [(), (0,), (2,), (0, 2), (3, 2), (4, 3), (2, 4, 3)]
ARRAYS: list[Any] = [np.zeros(shape) for shape in SHAPES]
ARRAYS += [np.full((4, 3), value) for value in (math.nan, 1e308, 1e-320, np.longdouble("1e400"), 2**60)]
ARRAYS += [np.zeros((4, 3), dtype=kind) for kind in ("complex", "object", "timedelta64[s]", "U3", "bool")]
ARRAYS += [np.ma.array(np.zeros((4, 3)), mask=True), np.ma.array([0.0, 1.0], mask=[0, 1])]
ARRAYS += [pd.DataFrame({"a": [1.0]}), pd.Series([1.0])]
FIXED = [*NUMBERS, *SCALARS, *TEXTS, *THINGS, *ARRAYS]

_drawn = st.one_of(
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.fractions(),
    arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(max_dims=3, max_side=4)),
    st.recursive(
        st.floats() | st.none() | st.text(max_size=2), lambda inner: st.lists(inner, max_size=3), max_leaves=6
    ),
    st.dictionaries(st.text(max_size=2), st.lists(st.floats(), max_size=3), max_size=2),
)


@dataclass(frozen=True, repr=False, eq=False)
class Given:
    """A value whose own `repr` may fail."""

    value: Any

    def __repr__(self) -> str:
        return format_value(self.value)


def _fixed(place: int) -> Given:
    return Given(FIXED[place])


VALUES = st.integers(0, len(FIXED) - 1).map(_fixed) | _drawn.map(Given)


def answers_or_refuses(act: Callable[[], Any]) -> bool:
    """Return whether a call answers; a refusal must be one short line of a BandannaError."""
    try:
        act()
    except BandannaError as refused:
        text = str(refused)
        assert len(text.splitlines()) == 1, text
        assert len(text) < 1_500, text[:300]
        return False
    return True
