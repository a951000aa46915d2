"""Thompson sampling with Beta posteriors: play the arm that is best in a random world that the data allow. Not private.

    theta_a ~ Beta(1 + successes_a, 1 + failures_a),   action = argmax_a theta_a

A reward y inside its range [low, high] counts as a success with probability (y - low)/(high - low), so the posterior
is that of Bernoulli rewards with the same means.
References: Thompson 1933; Agrawal and Goyal 2012 (rewards that are not 0 or 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee
from bandanna.core.domain import all_finite
from bandanna.core.linalg import first_best
from bandanna.core.streams import Streams
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.finite import EveryRound, State
from bandanna.policies.reward_noise import RewardNoise

Floats = NDArray[np.float64]

_PROPOSALS = 3


@dataclass(frozen=True, kw_only=True)
class Thompson(EveryRound):
    """Finite-armed Thompson sampling over `horizon` rounds; rewards are clipped into `reward_range`.

    The state's sums are successes.
    """

    @property
    def guarantee(self) -> Guarantee:
        """No privacy."""
        return RewardNoise(budget=None, sensitivity=self.domain.sensitivity).guarantee

    def act(self, state: State, streams: Streams) -> NDArray[np.int64]:
        """The best arm of one draw from the posterior, (S,), for replicates that are the seeds of `streams`."""
        counts = np.concatenate([1 + state.sums, 1 + state.pulls - state.sums], axis=-1)  # (S, 2K)
        gammas = gamma(counts, streams)
        successes, failures = gammas[:, : self.n_arms], gammas[:, self.n_arms :]
        return first_best(successes / (successes + failures))  # Beta(a, b) = G_a / (G_a + G_b)

    def learn(self, state: State, arms: NDArray[np.int64], rewards: Floats, source: NoiseSource) -> State:
        """One reward per replicate, (R); a coin decides what lies between the ends of the range."""
        all_finite("rewards", rewards)
        share = (self.domain.project(rewards) - self.domain.low) / self.domain.sensitivity
        return state.plus(arms, np.asarray(source.uniform(share.shape) < share, dtype=float))


def gamma(shapes: Floats, streams: Streams) -> Floats:
    """Gamma(shape) for shapes >= 1, (S, n): a few proposals at once, and the seed's own sampler where all are refused.

    Marsaglia and Tsang 2000: d V with d = shape - 1/3, V = (1 + X / sqrt(9 d))^3, X ~ N(0, 1), kept with
    log U < X^2/2 + d (1 - V + log V); a proposal is refused with probability below 5 %.
    """
    d = (shapes - 1 / 3)[..., None]
    x = streams.normal("gamma proposals", (shapes.shape[1], _PROPOSALS))  # (S, n, proposals)
    u = streams.uniform("gamma acceptances", (shapes.shape[1], _PROPOSALS))
    v = np.maximum(1 + x / np.sqrt(9 * d), 1e-90) ** 3
    kept = np.log(np.maximum(u, 1e-300)) < 0.5 * x * x + d * (1 - v + np.log(v))
    first = np.argmax(kept, axis=-1)[..., None]
    drawn = np.asarray((d * np.take_along_axis(v, first, axis=-1))[..., 0])
    for seed, place in np.argwhere(~np.any(kept, axis=-1)):
        drawn[seed, place] = streams.generators("gamma rest")[seed].standard_gamma(shapes[seed, place])
    return drawn
