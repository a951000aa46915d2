"""Releases under two neighbours: canaries that are far apart, recorded noise, and scripts that run the releases.

Batches and streams whose statistics differ in one user are run by the protocols' message path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from bandanna.audit import exact
from bandanna.audit.comparison import ValueLeaf, first_difference, list_arrays, numbers_from_leaves, take_apart
from bandanna.audit.exact import LawPair, count_pairs, message_pairs, shuffle_gaussian_pairs
from bandanna.device.domain import Ball, Domain, Estimate, Statistic
from bandanna.device.linear_report import InterceptReport, RegressionReport
from bandanna.device.noise import FastNoise, Size
from bandanna.numeric.rng import NoRandomness
from bandanna.policies.base import PlayedRounds, Policy, SumQuery
from bandanna.privacy.events import ClearEvent, CompositionEvent, Event
from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.protocols.gaussian import ShuffleGaussian
from bandanna.types import Floats

# Canaries


FAR_REWARD = 40.0  # beyond every bound: what is longer is clipped
_ANGLES = 361


def farthest_points(domain: Domain) -> Floats:
    """Return two points of the domain at its diameter, (2, dim)."""
    if isinstance(domain, Ball):
        point = np.full(domain.dim, domain.bound / math.sqrt(domain.dim))  # as far as any in l1 too
        return np.stack([point, -point])
    if isinstance(domain, RegressionReport):
        x, y = _unit_rows(domain.features, intercept=isinstance(domain, InterceptReport))
        arms = np.zeros(len(y), dtype=np.int64)
        packed = domain.pack(x, domain.reward_bound * y, arms)
        farthest = int(np.argmax(np.linalg.norm(packed - packed[0], axis=-1)))  # by symmetry from the first angle
        return np.stack([packed[0], packed[farthest]])
    return np.stack([domain.upper, domain.lower])


def _unit_rows(features: int, *, intercept: bool) -> tuple[Floats, Floats]:
    """Return unit features at all angles with rewards 1 and -1: (n, d) and (n,)."""
    slopes = features - 1 if intercept else features
    turns = np.linspace(0, math.pi, _ANGLES) if slopes > 1 else np.array([0.0, math.pi])
    x = np.zeros((len(turns), features))
    x[:, 0] = np.cos(turns)
    if slopes > 1:
        x[:, 1] = np.sin(turns)
    if intercept:
        x[:, -1] = 1.0
    return np.concatenate([x, x]), np.repeat([1.0, -1.0], len(x))


def find_farthest_rows(
    policy: Policy[Any], queries: list[SumQuery], row: PlayedRounds, *, private: bool
) -> tuple[PlayedRounds, PlayedRounds]:
    """Return two rows of one user whose reports to these queries are as far apart as can be found.

    Rewards take both ends of the clipping range; features, if `private`, all angles in a plane and 0. Distances are in
    units of each query's sensitivity.
    """
    rows = _candidate_rows(policy, row, private=private)
    count = rows.rewards.shape[0]
    squares = np.zeros((count, count))
    for query in queries:
        mine = row.arms if query.arm is not None else None
        if mine is not None and int(mine[0]) != query.arm:
            continue
        values = (
            policy.report(query, rows, NoRandomness()).values.reshape(count, -1) / query.protocol.domain.sensitivity
        )
        norms = np.sum(values * values, axis=-1)
        squares += np.maximum(norms[:, None] + norms[None] - 2 * values @ values.T, 0.0)
    if not private and rows.features is not None:
        same = np.all(rows.features[:, None] == rows.features[None], axis=-1)
        squares = np.where(same, squares, -1.0)
    rewards = rows.rewards.reshape(count, -1)[:, 0]
    squares *= np.where(rewards[:, None] != rewards[None], 1 + 1e-9, 1.0)  # of equals, those that differ in all
    one, two = np.unravel_index(np.argmax(squares), squares.shape)
    return rows.at(slice(int(one), int(one) + 1)), rows.at(slice(int(two), int(two) + 1))


def _candidate_rows(policy: Policy[Any], row: PlayedRounds, *, private: bool) -> PlayedRounds:
    if row.rewards.ndim == 2:  # averages of a client over all arms of an episode
        high = np.full_like(row.rewards[0], FAR_REWARD)
        return PlayedRounds(rewards=np.stack([high, -high]))
    features = row.features
    if features is None or not private:
        tiled = None if features is None else np.repeat(_lengthen_features(policy, features), 2, axis=0)
        arms = None if row.arms is None else np.repeat(row.arms, 2)
        return replace(
            row, rewards=np.array([FAR_REWARD, -FAR_REWARD]), features=tiled, arms=arms, groups=None, answered=None
        )
    x, y = _unit_rows(features.shape[-1], intercept=bool(getattr(policy, "intercept", False)))
    x = np.concatenate([x, np.zeros_like(x[:1])])
    y = np.append(FAR_REWARD * y, 0.0)
    arms = None if row.arms is None else np.repeat(row.arms, len(y))
    if arms is not None and not getattr(policy, "dim", 0):  # arms with models of their own: the neighbour has another
        arms[len(arms) // 2 :] = (arms[0] + 1) % max(int(getattr(policy, "n_arms", 1)), 1)
    groups = None if row.groups is None else np.repeat(row.groups, len(y))
    return PlayedRounds(rewards=y, features=x, arms=arms, groups=groups)


def _lengthen_features(policy: Policy[Any], features: Floats) -> Floats:
    """Make public features as long as allowed."""
    if getattr(policy, "intercept", False):
        slopes = np.zeros_like(features)
        slopes[..., 0], slopes[..., -1] = 1.0, 1.0
        return slopes
    length = float(np.linalg.norm(features))
    return features / length if length > 0 else features


# Recorded noise


N_SOURCES = 16  # noise sources that are compared, until one differs
_LARGE = 32.0  # times the usual noise: nearly all outcomes are rare ones

NoiseMoves = list[tuple[Floats, float]]  # by how much a value moves, and the std or scale of its noise


class RecordingScales(FastNoise):
    """Noise of another source, with its scales recorded."""

    def __init__(self, source: FastNoise) -> None:
        super().__init__(source._rng)
        self.scales: list[tuple[str, float]] = []

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        self.scales.append(("gaussian", std))
        return super().gaussian(value, std=std, grid=grid)

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        self.scales.append(("laplace", scale))
        return super().laplace(value, scale=scale, grid=grid)


class RecordingNoise(RecordingScales):
    """Noise of another source, with the noised values recorded, or weighed as they are released.

    The separation of the neighbours is exact: if all noise is Gaussian,

        mu^2 = sum over noised values of |value under P - value under Q|^2 / std^2;

    if all is Laplace, the largest loss is sum |value under P - value under Q|_1 / scale.

    Parameters
    ----------
    weights
        Weights of the released values in the score, a likelihood ratio of Gaussians; None to record.
    forced
        Released values of another run, which come out again.
    times
        The factor by which Gaussian noise is larger.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        weights: Sequence[Floats] | None = None,
        forced: Sequence[Floats] | None = None,
        times: float = 1.0,
    ) -> None:
        super().__init__(FastNoise(rng))
        self.times = times  # Gaussian noise is so many times as large
        self.released: list[Floats] = []
        self._forced = iter(forced or ())
        self.gaussians: NoiseMoves = []
        self.laplaces: NoiseMoves = []
        self.others = 0  # draws of any other kind
        self.score: Any = 0.0
        self._weights = None if weights is None else iter(weights)

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        released = super().gaussian(value, std=self.times * std, grid=grid)
        if self._weights is None:
            released = next(self._forced, released)
            self.gaussians.append((np.array(value, dtype=float), std))
            self.released.append(released)
        else:
            weight = next(self._weights)
            self.score = self.score + np.sum(released * weight, axis=tuple(range(-weight.ndim, 0)))
        return released

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        self.laplaces.append((np.array(value, dtype=float), scale))
        return super().laplace(value, scale=scale, grid=grid)


def _count_draws(name: str) -> Callable[..., Any]:
    def draw(self: RecordingNoise, *arguments: Any, **named: Any) -> Any:
        self.others += 1
        return getattr(super(RecordingNoise, self), name)(*arguments, **named)

    return draw


for _name in ("discrete_gaussian", "discrete_laplace", "binomial", "coins", "uniform"):
    setattr(RecordingNoise, _name, _count_draws(_name))


def measure_moves(run: Callable[[bool, RecordingNoise], object]) -> tuple[NoiseMoves, NoiseMoves] | None:
    """Return values of `run(swapped, spy)` with Gaussian and with Laplace noise, and the neighbour's moves of both.

    None if other noise or none is drawn, or if its scale differs for the neighbour.
    """
    one, two = (RecordingNoise(np.random.default_rng(0)) for _ in range(2))
    for swapped, spy in ((False, one), (True, two)):
        run(swapped, spy)
    drawn = [(one.gaussians, two.gaussians), (one.laplaces, two.laplaces)]
    if one.others or two.others or not any(a for a, _ in drawn) or one.scales != two.scales:
        return None
    gaussians, laplaces = ([(x - y, scale) for (x, scale), (y, _) in zip(a, b, strict=True)] for a, b in drawn)
    return gaussians, laplaces


def has_uneven_scales(run: Callable[[bool, RecordingNoise], object]) -> bool:
    """Return whether the scales of Gaussian or Laplace noise differ between the neighbours."""
    one, two = (RecordingNoise(np.random.default_rng(0)) for _ in range(2))
    run(False, one)
    run(True, two)
    return one.scales != two.scales


def bypasses_noise(shown: Callable[[bool, RecordingNoise], object]) -> bool:
    """Return whether the output differs between the neighbours although all noised values come out the same.

    Much larger noise is tried too, for rare outcomes.
    """
    for times in (1.0, _LARGE):
        one = RecordingNoise(np.random.default_rng(0), times=times)
        first = shown(False, one)
        second = shown(True, RecordingNoise(np.random.default_rng(0), forced=one.released))
        if first_difference(first, second) is not None:
            return True
    return False


class _ExtremeNoise(FastNoise):
    """A source of uniform numbers near 0 or near 1, which brings out rare lies."""

    def __init__(self, rng: np.random.Generator, *, high: bool) -> None:
        super().__init__(rng)
        self.high = high

    def uniform(self, size: Size) -> NDArray[np.float64]:
        near = super().uniform(size) * 2.0**-20
        return np.asarray(1 - 2.0**-53 - near if self.high else near)

    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        """Draw as usual, because rejection by uniform numbers would never end."""
        return FastNoise(self._rng).discrete_gaussian(std=std, size=size)


def ignores_source(shown: Callable[[FastNoise], object]) -> bool:
    """Return whether a few noise sources, extreme ones included, give the same output."""
    first, *others = (np.random.default_rng([1, each]) for each in range(N_SOURCES))
    before = list(take_apart(shown(FastNoise(first))))
    extremes = (_ExtremeNoise(np.random.default_rng([1, N_SOURCES]), high=high) for high in (False, True))
    return all(list(take_apart(shown(each))) == before for each in (*map(FastNoise, others), *extremes))


def repeats_noise(shown: Callable[[FastNoise], object]) -> bool:
    """Return whether a second release of the same data equals the first."""
    sources = (FastNoise(np.random.default_rng([3, each])) for each in range(N_SOURCES))
    return all(list(take_apart(shown(each))) == list(take_apart(shown(each))) for each in sources)


# Scripts of releases


_NUMBERS = 2_000_000  # that are held at once
_SINGLE = 256  # runs that are made one by one, in a block
SURE = 0.95  # confidence that what all sources, or replays, show has a probability above delta
CLEAR = "a statistic of the user is released without noise"
REUSED = "two releases have the same noise: their difference is known without noise"


def fields_beside_total(estimates: list[Estimate]) -> list[ValueLeaf]:
    """Return every field of estimates but their totals."""
    found = [leaf for each in estimates for leaf in take_apart(each)]
    return [(path, token) for path, token in found if not path.startswith(".total")]


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasePair:
    """One batch, or a stream's steps, under both neighbours: statistics (users, dim) per step."""

    protocol: Protocol
    one: tuple[Floats, ...]
    two: tuple[Floats, ...]

    def __post_init__(self) -> None:
        if self.protocol.trust == "local":  # the server sees every report: that of the user alone
            moved = [self._moved(step) for step in range(len(self.one))]
            for name, own in (("one", self.one), ("two", self.two)):
                object.__setattr__(self, name, tuple(each[mine] for each, mine in zip(own, moved, strict=True)))
        elif isinstance(self.protocol, ShuffleGaussian):  # a different report is seen best among equal ones
            mine = self._moved(0)[:, None]
            other = self.two[0][mine[:, 0]][:1]  # of all others
            for name, batch in (("one", self.one[0]), ("two", self.two[0])):
                object.__setattr__(self, name, (np.where(mine, batch, other),))

    def _moved(self, step: int) -> NDArray[np.bool_]:
        moved = np.any(self.one[step] != self.two[step], axis=-1)
        return np.asarray(moved if moved.any() else np.arange(len(moved)) == 0)

    @cached_property
    def move(self) -> Floats:
        """The user's farthest move of the sum at any step, (dim,)."""
        moves = [one.sum(axis=0) - two.sum(axis=0) for one, two in zip(self.one, self.two, strict=True)]
        return np.asarray(max(moves, key=lambda each: float(np.sum(each * each))))

    @property
    def size(self) -> int:
        return max(each.size for each in self.one) * (1 if isinstance(self.protocol, BatchProtocol) else 2)

    def estimates(self, swapped: bool, source: FastNoise, replicates: tuple[int, ...]) -> list[Estimate]:
        steps = self.two if swapped else self.one
        if isinstance(self.protocol, BatchProtocol):
            return [self.protocol.release(self._statistic(step, replicates), source) for step in steps]
        assert isinstance(self.protocol, StreamProtocol)
        state, estimates = self.protocol.begin(replicates), []
        for step in steps:
            state, estimate = self.protocol.release(state, self._statistic(step, replicates), source)
            estimates.append(estimate)
        return estimates

    def totals(self, swapped: bool, source: FastNoise, replicates: tuple[int, ...]) -> list[Floats]:
        return [each.total for each in self.estimates(swapped, source, replicates)]

    def _statistic(self, values: Floats, replicates: tuple[int, ...]) -> Statistic:
        repeated = np.array(np.broadcast_to(values, (*replicates, *values.shape)))
        return self.protocol.domain.sealed(repeated, clipped=np.zeros(replicates, dtype=np.int64))

    @property
    def clear(self) -> bool:
        """Whether the user's statistic is released without noise."""
        moved = any(not np.array_equal(one, two) for one, two in zip(self.one, self.two, strict=True))
        return moved and isinstance(self.protocol.event, ClearEvent)

    @cached_property
    def moves(self) -> NoiseMoves | None:
        """The values with Gaussian noise and their moves; None if something else must be sampled."""
        return None if self.alone else self._noise_moves

    @cached_property
    def _noise_moves(self) -> NoiseMoves | None:
        if isinstance(self.protocol, ShuffleGaussian):
            return None
        found = measure_moves(lambda swapped, spy: self.totals(swapped, spy, ()))
        return None if found is None or found[1] else found[0]

    @cached_property
    def beside(self) -> bool:
        """Whether the output shows something beside the noised values, so that samples of all of it must decide.

        With Gaussian noise: a difference although all noised values are the same. With other noise: differing fields
        beside the total.
        """
        return bool(self._differing) if self._noise_moves is None else bypasses_noise(self._shown)

    @cached_property
    def fixed(self) -> bool:
        """Whether other noise sources give the same estimates: noise that is the same in all runs hides nothing.

        Answers of a few bits, which may agree by chance, are sampled instead.
        """
        return ignores_source(lambda source: self.estimates(False, source, ()))

    @property
    def alone(self) -> bool:
        """Whether every run is made by itself, and all fields of its output are attacked."""
        return self.beside or self.fixed or self.uneven

    @cached_property
    def uneven(self) -> bool:
        """Whether the scale of the noise depends on the user."""
        return has_uneven_scales(lambda swapped, spy: self.estimates(swapped, spy, ()))

    @cached_property
    def reused(self) -> bool:
        """Whether a trusted server adds the same noise to several releases, whose difference then has none."""
        batch = self.protocol.trust == "central" and isinstance(self.protocol, BatchProtocol)
        return batch and repeats_noise(lambda source: self.totals(False, source, ()))

    @cached_property
    def in_order(self) -> bool:
        """Whether a shuffler forwards reports in the order of arrival."""
        if not isinstance(self.protocol, ShuffleGaussian):
            return False
        sent = self.protocol.device.message(self._statistic(self.one[0], ()), FastNoise(np.random.default_rng(0)))
        mixer = self.protocol.mixer
        there, back = (np.array(mixer.close(mixer.add(mixer.empty(()), each)).numbers) for each in (sent, sent[::-1]))
        return bool(np.array_equal(there, back[::-1]))

    def _shown(self, swapped: bool, source: FastNoise) -> list[Any]:
        return [self.estimates(swapped, source, ()), self._messages(swapped, source) if self._local else []]

    @property
    def _local(self) -> bool:
        return self.protocol.trust == "local" and isinstance(self.protocol, BatchProtocol)

    def _messages(self, swapped: bool, source: FastNoise) -> list[Any]:
        steps = self.two if swapped else self.one
        return list(list_arrays([self.protocol.device.message(self._statistic(step, ()), source) for step in steps]))

    @cached_property
    def _differs_by_messages(self) -> bool:
        return self._local and self.beside and not bypasses_noise(lambda swapped, spy: self.estimates(swapped, spy, ()))

    @cached_property
    def _differing(self) -> list[int]:
        """The indices of numbers beside the totals that differ with the same noise."""
        one, two = (
            numbers_from_leaves(fields_beside_total(self.estimates(swapped, FastNoise(np.random.default_rng(0)), ())))
            for swapped in (False, True)
        )
        same = min(len(one), len(two))
        return [place for place in range(same) if one[place] != two[place]] + list(range(same, len(one)))

    def _single(self, swapped: bool, source: FastNoise) -> Floats:
        """Return one run's totals along the move and other fields that differ, or messages."""
        if self._differs_by_messages:
            return np.concatenate([np.ravel(each @ self.move) for each in self._messages(swapped, source)])
        estimates = self.estimates(swapped, source, ())
        fields = numbers_from_leaves(fields_beside_total(estimates))
        columns = [float(np.sum(np.asarray(each.total) * self.move)) for each in estimates]
        return np.asarray(columns + [fields[place] if place < len(fields) else 0.0 for place in self._differing])

    @cached_property
    def pairs(self) -> list[LawPair] | None:
        """The exact laws of the release's independent parts; None if not known."""
        if self.moves is not None:
            return [exact.gaussian_pair(exact.separation(self.moves))]
        if self.in_order:
            assert isinstance(self.protocol, ShuffleGaussian)
            return [exact.gaussian_pair(float(np.linalg.norm(self.move)) / self.protocol.noise_std)]
        if isinstance(self.protocol, ShuffleGaussian):
            return shuffle_gaussian_pairs(self.protocol, self.one[0], self.two[0])
        if self.protocol.trust == "local":
            return message_pairs(self.protocol, np.concatenate(self.one), np.concatenate(self.two))
        return count_pairs(self.protocol, np.concatenate(self.one), np.concatenate(self.two))

    @cached_property
    def pure(self) -> float | None:
        """The largest Laplace loss, |move|_1 / scale, in steps of its lattice; None for other noise."""
        if not isinstance(self.protocol, BatchProtocol) or self.protocol.laplace is None:
            return None
        scale, step = self.protocol.laplace
        one, two = (self.totals(swapped, FastNoise(np.random.default_rng(0)), ())[0] for swapped in (False, True))
        return float(np.sum(np.abs(np.rint((one - two) / step)))) / scale  # the same noise in both

    def draw(self, swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        """Return numbers that distinguish the neighbours, (runs, k)."""
        if self.alone:
            return np.stack([self._single(swapped, FastNoise(each)) for each in rng.spawn(runs)])
        if isinstance(self.protocol, ShuffleGaussian):
            return self._shuffled(swapped, runs, rng)
        if self.moves is not None:
            spy = RecordingNoise(rng, weights=[move / std**2 for move, std in self.moves])
            self.totals(swapped, spy, (runs,))
            return np.asarray(spy.score)[:, None]
        if isinstance(self.protocol, BatchProtocol):
            (total,) = self.totals(swapped, FastNoise(rng), (runs,))
            return np.asarray(total @ self.move / self.protocol.std(len(self.one[0])) ** 2)[:, None]
        views = self._views(swapped, FastNoise(rng), (runs,))
        return np.array([views[place] @ self.move for place in self._places]).reshape(-1, runs).T

    def _views(self, swapped: bool, source: FastNoise, replicates: tuple[int, ...]) -> list[Floats]:
        """Return all sums that shufflers forward to a stream's analyzer, (*R, dim) each."""
        protocol, views = self.protocol, list[Floats]()
        assert isinstance(protocol, StreamProtocol)
        held, _ = protocol.parted(protocol.begin(replicates))
        shape = (*replicates, protocol.domain.dim)
        for step in self.two if swapped else self.one:
            messages = protocol.device.message(self._statistic(step, replicates), source)
            for portion in protocol.mixer.split_portions(held, messages):
                held = protocol.mixer.drawn(protocol.mixer.add(held, portion), source)
                views += [each for each in list_arrays(protocol.mixer.close(held)) if each.shape == shape]
                held = protocol.mixer.forget(held)
        return views

    @cached_property
    def _places(self) -> list[int]:
        one, two = (self._views(swapped, FastNoise(np.random.default_rng(0)), ()) for swapped in (False, True))
        return [place for place, (a, b) in enumerate(zip(one, two, strict=True)) if not np.array_equal(a, b)]

    def _shuffled(self, swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        """Score the shuffled view by the likelihood of the user's report in it."""
        protocol, source = self.protocol, FastNoise(rng)
        assert isinstance(protocol, ShuffleGaussian)
        sent = protocol.device.message(self._statistic((self.two if swapped else self.one)[0], (runs,)), source)
        mixer = protocol.mixer
        reports = mixer.close(mixer.add(mixer.empty((runs,)), sent)).numbers  # (runs, users, dim)
        return np.asarray(special.logsumexp(reports @ self.move / protocol.noise_std**2, axis=-1))[:, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseScript:
    """All releases that hold the canary, to run under either neighbour."""

    releases: tuple[ReleasePair, ...]

    @property
    def event(self) -> Event:
        return CompositionEvent(events=tuple(each.protocol.event for each in self.releases))

    @cached_property
    def bare(self) -> tuple[str, float] | None:
        """The reason why no noise hides the user, with its confidence; None if noise does."""
        if any(each.clear for each in self.releases):
            return CLEAR, 1.0
        return (REUSED, SURE) if any(each.reused for each in self.releases) else None

    @cached_property
    def mu(self) -> float | None:
        """The exact separation where all noise is Gaussian, else None."""
        moves = [each.moves for each in self.releases]
        if not moves or any(each is None for each in moves):
            return None
        return exact.separation([pair for each in moves if each is not None for pair in each])

    @cached_property
    def pairs(self) -> tuple[LawPair, ...]:
        """The exact laws of all parts; empty if one of them is not known."""
        parts = [each.pairs for each in self.releases]
        return () if any(each is None for each in parts) else tuple(pair for each in parts for pair in each or ())

    @cached_property
    def pure(self) -> float | None:
        """The exact pure loss where all noise is Laplace, else None."""
        losses = [each.pure for each in self.releases]
        return None if not losses or any(each is None for each in losses) else float(sum(filter(None, losses)))

    @property
    def chunk(self) -> int:
        if self.alone:
            return _SINGLE
        return max(64, min(20_000, _NUMBERS // max(1, max(each.size for each in self.releases))))

    @cached_property
    def alone(self) -> bool:
        return any(each.alone for each in self.releases)

    @cached_property
    def scored(self) -> bool:
        """Whether each number is about a log-likelihood ratio, so that their sum scores best."""
        return all(
            each.moves is not None or (isinstance(each.protocol, BatchProtocol) and not each.alone)
            for each in self.releases
        )

    def draw(self, swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        """Draw the view of all releases, (runs, k)."""
        seen = np.concatenate([each.draw(swapped, runs, rng) for each in self.releases], axis=-1)
        return np.asarray(seen.sum(axis=-1, keepdims=True)) if self.scored else seen
