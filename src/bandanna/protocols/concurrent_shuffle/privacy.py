"""Privacy of the concurrent shufflers: a user is in one batch of each level, so the k releases compose.

Levels have prices mu_j with sum mu_j^2 = mu(epsilon, delta)^2 (Gaussian DP, exact for Gaussians, proven for binomial
noise up to tails); the composed event of the calibrated integers is priced by the accountant, and noise is raised until
it meets the budget. Paper mode gives each level (epsilon/k, delta/k) [002, Theorem 3.4]: for vectors the printed noise
of the vector sum, M_vec [002, section 3.1.1; 000, Theorem C.1]; for bits, M_bin, of which [002] prints the order of the
variance only, the least noise. What that really guarantees is priced as always.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ApproxDP, Budget
from bandanna.accounting.calibration.binomial import BinomialNoise, noise_of_std
from bandanna.accounting.calibration.bits import bit_noise_of_std
from bandanna.accounting.calibration.gaussian import finite_mu
from bandanna.accounting.events import BinomialEvent, ClearEvent, CompositionEvent
from bandanna.core.domain import Domain
from bandanna.core.shapes import Bits
from bandanna.errors import CalibrationError, InvalidBudget
from bandanna.protocols.concurrent_shuffle.schedule import BatchTree
from bandanna.protocols.concurrent_shuffle.split import shares
from bandanna.protocols.shuffle_binomial import privacy as vectors
from bandanna.protocols.shuffle_bits import privacy as bits


def approximate(budget: Budget) -> ApproxDP:
    """A budget with a delta: binomial noise has bounded support."""
    if not isinstance(budget, ApproxDP) or budget.delta == 0.0:
        raise InvalidBudget("budget", budget, "ApproxDP(epsilon, delta) with delta > 0")
    return budget


def calibrate(
    domain: Domain, budget: Budget, tree: BatchTree, *, averaging: bool, calibration: str, coins: str = "device"
) -> tuple[BinomialNoise, ...]:
    """Noise of every level, lowest first."""
    whole = approximate(budget)
    exact = isinstance(domain, Bits) or not _is_box(domain)  # one level: the profile of one release is tighter
    if calibration == "paper" or (tree.levels == 1 and exact):
        k = tree.levels
        share = ApproxDP(epsilon=whole.epsilon / k, delta=whole.delta / k)  # simple composition [002, Thm 3.4]
        return tuple(_single(domain, share, size, calibration, coins) for size in tree.sizes)
    split = shares(tree, averaging)
    mu, factor = finite_mu(whole), 1.0
    stds = [domain.sensitivity / (mu * math.sqrt(share)) for share in split]  # Delta_2 / mu_j
    for _ in range(60):
        noises = [_of_std(domain, factor * std, size) for std, size in zip(stds, tree.sizes, strict=True)]
        composed = event(domain, noises, coins)
        if accountant.satisfies(composed, whole):
            return tuple(noises)
        paid = accountant.price(composed, accountant.tail_for(whole.delta, whole.epsilon)).mu
        factor *= max(1.0005, min(paid / mu, 2.0))
    raise CalibrationError(f"no noise of {tree.levels} shufflers meets {budget}")


def _single(domain: Domain, budget: ApproxDP, size: int, calibration: str, coins: str) -> BinomialNoise:
    """Noise of one level by itself."""
    if isinstance(domain, Bits):
        return bits.calibrate(budget, size, 1, coins)
    return vectors.calibrate(domain, budget, size, 1, calibration, coins)


def _of_std(domain: Domain, std: float, size: int) -> BinomialNoise:
    """Noise of one level with a given std."""
    if isinstance(domain, Bits):
        return bit_noise_of_std(std, users=size)
    composed = not _is_box(domain)  # a box pays nothing for rounding, see `level_event`
    return noise_of_std(std, sensitivity=domain.sensitivity, dim=domain.dim, users=size, composed=composed)


def _is_box(domain: Domain) -> bool:
    """Whether the l2 diameter is that of the box around the domain."""
    return domain.sensitivity >= domain.reach * math.sqrt(domain.dim) * (1 - 1e-12)


def level_event(domain: Domain, noise: BinomialNoise, users: int | None = None, coins: str = "device") -> BinomialEvent:
    """One level's view of `users` (a whole batch unless told).

    Encodings lie in {0, ..., ceil(s reach)}: in a box they never differ by more than sqrt(D) ceil(s reach) in l2,
    whatever the rounding, and that is a sure bound in place of A.3b's.
    """
    many = noise if users is None else replace(noise, users=users)
    if isinstance(domain, Bits):
        return bits.event(many, coins)
    view = vectors.event(domain, many, coins)
    return replace(view, shift=view.reach * math.sqrt(view.dim), rounded=False) if _is_box(domain) else view


def event(domain: Domain, noises: Sequence[BinomialNoise], coins: str = "device") -> CompositionEvent:
    """All that is released about one user: a batch of every level."""
    return CompositionEvent(events=tuple(level_event(domain, noise, coins=coins) for noise in noises))


def local_event(
    domain: Domain, noises: Sequence[BinomialNoise], coins: str = "device"
) -> CompositionEvent | ClearEvent:
    """What all shufflers together see of one user: the counts for every level."""
    if coins == "mixer":
        return ClearEvent()
    return CompositionEvent(events=tuple(level_event(domain, noise, users=1) for noise in noises))


def exposed(domain: Domain, noises: Sequence[BinomialNoise], coins: str = "device") -> float:
    """The probability with which some shuffler is sure, of the level where it is largest."""
    if isinstance(domain, Bits):
        return max(bits.exposed(noise, coins) for noise in noises)
    return max(vectors.exposed(domain, noise, coins) for noise in noises)
