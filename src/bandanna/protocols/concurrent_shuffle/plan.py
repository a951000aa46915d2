"""Which tree: the degrees with the least error.

The variance falls with equal degrees (2 sinh(x/2) and sqrt(e^x - 1), e^x >= 2, are convex in x = log d): only degrees
that differ by at most one are tried, beside every lowest degree. From the best of them, single degrees are changed and
exchanged as long as that helps: what the horizon leaves over at its end is not in the convex bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.budgets import Budget
from bandanna.accounting.calibration.gaussian import finite_mu
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain
from bandanna.errors import InvalidArgument
from bandanna.protocols.concurrent_shuffle.privacy import approximate
from bandanna.protocols.concurrent_shuffle.schedule import BatchTree
from bandanna.protocols.concurrent_shuffle.split import unit_std

_SHORTLIST = 24
_NEAR = 1.05  # numbers of levels whose first tree is within this factor of the best are looked at more closely

_MOST = 10**8  # users among whom the search for a tree takes seconds


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
    """The public schedule, before any noise is calibrated; arguments as in `ConcurrentShuffle.calibrate`."""
    if not isinstance(shufflers, str):
        shufflers = require.whole("shufflers", shufflers)
    if not isinstance(degrees, str):
        listed = require.several("degrees", degrees, '"best", "paper", or one whole number for each level')
        tree = BatchTree(horizon=horizon, degrees=tuple(listed))
        if shufflers not in ("best", tree.levels):
            raise InvalidArgument("shufflers", shufflers, f'{tree.levels}, as many as degrees, or "best"')
        if lowest not in (None, tree.sizes[0]):
            raise InvalidArgument("degrees", degrees, f"lowest batches of {lowest} users, as the schedule says")
        return tree
    noise = domain.sensitivity / finite_mu(approximate(budget))
    bound = float(np.max(np.maximum(np.abs(domain.lower), np.abs(domain.upper))))
    horizon = require.whole("horizon", horizon, least=2, most=_MOST if lowest is None else require.EXACT)
    if require.one_of("degrees", degrees, ("best", "paper")) == "best":
        return best_tree(horizon, shufflers, noise=noise, bound=bound, averaging=averaging, lowest=lowest)
    ks = _counts(horizon, shufflers, lowest or 2)
    return min((paper_tree(horizon, k, lowest) for k in ks), key=lambda tree: _error(tree, noise, bound, averaging))


def most_shufflers(horizon: int) -> int:
    """floor(log2 n): with more, the largest batch would not fill."""
    return horizon.bit_length() - 1


def check_shufflers(horizon: int, shufflers: int) -> int:
    """A number of levels for which there is a tree."""
    count, most = require.whole("shufflers", shufflers), most_shufflers(require.whole("horizon", horizon, least=2))
    if count > most:
        raise InvalidArgument("shufflers", shufflers, f"at most log2 of the horizon {horizon}, here {most}")
    return count


def paper_tree(horizon: int, shufflers: int, lowest: int | None = None) -> BatchTree:
    """d_low = n^{1/(2k+1)} and d = n^{2/(2k+1)} above, rounded, at least 2 [002, Algorithm 3]; degree 2: Algorithm 2.

    `lowest` fixes d_low. Where rounding made the top batch larger than the horizon, degrees are lowered from the top
    until it fits.
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
    horizon: int,
    shufflers: int | str,
    *,
    noise: float,
    bound: float,
    averaging: bool = True,
    lowest: int | None = None,
) -> BatchTree:
    """The tree with the least (std of the worst prefix) + (d_low - 1) bound, for releases of std `noise` at full price.

    shufflers="best" chooses k as well; `lowest` fixes d_low.
    """
    ks = _counts(horizon, shufflers, lowest or 2)

    def error(tree: BatchTree) -> float:
        return _error(tree, noise, bound, averaging)

    shortlists = [list(_shortlist(horizon, k, noise, bound, averaging, lowest)) for k in ks]
    firsts = [min(trees, key=error) for trees in shortlists if trees]
    if not firsts:
        raise InvalidArgument("shufflers", shufflers, f"fewer: {horizon} users do not fill a batch of every level")
    least = min(map(error, firsts))
    return min((_climbed(tree, error, lowest) for tree in firsts if error(tree) <= _NEAR * least), key=error)


def _climbed(tree: BatchTree, error: Callable[[BatchTree], float], lowest: int | None) -> BatchTree:
    """Change a degree by one, or exchange two neighbours, as long as the error falls."""
    while True:
        around = [BatchTree(horizon=tree.horizon, degrees=degrees) for degrees in _around(tree, lowest)]
        best = min([tree, *around], key=error)
        if best is tree:
            return tree
        tree = best


def _around(tree: BatchTree, lowest: int | None) -> Iterator[tuple[int, ...]]:
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
    """Trees with a small upper bound on the error: every prefix takes fewer than d_{j+1} batches of level j < k."""
    if lowest is None:
        start = paper_tree(horizon, k)
        worth = _error(start, noise, bound, averaging) / bound + 1  # beyond that, the delay alone costs more
        lows = _thinned(2, max(2, min(int(worth), horizon // 2 ** (k - 1))))
        yield start
    else:
        lows = np.asarray([require.whole("lowest", lowest, least=2)])
    rows: list[Floats] = []
    for raised in range(max(k - 1, 1)):  # how many of the k - 1 upper degrees are d + 1, the others d
        degrees = _degrees(horizon, k, int(lows[0]))
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
    """sqrt(m c) of a level below one of this degree: (d - 1)/sqrt d with averaging, else sqrt(d - 1)."""
    return (degree - 1) / np.sqrt(degree) if averaging else np.sqrt(degree - 1)


def _degrees(horizon: int, k: int, low: int) -> NDArray[np.int64]:
    """Upper degrees around the one that would make all levels equal."""
    if k == 1:
        return np.asarray([2])
    even = (horizon / low) ** (1 / k)
    return np.arange(max(2, int(even / 4)), int(4 * even) + 3)


def _thinned(first: int, last: int) -> NDArray[np.int64]:
    """All whole numbers up to 200, then steps of 2 %."""
    if last <= 200:
        return np.arange(first, last + 1)
    further = np.geomspace(200, last, 1 + math.ceil(math.log(last / 200) / 0.02))
    return np.unique(np.concatenate([np.arange(first, 201), np.rint(further).astype(np.int64)]))


def _error(tree: BatchTree, noise: float, bound: float, averaging: bool) -> float:
    """Std of the worst prefix + (d_low - 1) bound."""
    return noise * unit_std(tree, averaging) + tree.delay * bound


def _counts(horizon: int, shufflers: int | str, lowest: int) -> tuple[int, ...]:
    """Numbers of levels to try, with lowest batches of at least `lowest` users."""
    if shufflers == "best":
        return tuple(range(1, 1 + max(1, 1 + most_shufflers(max(1, horizon // lowest)))))
    if isinstance(shufflers, str):
        raise InvalidArgument("shufflers", shufflers, 'a whole number or "best"')
    return (check_shufflers(horizon, shufflers),)
