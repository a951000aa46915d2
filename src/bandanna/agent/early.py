"""The first contexts and rewards of an agent: who sends most of them out of range is told before a batch is full."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.arm_sets import Sets
from bandanna.core.arrays import Floats
from bandanna.errors import ClippingWarning
from bandanna.policies.base import Policy, RunningSums

_FEW = 10  # of which most are out of range: by chance they are not; so many are looked at together
_ENOUGH = 200  # after these nobody looks any more: releases count


class Early:
    """Counts of what was seen and what was out of range, of features and of rewards; said once. Not protected."""

    def __init__(self, policy: Policy[Any]) -> None:
        self._policy = policy if isinstance(policy, RunningSums) else None
        self._seen, self._out = {"features": 0, "rewards": 0}, {"features": 0, "rewards": 0}
        self._features: list[Floats] = []  # not looked at yet
        self._rewards: list[float] = []

    def contexts(self, sets: Sets) -> ClippingWarning | None:
        """What to say of these users' features, one arm of each."""
        if self._policy is None or self._seen["features"] >= _ENOUGH:
            return None
        self._features += [features[0] for _, features in sets[:_ENOUGH]]
        if len(self._features) < _FEW:
            return None
        rows, self._features = np.array(self._features), []
        arms = None if getattr(self._policy, "n_arms", None) is None else np.zeros(len(rows), dtype=np.int64)
        return self._count(
            "features", len(rows), int(self._policy.statistic(rows, np.full(len(rows), 0.5), arms).clipped)
        )

    def reward(self, reward: float) -> ClippingWarning | None:
        """What to say of one more reward."""
        if self._policy is None or self._seen["rewards"] >= _ENOUGH:
            return None
        self._rewards.append(reward)
        if len(self._rewards) < _FEW:
            return None
        rewards, self._rewards = np.array(self._rewards), []
        return self._count("rewards", len(rewards), int(np.count_nonzero(self._policy.centred(rewards)[1])))

    def _count(self, what: str, seen: int, out: int) -> ClippingWarning | None:
        self._seen[what] += seen
        self._out[what] += out
        if self._seen[what] < _FEW or 2 * self._out[what] <= self._seen[what]:
            return None
        self._policy = None
        bounds = "vectors of norm at most 1" if what == "features" else "numbers in [0, 1]"
        return ClippingWarning(
            f"{self._out[what]} of the first {self._seen[what]} {what} are out of range and will be clipped: scale "
            f"them to {bounds}, by public limits (bd.features.Map does that), or other numbers are learned from"
        )
