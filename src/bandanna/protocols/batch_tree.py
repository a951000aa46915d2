"""The tree of batches of concurrent shufflers: schedule, variance, privacy and choice of degrees."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import mul

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna import validation
from bandanna.device.domain import Bits, Domain
from bandanna.errors import CalibrationError, InvalidArgument, InvalidBudget
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP, Budget
from bandanna.privacy.calibration import (
    BinomialNoise,
    binomial_noise_for_std,
    bit_noise_for_std,
    finite_mu,
    level_prices,
)
from bandanna.privacy.events import BinomialEvent, ClearEvent, CompositionEvent
from bandanna.protocols import shuffle_binomial, shuffle_bits
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats

_SHORTLIST = 24
_NEAR = 1.05  # numbers of levels whose first tree is within this factor of the best are looked at more closely

_MOST = 10**8  # users among whom the search for a tree takes seconds


@stored_as("BatchTree")
@dataclass(frozen=True, kw_only=True)
class BatchTree:
    """Batches over `horizon` users with `degrees` (d_low, d_2, ..., d_k), one level for each shuffler.

    Batches of level j have s_j = d_1 d_2 ... d_j consecutive users, d_1 = d_low; d_{j+1} of them are one batch of level
    j + 1. The top level has as many complete batches as the horizon holds. An incomplete batch is never released.
    Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002], Algorithms 2 and 3, without the root.
    """

    horizon: int
    degrees: tuple[int, ...]

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "horizon", least=2)
        degrees = tuple(validation.integer("degrees", degree, least=2) for degree in self.degrees)
        object.__setattr__(self, "degrees", degrees)
        if not degrees or math.prod(degrees) > self.horizon:
            allowed = f"at least one, with a product of at most the horizon {self.horizon}: a batch must fill"
            raise InvalidArgument("degrees", degrees, allowed)

    @property
    def levels(self) -> int:
        """Number of levels, k."""
        return len(self.degrees)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Users in each level's batch, s_1, ..., s_k."""
        return tuple(accumulate(self.degrees, mul))

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """Complete batches of each level."""
        return tuple(self.horizon // size for size in self.sizes)

    @property
    def delay(self) -> int:
        """Return d_low - 1, the most users who are in no released batch."""
        return self.degrees[0] - 1

    def covering(self, steps: ArrayLike) -> NDArray[np.int64]:
        """Return how many batches of each level prefixes add up, V*_t: (...) -> (..., k).

        They are t's digits in the tree's mixed radix, with an unbounded top digit.
        """
        sizes, above = self._radix
        return np.asarray(np.asarray(steps, dtype=np.int64)[..., None] % above // sizes)

    @cached_property
    def _radix(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return users per batch of each level and of the next; above the top, unbounded."""
        sizes = np.asarray(self.sizes)
        return sizes, np.append(sizes[1:], self.horizon + sizes[-1])

    @cached_property
    def worst_steps(self) -> NDArray[np.int64]:
        """Return prefixes among which is the worst: the horizon, or one digit lowered and lower digits largest."""
        steps = [self.horizon]
        for size in self.sizes:
            lowered = self.horizon // size * size - 1
            steps.append(lowered)
        return np.asarray([step for step in steps if step >= self.sizes[0]])

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Yield released batches in order as (level, first user, last user), counted from 1."""
        for t in range(self.sizes[0], self.horizon + 1, self.sizes[0]):
            for level, size in enumerate(self.sizes, start=1):
                if t % size == 0:
                    yield level, t - size + 1, t


# Variance


def optimal_shares(tree: BatchTree, averaging: bool) -> tuple[float, ...]:
    """Return the levels' shares mu_j^2 / mu^2 of the price with the least variance of the worst prefix.

    With averaging p_1 = mu_1^2, p_j = mu_j^2 + p_{j-1} / d_j, and p_j is proportional to sqrt(m_j / c_j) for m_j
    batches of level j in the prefix, c_j = 1 - 1/d_{j+1} and c_k = 1; without, mu_j^2 is proportional to sqrt(m_j).
    Proof: docs/appendix/proofs.md, C.2.
    """
    top = tree.batches[-1]
    tries = [_optimal_shares_for(tree, last, averaging) for last in {top, max(1, top - 1)}]
    return min(tries, key=lambda split: worst_variance(tree, [1 / share for share in split], averaging))


def _optimal_shares_for(tree: BatchTree, top: int, averaging: bool) -> tuple[float, ...]:
    """Return the shares for d_{j+1} - 1 batches of level j and `top` highest ones."""
    above = tree.degrees[1:]
    nodes = (*(degree - 1.0 for degree in above), float(top))  # m_j
    if not averaging:
        return tuple(price**2 for price in level_prices(1.0, nodes))
    costs = (*(1 - 1 / degree for degree in above), 1.0)  # c_j
    precision = [math.sqrt(m / c) for m, c in zip(nodes, costs, strict=True)]  # p_j, up to a factor
    own = [precision[0], *(p - q / d for p, q, d in zip(precision[1:], precision[:-1], above, strict=True))]
    return tuple(share / math.fsum(own) for share in own)


def node_variances(tree: BatchTree, own: Sequence[float], averaging: bool) -> list[float]:
    """Return each level's variance of a batch's estimate, from that of its own release."""
    variances = [own[0]]
    for release, degree in zip(own[1:], tree.degrees[1:], strict=True):
        parts = degree * variances[-1]
        variances.append(1 / (1 / release + 1 / parts) if averaging else release)  # Honaker: inverse-variance average
    return variances


def worst_variance(tree: BatchTree, own: Sequence[float], averaging: bool) -> float:
    """Return the largest variance of a prefix's estimate."""
    return float(np.max(tree.covering(tree.worst_steps) @ np.asarray(node_variances(tree, own, averaging))))


def unit_std(tree: BatchTree, averaging: bool) -> float:
    """Return the worst prefix's std for Gaussian releases at mu = 1, sensitivity 1."""
    return math.sqrt(worst_variance(tree, [1 / share for share in optimal_shares(tree, averaging)], averaging))


# Privacy


def require_approx_budget(budget: Budget) -> ApproxDP:
    """Return a budget with delta > 0, because binomial noise has bounded support."""
    if not isinstance(budget, ApproxDP) or budget.delta == 0.0:
        raise InvalidBudget("budget", budget, "ApproxDP(epsilon, delta) with delta > 0")
    return budget


def calibrate_levels(
    domain: Domain, budget: Budget, tree: BatchTree, *, averaging: bool, calibration: str, coins: str = "device"
) -> tuple[BinomialNoise, ...]:
    """Find the noise of every level, lowest first.

    A user is in one batch of each level, with prices sum mu_j^2 = mu(epsilon, delta)^2. The accountant prices the
    composed event, and the noise is raised until it meets the budget. Paper mode gives each level (epsilon/k, delta/k)
    [002, Theorem 3.4]: M_vec for vectors [002, section 3.1.1; 000, Theorem C.1], the least noise for bits, for which
    [002] prints only the order.
    """
    whole = require_approx_budget(budget)
    exact = isinstance(domain, Bits) or not _is_box(domain)  # one level: the profile of one release is tighter
    if calibration == "paper" or (tree.levels == 1 and exact):
        k = tree.levels
        share = ApproxDP(epsilon=whole.epsilon / k, delta=whole.delta / k)  # simple composition [002, Thm 3.4]
        return tuple(_calibrate_level(domain, share, size, calibration, coins) for size in tree.sizes)
    split = optimal_shares(tree, averaging)
    mu, factor = finite_mu(whole), 1.0
    stds = [domain.sensitivity / (mu * math.sqrt(share)) for share in split]  # Delta_2 / mu_j
    for _ in range(60):
        noises = [_level_noise_for_std(domain, factor * std, size) for std, size in zip(stds, tree.sizes, strict=True)]
        composed = all_levels_event(domain, noises, coins)
        if accountant.satisfies(composed, whole):
            return tuple(noises)
        paid = accountant.price(composed, accountant.tail_for(whole.delta, whole.epsilon)).mu
        factor *= max(1.0005, min(paid / mu, 2.0))
    raise CalibrationError(f"no noise of {tree.levels} shufflers meets {budget}")


def _calibrate_level(domain: Domain, budget: ApproxDP, size: int, calibration: str, coins: str) -> BinomialNoise:
    if isinstance(domain, Bits):
        return shuffle_bits.calibrate_bit_sum(budget, size, 1, coins)
    return shuffle_binomial.calibrate_vector_sum(domain, budget, size, 1, calibration, coins)


def _level_noise_for_std(domain: Domain, std: float, size: int) -> BinomialNoise:
    if isinstance(domain, Bits):
        return bit_noise_for_std(std, users=size)
    composed = not _is_box(domain)  # a box pays nothing for rounding, see `level_event`
    return binomial_noise_for_std(std, sensitivity=domain.sensitivity, dim=domain.dim, users=size, composed=composed)


def _is_box(domain: Domain) -> bool:
    return domain.sensitivity >= domain.reach * math.sqrt(domain.dim) * (1 - 1e-12)


def level_event(domain: Domain, noise: BinomialNoise, users: int | None = None, coins: str = "device") -> BinomialEvent:
    """Return one level's view of `users` users; by default of a whole batch.

    Encodings in a box never differ by more than sqrt(D) ceil(s reach) in l2: a sure bound in place of A.3b's.
    """
    many = noise if users is None else replace(noise, users=users)
    if isinstance(domain, Bits):
        return shuffle_bits.bit_sum_event(many, coins)
    view = shuffle_binomial.vector_sum_event(domain, many, coins)
    return replace(view, shift=view.reach * math.sqrt(view.dim), rounded=False) if _is_box(domain) else view


def all_levels_event(domain: Domain, noises: Sequence[BinomialNoise], coins: str = "device") -> CompositionEvent:
    """Return everything released about one user: a batch per level."""
    return CompositionEvent(events=tuple(level_event(domain, noise, coins=coins) for noise in noises))


def local_levels_event(
    domain: Domain, noises: Sequence[BinomialNoise], coins: str = "device"
) -> CompositionEvent | ClearEvent:
    """Return what all shufflers together see of a user."""
    if coins == "mixer":
        return ClearEvent()
    return CompositionEvent(events=tuple(level_event(domain, noise, users=1) for noise in noises))


# Choice of the tree


def plan_tree(
    domain: Domain,
    budget: Budget,
    horizon: int,
    *,
    shufflers: int | str,
    degrees: str | tuple[int, ...] = "best",
    averaging: bool = True,
    lowest: int | None = None,
) -> BatchTree:
    """Return the public schedule before calibration. Arguments as in `ConcurrentShuffle.calibrate`."""
    if not isinstance(shufflers, str):
        shufflers = validation.integer("shufflers", shufflers)
    if not isinstance(degrees, str):
        listed = validation.list_entries("degrees", degrees, '"best", "paper", or one whole number for each level')
        tree = BatchTree(horizon=horizon, degrees=tuple(listed))
        if shufflers not in ("best", tree.levels):
            raise InvalidArgument("shufflers", shufflers, f'{tree.levels}, as many as degrees, or "best"')
        if lowest not in (None, tree.sizes[0]):
            raise InvalidArgument("degrees", degrees, f"lowest batches of {lowest} users, as the schedule says")
        return tree
    noise = domain.sensitivity / finite_mu(require_approx_budget(budget))
    bound = float(np.max(np.maximum(np.abs(domain.lower), np.abs(domain.upper))))
    horizon = validation.integer(
        "horizon", horizon, least=2, most=_MOST if lowest is None else validation.LARGEST_EXACT_INTEGER
    )
    if validation.one_of("degrees", degrees, ("best", "paper")) == "best":
        return best_tree(horizon, shufflers, noise=noise, bound=bound, averaging=averaging, lowest=lowest)
    ks = _list_level_counts(horizon, shufflers, lowest or 2)
    return min((paper_tree(horizon, k, lowest) for k in ks), key=lambda tree: _error(tree, noise, bound, averaging))


def most_shufflers(horizon: int) -> int:
    """Return floor(log2 n), the most levels."""
    return horizon.bit_length() - 1


def check_shufflers(horizon: int, shufflers: int) -> int:
    """Return the number of levels; refuse more than a tree has."""
    count, most = (
        validation.integer("shufflers", shufflers),
        most_shufflers(validation.integer("horizon", horizon, least=2)),
    )
    if count > most:
        raise InvalidArgument("shufflers", shufflers, f"at most log2 of the horizon {horizon}, here {most}")
    return count


def paper_tree(horizon: int, shufflers: int, lowest: int | None = None) -> BatchTree:
    """Return d_low = n^{1/(2k+1)} and d = n^{2/(2k+1)} above, rounded, at least 2 [002, Algorithm 3].

    `lowest` fixes d_low. Degrees are lowered from the top until the top batch fits into the horizon.
    """
    k = check_shufflers(horizon, shufflers)
    low = lowest or max(2, round(horizon ** (1 / (2 * k + 1))))
    degrees = [low] + [max(2, round(horizon ** (2 / (2 * k + 1))))] * (k - 1)
    last = 0 if lowest is None else 1
    while math.prod(degrees) > horizon and any(degree > 2 for degree in degrees[last:]):
        level = max(range(last, k), key=lambda j: (degrees[j], j))  # the largest degree, of the highest level
        degrees[level] -= 1
    return BatchTree(horizon=horizon, degrees=tuple(degrees))


@lru_cache(maxsize=512)
def best_tree(
    horizon: int, shufflers: int | str, *, noise: float, bound: float, averaging: bool = True, lowest: int | None = None
) -> BatchTree:
    """Return the tree with the least (std of the worst prefix) + (d_low - 1) bound, for releases of std `noise`.

    shufflers="best" chooses k as well; `lowest` fixes d_low. The variance falls with equal degrees, so only degrees
    that differ by at most one are tried. Then single degrees are changed and exchanged as long as that helps.
    """
    ks = _list_level_counts(horizon, shufflers, lowest or 2)

    def error(tree: BatchTree) -> float:
        return _error(tree, noise, bound, averaging)

    shortlists = [list(_shortlist(horizon, k, noise, bound, averaging, lowest)) for k in ks]
    firsts = [min(trees, key=error) for trees in shortlists if trees]
    if not firsts:
        raise InvalidArgument("shufflers", shufflers, f"fewer: {horizon} users do not fill a batch of every level")
    least = min(map(error, firsts))
    return min((_improve_degrees(tree, error, lowest) for tree in firsts if error(tree) <= _NEAR * least), key=error)


def _improve_degrees(tree: BatchTree, error: Callable[[BatchTree], float], lowest: int | None) -> BatchTree:
    while True:
        around = [BatchTree(horizon=tree.horizon, degrees=degrees) for degrees in _iterate_neighbours(tree, lowest)]
        best = min([tree, *around], key=error)
        if best is tree:
            return tree
        tree = best


def _iterate_neighbours(tree: BatchTree, lowest: int | None) -> Iterator[tuple[int, ...]]:
    first = 0 if lowest is None else 1
    for j in range(first, tree.levels):
        for step in (-1, 1):
            changed = (*tree.degrees[:j], tree.degrees[j] + step, *tree.degrees[j + 1 :])
            if min(changed) >= 2 and math.prod(changed) <= tree.horizon:
                yield changed
    for j in range(first, tree.levels - 1):
        if tree.degrees[j] != tree.degrees[j + 1]:
            yield (*tree.degrees[:j], tree.degrees[j + 1], tree.degrees[j], *tree.degrees[j + 2 :])


def _shortlist(
    horizon: int, k: int, noise: float, bound: float, averaging: bool, lowest: int | None
) -> Iterator[BatchTree]:
    """Yield trees with a small error bound: prefixes take fewer than d_{j+1} batches of level j < k."""
    if lowest is None:
        start = paper_tree(horizon, k)
        worth = _error(start, noise, bound, averaging) / bound + 1  # beyond that, the delay alone costs more
        last = max(2, min(int(worth), horizon // 2 ** (k - 1)))
        lows = np.arange(2, min(last, 200) + 1)
        if last > 200:  # then in steps of 2 %
            further = np.geomspace(200, last, 1 + math.ceil(math.log(last / 200) / 0.02))
            lows = np.unique(np.concatenate([lows, np.rint(further).astype(np.int64)]))
        yield start
    else:
        lows = np.asarray([validation.integer("lowest", lowest, least=2)])
    rows: list[Floats] = []
    for raised in range(max(k - 1, 1)):  # how many of the k - 1 upper degrees are d + 1, the others d
        even = (horizon / int(lows[0])) ** (1 / k)  # the upper degree that makes all levels equal
        degrees = np.arange(max(2, int(even / 4)), int(4 * even) + 3) if k > 1 else np.asarray([2])
        low, d = (grid.ravel().astype(float) for grid in np.meshgrid(lows, degrees))
        size = low * d ** (k - 1 - raised) * (d + 1) ** raised if k > 1 else low
        top = np.floor(horizon / size)
        upper = (k - 1 - raised) * _cost(d, averaging) + raised * _cost(d + 1, averaging) if k > 1 else 0.0
        score = np.where(top >= 1, noise * (upper + np.sqrt(top)) + (low - 1) * bound, np.inf)
        rows.append(np.stack([score, low, d, np.full_like(d, raised)], axis=-1))
    every = np.concatenate(rows)
    every = every[np.isfinite(every[:, 0])]
    for _, low_, d_, raised_ in every[np.argsort(every[:, 0], kind="stable")[:_SHORTLIST]]:
        upper_degrees = (int(d_),) * (k - 1 - int(raised_)) + (int(d_) + 1,) * int(raised_)
        yield BatchTree(horizon=horizon, degrees=(int(low_), *upper_degrees))


def _cost(degree: Floats, averaging: bool) -> Floats:
    """Return sqrt(m c) below a level: (d - 1)/sqrt d with averaging, else sqrt(d - 1)."""
    return (degree - 1) / np.sqrt(degree) if averaging else np.sqrt(degree - 1)


def _error(tree: BatchTree, noise: float, bound: float, averaging: bool) -> float:
    """Return the std of the worst prefix + (d_low - 1) bound."""
    return noise * unit_std(tree, averaging) + tree.delay * bound


def _list_level_counts(horizon: int, shufflers: int | str, lowest: int) -> tuple[int, ...]:
    """Return the numbers of levels to try."""
    if shufflers == "best":
        return tuple(range(1, 1 + max(1, 1 + most_shufflers(max(1, horizon // lowest)))))
    if isinstance(shufflers, str):
        raise InvalidArgument("shufflers", shufflers, 'a whole number or "best"')
    return (check_shufflers(horizon, shufflers),)
