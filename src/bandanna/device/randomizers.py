"""Randomizers: what devices send as noisy vectors, counts, bits, signs or directions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.device.action_selection import ActionSelector, AssignedSelector, OptimisticSelector, ThompsonSelector
from bandanna.device.base import Device, Messages, to_plain_value
from bandanna.device.domain import Ball, Bits, Box, Domain, SymmetricMatrix
from bandanna.device.linear_report import InterceptReport, LinearReport, PerArmReport
from bandanna.device.noise import NoiseSource, round_to_grid
from bandanna.device.statistics import (
    PublicStatistic,
    RegressionStatistic,
    ReportStatistic,
    RewardStatistic,
    WeightedStatistic,
)
from bandanna.device.weighted_report import DoublyRobustDomain, ImportanceWeightDomain
from bandanna.errors import InvalidArgument
from bandanna.numeric import exact_sums
from bandanna.storage.encoding import find_stored_name, index_by_stored_name, stored_as
from bandanna.types import Bools, Floats, Ints

# Fixed-point encoding


def encode_on_lattice(values: Floats, scale: float, domain: Domain, source: NoiseSource) -> Ints:
    """Return floor(s (x - lower)) plus a coin of the rest: unbiased, in {0, ..., ceil(s (upper - lower))}."""
    rest = np.asarray(values - domain.lower)  # (..., users, dim)
    np.maximum(rest, 0.0, out=rest)
    rest *= scale
    whole = np.floor(rest)
    rest -= whole
    whole += source.uniform(values.shape) < rest
    return np.minimum(whole, compute_largest_counts(scale, domain), out=whole).astype(np.int64)


def compute_largest_counts(scale: float | Floats, domain: Domain) -> Floats:
    """Return the largest encoded value of each coordinate, before noise; for scales (k, 1), (k, dim)."""
    return np.asarray(np.ceil(scale * (domain.upper - domain.lower) * (1 - 1e-12)))


# Counts, bits and signs


@stored_as("Counts")
@dataclass(frozen=True, kw_only=True)
class BinomialCounts(Device):
    """Sends one count per coordinate, with b = `trials` coins and s = `scale` lattice steps to the unit.

        count = floor(s (x - lower)) + coin(rest) + Bin(b, p)

    Privacy: a message alone has only the noise of one user. The totals of a batch are priced (`shuffle_binomial`).

    Parameters
    ----------
    domain
        Public set of the statistics.
    scale
        Lattice steps to a unit; fewer steps round more.
    trials, probability
        Coins of a user in each coordinate, and the chance of heads. More coins give more noise and privacy.
    """

    scale: float
    trials: int
    probability: float = 0.5

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.positive, "scale")
        validation.set_validated(self, validation.integer, "trials")
        validation.set_validated(self, validation.open_probability, "probability")

    def encode(self, values: Floats, source: NoiseSource) -> Ints:
        coins = source.binomial(trials=self.trials, probability=self.probability, size=values.shape)
        return np.asarray(encode_on_lattice(values, self.scale, self.domain, source) + coins)


@stored_as("Rounded")
@dataclass(frozen=True, kw_only=True)
class RoundedCounts(Device):
    """Sends one count per coordinate without coins, floor(s (x - lower)) + coin(rest), to a mixer that draws the noise.

    Privacy: none against the mixer. The totals that it forwards are priced. Bits are sent in `scale` whole copies.

    Parameters
    ----------
    domain
        Public set of the statistics.
    scale
        Lattice steps to a unit of the statistic; fewer steps round more.
    """

    scale: float

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.positive, "scale")

    def encode(self, values: Floats, source: NoiseSource) -> Ints:
        return encode_on_lattice(values, self.scale, self.domain, source)


@stored_as("Copies")
@dataclass(frozen=True, kw_only=True)
class RepeatedBits(Device):
    """Sends the number of ones among c `copies` of a bit and b = `trials` fair bits: count = c x + Bin(b, 1/2).

    Privacy: a message alone has only the noise of one user. The total of a batch is priced exactly (`shuffle_bits`).

    Parameters
    ----------
    domain
        `Bits()`.
    copies
        Number c by which a bit shifts the total.
    trials
        Fair bits of each user; more of them give more noise and privacy.
    """

    domain: Bits = Bits()
    copies: int
    trials: int

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "copies", "trials")

    def encode(self, values: Floats, source: NoiseSource) -> Ints:
        coins = source.binomial(trials=self.trials, probability=0.5, size=values.shape)
        return np.asarray(self.copies * values.astype(np.int64) + coins)


@stored_as("Answer")
@dataclass(frozen=True, kw_only=True)
class RandomizedBit(Device):
    """Randomized response: sends the bit itself, or a false one with probability `lie`.

    Privacy: pure, epsilon = log((1 - lie) / lie) for each answer, against everybody (`RandomizedResponse`).

    Parameters
    ----------
    domain
        `Bits()`.
    lie
        Probability of a false answer, in (0, 1); 1/2 reveals nothing.
    """

    domain: Bits = Bits()
    lie: float

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.open_probability, "lie")

    def encode(self, values: Floats, source: NoiseSource) -> Ints:
        return draw_randomized_bits(values, self.lie, source).astype(np.int64)


@stored_as("Sign")
@dataclass(frozen=True, kw_only=True)
class RandomizedSign(Device):
    """Randomized response about the sign of a public vector: sends the vector, or its negative with probability `lie`.

    Privacy: pure, epsilon = log((1 - lie) / lie) for the sign; none for the line on which the vector lies.

    Parameters
    ----------
    domain
        Ball of the public vectors.
    lie
        Probability of the negative vector, in (0, 1); 1/2 hides the sign completely.
    """

    domain: Ball
    lie: float

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.open_probability, "lie")

    def encode(self, values: Floats, source: NoiseSource) -> Messages:
        sent = exact_sums.convert_to_steps(values, self.domain.reach) if source.secure else values
        lies = draw_randomized_bits(np.zeros((*values.shape[:-1], 1)), self.lie, source)
        return np.where(lies, -sent, sent)


def probability_of_one(value: Floats, lie: float) -> Floats:
    """Return P(answer = 1 | x) = lie + (1 - 2 lie) x, never outside of [lie, 1 - lie]."""
    return np.minimum(np.maximum(lie + (1 - 2 * lie) * value, lie), 1 - lie)


def draw_randomized_bits(value: Floats, lie: float, source: NoiseSource) -> Bools:
    """Draw one coin for every number in [0, 1], for rounding and lying at once."""
    return np.asarray(source.uniform(value.shape) < probability_of_one(value, lie))


# Several shufflers


@stored_as("Levels")
@dataclass(frozen=True, kw_only=True)
class LevelRandomizers(Device):
    """Sends the messages of `levels` devices about one statistic, with fresh rounding and fresh coins for each.

    Every level draws from its own named stream, so users and batches give the same integers.

    Parameters
    ----------
    domain
        Public set of the statistics.
    levels
        Devices of one domain, whose messages are joined in this order. Each message is a release of its own.
    """

    levels: tuple[Device, ...]

    def encode(self, values: Floats, source: NoiseSource) -> Messages:
        blocks = [level.encode(values, level_source(source, number)) for number, level in enumerate(self.levels)]
        return np.concatenate(blocks, axis=-1)


def level_source(source: NoiseSource, level: int) -> NoiseSource:
    """Return the source from which the device of one level (from 0) draws."""
    return source.named(f"level {level + 1}")


# Reports on a public grid


@stored_as("Plain")
@dataclass(frozen=True, kw_only=True)
class PlainVector(Device):
    """Sends the statistic itself, to a server that is trusted with it.

    Privacy: none against the receiver. It is sent in steps of `finest_step(reach)` from the domain's public origin.

    Parameters
    ----------
    domain
        Public set of the statistics; its origin and reach fix the step.
    """

    def encode(self, values: Floats, source: NoiseSource) -> Messages:
        if not source.secure:
            return values
        return exact_sums.convert_to_steps(values - self.domain.origin, self.domain.reach)


@stored_as("Noisy")
@dataclass(frozen=True, kw_only=True)
class NoisyVector(Device):
    """Sends x + N(0, std^2 I), relative to the domain's public origin.

        steps = round((x - origin) / grid) + discrete Gaussian(std / grid)                  (secure source)

    Privacy: each report is Gaussian DP by itself, mu = Delta_2 / std and the grid's price (`GaussianMechanism`).

    Parameters
    ----------
    domain
        Public set of the statistics.
    std
        Standard deviation of a coordinate's noise, in the statistic's units; a larger one is more private.
    grid
        Step of the released values, in the same units.
    """

    std: float
    grid: float

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.positive, "std", "grid")

    def encode(self, values: Floats, source: NoiseSource) -> Messages:
        centred = values - self.domain.origin
        if not source.secure:
            return np.asarray(source.gaussian(centred, std=self.std, grid=self.grid) + self.domain.origin)
        return source.gaussian_steps(round_to_grid(centred, self.grid), std=self.std, grid=self.grid)


# Directions


CAP_STEPS = 2**22  # of a candidate's coordinate to a standard deviation, at most
CAP_COORDINATES = 2**13  # so that squared lengths are 64-bit integers
CAP_CANDIDATES = 2**16
_AIM_STEPS = 2.0**28  # steps of the direction that is aimed at
_RAREST = 2.0**-64  # probability beyond which a pair of Gaussians is cut
LARGEST_NORMAL = math.sqrt(-2 * math.log(_RAREST))  # standard deviations: no coordinate of a candidate is larger
_AT_ONCE = 2**20  # random numbers held at a time


@stored_as("Direction")
@dataclass(frozen=True, kw_only=True)
class CapRandomizer(Device):
    """Sends a direction that leans towards the statistic: the first of N `candidates` inside its cap, or the first
    outside.

        w = (x - centre) / radius,    u0 = w/|w| with probability (1 + |w|)/2, else -w/|w|      (unbiased: E u0 = w)
        message = the first g of g_1, ..., g_N with [<g, u0> >= cosine |g|] = [coin < chance]; g_1 if there is none

    Candidates are Gaussian vectors in whole steps, `steps` to a standard deviation, drawn independently of the data.
    The choice among them depends on integers alone: <g, a> and |g|^2, exact, for a = round(2^28 u0).

    Privacy: pure, against everybody (`mechanisms.noise.PrivUnit`). The numbers of random words, operations and bytes
    are the same for every statistic and outcome, so running times reveal nothing.

    Parameters
    ----------
    domain
        Public set of 2 coordinates or more, inside a ball.
    cosine, chance
        Edge of the cap, and the probability to prefer its inside, in [0, 1].
    candidates, steps
        Number N, and steps to a standard deviation.
    """

    cosine: float
    chance: float
    candidates: int
    steps: int = CAP_STEPS

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.unit_interval, "cosine", "chance")
        validation.set_validated(self, validation.integer, "candidates", most=CAP_CANDIDATES)
        validation.set_validated(self, validation.integer, "steps", most=CAP_STEPS)
        check_direction_dim(self.domain.dim)

    def encode(self, values: Floats, source: NoiseSource) -> Ints:
        centre, radius = self.domain.ball
        pairs = (self.domain.dim + 1) // 2
        numbers = 3 + 3 * self.candidates * pairs
        block = max(1, _AT_ONCE // (numbers * max(1, math.prod(values.shape[:-2]))))
        sent = [np.zeros((*values.shape[:-2], 0, self.domain.dim), dtype=np.int64)]
        for begin in range(0, values.shape[-2], block):
            inside = (values[..., begin : begin + block, :] - centre) / radius
            drawn = source.uniform((*inside.shape[:-1], numbers))
            sent.append(self._send(inside, drawn))
        return np.concatenate(sent, axis=-2)

    def _send(self, inside: Floats, drawn: Floats) -> Ints:
        count, aims = self.candidates, round_to_sphere(inside, drawn[..., 0])
        words = drawn[..., 3:].reshape(*aims.shape[:-1], count, 3, (self.domain.dim + 1) // 2)
        found = make_candidates(words, self.steps)[..., : self.domain.dim]  # (..., users, N, dim)
        fits = is_in_cap(found, aims, self.cosine) == (drawn[..., 1] < self.chance)[..., None]
        begin = np.floor(drawn[..., 2] * count).astype(np.int64)
        order = (np.arange(count) - begin[..., None]) % count
        place = np.min(np.where(fits, order, count), axis=-1)  # argmax would stop at the first: time would tell
        place = (place % count + begin) % count
        return np.asarray(np.take_along_axis(found, place[..., None, None], axis=-2)[..., 0, :])


def round_to_sphere(inside: Floats, rounding: Floats) -> Ints:
    """Round points of the unit ball to its sphere at random, in steps of 2^-28: (..., dim) -> (..., dim)."""
    units, lengths = split_length(inside)
    signs = np.where(rounding < (1 + np.minimum(lengths, 1.0)) / 2, _AIM_STEPS, -_AIM_STEPS)
    return np.asarray(np.rint(units * signs[..., None]), dtype=np.int64)


def split_length(inside: Floats) -> tuple[Floats, Floats]:
    """Return unit vectors and lengths, (..., dim) and (...); for 0 the first axis, which is public."""
    peaks = np.max(np.abs(inside), axis=-1, keepdims=True)
    units = np.divide(inside, peaks, out=np.zeros_like(inside), where=peaks > 0)
    units[..., 0] = np.where(peaks[..., 0] > 0, units[..., 0], 1.0)
    units = np.ascontiguousarray(units)
    norms = np.sqrt(np.einsum("...i,...i->...", units, units))
    return units / norms[..., None], peaks[..., 0] * norms


def make_candidates(words: Floats, steps: int) -> Ints:
    """Make Gaussian vectors in whole steps from uniform numbers (Box and Muller), (..., 3, pairs) -> (..., 2 pairs).

    Coordinates are within one step of an exact Gaussian's but for a probability of 2^-64 a pair (proofs.md D.3).
    """
    first, more, turn = (np.ascontiguousarray(words[..., k, :]) for k in range(3))
    share = np.maximum(first + (1 - more) * 2.0**-53, _RAREST)  # in (0, 1]
    lengths, angles = np.sqrt(-2 * np.log(share)), 2 * math.pi * turn
    pairs = np.stack([lengths * np.cos(angles), lengths * np.sin(angles)], axis=-1)
    return np.asarray(np.rint(pairs * steps), dtype=np.int64).reshape(*first.shape[:-1], 2 * first.shape[-1])


def is_in_cap(found: Ints, aims: Ints, cosine: float) -> Bools:
    """Return whether <g, a> >= cosine |g| |a|: (..., N, dim) and (..., dim) -> (..., N).

    The result depends on integers alone: sums are exact in any order, the rest is four roundings of IEEE 754.
    """
    along = np.einsum("...ni,...i->...n", found, aims)
    squares = np.einsum("...ni,...ni->...n", found, found)
    bar = cosine * np.sqrt(np.einsum("...i,...i->...", aims, aims).astype(float))
    return np.asarray(along.astype(float) >= bar[..., None] * np.sqrt(squares.astype(float)))


def normalize_messages(messages: Ints) -> Floats:
    """Return the directions of messages, g/|g|: (..., dim) -> (..., dim); 0 for 0."""
    squares = np.einsum("...i,...i->...", messages, messages).astype(float)
    return np.asarray(messages / np.sqrt(np.maximum(squares, 1.0))[..., None])


def check_direction_dim(dim: Any) -> int:
    """Return the number of coordinates, if directions can be drawn for it."""
    if not 2 <= (number := validation.integer("dim", dim)) <= CAP_COORDINATES:
        raise InvalidArgument("dim", number, f"from 2 to {CAP_COORDINATES:,} coordinates for directions")
    return number


# Devices from plain values


_DOMAINS = (
    Ball,
    Box,
    Bits,
    LinearReport,
    InterceptReport,
    PerArmReport,
    SymmetricMatrix,
    ImportanceWeightDomain,
    DoublyRobustDomain,
)
_DEVICES = (
    PlainVector,
    NoisyVector,
    BinomialCounts,
    RoundedCounts,
    RepeatedBits,
    RandomizedBit,
    RandomizedSign,
    CapRandomizer,
    LevelRandomizers,
)
_SELECTORS = (ThompsonSelector, OptimisticSelector, AssignedSelector)
_STATISTICS = (RegressionStatistic, WeightedStatistic, PublicStatistic, RewardStatistic)
_KINDS = index_by_stored_name(*_DOMAINS, *_DEVICES, *_SELECTORS, *_STATISTICS)


def device_from_parameters(parameters: Mapping[str, Any]) -> Device:
    """Return the device with these `parameters`.

    Parameters
    ----------
    parameters
        Plain values as in `Device.parameters`: the kind, and exactly its fields. Others are refused.
    """
    made: Device = _one_of(_DEVICES, parameters)
    return made


def selector_from_parameters(parameters: Mapping[str, Any]) -> ActionSelector | AssignedSelector:
    """Return an action selector from plain values."""
    made: ActionSelector | AssignedSelector = _one_of(_SELECTORS, parameters)
    return made


def statistic_from_parameters(parameters: Mapping[str, Any]) -> ReportStatistic:
    """Return a report statistic from plain values."""
    made: ReportStatistic = _one_of(_STATISTICS, parameters)
    return made


def _one_of(kinds: tuple[type, ...], parameters: Mapping[str, Any]) -> Any:
    made = _build_value(parameters)
    if not isinstance(made, kinds):
        raise InvalidArgument(
            "parameters", _find_kind(parameters), f"one of {[find_stored_name(kind) for kind in kinds]}"
        )
    return made


def _find_kind(value: Any) -> Any:
    return value.get("kind") if isinstance(value, Mapping) else type(value).__name__


def _build_value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_build_value(part) for part in value)
    if not isinstance(value, Mapping):
        return value
    kind = _KINDS.get(str(value.get("kind")))
    if kind is None:
        raise InvalidArgument("kind", value.get("kind"), f"one of {sorted(_KINDS)}")
    names = {each.name for each in fields(kind) if each.init}
    if set(value) != {"kind", *names}:
        raise InvalidArgument("parameters", sorted(map(str, value)), f"kind, {', '.join(sorted(names))}")
    made = kind(**{name: _build_value(value[name]) for name in names})
    if to_plain_value(made) != dict(value):
        raise InvalidArgument("parameters", dict(value), f"those of a {find_stored_name(kind)}: {to_plain_value(made)}")
    return made
