"""Bits and symmetric matrices as domains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.device.domain import Bits, SymmetricMatrix
from bandanna.errors import InvalidArgument, InvalidStatistic


def test_bits_are_zero_or_one() -> None:
    assert Bits().admit([[0.0], [1.0]], clip=False).values.tolist() == [[0.0], [1.0]]
    for wrong in (0.5, -1.0, 2.0, 1e-6):
        with pytest.raises(InvalidStatistic):
            Bits().admit([[wrong]], clip=False)
    clipped = Bits().admit([[0.7], [0.2], [1.0]])
    assert clipped.values.tolist() == [[1.0], [0.0], [1.0]]
    assert int(clipped.clipped) == 2
    assert Bits().sensitivity == 1.0
    with pytest.raises(InvalidArgument):
        Bits(dim=2)


@given(st.integers(1, 6), st.integers(0, 2**31))
def test_matrices_are_packed_isometrically(size: int, seed: int) -> None:
    """Packing changes a norm, or unpacking does not undo it."""
    domain = SymmetricMatrix(size=size)
    raw = np.random.default_rng(seed).normal(size=(3, size, size))
    matrices = (raw + np.swapaxes(raw, 1, 2)) / 2
    packed = domain.pack(matrices)
    assert packed.shape == (3, size * (size + 1) // 2)
    assert np.allclose(np.linalg.norm(packed, axis=-1), np.linalg.norm(matrices, axis=(-2, -1)))
    assert np.allclose(domain.unpack(packed), matrices)
    assert np.all(np.abs(domain.project(packed)) <= domain.upper + 1e-12)


def test_matrices_that_are_none_are_refused() -> None:
    domain = SymmetricMatrix(size=2, bound=3.0)
    assert domain.sensitivity == 6.0
    assert domain.dim == 3
    with pytest.raises(InvalidStatistic):
        domain.pack(np.zeros((3, 3)))
    with pytest.raises(InvalidStatistic):
        domain.pack(np.array([[0.0, 1.0], [0.5, 0.0]]))
    with pytest.raises(InvalidStatistic, match="finite"):
        domain.admit(domain.pack(np.full((1, 2, 2), math.nan)), clip=False)
