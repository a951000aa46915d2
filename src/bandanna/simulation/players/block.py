"""Rounds that are played together, one after the other, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.core.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Block:
    """What n rounds of S seeds are played with, all of it drawn or known before, and where what comes of it goes."""

    arms: Floats  # (S, n or 1, K, d)
    means: Floats  # (S, n or 1, K)
    uniforms: Floats  # (S, n): a reward is 1 where its number is below the mean
    coins: Floats  # (S, N): for ties, of which a seed has used `used`; N = 0: the first of tied arms
    weights: Floats  # (n,): of an `Optimism`; so are the radii
    radii: Floats
    told: Floats  # (2,): what is reported of rewards 0 and 1
    used: Ints  # (S,), changed
    actions: Ints  # (S, n), filled; so are the rewards
    rewards: Floats

    @property
    def fixed(self) -> bool:
        """Whether the arms stay."""
        return bool(self.arms.shape[1] == 1)
