from __future__ import annotations

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.policies.design import ball_net, epsilon_net


@pytest.mark.parametrize(("dim", "radius"), [(1, 0.1), (2, 0.2), (3, 0.4), (2, 1.0), (4, 0.8)])
def test_ball_net_covers_the_ball(dim: int, radius: float) -> None:
    net = ball_net(dim, radius=radius)
    rng = np.random.default_rng(1)
    points = rng.standard_normal((2000, dim))
    points *= (rng.random((2000, 1)) ** (1 / dim)) / np.linalg.norm(points, axis=1, keepdims=True)
    points[:200] /= np.linalg.norm(points[:200], axis=1, keepdims=True)  # the boundary too
    nearest = np.min(np.linalg.norm(points[:, None] - net[None], axis=2), axis=1)
    assert np.max(nearest) <= radius + 1e-12
    assert np.max(np.linalg.norm(net, axis=1)) <= 1 + 1e-12
    assert len(net) <= (3 / radius) ** dim


def test_a_net_covers_every_point_with_points_farther_apart_than_its_radius() -> None:
    points = np.random.default_rng(2).standard_normal((500, 3))
    net = epsilon_net(points, radius=0.7)
    distances = np.linalg.norm(points[:, None] - net[None], axis=2)
    assert np.max(np.min(distances, axis=1)) <= 0.7
    apart = np.linalg.norm(net[:, None] - net[None], axis=2) + 9 * np.eye(len(net))
    assert np.min(apart) > 0.7


def test_too_fine_a_net_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="dim, radius"):
        ball_net(10, radius=0.1)
    with pytest.raises(InvalidArgument, match="radius"):
        epsilon_net(np.eye(2), radius=0.0)
