"""Paper 000 as published: the constants, the noise, and the regrets that its authors' code gives."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.simulation.environments.linear import PublishedLinear
from reproductions.shuffle_linucb import published
from reproductions.shuffle_linucb.published import ALGORITHMS, LENGTH, AuthorsInstances, Setting, run

# mean and standard error of the realised regret at T = 20000 over five instances (epsilon 0.2, 1, 10)
REFERENCE = {
    "LinUCB": ((584, 38), (584, 38), (584, 38)),
    "LinUCB-JDP": ((2841, 269), (1658, 103), (814, 56)),
    "LinUCB-SDP-Vec": ((4106, 510), (2625, 305), (913, 109)),
    "LinUCB-SDP-Amp": ((4553, 375), (2426, 159), (1067, 67)),
    "LinUCB-LDP": ((6008, 563), (3846, 233), (1604, 44)),
}
EPSILONS = (0.2, 1.0, 10.0)


def five(algorithm: str, epsilon: float, *, times: int = 10) -> tuple[float, float]:
    """Mean regret on the reference's own five instances, and the spread of such a mean from run to run."""
    env = AuthorsInstances(dim=5, cycle=5)
    means = run(algorithm, epsilon=epsilon, seeds=range(5 * times), env=env).final_regret.reshape(times, 5).mean(axis=1)
    return float(np.mean(means)), float(np.std(means, ddof=1))


def assert_agrees(algorithm: str, epsilon: float, seeds: range) -> None:
    """Within 3 combined standard errors of the reference, or 15 % of it."""
    final = run(algorithm, epsilon=epsilon, seeds=seeds).final_regret
    mean, error = float(np.mean(final)), float(np.std(final, ddof=1)) / math.sqrt(len(final))
    reference, spread = REFERENCE[algorithm][EPSILONS.index(epsilon)]
    assert abs(mean - reference) <= max(3 * math.hypot(error, spread), 0.15 * reference), (mean, error)


@pytest.mark.parametrize(
    ("algorithm", "epsilon", "n_seeds"),
    [
        ("LinUCB-LDP", 1.0, 20),
        ("LinUCB-SDP-Amp", 0.2, 50),
        pytest.param("LinUCB-SDP-Amp", 10.0, 50, marks=pytest.mark.full),
        ("LinUCB-SDP-Vec", 1.0, 50),
    ],
)
def test_regret_is_that_of_the_published_code(algorithm: str, epsilon: float, n_seeds: int) -> None:
    assert_agrees(algorithm, epsilon, range(n_seeds))


@pytest.mark.full
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_regret_is_that_of_the_published_code_over_fifty_instances(algorithm: str, epsilon: float) -> None:
    assert_agrees(algorithm, epsilon, range(50))


@pytest.mark.parametrize(("algorithm", "epsilon"), [("LinUCB-SDP-Amp", 1.0), ("LinUCB-SDP-Amp", 10.0)])
def test_regret_on_the_same_instances(algorithm: str, epsilon: float) -> None:
    """On the reference's own instances the regret is not the authors', up to what differs from run to run."""
    assert_same(algorithm, epsilon)


@pytest.mark.full
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_regret_on_the_same_instances_everywhere(algorithm: str, epsilon: float) -> None:
    """On the reference's own instances some regret is not the authors', up to what differs from run to run."""
    assert_same(algorithm, epsilon)


def assert_same(algorithm: str, epsilon: float) -> None:
    """Three standard deviations of one run of five (t with 9 degrees of freedom: a false alarm in 70)."""
    mean, spread = five(algorithm, epsilon)
    reference, _ = REFERENCE[algorithm][EPSILONS.index(epsilon)]
    assert abs(mean - reference) <= 3 * spread * math.sqrt(1 + 1 / 10), (mean, spread)


@pytest.mark.full
def test_the_instances_are_the_authors_own() -> None:
    world, lost = AuthorsInstances(dim=5).begin(Streams(range(5))), []
    setting = Setting(algorithm="LinUCB", epsilon=1.0)
    for seed, (arms, theta) in enumerate(zip(world.contexts(0, 1)[:, 0], world.theta, strict=True)):
        rewards, means = np.random.RandomState(seed), arms @ theta
        gram, vector, total, best = setting.ridge * np.eye(5), np.zeros(5), 0.0, int(np.argmax(means))
        for _ in range(20_000):
            drawn = rewards.random_sample(100) < means
            inverse = np.linalg.inv(gram)
            width = np.sqrt(np.einsum("ki,ij,kj->k", arms, inverse, arms))
            arm = int(np.argmax(arms @ inverse @ vector + setting.radius * width))
            gram, vector = gram + np.outer(arms[arm], arms[arm]), vector + drawn[arm] * arms[arm]
            total += float(drawn[best]) - float(drawn[arm])
        lost.append(total)
    assert round(np.mean(lost)) == 584
    assert math.ceil(np.std(lost, ddof=1) / math.sqrt(5)) == 38


def test_instances_of_a_seed_do_not_depend_on_its_company() -> None:
    alone, among, again = (
        AuthorsInstances(dim=4, n_arms=20, cycle=cycle).begin(Streams(seeds))
        for seeds, cycle in (([3], None), ([0, 3, 1], None), ([8], 5))
    )
    np.testing.assert_array_equal(alone.theta[0], among.theta[1])
    np.testing.assert_array_equal(alone.theta[0], again.theta[0])
    np.testing.assert_array_equal(alone.contexts(0, 1)[0], among.contexts(0, 1)[1])
    scaled = AuthorsInstances(dim=4, n_arms=20, normalised=True).begin(Streams([3]))
    np.testing.assert_allclose(scaled.means(scaled.contexts(0, 1)), alone.means(alone.contexts(0, 1)), atol=1e-15)


def test_memory_does_not_grow_with_the_horizon() -> None:
    peaks = []
    for horizon in (4_000, 24_000):
        tracemalloc.start()
        run("LinUCB-SDP-Amp", epsilon=1.0, horizon=horizon, seeds=range(4))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_constants_are_the_published_ones() -> None:
    """A constant is not the authors'; the numbers were worked out by hand at epsilon = 1, delta = 0.1, T = 20000."""
    local, amplified, joint, bits, plain = (
        Setting(algorithm=name, epsilon=1.0)
        for name in ("LinUCB-LDP", "LinUCB-SDP-Amp", "LinUCB-JDP", "LinUCB-SDP-Vec", "LinUCB")
    )
    assert local.std == pytest.approx(1.794123, rel=1e-6)  # sqrt(ln 25)
    assert local.spread == pytest.approx(567.3514, rel=1e-5)  # 1.794123 sqrt(100000)
    assert local.ridge == 2 * local.spread
    assert amplified.std == pytest.approx(0.557429, rel=1e-5)  # sqrt(ln 500 / 20)
    assert joint.std == pytest.approx(10.12978, rel=1e-5)  # sqrt(ln 20000) ln 25
    assert joint.spread == pytest.approx(10.12978 * math.sqrt(5 * math.log(20_000)), rel=1e-5)
    assert bits.steps == pytest.approx(8.944272, rel=1e-6)  # 2 sqrt 20
    assert bits.bits == pytest.approx(612.157, rel=1e-5)  # 10 * 80 * ln(50)^2 / 20
    assert Setting(algorithm="LinUCB-SDP-Vec", epsilon=0.2).bits == pytest.approx(1530.392, rel=1e-5)
    assert bits.spread == pytest.approx(0.218688 * math.sqrt(100_000), rel=1e-5)  # ln 50 / (4 sqrt 20)
    assert (plain.spread, plain.ridge, plain.std) == (1.0, 1e-4, 0.0)
    assert plain.radius == pytest.approx(math.sqrt(5) + 0.5 * math.sqrt(5 * math.log(40_001 * 20_000)))
    assert [each.every for each in (local, amplified, joint, bits, plain)] == [1, 20, 1, 20, 1]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_seed_is_the_same_alone_and_in_company(algorithm: str) -> None:
    among = run(algorithm, epsilon=1.0, horizon=300, seeds=range(4))
    alone = run(algorithm, epsilon=1.0, horizon=300, seeds=[2])
    np.testing.assert_array_equal(among.regret[2], alone.regret[0])
    np.testing.assert_array_equal(among.pseudo[2], alone.pseudo[0])


def test_the_algorithm_equals_a_plain_loop_over_rounds() -> None:
    """Side by side and with packed matrices, the algorithm is not the one of a plain loop over rounds (JDP)."""
    setting = Setting(algorithm="LinUCB-JDP", epsilon=1.0, dim=4, horizon=400)
    streams = Streams([7])
    env = PublishedLinear(dim=4, n_arms=30)
    world = env.begin(streams)
    arms, theta = world.contexts(0, 1)[0, 0], world.theta[0]
    draws, uniform = [], streams.uniform("rewards", (400, 2))[0]
    for packed in streams.normal("noise", (math.floor(math.log(400)) + 1, 14))[0]:
        half = np.zeros((4, 4))
        half[np.triu_indices(4)] = packed[4:]
        draws.append((packed[:4], np.diag(np.diag(half)) + (np.triu(half, 1) + np.triu(half, 1).T) / math.sqrt(2)))
    vector, matrix, lost, best = np.zeros(4), setting.ridge * np.eye(4), 0.0, int(np.argmax(arms @ theta))
    for t in range(400):
        used = draws[: math.floor(math.log(1 + t)) + 1]
        noisy = matrix + setting.std * sum(draw[1] for draw in used)
        estimate = np.linalg.solve(noisy, vector + setting.std * sum(draw[0] for draw in used))
        index = [x @ estimate + setting.radius * math.sqrt(x @ np.linalg.solve(noisy, x)) for x in arms]
        arm = int(np.argmax(index))
        reward = float(uniform[t, 0] < arms[arm] @ theta)
        lost += 0.0 if arm == best else float(uniform[t, 1] < arms[best] @ theta) - reward
        vector, matrix = vector + reward * arms[arm], matrix + np.outer(arms[arm], arms[arm])
    assert run("LinUCB-JDP", epsilon=1.0, dim=4, horizon=400, env=env, seeds=[7]).final_regret[0] == lost


def test_an_indefinite_matrix_is_not_repaired() -> None:
    problem = published._Problem(PublishedLinear(dim=3, n_arms=10).begin(Streams(range(6))))
    setting = Setting(algorithm="LinUCB-LDP", epsilon=1.0, dim=3)
    statistic = np.zeros((6, 9))
    statistic[:, [3, 6, 8]] = np.array([1.0, -1.5, 1.0]) * setting.ridge  # V = ridge diag(2, -1/2, 2)
    squares = np.einsum("ski,i->sk", problem.arms**2, np.array([0.5, -2.0, 0.5]))
    assert np.all(np.any(squares < 0, axis=1))
    np.testing.assert_array_equal(problem.choose(statistic, setting), np.argmax(squares < 0, axis=1))


def test_gaussian_noise_is_symmetrised() -> None:
    """Variances of the released sums are not sigma^2 B, and half of it off the diagonal."""
    setting = Setting(algorithm="LinUCB-SDP-Amp", epsilon=1.0, dim=3)
    noise = published._PerUser(setting, Streams(range(50)))
    report = np.ones((50, 9))
    sums = np.array([noise.release(report, np.full((50, 20), 0.5)) for _ in range(400)])  # 20000 each
    np.testing.assert_allclose(np.mean(sums, axis=(0, 1)), [10.0] * 3 + [20.0] * 6, atol=6 * setting.std * 0.0317)
    share = np.var(sums, axis=(0, 1)) / (20 * setting.std**2)  # relative error 0.01: six of them, false alarm 1e-8
    np.testing.assert_allclose(share, [1, 1, 1, 1, 0.5, 0.5, 1, 0.5, 1], rtol=0.06)


def test_jdp_hides_nothing() -> None:
    """Two JDP releases in a row do not differ by the raw report, or the draws are not floor(ln T) + 1."""
    noise = published._FewDraws(Setting(algorithm="LinUCB-JDP", epsilon=0.2), Streams(range(3)))
    joined = 0
    for start, count in ((0, 7000), (7000, 12_999)):
        joins, added = noise.ahead(start, count)  # beside the raw reports
        assert joins.shape == (count,)
        assert np.array_equal(joins[joins >= 0], np.arange(added.shape[1]))
        assert added.shape[0] == 3
        assert np.all(added != 0)
        joined += added.shape[1]
    assert joined == math.floor(math.log(20_000))  # and one draw before the first round
    assert np.all(noise.initial != 0)


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_binomial_noise_is_biased_and_wide(epsilon: float) -> None:
    setting = Setting(algorithm="LinUCB-SDP-Vec", epsilon=epsilon, dim=2)
    noise = published._Bits(setting, Streams(range(50)))
    report = np.broadcast_to([0.3, -1.0, 0.2, 0.7, 1.0], (50, 5))
    rewards = np.repeat([[1.0, 0.0]], 10, axis=0).reshape(1, 20).repeat(50, axis=0)
    sums = np.array([noise.release(report, rewards) for _ in range(400)]).reshape(-1, 5)  # (20000, 5)
    step = LENGTH / setting.steps
    bias = -step * 20 * (setting.bits - math.floor(setting.bits)) / 4
    clear = np.array([3.0, -10.0, 4.0, 14.0, 20.0])
    values = np.array([[0.3, -1.0], [0.0, 0.0]])
    part = ((np.vstack([values.T, report[0, 2:, None].repeat(2, axis=1)]) + LENGTH) / step) % 1  # (5, 2): y = 1, 0
    variance = step**2 * (20 * math.floor(setting.bits) * 3 / 16 + 10 * np.sum(part * (1 - part), axis=1))
    # six standard errors each: false alarm below 1e-7 in all
    np.testing.assert_allclose(np.mean(sums, axis=0), clear + bias, atol=6 * math.sqrt(np.max(variance) / 20_000))
    np.testing.assert_allclose(np.var(sums, axis=0), variance, rtol=0.06)
    assert abs(bias) > 0


def test_realised_regret_is_unbiased() -> None:
    result = run("LinUCB-SDP-Amp", epsilon=1.0, horizon=4000)
    assert result.regret.shape == result.pseudo.shape == (50, len(result.checkpoints))
    assert result.checkpoints[-1] == 4000
    off = np.mean(result.regret[:, -1] - result.pseudo[:, -1])
    assert abs(off) < 6 * math.sqrt(0.5 * 4000 / 50)  # a round's difference has variance at most 1/2
    assert np.all(np.diff(result.pseudo, axis=1) >= 0)


def test_a_last_short_batch_is_played() -> None:
    assert run("LinUCB-SDP-Vec", epsilon=1.0, horizon=45, seeds=[0]).checkpoints[-1] == 45
    assert run("LinUCB-SDP-Amp", epsilon=1.0, horizon=7, seeds=[0]).regret.shape == (1, 7)


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithm": "LinUCB-SDP"},
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"delta": 1.0},
        {"dim": 1},
        {"horizon": 1},
        {"batch": 0},
    ],
)
def test_bad_settings_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        Setting(**{"algorithm": "LinUCB-LDP", "epsilon": 1.0, **wrong})
