from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from bandanna.policies.glm import estimation

RNG_SEED = 11


def spd(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Positive definite matrices."""
    root = rng.normal(size=(n, d, d))
    return root @ np.swapaxes(root, -1, -2) + 0.1 * np.eye(d)


def nearest(objective, constraints, start):  # type: ignore[no-untyped-def]
    """The least value that SciPy finds under the constraints."""
    return optimize.minimize(objective, start, constraints=constraints, tol=1e-12, options={"maxiter": 500}).x


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_each_projection_is_the_nearest_point(dim: int) -> None:
    rng = np.random.default_rng(RNG_SEED)
    points, centres, matrices = 3 * rng.normal(size=(4, dim)), 0.3 * rng.normal(size=(4, dim)), spd(rng, 4, dim)
    ellipsoid = estimation.project_onto_ellipsoid(points, centres, matrices, 0.8)
    ball = estimation.project_onto_ball_in_norm(points, matrices, 1.2)
    both = estimation.project_onto_intersection(points, ball=1.0, centre=centres, matrix=matrices, radius=0.8)
    for i in range(4):
        inside = {"type": "ineq", "fun": lambda y, i=i: 0.64 - (y - centres[i]) @ matrices[i] @ (y - centres[i])}
        in_ball = {"type": "ineq", "fun": lambda y: 1.0 - y @ y}
        far = {"type": "ineq", "fun": lambda y: 1.44 - y @ y}
        square = lambda y, i=i: float((y - points[i]) @ (y - points[i]))  # noqa: E731
        skew = lambda y, i=i: float((y - points[i]) @ matrices[i] @ (y - points[i]))  # noqa: E731
        assert square(ellipsoid[i]) <= square(nearest(square, [inside], centres[i])) + 1e-6
        assert skew(ball[i]) <= skew(nearest(skew, [far], 0 * centres[i])) + 1e-6
        assert square(both[i]) <= square(nearest(square, [inside, in_ball], centres[i])) + 1e-4
        assert inside["fun"](ellipsoid[i]) >= -1e-9
        assert far["fun"](ball[i]) >= -1e-9
        assert inside["fun"](both[i]) >= -1e-6
        assert in_ball["fun"](both[i]) >= -1e-12


def test_points_inside_stay() -> None:
    point = np.array([0.1, -0.2])
    np.testing.assert_array_equal(estimation.project_onto_ball(point, 1.0), point)
    np.testing.assert_array_equal(estimation.project_onto_ellipsoid(point, np.zeros(2), np.eye(2), 1.0), point)
    np.testing.assert_array_equal(estimation.project_onto_ball_in_norm(point, np.diag([1.0, 9.0]), 1.0), point)
    np.testing.assert_allclose(
        estimation.project_onto_intersection(point, ball=1.0, centre=np.zeros(2), matrix=np.eye(2), radius=1.0), point
    )


def test_sets_that_do_not_meet_end_in_the_ball() -> None:
    answer = estimation.project_onto_intersection(
        np.array([5.0, 5.0]), ball=1.0, centre=np.array([10.0, 0.0]), matrix=np.eye(2), radius=0.5
    )
    assert np.linalg.norm(answer) <= 1 + 1e-12
