"""Amplification by shuffling: the clones pair, shuffled Gaussians and their compositions, against exact laws."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.errors import InvalidArgument, InvalidBudget, OutsideTheorem
from bandanna.numeric import search
from bandanna.privacy import amplification, blanket, gdp, shuffled_gaussian

from ..drawn import examples
from .shuffle_enumeration import hockey_stick, k_ary_response, local_epsilon, neighbours, random_randomizer, worst_delta

FRACTIONS = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.9])  # of eps0, at which divergences are compared
SENSITIVITY = math.sqrt(4.5)

# calibration table of section B: epsilon, delta, n, FMT clones (sum), local (sum), lower bound of any analysis (sum)
TABLE = [
    (0.2, 1e-1, 20, 21.81, 21.81, 7.18),
    (0.2, 1e-1, 200, 47.58, 68.97, 14.42),
    (0.2, 1e-1, 2000, 99.20, 218.10, 34.87),
    (0.2, 1e-5, 20, 154.67, 154.67, 35.28),
    (0.2, 1e-5, 200, 240.49, 489.12, 40.98),
    (0.2, 1e-5, 2000, 361.66, 1546.75, 73.08),
    (1.0, 1e-1, 20, 10.30, 10.30, 4.92),
    (1.0, 1e-1, 200, 32.58, 32.58, 11.59),
    (1.0, 1e-1, 2000, 79.55, 103.02, 30.10),
    (1.0, 1e-5, 20, 35.39, 35.39, 11.54),
    (1.0, 1e-5, 200, 92.33, 111.92, 23.41),
    (1.0, 1e-5, 2000, 163.79, 353.92, 55.52),
    (10.0, 1e-1, 20, 2.67, 2.67, 2.29),
    (10.0, 1e-1, 200, 8.45, 8.45, 6.60),
    (10.0, 1e-1, 2000, 26.74, 26.74, 19.24),
    (10.0, 1e-5, 20, 4.74, 4.74, 3.84),
    (10.0, 1e-5, 200, 15.00, 15.00, 10.69),
    (10.0, 1e-5, 2000, 47.42, 47.42, 30.33),
]
ROWS = [TABLE[n][:3] for n in (0, 4, 8, 15)]  # every epsilon, delta and batch


def clones_pair(users: int, local: float) -> tuple[np.ndarray, np.ndarray]:
    """The pair as its definition reads: P and Q on (first count, second count), by a sum over C, A and D."""
    p = [np.zeros((users + 1, users + 1)) for _ in range(2)]
    head = 1 / (1 + math.exp(-local))
    for c in range(users):
        chance_c = math.comb(users - 1, c) * math.exp(-local * c) * (-math.expm1(-local)) ** (users - 1 - c)
        for a, d in itertools.product(range(c + 1), (0, 1)):
            mass = chance_c * math.comb(c, a) / 2**c * (head if d else 1 - head)
            p[0][a + d, c - a + 1 - d] += mass
            p[1][a + 1 - d, c - a + d] += mass
    return p[0], p[1]


# --- the clones pair -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("users", [1, 2, 3, 8, 20, 50])
@pytest.mark.parametrize("local", [0.05, 1.0, 3.0, 8.0])
def test_clones_delta_is_the_divergence_of_the_pair(users: int, local: float) -> None:
    p, q = clones_pair(users, local)
    direct = [hockey_stick(p, q, float(e)) for e in FRACTIONS * local]
    closed = amplification.clones_delta(users=users, local_epsilon=local, epsilon=FRACTIONS * local)
    np.testing.assert_allclose(closed, direct, rtol=1e-10)


def test_clones_delta_at_the_published_value() -> None:
    """n = 1000, eps0 = 2, delta = 1e-6 would not give the epsilon 0.5455 of the published numerics."""
    epsilon = gdp.solve_epsilon(
        lambda e: float(amplification.clones_delta(users=1000, local_epsilon=2.0, epsilon=e)), 1e-6
    )
    assert epsilon == pytest.approx(0.5455, abs=5e-5)


def test_clones_delta_keeps_its_digits_far_in_the_tail() -> None:
    users, local, epsilon = 150, 1.0, 0.9375
    with mpmath.workdps(40):
        chance, grown, two = mpmath.exp(-local), mpmath.exp(epsilon), mpmath.mpf(2)
        head = 1 / (1 + chance)
        total = mpmath.mpf(0)
        for c in range(users):
            weight = math.comb(users - 1, c) * chance**c * (1 - chance) ** (users - 1 - c) / two**c
            for k in range((c + 1) // 2, c + 2):  # the loss is negative below
                below, here = math.comb(c, k - 1) if k else 0, math.comb(c, k)
                gain = head * below + (1 - head) * here - grown * (head * here + (1 - head) * below)
                total += weight * max(gain, 0)
    value = float(amplification.clones_delta(users=users, local_epsilon=local, epsilon=epsilon))
    assert 1e-40 < float(total) < 1e-12
    assert value == pytest.approx(float(total), rel=1e-9)


@pytest.mark.parametrize(("users", "local"), [(10**6, 0.5), (10**6, 3.0), (10**5, 0.02), (10**6, 6.0)])
def test_buckets_bound_from_above_and_closely(users: int, local: float) -> None:
    """Replacing C by the least value of its bucket would lower the divergence, or raise it by more than 1 %."""
    spread = 2 * math.tanh(local / 2) / math.sqrt(users * math.exp(-local))
    epsilons = spread * np.array([0.0, 1.0, 4.0, 7.0])
    exact, default, coarse = (
        amplification.clones_delta(users=users, local_epsilon=local, epsilon=epsilons, fineness=fineness)
        for fineness in (math.inf, 1e5, 2e3)
    )
    for values, slack in ((default, 2e-4), (coarse, 0.01)):
        assert np.all(values >= exact * (1 - 1e-9))
        assert np.all(values <= exact * (1 + slack))


def test_clones_delta_vectorises() -> None:
    """An array of epsilons would not give the values of its elements, in its shape."""
    epsilons = np.array([[0.0, 0.3], [0.9, 2.5]])
    together = amplification.clones_delta(users=500, local_epsilon=2.0, epsilon=epsilons)
    apart = [amplification.clones_delta(users=500, local_epsilon=2.0, epsilon=float(e)) for e in epsilons.flat]
    assert together.shape == (2, 2)
    np.testing.assert_allclose(together.ravel(), apart, rtol=1e-13)
    assert together[1, 1] == 0.0  # beyond eps0 the local guarantee is pure


# --- exact enumeration of small shuffles ---------------------------------------------------------------------------


@pytest.mark.parametrize(("outputs", "users"), [(2, 2), (2, 5), (2, 8), (3, 2), (3, 5), (3, 8), (4, 4)])
@pytest.mark.parametrize("local", [0.5, 1.0, 2.0, 4.0])
def test_randomized_response_stays_below_the_clones_bound(outputs: int, users: int, local: float) -> None:
    exact = worst_delta(k_ary_response(outputs=outputs, local_epsilon=local), users, FRACTIONS * local)
    bound = amplification.clones_delta(users=users, local_epsilon=local, epsilon=FRACTIONS * local)
    assert np.all(exact > 0)
    assert np.all(exact <= bound * (1 + 1e-12))


@pytest.mark.parametrize("seed", range(12))
def test_arbitrary_randomizers_stay_below_the_clones_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    users = int(rng.integers(2, 7))
    inputs, outputs = (int(size) for size in rng.integers(2, 5, 2))
    randomizer = random_randomizer(rng, inputs=inputs, outputs=outputs, spread=float(rng.uniform(0.3, 3.0)))
    local = local_epsilon(randomizer)
    exact = worst_delta(randomizer, users, FRACTIONS * local)
    bound = amplification.clones_delta(users=users, local_epsilon=local, epsilon=FRACTIONS * local)
    assert np.all(exact <= bound * (1 + 1e-12) + 1e-15)


@pytest.mark.parametrize(
    ("outputs", "users", "local", "factor"),
    [(2, 2, 0.5, 1.12), (2, 2, 2.0, 1.06), (2, 8, 4.0, 1.07), (3, 8, 4.0, 1.23), (4, 4, 4.0, 1.19)],
)
def test_too_large_a_local_epsilon_is_seen(outputs: int, users: int, local: float, factor: float) -> None:
    exact = worst_delta(k_ary_response(outputs=outputs, local_epsilon=local), users, FRACTIONS * local)
    bound = amplification.clones_delta(users=users, local_epsilon=local, epsilon=FRACTIONS * local)
    claimed = amplification.clones_delta(users=users, local_epsilon=0.8 * local, epsilon=FRACTIONS * local)
    assert np.all(bound <= factor * exact)
    assert np.all(exact > claimed)


@pytest.mark.parametrize("users", [2, 4, 6])
def test_reports_that_sometimes_reveal_stay_below_bound_and_tail(users: int) -> None:
    local, delta0 = 1.5, 0.01
    person = 1 / (1 + math.exp(local))
    response = k_ary_response(outputs=2, local_epsilon=local)
    leaky = np.hstack([(1 - delta0) * response, delta0 * np.eye(2)])  # with probability delta0 the input itself
    tail = (person + (users - 1) * math.exp(-local) * (1 + person)) * delta0
    assert tail == pytest.approx(amplification.tail_weight(users=users, local_epsilon=local) * delta0, rel=1e-12)
    assert tail < users * (1 + math.exp(-local) / 2) * delta0  # theorem 3.8
    epsilons = np.append(FRACTIONS, 1.2) * local
    exact = worst_delta(leaky, users, epsilons)
    clones = amplification.clones_delta(users=users, local_epsilon=local, epsilon=epsilons)
    assert np.all(exact <= clones + (1 + np.exp(epsilons)) * tail)
    assert clones[-1] == 0.0 < exact[-1]  # beyond eps0 only the leak is left, and it is seen


# --- shuffled Gaussians --------------------------------------------------------------------------------------------


def scanned_delta(users: int, epsilon: float, scale: float) -> float:
    """Least delta over a plain, coarse grid of eps0 and of smaller epsilons."""
    least, mu = float(gdp.delta(epsilon, 1 / scale)), 1 / scale
    for smaller, local in itertools.product((0.6 * epsilon, epsilon), np.geomspace(0.02, math.log(users) + 3, 80)):
        hidden = blanket.stop_loss(users=users, chance=math.exp(-local), mu=mu, epsilon=smaller)
        moved = (users - 1) * math.exp(-local) * float(gdp.delta(local, mu))
        tail = (math.expm1(smaller) + 2 * float(gdp.delta(smaller, mu))) * moved
        least = min(least, (1 + math.exp(smaller)) * hidden + tail)
    return least


@pytest.mark.parametrize(("epsilon", "delta", "users", "clones", "local", "lower"), TABLE)
@pytest.mark.often(of=lambda epsilon, delta, users: (epsilon, delta, users) in ROWS)
def test_std_agrees_with_the_calibration_table(
    epsilon: float, delta: float, users: int, clones: float, local: float, lower: float
) -> None:
    std = shuffled_gaussian.shuffled_gaussian_std(
        sensitivity=SENSITIVITY, users=users, epsilon=epsilon, delta=delta
    ) * math.sqrt(users)
    assert lower <= std <= clones * (1 + 3e-3)  # the table has theorem 3.8's tail, and three to four digits
    scanned = scanned_delta(users, epsilon, std / math.sqrt(users) / SENSITIVITY)
    assert delta * 0.995 <= scanned <= 2 * delta  # of a coarse grid
    assert std <= local * 1.002
    less = shuffled_gaussian.shuffled_gaussian_delta(
        std=0.8 * std / math.sqrt(users), sensitivity=SENSITIVITY, users=users, epsilon=epsilon
    )
    assert less > delta  # 20 % less noise is seen


def test_two_users_by_quadrature() -> None:
    """The exact divergence of two shuffled Gaussian reports would exceed the claim."""
    shift, step = 1.25, 0.02
    y = np.arange(-8, 9.5, step)
    single = [np.exp(-((y - mean) ** 2) / 2) / math.sqrt(2 * math.pi) for mean in (0.0, shift)]
    q = np.outer(single[0], single[0]) * step**2  # both at 0; p: one of the two at `shift`, in either place
    p = (np.outer(single[1], single[0]) + np.outer(single[0], single[1])) / 2 * step**2
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        claim = shuffled_gaussian.shuffled_gaussian_delta(std=1.0, sensitivity=shift, users=2, epsilon=epsilon)
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= claim + 1e-6


def test_a_single_user_is_the_local_mechanism() -> None:
    for epsilon in (0.0, 0.3, 2.0):
        value = shuffled_gaussian.shuffled_gaussian_delta(std=1.7, sensitivity=2.0, users=1, epsilon=epsilon)
        assert value == float(gdp.delta(epsilon, 2.0 / 1.7))
    assert shuffled_gaussian.shuffled_gaussian_epsilon(std=1.7, sensitivity=2.0, users=1, delta=1e-5) == gdp.epsilon(
        1e-5, 2.0 / 1.7
    )
    std = shuffled_gaussian.shuffled_gaussian_std(sensitivity=2.0, users=1, epsilon=1.0, delta=1e-5)
    assert std == pytest.approx(2.0 / gdp.mu(1.0, 1e-5), rel=1e-12)


OFTEN = {(0.01, 1e-2, 2), (20.0, 1e-12, 200), (0.01, 1e-2, 10**6)}


@pytest.mark.parametrize(
    ("epsilon", "delta", "users"),
    [
        pytest.param(*case, marks=() if case in OFTEN else pytest.mark.full)
        for case in itertools.product([0.01, 1.0, 5.0, 20.0], [1e-2, 1e-12], [2, 200, 10**6])
    ],
)
def test_std_lies_between_central_and_local_and_meets_the_budget(epsilon: float, delta: float, users: int) -> None:
    """The calibrated std would be dearer than no shuffle, cheaper than the sum alone, or miss its own budget."""
    std = shuffled_gaussian.shuffled_gaussian_std(sensitivity=1.0, users=users, epsilon=epsilon, delta=delta)
    local = 1.0 / gdp.mu(epsilon, delta)
    assert local / math.sqrt(users) < std <= local * (1 + 1e-12)
    achieved = shuffled_gaussian.shuffled_gaussian_delta(std=std, sensitivity=1.0, users=users, epsilon=epsilon)
    assert delta * 0.998 < achieved <= delta
    back = shuffled_gaussian.shuffled_gaussian_epsilon(std=std, sensitivity=1.0, users=users, delta=delta)
    assert back <= epsilon * (1 + 1e-11)  # less where the bound is flat in epsilon
    assert (
        shuffled_gaussian.shuffled_gaussian_delta(std=std, sensitivity=1.0, users=users, epsilon=back) <= delta * 1.0001
    )


def test_amplification_is_found_where_the_bound_rises_with_epsilon() -> None:
    case = {"std": 0.97, "sensitivity": 1.0, "users": 10**6}
    deltas = [shuffled_gaussian.shuffled_gaussian_delta(**case, epsilon=e) for e in (3.0, 4.5, 5.5, 7.0)]
    assert all(later <= earlier * (1 + 1e-4) for earlier, later in itertools.pairwise(deltas))
    assert shuffled_gaussian.shuffled_gaussian_epsilon(**case, delta=2e-12) < 3.0  # without a shuffle 7.4
    assert gdp.epsilon(2e-12, 1 / 0.97) > 7.0


scales = st.floats(math.log(0.05), math.log(300.0)).map(math.exp)
epsilons = st.floats(math.log(0.01), math.log(20.0)).map(math.exp)
sizes = st.integers(2, 20_000)


@examples(5, full=15)
@given(scales, sizes, epsilons, st.floats(1.01, 3.0))
def test_delta_falls_with_std_and_epsilon(std: float, users: int, epsilon: float, factor: float) -> None:

    def delta(std: float, epsilon: float) -> float:
        return shuffled_gaussian.shuffled_gaussian_delta(std=std, sensitivity=1.0, users=users, epsilon=epsilon)

    here = delta(std, epsilon)
    slack = 1 + 1e-4  # the searches over eps0 and epsilon'
    assert delta(std * factor, epsilon) <= here * slack
    assert delta(std, epsilon * factor) <= here * slack
    assert float(gdp.delta(epsilon, 1 / (std * math.sqrt(users)))) <= here * (1 + 1e-9)
    assert here <= float(gdp.delta(epsilon, 1 / std))


@examples(2, full=3)
@given(st.integers(2, 3000), epsilons, st.floats(-11.0, -1.0).map(lambda x: 10**x), st.integers(2, 20))
def test_std_falls_with_users_and_epsilon(users: int, epsilon: float, delta: float, factor: int) -> None:

    def std(users: int, epsilon: float) -> float:
        return shuffled_gaussian.shuffled_gaussian_std(sensitivity=1.0, users=users, epsilon=epsilon, delta=delta)

    here = std(users, epsilon)
    assert std(users * factor, epsilon) <= here * (1 + 2e-5)
    assert std(users, epsilon * factor) <= here * (1 + 2e-5)


@pytest.mark.parametrize("users", [2, 7, 10**6])
@pytest.mark.parametrize("std", [1e-6, 0.1, 1.0, 1e6])
@pytest.mark.often(of=lambda std, users: (std, users) in ((1e-6, 2), (1.0, 10**6), (1e6, 2)))
def test_extremes_are_answered(users: int, std: float) -> None:
    """An extreme std, batch, epsilon or delta would overflow, warn (an error here) or give no number."""
    for epsilon in (0.0, 1e-6, 0.01, 20.0, 99.0, 101.0, 600.0):
        value = shuffled_gaussian.shuffled_gaussian_delta(std=std, sensitivity=1.0, users=users, epsilon=epsilon)
        assert 0.0 <= value <= 1.0
    for delta in (1e-12, 0.5):
        answer = shuffled_gaussian.shuffled_gaussian_epsilon(std=std, sensitivity=1.0, users=users, delta=delta)
        assert answer >= 0.0
        assert shuffled_gaussian.shuffled_gaussian_std(sensitivity=std, users=users, epsilon=500.0, delta=delta) > 0.0
    for local in (1e-6, 0.1, 30.0, 3000.0):
        profile = amplification.clones_delta(users=users, local_epsilon=local, epsilon=np.array([0.0, 29.9, 2999.0]))
        assert np.all(np.diff(profile) <= 0)
        tail = amplification.clones_tail(std=std, sensitivity=1.0, users=users, local_epsilon=local)
        assert 0.0 <= profile[-1] <= profile[0] <= 1.0
        assert 0.0 <= tail <= 1.5 * users


# --- returning users -----------------------------------------------------------------------------------------------


def losses(users: int, local: float, step: float | None = None) -> tuple[np.ndarray, np.ndarray, float]:
    """Losses, masses and infinite mass of the privacy loss distribution."""
    pmf = amplification.clones_pld(users=users, local_epsilon=local, discretization=step)._pmf_remove
    return (pmf._lower_loss + np.arange(pmf.size)) * pmf._discretization, pmf._probs, pmf._infinity_mass


@pytest.mark.parametrize(("users", "local"), [(1, 1.0), (2, 1.0), (20, 4.0), (1000, 2.0), (10**5, 0.5), (10**6, 5.0)])
def test_pld_of_one_batch_is_the_clones_profile_from_above(users: int, local: float) -> None:
    pld = amplification.clones_pld(users=users, local_epsilon=local)
    spread = 2 * math.tanh(local / 2) / math.sqrt((users - 1) * math.exp(-local) + 1)
    for deviations in (0.0, 0.51, 2.03, 5.07, 6.9):
        epsilon = min(deviations * spread, 0.93 * local)
        exact = float(amplification.clones_delta(users=users, local_epsilon=local, epsilon=epsilon))
        assert exact * (1 - 1e-9) <= pld.get_delta_for_epsilon(epsilon) <= exact * 1.05 + 1e-17


@pytest.mark.parametrize(("users", "local"), [(2, 1.0), (50, 2.0), (10**5, 3.0)])
def test_pair_is_its_own_mirror_image(users: int, local: float) -> None:
    loss, mass, infinite = losses(users, local)
    mirrored = mass * np.exp(-loss)  # under Q
    by_loss = dict(zip(np.round(loss / (loss[1] - loss[0])).astype(int), mass, strict=True))
    image = {-key: value for key, value in zip(by_loss, mirrored, strict=True)}
    assert max(abs(by_loss.get(key, 0.0) - image.get(key, 0.0)) for key in by_loss | image) < 1e-15
    assert mass.sum() + infinite == pytest.approx(1.0, abs=1e-12)
    assert infinite < 1e-18


def test_composition_against_the_exact_product_of_pairs() -> None:
    """Three batches would not cost what the product of three clones pairs costs, from above and within 2 %."""
    users, local, times = 5, 1.0, 3
    p, q = (law.ravel() for law in clones_pair(users, local))
    p, q = p[p > 0], q[p > 0]
    joint_p, joint_q = p, q
    for _ in range(times - 1):
        joint_p, joint_q = np.outer(joint_p, p).ravel(), np.outer(joint_q, q).ravel()
    composed = amplification.clones_pld(users=users, local_epsilon=local).self_compose(times)
    for epsilon in (0.0, 0.35, 1.1, 2.05):
        exact = hockey_stick(joint_p, joint_q, epsilon)
        assert exact * (1 - 1e-9) <= composed.get_delta_for_epsilon(epsilon) <= exact * 1.02


def test_returning_users_of_a_small_shuffle_stay_below_the_composition() -> None:
    users, local = 4, 1.0
    response = k_ary_response(outputs=2, local_epsilon=local)
    composed = amplification.clones_pld(users=users, local_epsilon=local).self_compose(2)
    too_small = amplification.clones_pld(users=users, local_epsilon=0.8 * local).self_compose(2)
    for epsilon in (0.0, 0.4, 1.0, 1.7):
        exact = max(
            hockey_stick(np.outer(p, a), np.outer(q, b), epsilon)
            for (p, q), (a, b) in itertools.product(list(neighbours(response, users)), repeat=2)
        )
        assert exact <= composed.get_delta_for_epsilon(epsilon) * (1 + 1e-9)
        assert exact > too_small.get_delta_for_epsilon(epsilon)  # 20 % less noise is seen


@pytest.mark.parametrize(
    ("users", "times"),
    [pytest.param(20, 3, marks=pytest.mark.full), (2000, 10), pytest.param(10**5, 100, marks=pytest.mark.full)],
)
def test_composed_std_meets_its_budget_between_central_and_local(users: int, times: int) -> None:
    """The std for returning users would miss its budget, or leave the range of the Gaussian mechanisms around it."""
    case = {"sensitivity": 2.0, "users": users, "times": times}
    std = shuffled_gaussian.composed_shuffled_gaussian_std(**case, epsilon=1.0, delta=1e-5)
    local = 2.0 * math.sqrt(times) / gdp.mu(1.0, 1e-5)
    assert local / math.sqrt(users) < std <= local * (1 + 1e-12)
    achieved = shuffled_gaussian.composed_shuffled_gaussian_delta(**case, std=std, epsilon=1.0)
    assert 0.99e-5 < achieved <= 1e-5
    assert shuffled_gaussian.composed_shuffled_gaussian_epsilon(**case, std=std, delta=1e-5) <= 1.0 + 1e-11
    assert shuffled_gaussian.composed_shuffled_gaussian_delta(**case, std=0.8 * std, epsilon=1.0) > 1e-5
    assert std > shuffled_gaussian.shuffled_gaussian_std(sensitivity=2.0, users=users, epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(
    ("users", "times", "delta", "std"),
    [(200, 2, 1.7981759882610726e-06, 0.7750285920949546), (200, 1, 1e-5, 1.0), (10**6, 1, 1e-12, 0.83728737279)],
)
def test_an_epsilon_is_one_that_delta_proves(users: int, times: int, delta: float, std: float) -> None:
    """The search for epsilon ends where its bound holds for an eps0 that `delta` does not find (as in the first case),
    and with it a stated promise that nothing proves; or far above the least."""
    given = {"std": std, "sensitivity": 1.0, "users": users, "times": times}
    found = shuffled_gaussian.composed_shuffled_gaussian_epsilon(**given, delta=delta)
    assert shuffled_gaussian.composed_shuffled_gaussian_delta(**given, epsilon=found) <= delta
    assert shuffled_gaussian.composed_shuffled_gaussian_delta(**given, epsilon=found * (1 - 2e-5)) > delta


def test_composition_of_one_batch_is_the_exact_route() -> None:
    case = {"std": 3.0, "sensitivity": 2.0, "users": 500}
    assert shuffled_gaussian.composed_shuffled_gaussian_delta(
        **case, times=1, epsilon=0.4
    ) == shuffled_gaussian.shuffled_gaussian_delta(**case, epsilon=0.4)


def test_one_batch_by_convolution_agrees_with_the_sum() -> None:
    for epsilon in (0.05, 0.2, 0.7):
        pld = blanket.blanket_pld(users=300, local_epsilon=1.5, mu=0.4)
        exact = blanket.stop_loss(users=300, chance=math.exp(-1.5), mu=0.4, epsilon=epsilon)
        exact *= 1 + math.exp(epsilon)
        assert exact * (1 - 1e-9) <= pld.get_delta_for_epsilon(epsilon) <= exact * 1.05 + 1e-19


# --- the printed lemma ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("users", "local", "delta"), [(2000, 1.0, 1e-5), (2000, 0.2, 0.1), (10**5, 5.0, 1e-6)])
def test_printed_lemma_is_never_below_the_exact_pair(users: int, local: float, delta: float) -> None:
    epsilon, total = amplification.amplification_closed_form(
        users=users, local_epsilon=local, local_delta=0.0, delta=delta
    )
    assert total == delta
    assert float(amplification.clones_delta(users=users, local_epsilon=local, epsilon=epsilon)) <= delta
    _, with_tail = amplification.amplification_closed_form(
        users=users, local_epsilon=local, local_delta=1e-12, delta=delta
    )
    weight = (math.exp(epsilon) + 1) * (1 + math.exp(-local) / 2)
    assert with_tail == pytest.approx(delta + weight * users * 1e-12, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "expected"), [(0.2, 972.27), (1.0, 242.42)])
def test_printed_lemma_gives_the_closed_column_of_the_table(epsilon: float, expected: float) -> None:
    users, delta, best = 2000, 1e-5, math.inf

    def reached(local: float, spare: float) -> float:
        return amplification.amplification_closed_form(users=users, local_epsilon=local, local_delta=0.0, delta=spare)[
            0
        ]

    for spare in (0.4 * delta, 0.5 * delta, 0.6 * delta):
        most = math.log(users / (16 * math.log(2 / spare))) * (1 - 1e-12)
        local = search.find_greatest(lambda e, spare=spare: reached(e, spare) <= epsilon, 0.1, most)
        weight = (math.exp(epsilon) + 1) * (1 + math.exp(-local) / 2) * users
        best = min(best, SENSITIVITY / gdp.mu(local, (delta - spare) / weight))
    assert best * math.sqrt(users) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("users", "local", "delta"), [(20, 0.01, 0.05), (160, 1.0, 0.05), (2000, 3.0, 1e-5)])
def test_printed_lemma_refuses_outside_its_range(users: int, local: float, delta: float) -> None:
    with pytest.raises(OutsideTheorem, match="local_epsilon"):
        amplification.amplification_closed_form(users=users, local_epsilon=local, local_delta=0.0, delta=delta)
    amplification.amplification_closed_form(users=161, local_epsilon=1.0, local_delta=0.0, delta=0.05)


# --- bad input -----------------------------------------------------------------------------------------------------


def test_bad_input_is_refused_by_name() -> None:
    good = {"sensitivity": 1.0, "users": 10, "epsilon": 1.0, "delta": 1e-5}
    for name, value in [("sensitivity", 0.0), ("users", 0), ("users", 2.5), ("epsilon", 0.0), ("delta", 1.0)]:
        with pytest.raises(InvalidArgument, match=name):
            shuffled_gaussian.shuffled_gaussian_std(**good | {name: value})
    with pytest.raises(InvalidBudget, match="delta"):
        shuffled_gaussian.shuffled_gaussian_std(**good | {"delta": 0.0})
    with pytest.raises(InvalidArgument, match="std"):
        shuffled_gaussian.shuffled_gaussian_delta(std=math.nan, sensitivity=1.0, users=10, epsilon=1.0)
    with pytest.raises(InvalidArgument, match="times"):
        shuffled_gaussian.composed_shuffled_gaussian_epsilon(std=1.0, sensitivity=1.0, users=10, times=0, delta=1e-5)
    with pytest.raises(InvalidBudget, match="epsilon"):
        amplification.clones_delta(users=10, local_epsilon=1.0, epsilon=np.array([0.1, -1.0]))
    with pytest.raises(InvalidArgument, match="local_epsilon"):
        amplification.clones_pld(users=10, local_epsilon=-1.0)
    with pytest.raises(InvalidArgument, match="discretization"):
        amplification.clones_pld(users=10, local_epsilon=1.0, discretization=0.0)
    with pytest.raises(InvalidBudget, match="delta"):
        amplification.amplification_closed_form(users=10**4, local_epsilon=1.0, local_delta=0.0, delta=0.0)
