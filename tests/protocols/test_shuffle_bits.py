"""Sums of bits in the shuffle model: exact law, exact privacy, both paths alike.

Fixed seeds; Kolmogorov bands at a false-alarm rate of 1e-6 per comparison, which see a std that is 20 % off.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.domain import Bits, Box
from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import BinomialNoise
from bandanna.protocols.shuffle_bits import ShuffleBits

BUDGET, DRAWS = ApproxDP(epsilon=1.0, delta=1e-5), 40_000
BITS = np.array([[1.0], [0.0], [1.0], [1.0], [0.0]])
BAND = math.sqrt(-math.log(1e-6 / 2) / 2)


def fast(seed: int) -> FastNoise:
    return FastNoise(np.random.default_rng(seed))


def totals(protocol: ShuffleBits, path: str, seed: int) -> NDArray[np.float64]:
    batches = np.broadcast_to(BITS, (DRAWS, *BITS.shape))
    return protocol.release(batches, fast(seed), path=path).total[:, 0]


def test_both_paths_have_the_stated_law() -> None:
    protocol = ShuffleBits(noise=BinomialNoise(scale=3.0, trials=12, users=5))
    messages, law = totals(protocol, "messages", 1), totals(protocol, "law", 2)
    scale = math.sqrt(DRAWS / 2)
    assert scale * stats.ks_2samp(messages, law, method="asymp").statistic < BAND
    weaker = replace(protocol, noise=BinomialNoise(scale=3.0, trials=8, users=5))
    assert scale * stats.ks_2samp(messages, totals(weaker, "law", 3), method="asymp").statistic > BAND
    exact = stats.binom(60, 0.5)
    for drawn in (messages, law):
        counts = np.rint(3 * drawn + 30 - 9).astype(int)
        gaps = np.abs(np.searchsorted(np.sort(counts), np.arange(61), side="right") / DRAWS - exact.cdf(np.arange(61)))
        assert math.sqrt(DRAWS) * float(np.max(gaps)) < BAND
    assert np.std(law) == pytest.approx(protocol.std(5), rel=0.03)
    assert np.mean(law) == pytest.approx(3.0, abs=5 * protocol.std(5) / math.sqrt(DRAWS))


def test_privacy_is_tight() -> None:
    """The guarantee is not the exact one of the totals, or is more than 1 % below the budget."""
    protocol = ShuffleBits.calibrate(budget=BUDGET, batch=5)
    copies, coins = int(protocol.noise.scale), 5 * protocol.noise.trials
    points = np.arange(-copies, coins + copies + 1)
    still, moved = stats.binom.pmf(points, coins, 0.5), stats.binom.pmf(points - copies, coins, 0.5)

    def delta(epsilon: float) -> float:
        return float(np.sum(np.maximum(moved - math.exp(epsilon) * still, 0)))

    stated = protocol.guarantee
    assert stated.trust == "shuffle"
    assert delta(stated.epsilon) <= 1e-5
    assert delta(0.99 * stated.epsilon) > 1e-5
    assert 0.98 < stated.epsilon <= 1.0


def test_a_message_has_the_bits_of_its_largest_count() -> None:
    protocol = ShuffleBits(noise=BinomialNoise(scale=3.0, trials=12, users=5))
    assert protocol.unary_bits_per_user == 15
    assert protocol.bits_per_user == 4


def test_groups_of_equal_users_are_summed() -> None:
    protocol = ShuffleBits(noise=BinomialNoise(scale=3.0, trials=12, users=5))
    grouped = Bits().sealed(np.array([[1.0], [0.0]]), clipped=np.int64(0), counts=np.array([4, 1]))
    drawn = [protocol.release(grouped, fast(seed), path="law").total[0] for seed in range(400)]
    assert np.mean(drawn) == pytest.approx(4.0, abs=5 * protocol.std(5) / 20)


def test_the_shuffler_is_named_apart_from_the_analyzer() -> None:
    clear = ShuffleBits(noise=BinomialNoise(scale=9.0, trials=4, users=50)).guarantee
    assert clear.exposed == 1.0
    assert clear.shuffler is None
    hidden = ShuffleBits.calibrate(budget=BUDGET, batch=2).guarantee
    assert hidden.shuffler is not None
    assert hidden.shuffler.epsilon > hidden.epsilon


def test_bad_input_is_refused() -> None:
    """Values between 0 and 1, other batch sizes, other domains or a secure source's shortcut pass."""
    protocol = ShuffleBits(noise=BinomialNoise(scale=3.0, trials=12, users=5))
    with pytest.raises(InvalidStatistic):
        protocol.release(np.full((5, 1), 0.5), fast(1), clip=False)
    with pytest.raises(InvalidArgument, match="batch"):
        protocol.release(BITS[:4], fast(1))
    with pytest.raises(InvalidArgument, match="domain"):
        ShuffleBits(domain=Box(dim=1), noise=protocol.noise)
    with pytest.raises(InvalidArgument, match="copies"):
        ShuffleBits(noise=BinomialNoise(scale=2.5, trials=12, users=5))
    assert float(protocol.release(BITS, SecureNoise()).total[0]) == pytest.approx(3.0, abs=12)
