"""Canaries: two statistics of a domain that are as far apart as any, and two rows whose reports are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.coins import NoCoins
from bandanna.core.domain import Ball, Domain
from bandanna.core.intercept import InterceptReport
from bandanna.core.regression import Regression
from bandanna.policies.base import Ask, Played, Policy

FAR = 40.0  # beyond every bound: what is longer is clipped
_ANGLES = 361


def farthest(domain: Domain) -> Floats:
    """Two points of the domain whose distance is its diameter, (2, dim): that of a ball, a box, or reports."""
    if isinstance(domain, Ball):
        point = np.full(domain.dim, domain.bound / math.sqrt(domain.dim))  # as far as any in l1 too
        return np.stack([point, -point])
    if isinstance(domain, Regression):
        x, y = _regressions(domain.features, intercept=isinstance(domain, InterceptReport))
        arms = np.zeros(len(y), dtype=np.int64)
        packed = domain.pack(x, domain.reward_bound * y, arms)
        one, two = _apart(packed)
        return np.stack([packed[one], packed[two]])
    return np.stack([domain.upper, domain.lower])


def _regressions(features: int, *, intercept: bool) -> tuple[Floats, Floats]:
    """Features of length 1 at all angles, with rewards 1 and -1: (n, d) and (n,)."""
    slopes = features - 1 if intercept else features
    turns = np.linspace(0, math.pi, _ANGLES) if slopes > 1 else np.array([0.0, math.pi])
    x = np.zeros((len(turns), features))
    x[:, 0] = np.cos(turns)
    if slopes > 1:
        x[:, 1] = np.sin(turns)
    if intercept:
        x[:, -1] = 1.0
    return np.concatenate([x, x]), np.repeat([1.0, -1.0], len(x))


def _apart(points: Floats) -> tuple[int, int]:
    """The places of the two points that are farthest apart; by symmetry the first angle is one of them."""
    distances = np.linalg.norm(points - points[0], axis=-1)
    return 0, int(np.argmax(distances))


def rows_apart(policy: Policy[Any], asks: list[Ask], row: Played, *, private: bool) -> tuple[Played, Played]:
    """Two rows of one person whose reports to these asks are as far apart as we can make them.

    Rewards take both ends of what is clipped; features, where they are `private`, all angles in a plane, and no
    features at all; where they are public, both rows have the same. Distances count in units of each ask's sensitivity.
    """
    rows = _candidates(policy, row, private=private)
    count = rows.rewards.shape[0]
    squares = np.zeros((count, count))
    for ask in asks:
        mine = row.arms if ask.arm is not None else None
        if mine is not None and int(mine[0]) != ask.arm:
            continue
        values = policy.report(ask, rows, NoCoins()).values.reshape(count, -1) / ask.protocol.domain.sensitivity
        norms = np.sum(values * values, axis=-1)
        squares += np.maximum(norms[:, None] + norms[None] - 2 * values @ values.T, 0.0)
    if not private and rows.features is not None:
        same = np.all(rows.features[:, None] == rows.features[None], axis=-1)
        squares = np.where(same, squares, -1.0)
    rewards = rows.rewards.reshape(count, -1)[:, 0]
    squares *= np.where(rewards[:, None] != rewards[None], 1 + 1e-9, 1.0)  # of equals, those that differ in all
    one, two = np.unravel_index(np.argmax(squares), squares.shape)
    return rows.at(slice(int(one), int(one) + 1)), rows.at(slice(int(two), int(two) + 1))


def _candidates(policy: Policy[Any], row: Played, *, private: bool) -> Played:
    """Rows that a person may have, (n) of them."""
    if row.rewards.ndim == 2:  # averages of a client over all arms of an episode
        high = np.full_like(row.rewards[0], FAR)
        return Played(rewards=np.stack([high, -high]))
    features = row.features
    if features is None or not private:
        tiled = None if features is None else np.repeat(_lengthened(policy, features), 2, axis=0)
        arms = None if row.arms is None else np.repeat(row.arms, 2)
        return replace(row, rewards=np.array([FAR, -FAR]), features=tiled, arms=arms, groups=None, answered=None)
    x, y = _regressions(features.shape[-1], intercept=bool(getattr(policy, "intercept", False)))
    x = np.concatenate([x, np.zeros_like(x[:1])])
    y = np.append(FAR * y, 0.0)
    arms = None if row.arms is None else np.repeat(row.arms, len(y))
    if arms is not None and not getattr(policy, "dim", 0):  # arms with models of their own: the neighbour has another
        arms[len(arms) // 2 :] = (arms[0] + 1) % max(int(getattr(policy, "n_arms", 1)), 1)
    groups = None if row.groups is None else np.repeat(row.groups, len(y))
    return Played(rewards=y, features=x, arms=arms, groups=groups)


def _lengthened(policy: Policy[Any], features: Floats) -> Floats:
    """Public features as long as they may be: an adversary chooses them, the same in both worlds."""
    if getattr(policy, "intercept", False):
        slopes = np.zeros_like(features)
        slopes[..., 0], slopes[..., -1] = 1.0, 1.0
        return slopes
    length = float(np.linalg.norm(features))
    return features / length if length > 0 else features
