"""Batches of LinUCB over concurrent shufflers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.policies.linear.base import compute_concurrent_batch_size
from bandanna.policies.registry import make
from bandanna.protocols.privacy_model import concurrent
from bandanna.protocols.running_sum import lowest_batch_size
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual

BUDGET = {"epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_batch_has_the_least_regret(k: int) -> None:
    horizon = 10**8

    def bound(size: float) -> float:
        return size + 4 * k * horizon ** (0.5 + 1 / (4 * k)) * size ** (-1 / (4 * k))  # 4k: the derivatives balance

    size = compute_concurrent_batch_size(horizon, k)
    assert size == pytest.approx(horizon ** ((2 * k + 1) / (4 * k + 1)), rel=1e-3)
    assert bound(size) < min(bound(size / 2), bound(2 * size))


def test_every_level_can_fill() -> None:
    for horizon in (2, 3, 10, 500, 2**16):
        for k in range(1, int(math.log2(horizon)) + 1):
            assert 2 <= compute_concurrent_batch_size(horizon, k) <= horizon // 2 ** (k - 1)
        assert 2 <= compute_concurrent_batch_size(horizon, "best") <= horizon
    with pytest.raises(InvalidArgument, match="shufflers"):
        _ = make("LinUCB-CSDP", dim=2, horizon=100, shufflers=7, **BUDGET)._channel


def test_each_kind_of_batches_keeps_its_own_lowest_size() -> None:
    given = {"dim": 2, "horizon": 2000, **BUDGET}
    assert make("LinUCB-CSDP", shufflers=2, **given)._channel.sizes[0] == compute_concurrent_batch_size(2000, 2)
    papers = make("LinUCB-CSDP", shufflers=2, batch="paper", **given)
    assert papers._channel.sizes[0] == lowest_batch_size(
        concurrent(**BUDGET, shufflers=2), domain=papers._domain, horizon=2000
    )
    assert make("LinUCB-CSDP", degrees=(7, 5), **given)._channel.stream.tree.degrees == (7, 5)
    rounded = round(2000**0.2)
    assert make("LinUCB-CSDP", degrees="paper", shufflers=2, **given)._channel.sizes[0] == rounded


def test_one_shuffler_is_the_sequential_model_for_linucb() -> None:
    given = {"dim": 2, "horizon": 2000, **BUDGET}
    one, sequential = make("LinUCB-CSDP", shufflers=1, **given), make("LinUCB-SDP-Vec", **given)
    assert one._channel.sizes == sequential._channel.sizes
    assert one._channel.independent
    np.testing.assert_allclose(one._channel.prefix_std(), sequential._channel.prefix_std())
    np.testing.assert_allclose(one.radii.radius, sequential.radii.radius)
    np.testing.assert_allclose(one.radii.matrix, sequential.radii.matrix)
    assert not make("LinUCB-CSDP", shufflers=2, **given)._channel.independent


def test_users_of_an_unfinished_batch_enter_no_sum_and_no_radius() -> None:
    given = {"dim": 2, "shufflers": 2, "batch": 100, **BUDGET}
    cut, whole = make("LinUCB-CSDP", horizon=1090, **given), make("LinUCB-CSDP", horizon=1000, **given)
    env = LinearContextual(dim=2, n_arms=3, fixed=True)
    result = simulate(cut, env, n_seeds=2, seed=0, checkpoints=1)
    assert (result.users, result.releases) == (1000, 10)
    np.testing.assert_array_equal(cut._channel.prefix_std(), whole._channel.prefix_std())
    np.testing.assert_array_equal(cut.radii.matrix, whole.radii.matrix)
    np.testing.assert_array_equal(cut.radii.radius, whole.radii.radius)
