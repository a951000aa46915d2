"""A model of rewards that a log teaches, in any trust model: what doubly robust estimates begin with.

A linear regression for each arm on features of users, or one for all arms on features of arms, from one released sum of
reports (`PerArmReport`, `LinearReport`) and the posterior that knows its noise, as `LinTS` learns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.calling import by_name
from bandanna.core.domain import all_finite, reals
from bandanna.core.per_arm import PerArmReport
from bandanna.core.regression import Regression
from bandanna.core.report import LinearReport
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.logs.log import Log
from bandanna.ope.release import nothing_promised, release
from bandanna.ope.weighing import checked_privacy
from bandanna.policies.linear.posterior import posterior
from bandanna.protocols.trust import Privacy

_REWARD_STD = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class RewardModel:
    """A function of contexts, (n, d) or (n, K, d), to expected rewards, (n, K): released numbers, and so public.

    theta      of every arm, with its constant last, (K, d + 1); or of all arms, (d,)
    people     from whom it was learned: evaluate on others
    """

    theta: Floats
    people: int
    n_arms: int
    reward_range: tuple[float, float]
    guarantee: Guarantee
    domain: Regression

    def __call__(self, contexts: Any) -> Floats:
        """Expected rewards, within their range."""
        shown = reals("contexts", contexts)
        own = isinstance(self.domain, PerArmReport)
        if shown.ndim != (2 if own else 3) or max(shown.shape[-1], int(own)) != self.domain.features:
            allowed = f"(n, {'' if own else 'arms, '}{self.domain.features})"
            raise InvalidStatistic("shape of contexts", Summary(shown.shape), allowed)
        all_finite("contexts", shown)
        if own:
            z = self.domain.seen(_some(shown))
            scores = np.concatenate([z, np.ones((len(z), 1))], axis=1) @ self.theta.T + 0.5
        else:
            scores = self.domain.seen(shown) @ self.theta
        low, high = self.reward_range
        return np.asarray(low + (high - low) * np.clip(scores, 0.0, 1.0))


@by_name("bd.ope.reward_model")
def reward_model(
    log: Log,
    *,
    privacy: Privacy | None = None,
    prior: float = 0.5,
    seed: int | None = None,
    path: str = "messages",
) -> RewardModel:
    """Learn what arms earn: a linear model of rewards, from one private sum over everybody in the log.

    prior  typical size of a parameter. `seed` is for tests, and protects nobody.
    """
    if not isinstance(log, Log):
        raise InvalidArgument("log", type(log).__name__, "a bd.Log: bd.Log.from_frame(...)")
    trust, size = checked_privacy(privacy), require.moderate("prior", prior)
    if trust.noisy:
        log.check_private()
    own = log.of_users
    domain: Regression = (
        PerArmReport(features=max(log.dim, 1), n_arms=log.n_arms)
        if own
        else LinearReport(features=log.dim, isometric=trust.isometric)
    )
    rows = np.arange(len(log))
    features = _some(log.contexts) if own else log.contexts[rows, log.arms]
    rewards = log.scaled_rewards() - (0.5 if own else 0.0)
    statistic = domain.statistic(features, rewards, arms=log.arms if own else None)
    if trust.noisy:
        released = release(trust, statistic, seed=seed, path=path)
        total, variance, guarantee = released.total, released.variance, released.guarantee
    else:
        total, variance, guarantee = statistic.total(), 0.0, nothing_promised(domain)
    vector, matrix = domain.variances
    mean, _, _ = posterior(
        *domain.sums(total, len(log)),
        noise=(variance * vector, variance * matrix),
        second_moments=size**2 * domain.second_moments,
        reward_std=_REWARD_STD,
    )
    return RewardModel(
        theta=mean, people=len(log), n_arms=log.n_arms, reward_range=log.reward_range, guarantee=guarantee,
        domain=domain,
    )  # fmt: skip


def _some(contexts: Floats) -> Floats:
    """Features, or one that is 0 where there are none."""
    return contexts if contexts.shape[-1] else np.zeros((len(contexts), 1))
