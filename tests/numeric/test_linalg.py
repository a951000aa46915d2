"""Many small matrices at once, and ties."""

from __future__ import annotations

import numpy as np
import pytest

from bandanna.numeric.linalg import find_best_arms, find_best_arms_single, first_best, positive_inverse, round_to_single


def test_inverses_are_inverses() -> None:
    rng = np.random.default_rng(0)
    for d in (1, 2, 5, 12):
        a = rng.normal(size=(3, 4, d, d))
        v = a @ np.swapaxes(a, -1, -2) + 0.1 * np.eye(d)
        inverse, repaired = positive_inverse(v, floor=0.5)
        np.testing.assert_allclose(inverse @ v, np.broadcast_to(np.eye(d), v.shape), atol=1e-8)
        assert inverse.shape == v.shape
        assert repaired.shape == (3, 4)
        assert not np.any(repaired)


def test_indefinite_matrices_are_shifted_and_counted() -> None:
    for least in (-2.0, 0.0):
        v = np.stack([np.diag([1.0, least]), np.diag([3.0, 1.0]), np.array([[1.0, 2.0], [2.0, 1.0]])])
        inverse, repaired = positive_inverse(v, floor=0.5)
        np.testing.assert_array_equal(repaired, [1, 0, 1])
        assert np.min(np.linalg.eigvalsh(np.linalg.inv(inverse))) >= 0.5 - 1e-12
        np.testing.assert_allclose(inverse[1], np.diag([1 / 3, 1.0]))


def test_a_repair_does_not_touch_other_seeds() -> None:
    v = np.stack([np.diag([1.0, -2.0]), np.diag([3.0, 0.1])])
    inverse, repaired = positive_inverse(v, floor=0.5)
    np.testing.assert_array_equal(repaired, [1, 0])
    np.testing.assert_array_equal(inverse[1], positive_inverse(v[1:], floor=0.5)[0][0])


def test_ties_up_to_rounding_go_to_the_first_arm() -> None:
    index = np.array([[0.3, 1.0, 1.0 + 1e-15], [-1.0, -1.0 + 1e-15, -2.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(first_best(index), [1, 0, 0])
    assert first_best(np.array([1.0, 1.0 + 1e-5])) == 1
    assert first_best(np.array([1e98, 1e99, 1.0])) == 1  # beyond single precision


def test_large_matrices_are_inverted_alike() -> None:
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(2, 70, 100))
    v = raw @ np.swapaxes(raw, 1, 2)
    v[1] -= 50 * np.eye(70)
    assert np.linalg.eigvalsh(v[1])[0] < 0
    inverse, repaired = positive_inverse(v, floor=0.5)
    np.testing.assert_array_equal(repaired, [0, 1])
    np.testing.assert_allclose(inverse[0] @ v[0], np.eye(70), atol=1e-8)
    assert np.linalg.eigvalsh(inverse[1])[0] > 0
    assert np.linalg.eigvalsh(inverse[1])[-1] <= 2.0 * (1 + 1e-6)
    np.testing.assert_array_equal(positive_inverse(v[0], floor=0.5)[0], inverse[0])


@pytest.mark.parametrize("dim", [*range(1, 9), 40])
def test_a_matrix_alone_is_inverted_as_in_company(dim: int) -> None:
    rng = np.random.default_rng(dim)
    for size in (1e-12, 1e-3, 1.0, 1e9):
        raw = rng.normal(size=(20, dim, dim))
        some = size * (raw @ np.swapaxes(raw, 1, 2) - rng.choice([-0.1, 0.0, 0.5], size=(20, 1, 1)) * np.eye(dim))
        together, repaired = positive_inverse(some, floor=0.01 * size)
        assert repaired.any()
        for place, matrix in enumerate(some):
            alone, shifted = positive_inverse(matrix, floor=0.01 * size)
            assert alone.tobytes() == together[place].tobytes()
            assert shifted.shape == ()
            assert shifted == repaired[place]


def test_a_matrix_without_a_pivot_is_shifted_alone_too() -> None:
    for odd in (0.0, np.nan, np.inf):
        both = np.stack([np.full((3, 3), odd), np.eye(3)])
        for matrices in (both, both[:1], both[0]):
            if np.isfinite(odd):
                assert positive_inverse(matrices, floor=0.5)[1].sum() == 1
            else:
                with pytest.raises(np.linalg.LinAlgError):
                    positive_inverse(matrices, floor=0.5)


def test_one_row_is_favoured_as_among_others() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4)).round(1) * (1 + rng.integers(-1, 2, size=(300, 4)) * 2.0**-26)
    odd = np.array([[np.nan, 1.0, 2.0, 0.0], [np.inf, 1.0, np.inf, 0.0], [-1e40, 3.0, 3.0, 1e39], [-1e39] * 4])
    with np.errstate(invalid="ignore"):
        for row in [*rows, *odd, *rows[:5, :1]]:
            first, tied = find_best_arms_single(round_to_single(row))
            expected, among = find_best_arms(np.stack([row, row]))
            assert first == expected[0]
            places = [first] if tied is None else tied.tolist()
            assert places == ([expected[0]] if among is None else np.flatnonzero(among[0]).tolist())
