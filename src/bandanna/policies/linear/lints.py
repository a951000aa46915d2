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

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.budgets import ApproxDP
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import Coins
from bandanna.core.intercept import InterceptReport
from bandanna.core.linalg import favoured, first_best
from bandanna.core.per_arm import PerArmReport
from bandanna.core.regression import Regression
from bandanna.core.report import LinearReport
from bandanna.device.choice import Choice, Sampled, moved, pick
from bandanna.device.choosing import Thompson
from bandanna.device.draws import Own
from bandanna.device.telling import Regressed
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Frozen
from bandanna.policies.linear import chances
from bandanna.policies.linear.explore import Uniform
from bandanna.policies.linear.posterior import posterior
from bandanna.policies.linear.schedules import FixedBatches, Schedule, concurrent_batch, informed
from bandanna.policies.linear.start import Start
from bandanna.policies.linear.sums import LinearSums, Published
from bandanna.policies.named import algorithm
from bandanna.protocols.trust import Privacy
from bandanna.storage.declared import stored_as

_ENDLESS = 10**9
_LARGEST = 10**5  # users of a batch without a horizon: whoever gathers them must hold them
_OFTEN = 3  # participations from which on independent batches need less noise than a stream


@stored_as("Posterior")
@dataclass(frozen=True, kw_only=True)
class Posterior(Published):
    """What a device draws from: theta + root z, z standard normal. R = replicate axes, arms with own models."""

    theta: Floats  # (*R, d)
    root: Floats  # (*R, d, d): root root^T = alpha^2 P^{-1}
    explore: float = 0.0  # the share of devices that take any arm


_named = partial(algorithm, paper="-", protects="contexts and rewards")


@_named("LinTS")
@_named("LinTS-JDP", trust="central", guarantee="joint DP or zCDP")
@_named("LinTS-LDP", trust="local", guarantee="local DP or zCDP")
@_named("LinTS-SDP", trust="shuffle", guarantee="shuffle DP")
@_named("LinTS-CSDP", trust="concurrent", guarantee="shuffle DP")
@stored_as("LinTS")
@dataclass(frozen=True, kw_only=True)
class LinTS(LinearSums):
    """Thompson sampling for linear contextual bandits with `dim` features over `horizon` rounds.

    horizon    None: for ever, where batches are paid for by themselves (no privacy, local, shuffle); it learns from
               the first 10^9 users, in batches of at most 10^5
    n_arms, features  instead of `dim`: every arm has a parameter of its own, of so many features of the user and a
               constant, which is added; all rows of a context are the user's features. (`PerArmReport`)
    privacy    `bd.none()`, `bd.central(...)`, `bd.local(...)`, `bd.shuffle(...)`, `bd.concurrent(...)`
    intercept  whether the last feature is a constant (any number > 0): then reports need about half the noise
               (`InterceptReport`), features count as (z, 1) with |z| <= 1, and theta is in those units
    batch      users per batch, a schedule such as `bd.geometric(first=100, ratio=1.5)`, or "auto": batches that grow,
               the first as large as the noise asks for, while enough users are left to learn (`schedules.informed`)
    alpha      how far devices draw from the mean: more explores more and has thinner tails (docs/linear.md has
               measurements); privacy does not depend on it
    prior      typical size of the parameter (without the constant); None: 1/2 with an intercept, where rewards
               are centred, else 1
    reward_std of one reward about its mean, at most
    explore    `bd.uniform(first=n, then=p)`: beside the draws, any arm in the first episodes, later with a chance
    start      released sums of earlier people to begin with: `log.start(policy, privacy=...)` makes them from a log

    Rewards are clipped to [0, 1] before a statistic is formed.
    """

    player = "frozen"
    not_here = (("protects", "contexts and rewards are; bd.LinTSRewards(...) protects rewards, of public contexts"),)

    dim: int = None  # type: ignore[assignment]
    horizon: int | None = None  # type: ignore[assignment]
    n_arms: int | None = None
    features: int | None = None
    intercept: bool = False
    batch: int | str | Schedule | None = "auto"
    alpha: float = 0.5
    prior: float | None = None
    reward_std: float = 0.5
    explore: Uniform | None = None
    start: Start | None = None

    def __post_init__(self) -> None:
        if self.n_arms is not None or self.features is not None:
            self._check_own()
        if self.features is None and (self.dim is None or (type(self.dim) is int and self.dim == 0)):
            words = "a whole number >= 1, how many features an arm has; or n_arms= and features= of users"
            raise InvalidArgument("dim", self.dim, words)
        self.check_batch(endless=True)
        if self.horizon is None and self.privacy.model in ("central", "concurrent"):
            allowed = f"a number of rounds in the {self.privacy.model} model, or bd.Anytime(first=bd.LinTS(...))"
            raise InvalidArgument("horizon", None, allowed)
        require.store(self, require.flag, "intercept")
        require.store(self, require.moderate, "alpha", zero=True)
        require.store(self, require.moderate, "reward_std")
        if self.prior is not None:
            require.store(self, require.moderate, "prior")
        if self.explore is not None and not isinstance(self.explore, Uniform):
            raise InvalidArgument("explore", self.explore, "bd.uniform(first=..., then=...) or None")
        if self.start is not None and not isinstance(self.start, Start):
            raise InvalidArgument(
                "start", type(self.start).__name__, "what log.start(policy, privacy=...) gives, or None"
            )
        if self.intercept and self.dim < 2:
            raise InvalidArgument("dim", self.dim, "at least 2 with an intercept, which is the last feature")
        if self.start is not None:
            self.start.check(self.domain.dim)
        _ = self.schedule

    def _check_own(self) -> None:
        """Arms with models of their own."""
        if self.n_arms is None or self.features is None or self.dim not in (None, 0, self.features):
            given = {"n_arms": self.n_arms, "features": self.features, "dim": self.dim}
            allowed = "n_arms and features, without dim: a constant is added"
            raise InvalidArgument(", ".join(given), tuple(given.values()), allowed)
        require.store(self, require.whole, "n_arms", least=2)
        require.store(self, require.whole, "features")
        object.__setattr__(self, "dim", self.features)

    @cached_property
    def domain(self) -> Regression:
        """Reports of x y and x x^T, of (z, 1) and centred rewards, or of those of one arm."""
        if self.n_arms is not None:
            return PerArmReport(features=self.dim, n_arms=self.n_arms)
        if self.intercept:
            return InterceptReport(features=self.dim)
        return LinearReport(features=self.dim, isometric=self.privacy.isometric)

    @property
    def _centre(self) -> float:
        """What a reward is told from: 1/2 where there is a constant."""
        return 0.5 if self.intercept or self.n_arms is not None else 0.0

    @cached_property
    def tell(self) -> Regressed:
        """Rewards minus 1/2 where there is a constant."""
        return Regressed(centre=self._centre)

    @cached_property
    def choose(self) -> Thompson:
        """How devices draw and choose."""
        return Thompson(domain=self.domain)

    @cached_property
    def schedule(self) -> Schedule:
        """When the policy learns."""
        batch, model = self.batch, self.privacy.model
        if isinstance(batch, Schedule):
            return batch
        if batch is not None and not isinstance(batch, str):
            return self.fixed_batches(batch)
        if batch not in (None, "auto"):
            raise InvalidArgument("batch", batch, 'a whole number, a schedule or "auto"')
        if model == "concurrent" and self.privacy.noisy:
            return FixedBatches(size=concurrent_batch(self.span, self.privacy.shufflers))
        dim, blocks = (self.dim, 1) if self.n_arms is None else (self.dim + 1, self.n_arms)
        batches = informed(self.privacy, domain=self.domain, dim=dim, horizon=self.span, blocks=blocks)
        return batches if self.horizon is not None else replace(batches, most=max(_LARGEST, batches.first))

    @property
    def span(self) -> int:
        """The horizon, or as many rounds as anybody plans for."""
        return _ENDLESS if self.horizon is None else self.horizon

    @cached_property
    def spends(self) -> Privacy:
        """A user is in a batch at most once, so in no more than there are; who returns often is better off with noise
        of its own for every batch than in one stream. Local reports take the protocol with less noise.
        """
        often = min(self.privacy.participations, len(self._sizes))
        apart = self.privacy.model == "central" and often >= _OFTEN and self.privacy.calibration == "tight"
        mechanism = "independent" if apart else self.privacy.mechanism
        return replace(self.privacy, participations=often, mechanism=mechanism).preferring("auto")

    @property
    def guarantee(self) -> Guarantee:
        """Without a horizon the budget itself, which every batch keeps; the shuffler may learn all in the end."""
        budget = self.privacy.budget
        computed = self.horizon is not None or self.privacy.participations > 1 or not self.privacy.noisy
        if computed or not isinstance(budget, ApproxDP):
            return super().guarantee
        first = self.channel.protocols[self._sizes[0]].guarantee
        return replace(first, epsilon=budget.epsilon, delta=budget.delta, rho=math.inf, shuffler=None)

    def _episode(self, number: int) -> Frozen | None:
        """Without a horizon, what comes after the last batch has no end."""
        episode = super()._episode(number)
        endless = episode is None and self.horizon is None and number == len(self._sizes)
        return Frozen(number=number, users=_ENDLESS, released=False) if endless else episode

    @cached_property
    def _noise(self) -> Floats:
        """Variances of the coordinates of the running sum after 0, 1, ..., M batches."""
        return np.append(0.0, self.channel.prefix_std() ** 2)

    def estimate(self, total: Floats, batches: int) -> tuple[Posterior, NDArray[np.int64]]:
        """The posterior of the released sums (*R, dim) of so many batches, and whose matrices were cut (*R)."""
        noise, (vector, matrix) = self._noise[batches], self.domain.variances
        users = self.channel.sizes.before(batches)
        size = (0.5 if self._centre else 1.0) if self.prior is None else self.prior
        reports = users
        if self.start is not None:  # other people's, with noise of its own
            total, noise, reports = self.start.plus(total), noise + self.start.variance, users + self.start.users
        mean, root, cut = posterior(
            *self.domain.sums(total, reports),
            noise=(noise * vector, noise * matrix),
            second_moments=size**2 * self.domain.second_moments,
            reward_std=self.reward_std,
        )
        cuts = cut if self.n_arms is None else np.any(cut, axis=-1)
        share = 0.0 if self.explore is None else self.explore.share(users)
        return Posterior(theta=mean, root=self.alpha * root, explore=share), cuts.astype(np.int64)

    def seen(self, contexts: Floats) -> Floats:
        """Features as they are reported."""
        return self.choose.seen(contexts)

    def act(self, snapshot: Posterior, contexts: Floats, coins: Coins) -> Choice:
        """Device: the best arm of its draw; (*R, rounds, K, d) -> (*R, rounds)."""
        rows = self.choose.rows(contexts)
        actions = self.choose.actions(snapshot, rows, coins)
        return Sampled(actions=actions, chances=lambda: self._chances(snapshot, rows, actions, taken=True)[0])

    def probabilities(self, snapshot: Posterior, contexts: Floats, actions: Ints) -> tuple[Floats, Floats]:
        """With which probability devices choose these arms, and its standard error: see `chances`."""
        return self._chances(snapshot, self.choose.rows(contexts), actions)

    def _chances(
        self, snapshot: Posterior, contexts: Floats, actions: Ints, *, taken: bool = False
    ) -> tuple[Floats, Floats]:
        shape = actions.shape
        axes = len(shape) - 1  # replicates
        runs = zip(
            snapshot.theta.reshape(-1, *snapshot.theta.shape[axes:]),
            snapshot.root.reshape(-1, *snapshot.root.shape[axes:]),
            contexts.reshape(-1, *contexts.shape[-3:]),
            actions.reshape(-1, shape[-1]),
            strict=True,
        )
        found, errors = zip(*(self._chances_of_one(*run, taken=taken) for run in runs), strict=True)
        any_arm, own = snapshot.explore / contexts.shape[-2], 1 - snapshot.explore
        return any_arm + own * np.array(found).reshape(shape), own * np.array(errors).reshape(shape)

    def _chances_of_one(
        self, mean: Floats, root: Floats, contexts: Floats, actions: Ints, *, taken: bool
    ) -> tuple[Floats, Floats]:
        """Probabilities of these actions and their standard errors, of one run: (n, K, d), (n,) -> (n,)."""
        draws = self.choose.draws
        if not isinstance(draws, Own):
            return chances.of_shared(mean, root, contexts, actions, taken=taken)
        found = chances.of_own(draws.expected(mean, contexts), draws.spread(root, contexts), actions)
        return found, np.zeros(found.shape)

    def best(self, snapshot: Posterior, contexts: Floats) -> Ints:
        """The largest expected reward."""
        return first_best(self.choose.draws.expected(snapshot.theta, self.choose.rows(contexts)))

    @property
    def steady(self) -> bool:
        """Every device draws."""
        return False

    def tabulate(self, features: Floats) -> Floats:
        """Arms that stay, as `act` sees them: (*R, K, d)."""
        return self.choose.rows(features[..., None, :, :])[..., 0, :, :]

    def drawn_arms(self, snapshot: Posterior, arms: Floats, users: int, coins: Coins) -> Ints:
        """The arms of so many devices, of tabulated ones: (*R, users)."""
        scores = self.choose.draws.of_table(snapshot.theta, snapshot.root, arms, users, coins)
        actions = pick(*favoured(scores), coins).actions
        return moved(actions, snapshot.explore, arms.shape[-2], coins) if snapshot.explore else actions

    def theta(self, snapshot: Posterior) -> Floats:
        """The posterior's mean, in units of (z, 1) with an intercept."""
        if not self._centre:
            return snapshot.theta
        back = np.zeros(snapshot.theta.shape[-1])
        back[-1] = self._centre
        return np.asarray(snapshot.theta + back)

    def facts(self) -> dict[str, Any]:
        """What a result should remember."""
        return {"batch": max(self.channel.sizes.counts()), "participations": self.privacy.participations}
