"""LinTS in every trust model: a device draws a parameter from a posterior that knows the noise, and plays the best arm.

    theta ~ N(theta_hat, alpha^2 P^{-1}) on the device,   action = argmax_x <x, theta>

with theta_hat and P of `posterior`. One frozen batch so covers many arms, in proportion to how likely each is the best:
what a single optimistic index cannot do while nothing is learned, and why batches may grow.

Privacy: snapshots are computed from releases; a device's draw uses the snapshot, its own coins and its own features.
Whoever sees snapshots, other people's actions and their probabilities sees post-processing of releases and of data that
are not the user's: the guarantee is that of the releases.

References: Thompson 1933; Agrawal and Goyal 2013. Deviations: the posterior of noisy sums, intercept reports, batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.coins import Coins
from bandanna.core.domain import all_finite
from bandanna.core.intercept import InterceptReport
from bandanna.core.linalg import favoured, first_best
from bandanna.core.regression import Regression
from bandanna.core.report import LinearReport
from bandanna.device.choice import Choice, Sampled, pick
from bandanna.errors import InvalidArgument
from bandanna.policies.linear import chances
from bandanna.policies.linear.posterior import posterior
from bandanna.policies.linear.schedules import FixedBatches, Schedule, concurrent_batch, informed
from bandanna.policies.linear.sums import LinearSums, Published
from bandanna.policies.named import algorithm

_DRAW = "posterior"  # what the coins of a draw are called


@dataclass(frozen=True, kw_only=True)
class Posterior(Published):
    """What a device draws from: theta + root z, z standard normal. R = replicate axes."""

    theta: Floats  # (*R, d)
    root: Floats  # (*R, d, d): root root^T = alpha^2 P^{-1}


_named = partial(algorithm, paper="-", protects="contexts and rewards")


@_named("LinTS")
@_named("LinTS-JDP", trust="central", guarantee="joint DP or zCDP")
@_named("LinTS-LDP", trust="local", guarantee="local DP or zCDP")
@_named("LinTS-SDP", trust="shuffle", guarantee="shuffle DP")
@_named("LinTS-CSDP", trust="concurrent", guarantee="shuffle DP")
@dataclass(frozen=True, kw_only=True)
class LinTS(LinearSums):
    """Thompson sampling for linear contextual bandits with `dim` features over `horizon` rounds.

    privacy    `bd.none()`, `bd.central(...)`, `bd.local(...)`, `bd.shuffle(...)`, `bd.concurrent(...)`
    intercept  whether the last feature is a constant (any number > 0): then reports need about half the noise
               (`InterceptReport`), features count as (z, 1) with |z| <= 1, and theta is in those units
    batch      users per batch, a schedule such as `bd.geometric(first=100, ratio=1.5)`, or "auto": batches that grow,
               the first as large as the noise asks for (`schedules.informed`); the last teaches nobody: not released
    alpha      how far devices draw from the mean; 0.5 is within 8 % of the best at epsilon 0.1, 1 and 10, more
               explores more and has thinner tails; privacy does not depend on it
    prior      typical size of the parameter (without the constant); None: 1/2 with an intercept, where rewards
               are centred, else 1
    reward_std of one reward about its mean, at most

    Rewards are clipped to [0, 1] before a statistic is formed.
    """

    intercept: bool = False
    batch: int | str | Schedule | None = "auto"
    alpha: float = 0.5
    prior: float | None = None
    reward_std: float = 0.5

    def __post_init__(self) -> None:
        self.check_batch()
        require.store(self, require.flag, "intercept")
        require.store(self, require.moderate, "alpha", zero=True)
        require.store(self, require.moderate, "reward_std")
        if self.prior is not None:
            require.store(self, require.moderate, "prior")
        if self.intercept and self.dim < 2:
            raise InvalidArgument("dim", self.dim, "at least 2 with an intercept, which is the last feature")
        _ = self.schedule

    @cached_property
    def domain(self) -> Regression:
        """Reports of x y and x x^T, or of (z, 1) and centred rewards."""
        return InterceptReport(features=self.dim) if self.intercept else LinearReport(features=self.dim)

    @cached_property
    def schedule(self) -> Schedule:
        """When the policy learns."""
        batch, model = self.batch, self.privacy.model
        if isinstance(batch, Schedule):
            return batch
        if batch is not None and not isinstance(batch, str):
            size = require.whole("batch", batch, least=2 if model in ("shuffle", "concurrent") else 1)
            if size > self.horizon:
                raise InvalidArgument("batch", batch, f"at most the horizon, {self.horizon} rounds")
            return FixedBatches(size=size)
        if batch not in (None, "auto"):
            raise InvalidArgument("batch", batch, 'a whole number, a schedule or "auto"')
        if model == "concurrent" and self.privacy.noisy:
            return FixedBatches(size=concurrent_batch(self.horizon, self.privacy.shufflers))
        return informed(self.privacy, domain=self.domain, dim=self.dim, horizon=self.horizon)

    @cached_property
    def _noise(self) -> Floats:
        """Variances of the coordinates of the running sum after 0, 1, ..., M batches."""
        return np.append(0.0, self.channel.prefix_std() ** 2)

    def estimate(self, total: Floats, batches: int) -> tuple[Posterior, NDArray[np.int64]]:
        """The posterior of the released sums (*R, dim) of so many batches, and whose matrices were cut (*R)."""
        noise, (vector, matrix) = self._noise[batches], self.domain.variances
        size = (0.5 if self.intercept else 1.0) if self.prior is None else self.prior
        mean, root, cut = posterior(
            *self.domain.sums(total, self.channel.sizes.before(batches)),
            noise=(noise * vector, noise * matrix),
            second_moments=size**2 * self.domain.second_moments,
            reward_std=self.reward_std,
        )
        return Posterior(theta=mean, root=self.alpha * root), cut.astype(np.int64)

    def seen(self, contexts: Floats) -> Floats:
        """Features as they are reported."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self.domain.seen(contexts)

    def act(self, snapshot: Posterior, contexts: Floats, coins: Coins) -> Choice:
        """Device: the best arm for a parameter that it draws; (*R, rounds, K, d) -> (*R, rounds)."""
        contexts = self.seen(contexts)
        index = (contexts @ self._drawn(snapshot, contexts.shape[:-2], coins)[..., None])[..., 0]
        if not np.isfinite(np.sum(index)):
            all_finite("contexts", contexts)
        actions = pick(*favoured(index), coins).actions
        return Sampled(actions=actions, chances=lambda: self.probabilities(snapshot, contexts, actions)[0])

    def _drawn(self, snapshot: Posterior, shape: tuple[int, ...], coins: Coins) -> Floats:
        """A parameter for each device, each formed by itself: (*R, n, d)."""
        z = coins.normal((*shape, self.dim), _DRAW)
        return np.asarray(snapshot.theta[..., None, :] + (snapshot.root[..., None, :, :] @ z[..., None])[..., 0])

    def probabilities(self, snapshot: Posterior, contexts: Floats, actions: Ints) -> tuple[Floats, Floats]:
        """With which probability devices choose these arms, and its standard error: see `chances`."""
        shape = actions.shape
        rows = [
            chances.of_shared(theta, root, each, chosen)
            for theta, root, each, chosen in zip(
                snapshot.theta.reshape(-1, self.dim),
                snapshot.root.reshape(-1, self.dim, self.dim),
                contexts.reshape(-1, *contexts.shape[-3:]),
                actions.reshape(-1, shape[-1]),
                strict=True,
            )
        ]
        found, errors = (np.array(each).reshape(shape) for each in zip(*rows, strict=True))
        return found, errors

    def best(self, snapshot: Posterior, contexts: Floats) -> Ints:
        """The largest <x, theta_hat>."""
        return np.asarray(first_best((self.seen(contexts) @ snapshot.theta[..., None, :, None])[..., 0]))

    @property
    def steady(self) -> bool:
        """Every device draws."""
        return False

    def tabulate(self, features: Floats) -> Floats:
        """Arms that stay, as `act` sees them: (*R, K, d) -> (*R, d, K)."""
        return np.ascontiguousarray(np.swapaxes(self.seen(features), -1, -2))

    def drawn_arms(self, snapshot: Posterior, arms: Floats, users: int, coins: Coins) -> Ints:
        """The arms of so many devices, of tabulated ones: (*R, users)."""
        z = coins.normal((*snapshot.theta.shape[:-1], users, self.dim), _DRAW)
        drawn = snapshot.theta[..., None, :] + z @ np.swapaxes(snapshot.root, -1, -2)
        return pick(*favoured(drawn @ arms), coins).actions

    def centred(self, rewards: Floats) -> tuple[Floats, Bools]:
        """In [-1/2, 1/2] with an intercept."""
        inside, moved = super().centred(rewards)
        return (inside - 0.5 if self.intercept else inside), moved

    def theta(self, snapshot: Posterior) -> Floats:
        """The posterior's mean, in units of (z, 1) with an intercept."""
        if not self.intercept:
            return snapshot.theta
        back = np.zeros(self.dim)
        back[-1] = 0.5
        return np.asarray(snapshot.theta + back)

    def facts(self) -> dict[str, Any]:
        """What a result should remember."""
        return {"batch": max(self.channel.sizes.counts()), "participations": self.privacy.participations}
