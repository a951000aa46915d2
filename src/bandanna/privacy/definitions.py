"""View, Table and Interactive DP of small policies that are written out in full, computed exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.errors import InvalidArgument, InvalidBudget, ValueSummary
from bandanna.types import Floats

# Bound over all Renyi orders


def largest_ratio(renyi: Callable[[float], float], *, relative: float) -> float:
    """Return an upper bound of sup_{alpha > 1} D_alpha / alpha, at most a factor 1 + `relative` above it.

    (alpha - 1) D_alpha is convex and D_alpha does not fall (van Erven and Harremoes 2014), which bounds the curve
    between two orders.
    """
    top = renyi(math.inf)
    if top == 0 or math.isinf(top):
        return top
    known = {1.0: renyi(1.0), 2.0: renyi(2.0)}
    best = max(value / order for order, value in known.items())
    while max(known) * best < top:
        order = 2 * max(known)
        known[order] = renyi(order)
        best = max(best, known[order] / order)
    orders = sorted(known)
    intervals = [(_bound_ratio(a, b, known), a, b) for a, b in pairwise(orders)]
    while True:
        open_ = [each for each in intervals if each[0] > best * (1 + relative)]
        if not open_:
            return max([best, *(bound for bound, _, _ in intervals)])
        intervals = [each for each in intervals if each[0] <= best * (1 + relative)]
        for bound, a, b in open_:
            middle = math.sqrt(a * b) if a > 1 else 1 + (b - 1) / 2
            known[middle] = renyi(middle)
            best = max(best, known[middle] / middle)
            intervals += [(min(bound, _bound_ratio(*each, known)), *each) for each in ((a, middle), (middle, b))]


def _bound_ratio(a: float, b: float, known: dict[float, float]) -> float:
    monotone = known[b] / a
    if a == 1:
        return monotone
    low, high = (a - 1) * known[a], (b - 1) * known[b]  # psi at both ends
    slope = (high - low) / (b - a)
    level = low - slope * a  # chord: level + slope alpha
    candidates = [a, b]
    if level * (level + slope) >= 0 and slope > 0:  # d/dalpha (level + slope alpha) / (alpha (alpha - 1)) = 0
        candidates += [(-level + sign * math.sqrt(level * (level + slope))) / slope for sign in (-1, 1)]
    inside = [alpha for alpha in candidates if a <= alpha <= b]
    return min(monotone, max((level + slope * alpha) / (alpha * (alpha - 1)) for alpha in inside))


# Definitions


_ROUNDING = 1e-14  # laws are sums of a few products of floats: a delta is met if it is met up to this
_LARGEST = 600.0  # exponents beyond this are handled as logarithms


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivacyDefinition:
    """A privacy definition applied to one mechanism (or, with leading axes, to many at once).

        delta(epsilon) = max_{d ~ d'} sum_o (P_d(o) - e^epsilon P_d'(o))_+                    hockey-stick divergence
        D_alpha        = max_{d ~ d'} 1/(alpha - 1) log sum_o P_d(o)^alpha P_d'(o)^(1 - alpha)
        rho            = sup_{alpha > 1} D_alpha / alpha

    An adversary's question after an output is an axis that is maximised instead of summed, by backward induction.
    Deterministic adversaries suffice, because the sums are convex.

    Parameters
    ----------
    laws
        Probability of every output under every dataset: (..., datasets, *outputs).
    pairs
        Neighbours, in both orders: (2, pairs).
    asked
        Which output axes are questions.
    """

    laws: Floats
    pairs: NDArray[np.int64]
    asked: tuple[bool, ...] = (False,)

    def delta(self, epsilon: Any) -> Any:
        """Return the smallest delta for `epsilon` >= 0 (a number, or one for every mechanism)."""
        asked = np.asarray(epsilon, dtype=float)
        if not np.all(asked >= 0):  # also not a number
            raise InvalidBudget("epsilon", epsilon, "a number >= 0")
        excess, _ = self._hockey_stick(np.exp(np.minimum(asked, 700.0)))  # beyond, e^epsilon is no float: not less
        return _to_scalar(np.clip(excess, 0.0, 1.0))

    def epsilon(self, delta: float = 0.0) -> Any:
        """Return the smallest epsilon >= 0 for `delta`; math.inf if there is none.

        The divergence is convex and piecewise linear in x = e^epsilon, so Newton's steps from x = 1 end at the root.
        """
        target = validation.delta(delta)
        if target == 0:
            return _to_scalar(np.log(np.maximum(self._largest_ratio, 1.0)))
        x = np.ones(self.laws.shape[: self._leading])
        while True:
            excess, slope = self._hockey_stick(x)
            left = (excess > target + _ROUNDING) & np.isfinite(x)
            if not np.any(left):
                return _to_scalar(np.log(x))
            with np.errstate(divide="ignore", invalid="ignore"):
                x = np.where(left, x + (excess - target) / slope, x)

    def renyi(self, order: float) -> Any:
        """Return the largest Renyi divergence of `order` >= 1 of neighbours; 1: Kullback-Leibler, inf: pure loss."""
        if not order >= 1:
            raise InvalidArgument("order", order, "a number >= 1")
        if order == math.inf:
            return _to_scalar(np.log(self._largest_ratio))
        first, _, ratio = self._leaves
        power = order - 1
        if power == 0:
            return _to_scalar(np.maximum(self._worst(_product(first, ratio), np.sum), 0.0))
        if power * np.max(np.abs(ratio), initial=0.0, where=np.isfinite(ratio)) > _LARGEST:
            with np.errstate(divide="ignore"):
                return _to_scalar(self._worst(np.log(first) + power * ratio, np.logaddexp.reduce) / power)
        sums = self._worst(_product(first, np.expm1(power * ratio)), np.sum)  # sum P (P / Q)^(alpha - 1), minus 1
        return _to_scalar(np.log1p(np.maximum(sums, 0.0)) / power)

    def rho(self, *, relative: float = 1e-6) -> Any:
        """Return the smallest rho of zCDP, as an upper bound within a factor 1 + `relative`."""
        found = np.empty(self.laws.shape[: self._leading])
        for index in np.ndindex(found.shape):
            one = replace(self, laws=self.laws[index])
            found[index] = largest_ratio(one.renyi, relative=relative)
        return _to_scalar(found)

    @property
    def _leading(self) -> int:
        return self.laws.ndim - 1 - len(self.asked)

    @cached_property
    def _leaves(self) -> tuple[Floats, Floats, Floats]:
        """Return P, Q and log P / Q for all neighbours; the log is 0 at impossible outputs."""
        first, second = (np.take(self.laws, each, axis=self._leading) for each in self.pairs)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(first) - np.log(second)
        ratio[np.isnan(ratio)] = 0.0
        return first, second, ratio

    @cached_property
    def _largest_ratio(self) -> Floats:
        _, _, ratio = self._leaves
        return np.asarray(np.exp(np.max(ratio, axis=tuple(range(self._leading, ratio.ndim)), initial=0.0)))

    def _hockey_stick(self, x: Floats) -> tuple[Floats, Floats]:
        """Return max sum (P - x Q)_+ and there sum Q over the event, minus the slope in x."""
        first, second, _ = self._leaves
        factor = np.asarray(x)[(..., *(None,) * (1 + len(self.asked)))]
        gain = first - np.multiply(factor, second, where=second > 0, out=np.zeros_like(second))  # x may be infinite
        paid = np.where(gain > 0, second, 0.0)
        gain = np.maximum(gain, 0.0)
        for asked in reversed(self.asked):
            if asked:
                best = np.argmax(gain, axis=-1)[..., None]
                gain, paid = (np.take_along_axis(each, best, axis=-1)[..., 0] for each in (gain, paid))
            else:
                gain, paid = np.sum(gain, axis=-1), np.sum(paid, axis=-1)
        best = np.argmax(gain, axis=-1)[..., None]
        return np.take_along_axis(gain, best, axis=-1)[..., 0], np.take_along_axis(paid, best, axis=-1)[..., 0]

    def _worst(self, values: Floats, total: Callable[..., Any]) -> Floats:
        """Sum outputs and maximise questions, from the last round to the first, then over pairs."""
        for asked in reversed(self.asked):
            values = np.max(values, axis=-1) if asked else total(values, axis=-1)
        return np.asarray(np.max(values, axis=-1))


def _product(chance: Floats, value: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.where(chance > 0, chance * value, 0.0)


def _to_scalar(values: Any) -> Any:
    return float(values) if np.ndim(values) == 0 else values


# Policies


Wholes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ExplicitPolicy:
    """A policy as the probability of every sequence of recommendations, given the questions and rewards so far.

    It computes View, Table and Interactive DP (docs/appendix/definitions.md). The last of the T `rounds` has no reward.
    Reference: Azize and Basu 2024 [004], Definitions 2 to 4.

    Parameters
    ----------
    paths
        P(o_1, ..., o_T | q_1, r_1, ..., q_{T-1}, r_{T-1}), axes (..., o_1, q_1, r_1, o_2, ..., r_{T-1}, o_T), of
        recommended arms o_t, arms q_t chosen by the adversary, and rewards r_t.
    replicates
        Number of leading axes, for many policies at once.
    """

    paths: Floats
    replicates: int = 0

    def __post_init__(self) -> None:
        paths = np.asarray(self.paths, dtype=float)
        object.__setattr__(self, "paths", paths)
        validation.set_validated(self, validation.integer, "replicates", least=0)
        arms = self.arms
        if paths.shape[self.replicates :] != (arms, arms, self.rewards) * (self.rounds - 1) + (arms,):
            raise InvalidArgument("the shape of paths", paths.shape, "(..., K, K, R, K, K, R, ..., K)")
        if not np.all(paths >= 0):
            raise InvalidArgument("paths", float(np.min(paths)), "probabilities >= 0")
        while paths.ndim > self.replicates + 1:
            total = np.sum(paths, axis=-1)
            paths = total[..., 0, 0]
            if np.max(np.abs(total - paths[..., None, None])) > 1e-9:
                allowed = "probabilities that do not depend on later rewards"
                raise InvalidArgument("paths", ValueSummary("some that do"), allowed)
        if np.max(np.abs(np.sum(paths, axis=-1) - 1)) > 1e-9:
            found = ValueSummary(f"a sum of {float(np.max(np.sum(paths, axis=-1))):.6g}")
            raise InvalidArgument("paths", found, "probabilities that sum to 1")

    @classmethod
    def from_rules(cls, rules: Sequence[Any], *, rewards: int = 2) -> ExplicitPolicy:
        """Build a policy from pi_1, ..., pi_T: rule t is (..., (K R)^(t-1), K), a row of probabilities per history.

        Histories (a_1, r_1, ..., a_{t-1}, r_{t-1}) are in lexicographic order.
        """
        tables = [_table(t + 1, rule) for t, rule in enumerate(rules)]
        if not tables:
            raise InvalidArgument("rules", rules, "at least one rule")
        arms, width = tables[0].shape[-1], validation.integer("rewards", rewards)
        paths = np.ones(())
        for t, table in enumerate(tables):
            if table.ndim != tables[0].ndim or table.shape[-2:] != ((arms * width) ** t, arms):
                raise InvalidArgument(
                    f"the shape of rule {t + 1}", table.shape, f"(..., {(arms * width) ** t}, {arms})"
                )
            if not (np.all(table >= 0) and np.allclose(np.sum(table, axis=-1), 1, atol=1e-9)):
                raise InvalidArgument(f"rule {t + 1}", rules[t], "rows of probabilities that sum to 1")
            given = (slice(None), slice(None)) if t else ()
            split = table.reshape(*table.shape[:-2], *(arms, width) * t, arms)
            split = split[(..., *(None, *given) * t, slice(None))]  # the rule does not look at its own recommendations
            paths = paths[(..., *(None,) * (3 if t else 1))] * split
        return cls(paths=paths, replicates=tables[0].ndim - 2)

    @property
    def rounds(self) -> int:
        """Number of rounds T."""
        return (self.paths.ndim - self.replicates + 2) // 3

    @property
    def arms(self) -> int:
        """Number of arms K."""
        return int(self.paths.shape[-1]) if self.paths.ndim else 0

    @property
    def rewards(self) -> int:
        """Number of values of a reward, R."""
        return int(self.paths.shape[-2]) if self.rounds > 1 else 1

    @cached_property
    def view(self) -> PrivacyDefinition:
        """Return View DP: lists of rewards."""
        lists = np.array(list(product(range(self.rewards), repeat=self.rounds - 1)), dtype=np.int64)  # (n, T - 1)
        laws = self._read(np.broadcast_to(lists[..., None], (*lists.shape, self.arms)), self._played)
        return PrivacyDefinition(laws=laws, pairs=_neighbours(lists))

    @cached_property
    def table(self) -> PrivacyDefinition:
        """Return Table DP: tables of potential rewards."""
        return PrivacyDefinition(laws=self._read(self._tables, self._played), pairs=self._pairs)

    @cached_property
    def interactive(self) -> PrivacyDefinition:
        """Return Interactive DP: tables, and the best of all deterministic adversaries."""
        grid = np.indices((self.arms,) * (2 * self.rounds - 1))  # o_1, q_1, o_2, ..., o_T
        laws = self._read(self._tables, (list(grid[0::2]), list(grid[1::2])))
        return PrivacyDefinition(laws=laws, pairs=self._pairs, asked=(False, *(True, False) * (self.rounds - 1)))

    def against_adversary(self, adversary: Sequence[Any]) -> PrivacyDefinition:
        """Return the view of one deterministic adversary: `q_t = adversary[t - 1][o_1, ..., o_t]` for t < T."""
        recommended, _ = self._played
        asked = [np.asarray(rule)[tuple(recommended[: t + 1])] for t, rule in enumerate(adversary)]
        return PrivacyDefinition(laws=self._read(self._tables, (recommended, asked)), pairs=self._pairs)

    @cached_property
    def _tables(self) -> Wholes:
        rows = np.array(list(product(range(self.rewards), repeat=self.arms)), dtype=np.int64)  # (R^K, K)
        return rows[self._rows]

    @cached_property
    def _rows(self) -> Wholes:
        return np.array(list(product(range(self.rewards**self.arms), repeat=self.rounds - 1)), dtype=np.int64)

    @cached_property
    def _pairs(self) -> Wholes:
        return _neighbours(self._rows)

    @cached_property
    def _played(self) -> tuple[list[Wholes], list[Wholes]]:
        sequences = np.indices((self.arms,) * self.rounds).reshape(self.rounds, -1)
        return list(sequences), list(sequences[:-1])

    def _read(self, tables: Wholes, path: tuple[list[Wholes], list[Wholes]]) -> Floats:
        """Return the probabilities of the outputs under tables (n, T - 1, K): (..., n, *outputs)."""
        recommended, asked = path
        index: list[Wholes] = []
        for t, q in enumerate(asked):
            index += [recommended[t], q, tables[:, t, :][:, q]]  # reward x_{t,q}: (n, *outputs)
        place: tuple[Any, ...] = (..., *index, recommended[-1])
        found: Floats = self.paths[place]
        return found.reshape(*self.paths.shape[: self.replicates], len(tables), *recommended[-1].shape)


def _table(round: int, rule: Any) -> Floats:
    try:
        table = np.asarray(rule, dtype=float)
    except (TypeError, ValueError):
        raise InvalidArgument(f"rule {round}", rule, "rows of probabilities of one length") from None
    if table.ndim < 2:
        raise InvalidArgument(f"rule {round}", rule, "a list of rows, one for every history", "Round 1 has one row")
    return table


def _neighbours(datasets: Wholes) -> Wholes:
    apart = np.sum(datasets[:, None] != datasets[None], axis=-1)
    return np.array(np.nonzero(apart <= 1), dtype=np.int64)
