"""Price and least noise of shuffled Gaussian reports (P_Amp), for one batch or for users who return.

Each of n users reports x_i + N(0, sigma^2 I), |x_i - x_i'|_2 <= Delta_2, and a shuffler permutes the reports. But for a
total-variation mass (n - 1) e^-eps0 delta_G(eps0; Delta_2 / sigma), everybody else's report is with probability
e^-eps0 a draw from the mixture of the person's two laws, for every eps0 > 0. Among those the person's report hides:
`blanket` computes what such a batch reveals, `returning` the privacy losses of several, `bound` the least over eps0
(calibration.md B.1, with the proof). A shuffle is a post-processing of the reports, so the price without it,
delta_G(epsilon; sqrt(M) Delta_2 / sigma), bounds delta too; where that is smaller, this analysis certifies no gain from
shuffling. The sum of a batch is a post-processing of the shuffle, so no valid answer is below the price of the sums,
delta_G(epsilon; sqrt(M/n) Delta_2 / sigma).

Symbols: n `users`, M `times`, sigma `std` (per user), Delta_2 `sensitivity`.
Reference: Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle model" (CRYPTO 2019), for the sum over n;
the mixture and its price are our own. Never more than the clones bound (Feldman, McMillan, Talwar, arXiv 2012.12803).
"""

from __future__ import annotations

from bandanna.accounting.amplification.bound import ShuffledBatches
from bandanna.core import require
from bandanna.errors import InvalidBudget


def shuffled_gaussian_delta(*, std: float, sensitivity: float, users: int, epsilon: float) -> float:
    """Least delta that we can prove at `epsilon` for one shuffled batch."""
    return composed_shuffled_gaussian_delta(std=std, sensitivity=sensitivity, users=users, times=1, epsilon=epsilon)


def shuffled_gaussian_epsilon(*, std: float, sensitivity: float, users: int, delta: float) -> float:
    """Least epsilon that we can prove at `delta` for one shuffled batch."""
    return composed_shuffled_gaussian_epsilon(std=std, sensitivity=sensitivity, users=users, times=1, delta=delta)


def shuffled_gaussian_std(*, sensitivity: float, users: int, epsilon: float, delta: float) -> float:
    """Least standard deviation per user and coordinate with which one shuffled batch is (epsilon, delta)-DP."""
    return composed_shuffled_gaussian_std(sensitivity=sensitivity, users=users, times=1, epsilon=epsilon, delta=delta)


def composed_shuffled_gaussian_delta(
    *, std: float, sensitivity: float, users: int, times: int, epsilon: float
) -> float:
    """Least delta that we can prove at `epsilon` for a person in `times` shuffled batches of `users` each."""
    batches = ShuffledBatches(users=require.whole("users", users), times=require.whole("times", times))
    scale = require.positive("std", std) / require.positive("sensitivity", sensitivity)
    return batches.delta(scale, require.non_negative("epsilon", epsilon))


def composed_shuffled_gaussian_epsilon(
    *, std: float, sensitivity: float, users: int, times: int, delta: float
) -> float:
    """Least epsilon that we can prove at `delta` for a person in `times` shuffled batches of `users` each."""
    batches = ShuffledBatches(users=require.whole("users", users), times=require.whole("times", times))
    scale = require.positive("std", std) / require.positive("sensitivity", sensitivity)
    return batches.epsilon(scale, _positive_delta(delta))


def composed_shuffled_gaussian_std(
    *, sensitivity: float, users: int, times: int, epsilon: float, delta: float
) -> float:
    """Least standard deviation per user with which `times` shuffled batches are (epsilon, delta)-DP for each person."""
    batches = ShuffledBatches(users=require.whole("users", users), times=require.whole("times", times))
    sensitivity = require.positive("sensitivity", sensitivity)
    return sensitivity * batches.scale(require.epsilon(epsilon), _positive_delta(delta))


def _positive_delta(delta: float) -> float:
    if require.delta(delta) == 0.0:
        raise InvalidBudget("delta", delta, "a number in (0, 1): shuffled Gaussian reports are never pure")
    return float(delta)
