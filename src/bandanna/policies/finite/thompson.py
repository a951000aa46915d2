"""Thompson sampling for finite arms."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bandanna.device.action_selection import Choice, SampledChoice
from bandanna.device.domain import Box, Estimate, Statistic
from bandanna.numeric.linalg import first_best
from bandanna.numeric.rng import DeviceRandomness, draw_gamma
from bandanna.policies.algorithm import register_algorithm
from bandanna.policies.base import Execution, FixedLength, PlayedRounds, SumQuery
from bandanna.policies.finite.base import ArmSums, FiniteArmedPolicy, make_empty_arm_sums, reward_guarantee
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.clear import Clear
from bandanna.protocols.privacy_model import Privacy, none
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints


@register_algorithm("Thompson", paper="004")
@stored_as("Thompson")
@dataclass(frozen=True, kw_only=True)
class Thompson(FiniteArmedPolicy[ArmSums]):
    """Thompson sampling with Beta posteriors without privacy.

    1. The server publishes the successes and plays of every arm (`publish`).
    2. The device draws theta_a ~ Beta(1 + successes_a, 1 + failures_a) of every arm and plays the largest (`act`).
    3. The device reports its arm, and a success with the probability of its reward's place in the range (`report`).
    4. The server adds up successes and plays (`learn`).

    The probability of an arm is integrated on first use. References: Thompson 1933; Agrawal and Goyal 2012.

    Parameters
    ----------
    privacy
        Must be `bd.none()`.
    reward_range
        Rewards are clipped into it.
    """

    execution = Execution(learns_every_round=True, side_by_side=True, player="lockstep")

    privacy: Privacy = none()

    def act(self, snapshot: ArmSums, contexts: Floats, coins: DeviceRandomness) -> Choice:
        shape = (*contexts.shape[:-2], 2 * self.n_arms)
        counts = np.concatenate([1 + snapshot.sums, 1 + snapshot.pulls - snapshot.sums], axis=-1)  # (*R, 2K)
        gammas = draw_gamma(np.broadcast_to(counts[..., None, :], shape), coins)
        successes, failures = gammas[..., : self.n_arms], gammas[..., self.n_arms :]
        arms = first_best(successes / (successes + failures))  # Beta(a, b) = G_a / (G_a + G_b)
        return SampledChoice(actions=arms, chances=lambda: compute_best_arm_probabilities(arms, counts))

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        bits = self.domain.bits(played, coins)
        assert played.arms is not None
        chosen = (np.arange(self.n_arms) == played.arms[..., None]).astype(float)  # (*R, n, K)
        values = np.concatenate([bits.values * chosen, chosen], axis=-1)
        return query.protocol.domain.sealed(values, clipped=bits.clipped)

    def learn(self, state: ArmSums, episode: FixedLength) -> Generator[SumQuery, Estimate, ArmSums]:
        released = yield self.query
        sums, pulls = released.total[..., : self.n_arms], released.total[..., self.n_arms :]
        return ArmSums(sums=state.sums + sums, pulls=state.pulls + pulls, rounds=state.rounds + 1)

    @cached_property
    def query(self) -> SumQuery:
        return SumQuery(protocol=Clear(domain=Box(dim=2 * self._arms)))

    @cached_property
    def guarantee(self) -> Guarantee:
        return reward_guarantee(self.query.protocol)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> ArmSums:
        return make_empty_arm_sums(self._arms, replicates)

    def episode(self, state: ArmSums) -> FixedLength:
        return FixedLength(number=state.rounds, users=1)

    def best(self, snapshot: ArmSums, contexts: Floats) -> Ints:
        return np.full(len(contexts), np.argmax(snapshot.means()))


# Propensities


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_TAIL = 1e-18  # of a posterior, beyond which nothing is integrated
_CUTS = np.array([-32.0, -16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16, 32])  # panels end so many deviations from a mean


def compute_best_arm_probabilities(actions: Ints, counts: Floats) -> Floats:
    """Return the probability that each chosen arm is best: actions (*R, n), posteriors (*R, 2K)."""
    runs, rows = counts.reshape(-1, counts.shape[-1]), actions.reshape(-1, actions.shape[-1])
    found = np.zeros(rows.shape)
    for run, row, chances in zip(runs, rows, found, strict=True):
        for arm in np.unique(row).tolist():
            chances[row == arm] = compute_best_arm_probability(arm, *np.split(run, 2))
    return found.reshape(actions.shape)


def compute_best_arm_probability(arm: int, alphas: Floats, betas: Floats) -> float:
    """Return P(theta_arm > all other theta_b), theta_b ~ Beta(alpha_b, beta_b) independent, alpha and beta >= 1.

    integral of f_a(z) prod_{b != a} F_b(z) dz,   z = log(theta / (1 - theta))
    """
    # Gauss and Legendre's rule is used on panels as short as the posteriors are there. Compared with 30-digit
    # quadrature it is exact to 1e-12 of itself after 1,000 plays, and sums over arms are 1 to 1e-10 after two million.
    # Arms that are equal in single precision count as the first, which has 1e-7 times the posteriors' density as
    # probability: left out.
    a, b = alphas[arm], betas[arm]
    ends = _window(a, b)
    means = special.digamma(alphas) - special.digamma(betas)
    widths = np.sqrt(special.polygamma(1, alphas) + special.polygamma(1, betas))
    cuts = np.concatenate([(means[:, None] + widths[:, None] * _CUTS).ravel(), np.arange(ends[0], ends[1], 1.0), ends])
    edges = np.unique(cuts[(cuts >= ends[0]) & (cuts <= ends[1])])
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half) + half * _NODES  # (panels, 16)
    log_x, log_y = -np.logaddexp(0.0, -z), -np.logaddexp(0.0, z)  # of theta and 1 - theta
    value = np.exp(a * log_x + b * log_y - special.betaln(a, b))
    for other in range(len(alphas)):
        if other != arm:
            value = value * _beta_cdf(alphas[other], betas[other], log_x, log_y)
    return float(np.clip(np.sum(value * half * _WEIGHTS), 0.0, 1.0))


def _window(a: float, b: float) -> NDArray[np.float64]:
    low, high = special.betaincinv(a, b, _TAIL), special.betaincinv(b, a, _TAIL)
    return np.array([np.log(low) - np.log1p(-low), np.log1p(-high) - np.log(high)])


def _beta_cdf(alpha: float, beta: float, log_x: Floats, log_y: Floats) -> Floats:
    """Return F at theta = exp(log_x), 1 - theta = exp(log_y), from the smaller one, where floats are finer."""
    upper = 1 - special.betainc(beta, alpha, np.exp(log_y))
    return np.asarray(np.where(log_x < log_y, special.betainc(alpha, beta, np.exp(log_x)), upper))
