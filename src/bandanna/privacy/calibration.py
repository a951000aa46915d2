"""The least noise for a budget, found by the accountant or printed by the papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import special

from bandanna import validation
from bandanna.device.randomizers import CAP_CANDIDATES, check_direction_dim
from bandanna.errors import CalibrationError, InvalidBudget, OutsideTheorem
from bandanna.numeric import search
from bandanna.privacy import accountant, calibration_cache, events, shuffled_gaussian
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP
from bandanna.privacy.events import BinomialEvent, CapEvent, Event, RepetitionEvent, price_joint_share
from bandanna.privacy.factorisation import Factorisation
from bandanna.privacy.prices import COIN_PLACES, cap_epsilon, cap_moments, fine_grid
from bandanna.storage.encoding import stored_as

# Gaussian and Laplace noise


_LARGEST = 600.0  # epsilon beyond which e^epsilon leaves the floats
_NO_NOISE = "Use bd.none() for no noise"


def gaussian_std(*, sensitivity: float, dim: int, budget: Budget, participations: int = 1) -> float:
    """Return the least std of Gaussian noise on a `dim`-vector of l2 `sensitivity`, for M = `participations` releases.

    std = sensitivity sqrt(M) / mu(epsilon, delta), plus the grid's share.
    """
    sensitivity, dim, participations = _check_release(sensitivity, dim, participations)
    return _gaussian_std(sensitivity, dim, budget, participations, sensitivity / finite_mu(budget))


@lru_cache(maxsize=4096)  # policies of one kind calibrate alike
def _gaussian_std(sensitivity: float, dim: int, budget: Budget, participations: int, once: float) -> float:
    def event(std: float) -> events.Event:
        one = events.GaussianEvent(std=std, sensitivity=sensitivity, dim=dim, grid=fine_grid(std, sensitivity, dim))
        return events.RepetitionEvent(event=one, times=participations)

    return _least_std(event, budget, start=once * math.sqrt(participations))


def continual_std(
    *, factorisation: Factorisation, sensitivity: float, dim: int, budget: Budget, participations: int = 1
) -> float:
    """Return the least std of the noise on every released number of a continual sum, for M0 participations.

    std = sensitivity |C|_M0 / mu(epsilon, delta), plus the grid's share; |C|_M0 is the largest norm of a sum of M0
    columns.
    """
    sensitivity, dim, participations = _check_release(sensitivity, dim, participations)
    apart = participations * sensitivity * factorisation.sensitivity()  # what the grid must be fine for
    change = sensitivity * factorisation.sensitivity(participations)
    touched = dim * factorisation.releases(participations)

    def event(std: float) -> events.Event:
        return events.ContinualEvent(
            factorisation=factorisation,
            std=std,
            sensitivity=sensitivity,
            participations=participations,
            dim=dim,
            grid=fine_grid(std, apart, touched),
        )

    return _least_std(event, budget, start=change / finite_mu(budget))


def laplace_scale(*, sensitivity: float, dim: int, budget: Budget, participations: int = 1) -> float:
    """Return the least scale of Laplace noise on a `dim`-vector of l1 `sensitivity`: M sensitivity / epsilon, pure.

    In zCDP each release has the epsilon with epsilon tanh(epsilon/2) = rho / M (proofs.md F).
    """
    sensitivity, dim, participations = _check_release(sensitivity, dim, participations)
    if isinstance(budget, PureDP | ApproxDP):
        if math.isinf(budget.epsilon):
            raise InvalidBudget("epsilon", math.inf, "a finite number", _NO_NOISE)
        pure = participations * sensitivity / budget.epsilon
    else:
        pure = sensitivity / ZCDP(rho=finite_mu(budget) ** 2 / (2 * participations)).pure()

    def event(scale: float) -> events.Event:
        grid = fine_grid(scale, sensitivity, dim**2)
        one = events.LaplaceEvent(scale=scale, sensitivity=sensitivity, dim=dim, grid=grid)
        return events.RepetitionEvent(event=one, times=participations)

    if isinstance(budget, ApproxDP) and budget.delta > 0:  # a delta buys little for few releases: keep it pure
        budget = PureDP(epsilon=budget.epsilon)
    return _least_std(event, budget, start=pure)


def finite_mu(budget: Budget) -> float:
    """Return the Gaussian price of a budget; refuse an infinite one."""
    if not isinstance(budget, Budget):
        raise InvalidBudget("budget", budget, "an ApproxDP, ZCDP, RenyiDP or PureDP")
    if isinstance(budget, ApproxDP) and _LARGEST < budget.epsilon < math.inf:
        raise InvalidBudget("epsilon", budget.epsilon, f"at most {_LARGEST:g}, or math.inf", _NO_NOISE)
    mu = budget.mu()
    if math.isinf(mu):
        raise InvalidBudget("epsilon", math.inf, "a finite number", _NO_NOISE)
    return mu


def parts_mu(budget: Budget, share: float, *, weighted: bool, joint: bool = True) -> float:
    """Return m >= mu with m^2 = mu_matrix^2 + mu_vector^2 for two parts of a record, the matrix having `share` of it.

    joint=False returns mu itself.
    """
    return finite_mu(budget) / math.sqrt(price_joint_share(share, weighted=weighted) if joint else 1.0)


def level_prices(mu: float, nodes: tuple[float, ...]) -> tuple[float, ...]:
    """Split a price over levels: mu_j^2 proportional to sqrt(m_j), for m_j = `nodes` batches that are summed.

    This has the least sum m_j / mu_j^2 for sum mu_j^2 = mu^2.
    """
    roots = [math.sqrt(validation.positive("nodes", m)) for m in nodes]
    return tuple(mu * math.sqrt(root / math.fsum(roots)) for root in roots)


def _check_release(sensitivity: float, dim: int, participations: int) -> tuple[float, int, int]:
    checked = validation.positive("sensitivity", sensitivity), validation.integer("dim", dim)
    return *checked, validation.integer("participations", participations)


def _least_std(event: Callable[[float], events.Event], budget: Budget, *, start: float) -> float:
    high = start
    for _ in range(60):
        if accountant.satisfies(event(high), budget):
            return search.find_least(
                lambda std: accountant.satisfies(event(std), budget), start / 2, high, relative=1e-7
            )
        high *= 1.001 if high < 1.02 * start else 1.5
    raise CalibrationError(f"no noise up to {high:.3g} meets {budget}")


# Pure releases


def largest_epsilon(
    event: Callable[[float], Event], budget: Budget, participations: int, *, least: float, most: float
) -> float:
    """Return the largest epsilon in [least, most] at which M releases of `event(epsilon)` meet the budget.

    One pure release spends epsilon and no delta.
    """
    if not isinstance(budget, Budget):
        raise InvalidBudget("budget", budget, "an ApproxDP, ZCDP, RenyiDP or PureDP")
    participations = validation.integer("participations", participations, most=100_000)
    if participations == 1 and isinstance(budget, PureDP | ApproxDP):
        return min(budget.epsilon, most)

    def meets(epsilon: float) -> bool:
        return accountant.satisfies(RepetitionEvent(event=event(epsilon), times=participations), budget)

    if not meets(least):
        raise CalibrationError(f"no answer is noisy enough for {participations} participations at {budget}")
    return search.find_greatest(meets, least, most, relative=1e-7)


def spends_delta(budget: Budget, participations: int) -> bool:
    """Return whether the guarantee of such releases has a delta; it has none if all together are pure."""
    return not (isinstance(budget, PureDP) or (participations == 1 and isinstance(budget, ApproxDP)))


# Shuffled Gaussian reports


def calibrated_shuffled_std(
    *, sensitivity: float, dim: int, users: int, budget: Budget, participations: int = 1
) -> float:
    """Return the least std of a report for a user in at most `participations` shuffled batches of `users`."""
    if not isinstance(budget, ApproxDP):
        raise InvalidBudget("budget", budget, "an ApproxDP(epsilon, delta)", "Amplification has no other form")
    sensitivity, dim = validation.positive("sensitivity", sensitivity), validation.integer("dim", dim)
    users = validation.integer("batch", users, least=2)
    participations = validation.integer("participations", participations, most=100_000)
    central = math.sqrt(participations) / finite_mu(budget)

    def search_std() -> dict[str, float]:
        std = shuffled_gaussian.shuffled_gaussian_std(
            sensitivity=1.0, users=users, times=participations, epsilon=budget.epsilon, delta=budget.delta
        )
        return {"std": std}

    def meets(found: Mapping[str, float]) -> bool:
        if not central / math.sqrt(users) * (1 - 1e-9) <= found["std"] <= central * (1 + 1e-9):
            return False  # less noise than the sums alone need, or more than reports need without a shuffler
        one = events.ShuffledGaussianEvent(std=found["std"], sensitivity=1.0, users=users, dim=dim)
        return accountant.satisfies(events.RepetitionEvent(event=one, times=participations), budget)

    key = {"users": users, "epsilon": budget.epsilon, "delta": budget.delta, "participations": participations}
    key["bound"] = 3
    return sensitivity * float(calibration_cache.compute_cached("shuffled", key, search_std, valid=meets)["std"])


# Binomial noise of vector sums


_OVERHEAD = 1.02  # how far above the central Gaussian a lattice may end before a finer one is tried


@stored_as("BinomialNoise")
@dataclass(frozen=True, kw_only=True)
class BinomialNoise:
    """Lattice and noise of one batch: `scale` s steps per unit, `trials` b coins of `probability` per user.

    For p = 1/2 and B users the noise has std sqrt(B b) / (2 s), and rounding at most sqrt(B) / (2 s) (proofs.md A.4).
    """

    scale: float
    trials: int
    users: int
    probability: float = 0.5

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.positive, "scale")
        validation.set_validated(self, validation.integer, "trials", "users")
        validation.set_validated(self, validation.open_probability, "probability")

    def for_users(self, users: int) -> BinomialNoise:
        """Return the noise of `users` users with the same lattice and coins."""
        return self if users == self.users else replace(self, users=users)

    def std(self) -> float:
        """Return sqrt(B b p (1-p) + B/4) / s: std of a coordinate of the batch sum, with rounding."""
        noise = self.users * self.trials * self.probability * (1 - self.probability)
        return math.sqrt(noise + self.users / 4) / self.scale

    def event(self, *, sensitivity: float, reach: float, dim: int) -> events.BinomialEvent:
        """Return the analyzer's view: totals with Bin(B b, p) noise."""
        return self._view(self.users, sensitivity, reach, dim)

    def local_event(self, *, sensitivity: float, reach: float, dim: int) -> events.BinomialEvent:
        """Return the shuffler's view of one user: counts with Bin(b, p) noise."""
        return self._view(1, sensitivity, reach, dim)

    def _view(self, users: int, sensitivity: float, reach: float, dim: int) -> events.BinomialEvent:
        return events.BinomialEvent(
            trials=users * self.trials,
            shift=self.scale * sensitivity,
            reach=math.ceil(self.scale * reach),
            dim=dim,
            probability=self.probability,
        )


def binomial_noise(
    *, sensitivity: float, reach: float, dim: int, users: int, budget: Budget, participations: int = 1
) -> BinomialNoise:
    """Return the least noise for batches of `users`, for a user in at most `participations` of them (proofs.md A.4).

    `sensitivity` is the l2 diameter of the domain, `reach` its largest coordinate range. The sum's std is within 2 % of
    the central Gaussian's.
    """
    budget = _require_bounded_support(budget)
    sensitivity, reach = validation.positive("sensitivity", sensitivity), validation.positive("reach", reach)
    dim, users = validation.integer("dim", dim), validation.integer("batch", users, least=2)
    participations = validation.integer("participations", participations)
    central = sensitivity * math.sqrt(participations) / finite_mu(budget)

    def search_lattices() -> dict[str, float]:
        for scale in _scales(sensitivity, dim, users, central, composed=participations > 1):
            noise = _least_trials(scale, central, sensitivity, reach, dim, users, budget, participations)
            if noise is not None:
                return {"scale": noise.scale, "trials": noise.trials}
        raise CalibrationError(f"no binomial noise within 2 % of the central mechanism meets {budget}, batch {users}")

    key = {
        "sensitivity": sensitivity,
        "reach": reach,
        "dim": dim,
        "users": users,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "participations": participations,
    }

    def build(found: Mapping[str, float]) -> BinomialNoise:
        return BinomialNoise(scale=found["scale"], trials=validation.integer("trials", found["trials"]), users=users)

    def meets(found: Mapping[str, float]) -> bool:
        noise = build(found)
        near = noise.std() <= 1.01 * _OVERHEAD * central
        return near and _meets_budget(noise, sensitivity, reach, dim, budget, participations)

    return build(calibration_cache.compute_cached("binomial", key, search_lattices, valid=meets))


def _require_bounded_support(budget: Budget) -> ApproxDP:
    if not isinstance(budget, ApproxDP):
        raise InvalidBudget("budget", budget, "an ApproxDP(epsilon, delta)", "Binomial noise has bounded support")
    return budget


def _scales(sensitivity: float, dim: int, users: int, central: float, *, composed: bool) -> Iterator[float]:
    first = max(5 * math.sqrt(dim) / sensitivity, 5 * math.sqrt(users) / central, math.sqrt(375) / central)
    if composed:
        first = max(first, 240 / sensitivity)
    for step in range(24):
        yield float(math.ceil(first * 1.5**step))


def _least_trials(
    scale: float,
    central: float,
    sensitivity: float,
    reach: float,
    dim: int,
    users: int,
    budget: ApproxDP,
    participations: int,
) -> BinomialNoise | None:
    most = int(((_OVERHEAD * central * scale) ** 2 - users / 4) * 4 / users)
    unit = max(1, most // 4000)  # a step of 1/4000 in b is 0.0125 % in std

    def meets(units: int) -> bool:
        noise = BinomialNoise(scale=scale, trials=units * unit, users=users)
        return _meets_budget(noise, sensitivity, reach, dim, budget, participations)

    if most < 1 or not meets(most // unit):
        return None
    guess = 4 * ((scale * sensitivity) ** 2 + dim / 4) * participations / (users * finite_mu(budget) ** 2)
    units = search.find_least_integer(meets, math.ceil(guess / unit), most=most // unit)
    return None if units is None else BinomialNoise(scale=scale, trials=units * unit, users=users)


def _meets_budget(
    noise: BinomialNoise, sensitivity: float, reach: float, dim: int, budget: ApproxDP, participations: int
) -> bool:
    one = noise.event(sensitivity=sensitivity, reach=reach, dim=dim)
    return accountant.satisfies(events.RepetitionEvent(event=one, times=participations), budget)


def binomial_noise_for_std(std: float, *, sensitivity: float, dim: int, users: int, composed: bool) -> BinomialNoise:
    """Return the first lattice of A.4 on which coins give the sum this std, with rounding, within 0.1 %."""
    for scale in _scales(sensitivity, dim, users, std, composed=composed):
        trials = math.floor(((std * scale) ** 2 - users / 4) * 4 / users)
        if trials >= 50:  # fewer coins than that are not near the Gaussian of their std
            noise = BinomialNoise(scale=scale, trials=trials, users=users)
            if noise.std() > (1 - 1e-3) * std:
                return noise
    raise CalibrationError(f"no lattice gives a batch of {users} a standard deviation of {std:.3g}")


# Binomial noise of bit sums


_WITHIN = 1.002  # the fewest copies with a std within this factor of the Gaussian's are taken
_LATTICES = 24


def bit_std(noise: BinomialNoise) -> float:
    """Return sqrt(B b) / (2 c). There is no rounding."""
    return math.sqrt(noise.users * noise.trials) / (2 * noise.scale)


def bit_event(noise: BinomialNoise, users: int | None = None) -> BinomialEvent:
    """Return totals of `users` users (default: a whole batch); neighbours differ by exactly c."""
    copies = int(noise.scale)
    return BinomialEvent(
        trials=(noise.users if users is None else users) * noise.trials,
        shift=copies,
        reach=copies,
        probability=noise.probability,
        rounded=False,
    )


def bit_noise(*, users: int, budget: Budget, participations: int = 1) -> BinomialNoise:
    """Return the least noise for batches of `users`, for a user in at most `participations` of them.

    A batch of B users sums to c (sum of bits) + Bin(B b, 1/2). Neighbours differ by exactly c, so the privacy profile
    is exact.
    """
    budget = _require_bounded_support(budget)
    users, times = validation.integer("batch", users, least=2), validation.integer("participations", participations)
    central = math.sqrt(times) / finite_mu(budget)
    best: BinomialNoise | None = None
    for copies in _copies(users, central):
        noise = _search_bits(copies, users, budget, times, central)
        if noise is not None and (best is None or bit_std(noise) < bit_std(best)):
            best = noise
            if bit_std(best) <= _WITHIN * central:
                return best
    if best is None:
        raise CalibrationError(f"no binomial noise meets {budget}, batch {users}")
    return best


def bit_noise_for_std(std: float, *, users: int) -> BinomialNoise:
    """Return the fewest copies with which fair bits give a batch the std, or at most 0.1 % more."""
    least = math.ceil(max(math.sqrt(625) / std, 1))  # 2500 coins: Theorem A is within 1 % of the Gaussian's price
    for copies in range(least, 64 * least + math.ceil(16 * math.sqrt(users) / std)):
        trials = math.ceil((2 * copies * std) ** 2 / users * (1 - 1e-12))
        noise = BinomialNoise(scale=float(copies), trials=trials, users=users)
        if bit_std(noise) <= (1 + 1e-3) * std:
            return noise
    raise CalibrationError(f"no coins give a batch of {users} a standard deviation of {std:.3g}")


def _copies(users: int, std: float) -> list[int]:
    first = max(1, math.floor(math.sqrt(users) / (2 * std)))
    return sorted({*range(1, 9), *(first * step for step in range(1, _LATTICES))})


def _search_bits(copies: int, users: int, budget: ApproxDP, times: int, central: float) -> BinomialNoise | None:
    def noise(trials: int) -> BinomialNoise:
        return BinomialNoise(scale=float(copies), trials=trials, users=users)

    def meets(trials: int) -> bool:
        return accountant.satisfies(RepetitionEvent(event=bit_event(noise(trials)), times=times), budget)

    guess = math.ceil((2 * copies * central) ** 2 / users)
    trials = search.find_least_integer(meets, guess, most=4 * guess + 4)
    return None if trials is None else noise(trials)


# Refusal of improbable reports


REFUSAL_PROBABILITY = 2.0**-60  # an honest device's count of one coordinate, at most
_SIDE = REFUSAL_PROBABILITY / 2 * (1 - 1e-6)  # at either end, and what floats may lose


@lru_cache(maxsize=1024)
def likely_coins(noise: BinomialNoise) -> tuple[int, int]:
    """Return the closest low and high that Bin(b, p) leaves with a probability of at most 2^-61 each."""
    b, p = noise.trials, noise.probability
    return _refusals_least(b, p), b - _refusals_least(b, 1 - p)  # what is above for p is below for 1 - p


def _refusals_least(trials: int, probability: float) -> int:
    lost = 1 - probability
    low, high = 0, math.ceil(trials * probability)  # P(X < low) is small enough, P(X < high + 1) is not
    while low < high:
        middle = (low + high + 1) // 2
        below = special.betainc(trials - middle + 1, middle, lost)  # P(Bin(b, p) < middle)
        low, high = (middle, high) if below <= _SIDE else (low, middle - 1)
    return low


@lru_cache(maxsize=1024)
def likely_reach(dim: int) -> float:
    """Return the least t that one of `dim` standard normal numbers exceeds in size with P <= 2^-60, within 1e-9.

    A discrete Gaussian of parameter s is beyond ceil(t s) with no greater probability (Canonne, Kamath and Steinke
    2020, Proposition 25).
    """
    return float(-special.ndtri(_SIDE / dim)) * (1 + 1e-9)


def refusal_tail(users: int, dim: int) -> float:
    """Return B D 2^-60, a bound on the total variation between a batch's totals with and without refusals."""
    return users * dim * REFUSAL_PROBABILITY


def subtract_refusals(budget: Budget, users: int, dim: int, participations: int = 1) -> Budget:
    """Return what refusals leave of a budget: delta - (1 + e^epsilon) M tail (proofs.md A.9)."""
    if not isinstance(budget, ApproxDP) or math.isinf(budget.epsilon):
        return budget
    cost = (1 + math.exp(min(budget.epsilon, 700.0))) * participations * refusal_tail(users, dim)
    if cost >= budget.delta / 2:
        hint = 'Refusing improbable counts costs half of that. With noise="mixer" nothing is refused'
        raise InvalidBudget("delta", budget.delta, f"above {2 * cost:.2g}", hint)
    return replace(budget, delta=budget.delta - cost * (1 + 1e-9))


# Caps of PrivUnit


LEAST_CAP, LARGEST_CAP = 1e-4, 36.0  # epsilon: less is lost in steps, more in the places of a coin
_CAP_NUMBERS = 2**21  # of all candidates together
_CAP_GRID = 16
_SMALLEST = 1e-9  # mass of a cap
_NARROWEST = 1 - 2.0**-10  # cosine: steps are small beside the cap
_WORTH = 0.1  # share of the chance of exact candidates


def best_cap(*, dim: int, epsilon: float) -> CapEvent:
    """Return the cosine, chance and number of candidates with the least variance among those that cost at most epsilon.

    The search takes exact candidates; the chance is then lowered until the price, steps included, is met.
    """
    dim, epsilon = check_direction_dim(dim), validation.epsilon(epsilon)
    if not LEAST_CAP <= epsilon < math.inf:
        raise InvalidBudget("epsilon", epsilon, f"a finite number >= {LEAST_CAP:g}")
    return _search_cap(dim, epsilon)


@lru_cache(maxsize=1024)
def _search_cap(dim: int, epsilon: float) -> CapEvent:
    cosine = _best_cosine(dim, min(epsilon, LARGEST_CAP))
    n, p = _candidates_and_share(dim, cosine, min(epsilon, LARGEST_CAP))
    q = cap_moments(dim, cosine).mass
    event = CapEvent(cosine=cosine, chance=0.0, candidates=n, dim=dim)
    least, most = ((share - q**n) / (-math.expm1(n * math.log1p(-q)) - q**n) for share in (q, p))
    return replace(event, chance=_largest_affordable(event, least, min(most, 1.0), epsilon))


def _candidates_and_share(dim: int, cosine: float, epsilon: float) -> tuple[int, float]:
    """Return the least N >= 2 and the share p inside: p (1-q) / ((1-p) q) = e^epsilon, (1-q)^N <= 1 - p.

    If N would be too large, p is the share that the most candidates reach.
    """
    q, most = cap_moments(dim, cosine).mass, min(CAP_CANDIDATES, max(2, _CAP_NUMBERS // dim))
    outside = 1 / (1 + math.exp(epsilon) * q / (1 - q))
    needed = math.log(outside) / math.log1p(-q) * (1 + 1e-12)
    if needed > most:
        return most, -math.expm1(most * math.log1p(-q))
    return max(2, math.ceil(needed)), 1 - outside


def _best_cosine(dim: int, epsilon: float) -> float:
    def value(cosine: float) -> float:
        cap = cap_moments(dim, cosine)
        if cap.mass < _SMALLEST:
            return -1.0
        _, p = _candidates_and_share(dim, cosine, epsilon)
        return cap.first * (p / cap.mass - (1 - p) / (1 - cap.mass))

    low, high = 0.0, _NARROWEST
    while high - low > 1e-9:
        grid = np.linspace(low, high, _CAP_GRID)
        best = int(np.argmax([value(float(cosine)) for cosine in grid]))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _CAP_GRID - 1)])
    return low if value(low) >= value(high) else high


def _largest_affordable(event: CapEvent, least: float, most: float, epsilon: float) -> float:
    def chance(fraction: float) -> float:
        return math.floor((least + fraction * (most - least)) * COIN_PLACES) / COIN_PLACES

    def meets(fraction: float) -> bool:
        return cap_epsilon(replace(event, chance=chance(fraction))) <= epsilon

    if meets(1.0):
        return chance(1.0)
    if not meets(_WORTH):
        raise CalibrationError(f"no cap costs as little as epsilon = {epsilon:g} in {event.dim} coordinates")
    return chance(search.find_greatest(meets, _WORTH, 1.0, relative=1e-12))


# Printed noise of the papers


def paper_gaussian_std(*, sensitivity: float, budget: Budget, participations: int = 1) -> float:
    """Return Delta_2 sqrt(2 log(1.25/delta))/epsilon for epsilon <= 1, or Delta_2/sqrt(2 rho).

    References: [001, Thm 4.2; 004, Thm 18]. This and the functions below return the printed noise, and raise
    `OutsideTheorem` outside of a theorem's range. docs/appendix/papers.md has the numbers of papers.
    """
    sensitivity = validation.positive("sensitivity", sensitivity)
    participations = validation.integer("participations", participations)
    if isinstance(budget, ZCDP):
        return sensitivity * math.sqrt(participations / (2 * budget.rho))
    epsilon, delta = _split_budget(_require_approx_budget(budget), participations)
    _check_theorem_range("epsilon", epsilon, epsilon <= 1, "at most 1 for the classical Gaussian mechanism")
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def report_std(*, budget: Budget, participations: int = 1) -> float:
    """Return 4 sqrt(2 log(2.5/delta)) / epsilon on vector and matrix of a report, epsilon <= 1 [000, Prop. F.1]."""
    epsilon, delta = _split_budget(_require_approx_budget(budget), participations)
    _check_theorem_range("epsilon", epsilon, epsilon <= 1, "at most 1 [000, Prop. F.1]")
    return 4 * math.sqrt(2 * math.log(2.5 / delta)) / epsilon


def shuffled_report_std(*, users: int, budget: Budget, participations: int = 1) -> float:
    """Return the noise on every shuffled report, for B users.

        4 sqrt(2 log(2.5 B/delta) log(2/delta)) / (epsilon sqrt B) for epsilon <= sqrt(log(2/delta)/B)  [000, Thm 3.2]
        16 log(2/delta) sqrt(T log(5 T/delta)) / (epsilon B) for epsilon <= (2/B) log(2/delta) sqrt(2 T)  [000, Thm E.3]

    with T = M B.
    """
    budget, participations = _require_approx_budget(budget), validation.integer("participations", participations)
    epsilon, delta, b = budget.epsilon, budget.delta, validation.integer("batch", users, least=2)
    log = math.log(2 / delta)
    if participations == 1:
        bound = math.sqrt(log / b)
        allowed = f"at most sqrt(log(2/delta)/B) = {bound:.4g} [000, Thm 3.2]"
        _check_theorem_range("epsilon", epsilon, epsilon <= bound, allowed)
        return 4 * math.sqrt(2 * math.log(2.5 * b / delta) * log) / (epsilon * math.sqrt(b))
    horizon = participations * b
    bound = 2 / b * log * math.sqrt(2 * horizon)
    allowed = f"at most (2/B) log(2/delta) sqrt(2T) = {bound:.4g} [000, Thm E.3]"
    _check_theorem_range("epsilon", epsilon, epsilon <= bound, allowed)
    return 16 * log * math.sqrt(horizon * math.log(5 * horizon / delta)) / (epsilon * b)


def paper_binomial_noise(
    *, features: int, bound: float, users: int, budget: Budget, participations: int = 1
) -> BinomialNoise:
    """Return the noise of the vector sum: p = 1/4, g = max(2 sqrt B, d, 4) lattice steps per unit of `bound`.

        b = 24e4 g^2 log^2(4 (d^2+1)/delta) / (epsilon^2 B)                      [000, Thm C.1]
        b = 1e7 log(2/delta) g^2 T log^2(8 T (d^2+1)/(B delta)) / (epsilon^2 B^2), T = M B   [000, Thm E.5]

    Both hold for epsilon <= 15, delta < 1/2. The printed resolution bound/g is kept (proofs.md 0.1).
    """
    budget, participations = _require_approx_budget(budget), validation.integer("participations", participations)
    epsilon, delta, users = budget.epsilon, budget.delta, validation.integer("batch", users, least=2)
    _check_theorem_range("epsilon", epsilon, epsilon <= 15, "at most 15 [000, Thm C.1]")
    _check_theorem_range("delta", delta, delta < 0.5, "below 1/2 [000, Thm C.1]")
    g = max(2 * math.sqrt(users), features, 4)
    if participations == 1:
        log = math.log(4 * (features**2 + 1) / delta)
        trials = 24e4 * g**2 * log**2 / (epsilon**2 * users)
    else:
        horizon = participations * users
        log = math.log(8 * horizon * (features**2 + 1) / (users * delta))
        trials = 1e7 * math.log(2 / delta) * g**2 * horizon * log**2 / (epsilon**2 * users**2)
    return BinomialNoise(scale=g / bound, trials=math.ceil(trials), users=users, probability=0.25)


def _split_budget(budget: ApproxDP, participations: int) -> tuple[float, float]:
    """Return each of M releases' budget: epsilon/(2 sqrt(2 M log(2/delta))), delta/(2M) [000, Thm E.2]."""
    m = validation.integer("participations", participations)
    if m == 1:
        return budget.epsilon, budget.delta
    allowed = "below 1 for advanced composition [000, Thm E.2]"
    _check_theorem_range("epsilon", budget.epsilon, budget.epsilon < 1, allowed)
    return budget.epsilon / (2 * math.sqrt(2 * m * math.log(2 / budget.delta))), budget.delta / (2 * m)


def _require_approx_budget(budget: Budget) -> ApproxDP:
    if not isinstance(budget, ApproxDP) or budget.delta == 0.0:
        raise InvalidBudget("budget", budget, "an ApproxDP(epsilon, delta) with delta > 0", "The papers have this form")
    return budget


def _check_theorem_range(argument: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise OutsideTheorem(argument, value, allowed, 'calibration="tight" has no such limit')
