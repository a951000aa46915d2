"""A warm start: what the people in a log teach a policy before its first user, as one private sum of their reports.

The sum is drawn by the protocol of a trust model, and the people in the log pay for it, once. It is public then
and stands in the policy (`LinTS(start=)`), which knows how noisy it is: in saves, tasks and on devices there is nothing
else of the log. Whoever is in the log and also among the policy's users is in both, and pays for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandanna.accounting.ledger import Ledger
from bandanna.core import require
from bandanna.errors import InvalidArgument
from bandanna.logs.log import Log
from bandanna.logs.showing import check_fits
from bandanna.mechanisms.sources import FastNoise, NoiseSource, SecureNoise
from bandanna.policies.base import Policy
from bandanna.policies.linear.start import Start
from bandanna.protocols.opening import open_batch
from bandanna.protocols.recording import release_recorded
from bandanna.protocols.trust import Privacy

_TASK = "warm start"  # in a ledger of the people in the log


def start_of(
    log: Log,
    policy: Any,
    *,
    privacy: Any = None,
    arms: Sequence[Any] | None = None,
    seed: Any = None,
    ledger: Ledger | None = None,
) -> Start:
    """The sum of the reports that everybody in the log would have made of what was given to them.

    privacy  for the people in the log; the policy's own trust model and budget by default
    arms     the names of the policy's arms, where it has some: the log's are found among them
    seed     of tests, in which noise protects nobody
    ledger   of the people in the log: the sum is drawn once, and comes back when it is asked for again
    """
    allowed = "a bd.LinTS: it knows what to do with noisy sums"
    require.instance("policy", policy, Policy, allowed)
    if not hasattr(policy, "start"):
        raise InvalidArgument("policy", type(policy).__name__, allowed)
    if arms is not None and getattr(policy, "n_arms", None) is not None:
        log = log.ordered(arms)
    check_fits(policy, log)
    trust = policy.privacy if privacy is None else privacy
    if not isinstance(trust, Privacy) or trust.model == "concurrent":
        allowed = "bd.none(), bd.central(...), bd.shuffle(...) or bd.local(...): one sum over everybody in the log"
        raise InvalidArgument("privacy", getattr(trust, "model", trust), allowed)
    if trust.noisy:
        log.check_private()
    features = log.arm_contexts()[np.arange(len(log)), log.arms]
    statistic = policy.statistic(features, log.scaled_rewards(), log.arms)
    protocol = open_batch(trust.preferring("auto"), statistic.domain, len(log))
    released = release_recorded(protocol, statistic, _source(seed), ledger=ledger, task=_TASK)
    promised = protocol.guarantee
    return Start(
        total=tuple(released.total.tolist()),
        users=len(log),
        variance=released.variance,
        epsilon=promised.epsilon,
        delta=promised.delta,
        trust=promised.trust,
    )


def _source(seed: Any) -> NoiseSource:
    if seed is None:
        return SecureNoise()
    number = require.whole("seed", seed, least=0, most=require.SEEDS)
    return FastNoise(np.random.default_rng((number, 17)))  # another stream than the agent's own
