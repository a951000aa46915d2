"""One run of the simulator: its seeds, its setting, and the tally of regret."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.device.domain import Box
from bandanna.policies.base import Policy
from bandanna.privacy.guarantee import Guarantee
from bandanna.simulation.environments.base import Environment
from bandanna.storage.encoding import find_stored_name, has_name
from bandanna.types import Floats, Ints

# What a runner leaves behind, besides the tally.


@dataclass(frozen=True, kw_only=True)
class RunTotals:
    """Of S seeds side by side; `users` are those in released batches, `counts` whatever else a policy counts, (S,).

    `reports`: how many there were in a run, of which `clipped` had to be; None where something else is counted.
    What is None of the rest is as the policy says: its guarantee and bits, and the repairs that it counts.
    """

    releases: int
    users: int
    clipped: NDArray[np.int64]  # (S,)
    guarantee: Guarantee | None = None
    repairs: NDArray[np.int64] | None = None  # (S,)
    bits_per_user: int | None = None
    numbers_per_user: int | None = None
    reports: int | None = None
    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict)


# What a result remembers of policy and world, as plain values: enough to say which bounds belong to it.


def describe_setting(policy: Policy[Any], env: Environment) -> dict[str, Any]:
    """The policy's class and numbers, dimension and arms of the world, and where they are known the gaps."""
    noted: dict[str, Any] = {"policy": _stored_name(type(policy)), "dim": env.dim, "n_arms": env.n_arms}
    if is_dataclass(policy):
        noted |= {
            f.name: value for f in fields(policy) if isinstance(value := getattr(policy, f.name), int | float | str)
        }
    if isinstance(domain := getattr(policy, "domain", None), Box):
        noted["reward_width"] = domain.high - domain.low
    means = getattr(env, "means", None)
    if isinstance(means, tuple):
        noted["gaps"] = tuple(max(means) - mean for mean in means)
    return noted | policy.facts()


def _stored_name(kind: type) -> str:
    """The stored name of a policy's class; a policy of one's own may be simulated without one."""
    return find_stored_name(kind) if has_name(kind) else kind.__name__


# Regret, reward and plays so far, regret sampled at the checkpoints: memory does not grow with the horizon.


@dataclass(kw_only=True)
class Tally:
    """Cumulative regret of S seeds, kept at `checkpoints` only; cumulative reward; how often each arm was played."""

    checkpoints: NDArray[np.int64]
    n_seeds: int
    n_arms: int = 0  # 0: nobody counts who took which
    done: int = 0  # rounds
    passed: int = 0  # checkpoints
    regret: Floats = field(init=False)  # (S, checkpoints)
    total: Floats = field(init=False)  # (S,): regret so far
    rewards: Floats = field(init=False)  # (S,)
    plays: Ints = field(init=False)  # (S, K)

    def __post_init__(self) -> None:
        self.regret = np.zeros((self.n_seeds, len(self.checkpoints)))
        self.total, self.rewards = np.zeros(self.n_seeds), np.zeros(self.n_seeds)
        self.plays = np.zeros((self.n_seeds, self.n_arms), dtype=np.int64)
        self._rows = np.arange(self.n_seeds)

    def add_arms(self, arms: Ints, rows: Ints | None = None) -> None:
        """The arms of users of all seeds, or of some, (rows, n)."""
        if self.n_arms:
            rows = self._rows if rows is None else rows
            flat = (rows[:, None] * self.n_arms + arms).ravel()
            self.plays += np.bincount(flat, minlength=self.plays.size).reshape(self.plays.shape)

    def add_plays(self, arms: Ints, counts: Ints | int, rows: Ints | None = None) -> None:
        """One arm of every seed, or of some, (rows,), which so many users took."""
        if self.n_arms:
            self.plays[self._rows if rows is None else rows, arms] += counts

    def steady(self, gaps: Floats, rounds: int) -> None:
        """`rounds` rounds with the same expected loss each: (S,)."""
        while self.passed < len(self.checkpoints) and self.checkpoints[self.passed] <= self.done + rounds:
            self.regret[:, self.passed] = self.total + gaps * (self.checkpoints[self.passed] - self.done)
            self.passed += 1
        self.total = self.total + (gaps if rounds == 1 else gaps * rounds)
        self.done += rounds

    def of_seed(self, place: int, begun: int, gaps: Floats, rewards: Floats) -> None:
        """Rounds of one seed, (rounds,) each, which has played `begun` of them before."""
        self.own(np.array([place]), begun, gaps[None])
        self.rewards[place] += rewards.sum()

    def own(self, rows: NDArray[np.int64], begin: int, gaps: Floats) -> None:
        """Losses (rows, rounds) of some seeds after round `begin`, of rounds that were tallied as lossless for them."""
        running = self.total[rows, None] + np.cumsum(gaps, axis=1)
        first, last = np.searchsorted(self.checkpoints, [begin + 1, begin + gaps.shape[1] + 1])
        self.regret[rows, first:last] = running[:, self.checkpoints[first:last] - begin - 1]
        self.total[rows] = running[:, -1]

    def add_losses(self, gaps: Floats) -> None:
        """Rounds with losses (S, rounds)."""
        running = self.total[:, None] + np.cumsum(gaps, axis=1)
        while self.passed < len(self.checkpoints) and self.checkpoints[self.passed] <= self.done + gaps.shape[1]:
            self.regret[:, self.passed] = running[:, self.checkpoints[self.passed] - self.done - 1]
            self.passed += 1
        self.total = running[:, -1]
        self.done += gaps.shape[1]
