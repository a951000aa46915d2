"""Exact attacks: divergences of laws that can be enumerated, and separations of Gaussian and Laplace noise.

    H(P, Q; epsilon) = sum_x (P(x) - e^epsilon Q(x))+        (hockey stick)

is the least delta at which P and Q are within epsilon. Independent releases are told apart by the sum of their losses,
rounded to a grid; as a function of the releases it gives a lower bound however coarse the grid is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import fft, integrate, signal, special, stats

from bandanna.device import randomizers
from bandanna.device.base import Device
from bandanna.device.randomizers import (
    BinomialCounts,
    CapRandomizer,
    RandomizedBit,
    RandomizedSign,
    RepeatedBits,
    RoundedCounts,
    probability_of_one,
    split_length,
)
from bandanna.numeric import search
from bandanna.privacy import prices
from bandanna.privacy.events import CapEvent
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.gaussian import ShuffleGaussian
from bandanna.protocols.mixers import CountingMixer
from bandanna.types import Floats, Ints

LawPair = tuple[Floats, Floats]  # two laws on one support

ROUNDING = 1e-10  # more than what rounding errors add to a probability here
_MAX_LOSS = 600.0
_LEAST = 1e-9
_STEP = 1 / 512  # of a loss
_LARGEST = 30.0  # loss; what is larger is as good as certain
_DIRECT = 2 * 10**7  # products, above which convolutions are by Fourier transforms
_RARE = 1e-16  # mass at either end that is gathered in one place
_FAR = 12.0  # standard deviations


def hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    """Return H(P, Q; epsilon) of two laws."""
    return float(np.maximum(p - math.exp(min(epsilon, 700.0)) * q, 0.0).sum())


def least_epsilon(p: Floats, q: Floats, delta: float) -> float:
    """Return the least epsilon at delta of two enumerated laws in both directions, or infinity."""

    def exceeds(epsilon: float) -> bool:
        return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) > delta

    if delta == 0.0:
        if np.any((p > 0) != (q > 0)):
            return math.inf
        possible = p > 0
        return float(np.max(np.abs(np.log(p[possible]) - np.log(q[possible])), initial=0.0))
    if not exceeds(_LEAST):
        return 0.0
    return math.inf if exceeds(_MAX_LOSS) else search.find_greatest(exceeds, _LEAST, _MAX_LOSS, relative=1e-12)


def best_tests(p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return powers and levels of the likelihood-ratio tests of P against Q."""
    p, q = (law[(p > 0) | (q > 0)] for law in (p, q))
    with np.errstate(divide="ignore"):
        order = np.argsort(np.log(q) - np.log(p), kind="stable")
    power, level = np.cumsum(p[order]), np.cumsum(q[order])
    return power / power[-1], level / level[-1]


def pure_loss(pairs: Sequence[LawPair]) -> float:
    """Return the largest loss of independent releases, in both directions."""
    return max(sum(_largest_loss(p, q) for p, q in pairs), sum(_largest_loss(q, p) for p, q in pairs), 0.0)


def _largest_loss(p: Floats, q: Floats) -> float:
    possible = p > 0
    if np.any(q[possible] == 0):
        return math.inf
    return float(np.max(np.log(p[possible]) - np.log(q[possible])))


def compose_pairs(pairs: Sequence[LawPair]) -> LawPair:
    """Return the laws of the sum of all losses on a grid, or one release's own."""
    if len(pairs) == 1:
        return pairs[0]
    total: LawPair = (np.ones(1), np.ones(1))
    for one in pairs:
        total = _gather_tails(*(_convolve(a, b) for a, b in zip(total, _loss_laws(*one), strict=True)))
    return total


def _loss_laws(p: Floats, q: Floats) -> LawPair:
    possible = (p > 0) | (q > 0)
    p, q = p[possible], q[possible]
    with np.errstate(divide="ignore"):
        losses = np.clip(np.log(p) - np.log(q), -_LARGEST, _LARGEST)
    places = np.rint(losses / _STEP).astype(np.int64)
    places -= places.min()
    one, two = (np.asarray(np.bincount(places, weights=law), dtype=float) for law in (p, q))
    return one, two


def _convolve(one: Floats, two: Floats) -> Floats:
    if one.size * two.size <= _DIRECT:
        return np.asarray(np.convolve(one, two))
    return np.asarray(np.maximum(signal.fftconvolve(one, two), 0.0))


def _gather_tails(p: Floats, q: Floats) -> LawPair:
    both = np.maximum(p, q)
    begin = int(np.searchsorted(np.cumsum(both), _RARE))
    end = len(both) - int(np.searchsorted(np.cumsum(both[::-1]), _RARE))
    if end - begin < 2:
        return p, q
    gathered = []
    for law in (p, q):
        cut = law[begin:end].copy()
        cut[0] += law[:begin].sum()
        cut[-1] += law[end:].sum()
        gathered.append(cut)
    return gathered[0], gathered[1]


def gaussian_pair(mu: float) -> LawPair:
    """Return N(mu, 1) and N(0, 1) in cells a step of the grid apart."""
    width = min(_STEP / mu, 0.01) if mu > 0 else 1.0
    edges = np.arange(-_FAR, _FAR + mu + width, width)
    below = [np.concatenate([[0.0], special.ndtr(edges - by), [1.0]]) for by in (mu, 0.0)]
    return np.diff(below[0]), np.diff(below[1])


def separation(moves: list[tuple[Floats, float]]) -> float:
    """Return mu of Gaussian releases: the root of sum |move|^2 / std^2."""
    return math.sqrt(math.fsum(float(np.sum(move * move)) / std**2 for move, std in moves))


def l1_loss(moves: list[tuple[Floats, float]]) -> float:
    """Return the largest loss of Laplace releases: sum |move|_1 / scale."""
    return math.fsum(float(np.sum(np.abs(move))) / scale for move, scale in moves)


# Shuffled Gaussian reports


_CELLS = 2**15  # K
_USERS = 1000
_BEYOND = 4.0  # times the sum at which the stated epsilon is reached


def shuffle_gaussian_pairs(protocol: ShuffleGaussian, one: Floats, two: Floats) -> list[LawPair] | None:
    """Return the exact laws of a nearly optimal statistic of n shuffled Gaussian reports, each (users, dim).

        T = min(sum_i floor(Z_i / h), K),     Z_i = exp(m (y_i - m/2) / std^2),

    where y_i is the report's coordinate on the line from one neighbour (at 0) to the other (at m). T ignores the order
    of the reports, and approximates the likelihood ratio with all others at the neighbour's mean; its law is a lower
    bound for any means. None where several users differ, or where the batch is too large.
    """
    moved = np.flatnonzero(np.any(one != two, axis=-1))
    users, epsilon = len(one), protocol.guarantee.epsilon
    if len(moved) != 1 or users > _USERS or not math.isfinite(epsilon):
        return None
    origin = two[moved[0]]
    line = one[moved[0]] - origin
    length = float(np.linalg.norm(line))
    places = (two - origin) @ (line / length)  # (users,): the user at 0
    step = _BEYOND * users * math.exp(min(epsilon, 50.0)) / _CELLS
    others = np.ones(_CELLS + 1)
    others[1:] = 0.0
    for place in np.delete(places, moved[0]):
        others = _convolve_capped(others, _cell_law(float(place), length, protocol.noise_std, step))
    laws = [_convolve_capped(others, _cell_law(mean, length, protocol.noise_std, step)) for mean in (length, 0.0)]
    return [(laws[0], laws[1])]


def _cell_law(mean: float, length: float, std: float, step: float) -> Floats:
    with np.errstate(divide="ignore"):
        logs = np.log(np.arange(_CELLS + 1) * step)
    edges = logs * std**2 / length + length / 2
    above = special.ndtr((mean - edges) / std)  # P(Z >= k h)
    above[0] = 1.0
    return np.asarray(above - np.append(above[1:], 0.0))


def _convolve_capped(one: Floats, two: Floats) -> Floats:
    """Return the law of a sum of independent numbers, capped at K."""
    size = fft.next_fast_len(2 * _CELLS + 1, real=True)
    whole = np.maximum(fft.irfft(fft.rfft(one, size) * fft.rfft(two, size), size)[: 2 * _CELLS + 1], 0.0)
    capped = whole[: _CELLS + 1].copy()
    capped[-1] += whole[_CELLS + 1 :].sum()
    return np.asarray(capped / capped.sum())


# Totals of shuffled counts


_COUNTS_FAR = 10.0  # standard deviations: what is farther away has a probability below 1e-22
_LONGEST = 4_000_000  # numbers of one total


def count_pairs(protocol: Protocol, one: Floats, two: Floats) -> list[LawPair] | None:
    """Return the exact laws of every total of shuffled counts that holds the user, under both neighbours.

    The arguments are all users' statistics, (users, dim). In each coordinate of each batch the server sees

        total = sum_i floor(s x_i) + sum_i coin(rest of s x_i) + Bin(n b, p)          (`BinomialCounts`)

    with independent coins. Lattice, coins and their source are those of the device and the mixer that run, not of the
    price. None for other releases.
    """
    pairs: list[LawPair] = []
    for device, mixer, mine, other in _changed_batches(protocol, one, two):
        found = _totals(device, mixer, mine, other)
        if found is None:
            return None
        pairs += found
    return pairs or None


def _changed_batches(protocol: Protocol, one: Floats, two: Floats) -> Iterator[tuple[Device, Any, Floats, Floats]]:
    if isinstance(protocol, ConcurrentShuffle):
        moved = np.flatnonzero(np.any(one != two, axis=-1))
        for device, mixer in zip(protocol.device.levels, protocol.mixer.levels, strict=True):
            for begin in sorted({int(place) // mixer.least * mixer.least for place in moved}):
                batch = slice(begin, begin + mixer.least)
                if begin + mixer.least <= len(one):  # batches that are not full are never released
                    yield device, mixer, one[batch], two[batch]
    elif isinstance(protocol, BatchProtocol):
        yield protocol.device, protocol.mixer, one, two


def _totals(device: Device, mixer: Any, one: Floats, two: Floats) -> list[LawPair] | None:
    if not isinstance(mixer, CountingMixer) or not isinstance(device, BinomialCounts | RoundedCounts | RepeatedBits):
        return None
    trials = len(one) * (mixer.noise.trials if isinstance(device, RoundedCounts) else device.trials)
    chance = mixer.noise.probability if isinstance(device, RoundedCounts) else getattr(device, "probability", 0.5)
    pairs = []
    for column in np.flatnonzero(np.any(one != two, axis=0)):
        (low, mine), (other_low, other) = (_sum_law(*_encode_column(device, each, int(column))) for each in (one, two))
        noise = _binomial_law(trials, chance)
        if noise.size > _LONGEST:
            return None
        first = min(low, other_low)
        laws = [np.convolve(noise, law) for law in (mine, other)]
        length = max(low - first + laws[0].size, other_low - first + laws[1].size)
        placed = np.zeros((2, length))
        for row, begin, law in zip(placed, (low, other_low), laws, strict=True):
            row[begin - first : begin - first + law.size] = law
        pairs.append((placed[0], placed[1]))
    return pairs


def _encode_column(
    device: BinomialCounts | RoundedCounts | RepeatedBits, values: Floats, column: int
) -> tuple[Ints, Floats]:
    """Return all users' certain counts in one coordinate, and the probabilities of one more."""
    if isinstance(device, RepeatedBits):
        return device.copies * values[:, column].astype(np.int64), np.zeros(len(values))
    scaled = device.scale * np.maximum(values - device.domain.lower, 0.0)[:, column]
    whole = np.floor(scaled)
    largest = randomizers.compute_largest_counts(device.scale, device.domain)[column]
    return np.minimum(whole, largest).astype(np.int64), np.where(whole < largest, scaled - whole, 0.0)


def _sum_law(whole: Ints, rests: Floats) -> tuple[int, Floats]:
    """Return the least value of the sum, and its law from there on."""
    law = np.ones(1)
    for rest in rests[rests > 0]:
        law = np.append(law * (1 - rest), 0.0) + np.append(0.0, law * rest)
    places = np.flatnonzero(law > 1e-30)
    return int(whole.sum() + places[0]), law[places[0] : places[-1] + 1]


def _binomial_law(trials: int, chance: float) -> Floats:
    """Return Bin(n, p) around its mean, from the same offset under both neighbours."""
    far = math.ceil(_COUNTS_FAR * math.sqrt(trials * chance * (1 - chance))) + 10
    middle = round(trials * chance)
    law = stats.binom.pmf(np.arange(max(0, middle - far), min(trials, middle + far) + 1), trials, chance)
    return np.asarray(law / law.sum())


# Messages of local devices


_SAME = 1e-9  # radians
_NOTHING = 1e-9  # mass: less may be an error of integration, and is left out


def message_pairs(protocol: Protocol, one: Floats, two: Floats) -> list[LawPair] | None:
    """Return a pair of laws for each message of the user that differs, from statistics (messages, dim).

    None unless a message is a direction or a lie of known probability.
    """
    device, pairs = protocol.device, list[LawPair]()
    for mine, other in zip(one, two, strict=True):
        if np.array_equal(mine, other):
            continue
        if isinstance(device, RandomizedBit):
            yes = [float(probability_of_one(each, device.lie)[0]) for each in (mine, other)]
            pairs.append((np.array([yes[0], 1 - yes[0]]), np.array([yes[1], 1 - yes[1]])))
        elif isinstance(device, RandomizedSign) and np.array_equal(mine, -other):
            pairs.append((np.array([device.lie, 1 - device.lie]), np.array([1 - device.lie, device.lie])))
        elif isinstance(device, CapRandomizer):
            centre, radius = device.domain.ball
            event = CapEvent(
                cosine=device.cosine,
                chance=device.chance,
                candidates=device.candidates,
                dim=device.domain.dim,
                steps=device.steps,
            )
            pairs.append(cap_pair(event, (mine - centre) / radius, (other - centre) / radius))
        else:
            return None
    return pairs or None


def cap_pair(event: CapEvent, one: Floats, two: Floats) -> LawPair:
    """Return the exact laws of a spherical-cap message of two points v and w of the unit ball: nine cases.

    The direction has one density inside the cap of u0 = +-w/|w| and another outside, so only the caps of +-v and +-w
    that hold a message matter (`two_caps_mass`). Steps of candidates are left out.
    """
    units, lengths = split_length(np.stack([one, two]))
    angle = math.acos(float(np.clip(units[0] @ units[1], -1.0, 1.0)))
    mass = prices.cap_moments(event.dim, event.cosine).mass
    near, far = two_caps_mass(event, angle), two_caps_mass(event, math.pi - angle)
    share = prices.probability_inside(event)
    inside, outside = share / mass, (1 - share) / (1 - mass)
    # in which cap of +-v (rows: +, -, none) and of +-w (columns) the message is
    cases = np.array([[near, far, 0.0], [far, near, 0.0], [0.0, 0.0, 0.0]])
    cases[:2, 2], cases[2, :2] = mass - near - far, mass - near - far
    cases = np.where(cases > _NOTHING, cases, 0.0)
    cases[2, 2] = max(1 - cases.sum(), 0.0)
    chances = [_cap_densities(float(length), inside, outside) for length in np.minimum(lengths, 1.0)]
    laws = (cases * chances[0][:, None]).ravel(), (cases * chances[1][None]).ravel()
    return laws[0], laws[1]


def _cap_densities(length: float, inside: float, outside: float) -> Floats:
    """Return the densities in the caps of +w and -w and in neither."""
    to, fro = (1 + length) / 2, (1 - length) / 2
    return np.array([to * inside + fro * outside, to * outside + fro * inside, outside])


def two_caps_mass(event: CapEvent, angle: float) -> float:
    """Return the mass of two caps whose centres are at this angle a, under the uniform law.

    With T = <u, v> and S a coordinate of a uniform direction in one dimension less: P(both caps) = E[P(S >= (c - T cos
    a) / (sqrt(1 - T^2) sin a)); T >= c].
    """
    cosine, dim = event.cosine, event.dim
    wide = math.acos(cosine)
    if angle < _SAME:
        return prices.cap_moments(dim, cosine).mass
    if angle >= 2 * wide:
        return 0.0
    if dim == 2:
        return (2 * wide - angle) / (2 * math.pi)

    def integrate_slice(turn: float) -> float:
        reach = (cosine - math.cos(turn) * math.cos(angle)) / max(math.sin(turn) * math.sin(angle), 1e-300)
        return math.sin(turn) ** (dim - 2) * float(prices.cap_mass(dim - 1, np.asarray(reach)))

    whole = integrate.quad(lambda turn: math.sin(turn) ** (dim - 2), 0.0, math.pi)[0]
    return float(integrate.quad(integrate_slice, 0.0, wide, limit=200)[0] / whole)
