"""LinTS that protects rewards alone: a noisy sum of w x (r - 1/2), and exact sums of what is public."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.coins import NumberedCoins
from bandanna.core.report import LinearReport
from bandanna.dashboard.readings.base import Band, Mean, Notes, Reader, Reading, regret_of, two
from bandanna.dashboard.readings.linear import constant_of
from bandanna.policies.base import Ask, Played
from bandanna.policies.linear.rewards_only import LinTSRewards
from bandanna.tasks.document import Task
from bandanna.tasks.published import Published


class RewardsReader(Reader):
    """How a report weighs features is found out by making one: of a reward of 1, and of features that are known."""

    def __init__(self, task: Task, policy: LinTSRewards) -> None:
        super().__init__(task)
        self._policy = policy
        self._stds = np.append(0.0, policy.channel.prefix_std())
        self.independent = policy.channel.independent
        protocol = next(iter(policy.channel.protocols.values()))
        features = np.full(policy.dim, (policy.dim - policy.intercept or 1) ** -0.5)
        features[-1] = 1.0 if policy.intercept else features[-1]
        self._weights = 2 * self._report(Ask(protocol=protocol), features) / features  # (d,)
        self._rows = None if task.arms is None else policy.seen(task.arms.features[None])[0]  # (K, d)
        self._constant = np.eye(policy.dim)[-1] if policy.intercept else constant_of(self._rows)
        self.notes = Notes(
            reward="Of those who answered, from the released sum; how many answered is public in this task."
            if self._constant is not None
            else "Not released: features have no constant in their span, so the sum of rewards does not follow.",
            regret=(
                "An estimate: those who answered times the mean of the arm that looks best now, less the sum of"
                " rewards. The band adds the noise of both and the chance of rewards themselves."
            )
            if self._constant is not None and self._rows is not None
            else "Not estimated: the best arm depends on each user's context.",
            theta="Mean of the posterior, and two of its standard deviations: it knows the noise.",
        )

    def _report(self, ask: Ask, features: Floats) -> Floats:
        """What a user with these features and a reward of 1 reports before noise."""
        played = Played(features=features[None], rewards=np.ones(1))
        return np.asarray(self._policy.report(ask, played, NumberedCoins(0, 0)).values[0])

    def read(self, said: Published, before: tuple[Published, Reading] | None) -> Reading:
        """From the state alone."""
        state, policy = said.state, self._policy
        users = int(policy.channel.sizes.before(state.batches))
        reward = regret = None
        if self._constant is not None:
            count = self._answered(state.public)
            value = self._constant @ (state.released / self._weights) + count / 2
            spread = float(self._stds[state.batches]) ** 2 * np.sum((self._constant / self._weights) ** 2)
            reward = Band(value=float(value), half=float(two(spread)))
            if self._rows is not None and policy.alpha > 0:
                root = 2 * said.snapshot.root / policy.alpha
                values = self._rows @ policy.theta(said.snapshot)
                means = Mean(values=values, halves=np.linalg.norm(self._rows @ root, axis=-1), chance=policy.reward_std)
                regret = regret_of(round(count), reward, means)
        halves = None
        if policy.alpha > 0:
            halves = two(np.sum(said.snapshot.root**2, axis=-1)) / policy.alpha
        theta = self.named(policy.theta(said.snapshot), halves)
        return Reading(users=users, reward=reward, regret=regret, theta=theta)

    def _answered(self, public: Floats) -> float:
        """w^T (sum x x^T) w, the features' scale in a report undone."""
        assert self._constant is not None
        domain = self._policy.public.protocol.domain
        assert isinstance(domain, LinearReport)
        alone = self._report(self._policy.public, np.eye(self._policy.dim)[-1])
        scale = float(domain.unpack(alone)[1][-1, -1])
        return float(self._constant @ (domain.unpack(public)[1] / scale) @ self._constant)
