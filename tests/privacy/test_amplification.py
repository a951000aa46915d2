"""A Gaussian report among Gaussian reports: the theorem, its evaluation from above and its compositions, otherwise."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from bandanna.privacy import amplification, gdp, shuffled_gaussian
from bandanna.privacy.amplification import (
    _convex_minorant,
    blanket_losses,
    composed_blanket,
    loss_std,
    spread_on_lattice,
    stop_loss,
    stop_losses,
)
from bandanna.privacy.shuffled_gaussian import ShuffledBatches
from reproductions.clones import clones_delta, tail_weight

from .shuffle_enumeration import add_user, hockey_stick, shuffled_law

# --- the theorem ---------------------------------------------------------------------------------------------------


def coarse_gaussians(mu: float) -> np.ndarray:
    """Gaussian reports of three people, at 0, mu and between, seen through four bins: exact laws, (3, 4)."""
    cuts = np.array([-math.inf, -0.4, mu / 2, mu + 0.4, math.inf])
    return np.array([np.diff(stats.norm.cdf(cuts, loc=place)) for place in (0.0, 0.3 * mu, mu)])


def mixtures(r: np.ndarray, s: np.ndarray, users: int, local: float, epsilon: float) -> float:
    """(1 + e^epsilon) E (m - tau)+ by its definition: C clones, then all values of C + 1 draws from (R + S)/2."""
    mass, value, tau, total = (r + s) / 2, (r - s) / (r + s), math.tanh(epsilon / 2), 0.0
    for c in range(users):
        chance = math.comb(users - 1, c) * math.exp(-local * c) * (-math.expm1(-local)) ** (users - 1 - c)
        for draws in itertools.product(range(len(r)), repeat=c + 1):
            total += chance * float(np.prod(mass[list(draws)])) * max(float(np.mean(value[list(draws)])) - tau, 0.0)
    return (1 + math.exp(epsilon)) * total


CASES = [(2, 0.5, 0.2), (2, 1.5, 1.0), (2, 0.5, 2.5), (3, 1.0, 0.2), (3, 1.0, 2.5), (5, 0.4, 1.0), (5, 1.0, 2.5)]


@pytest.mark.parametrize(
    ("users", "mu", "local"),
    [(*case, local) for case in ((2, 0.5), (2, 1.5), (3, 1.0), (5, 1.0), (5, 0.4)) for local in (0.2, 1.0, 2.5)],
)
@pytest.mark.often(when=lambda users, mu, local: (users, mu, local) in CASES)
def test_shuffled_reports_reveal_no_more_than_the_theorem_says(users: int, mu: float, local: float) -> None:
    laws = coarse_gaussians(mu)
    pairs = list(itertools.permutations(range(3), 2))
    delta0 = max(hockey_stick(laws[a], laws[b], local) for a, b in pairs)
    moved = (users - 1) * math.exp(-local) * delta0
    for epsilon in (0.0, 0.1, 0.5, 1.5):
        for a, b in ((0, 2), (2, 0), (1, 2)):
            r, s = laws[a], laws[b]
            tail = (math.expm1(epsilon) + 2 * hockey_stick(r, s, epsilon)) * moved
            bound = mixtures(r, s, users, local, epsilon) + tail
            for others in itertools.combinations_with_replacement(range(3), users - 1):
                law = shuffled_law(laws, others, users)
                exact = hockey_stick(add_user(law, r), add_user(law, s), epsilon)
                assert exact <= bound * (1 + 1e-12)


def test_the_theorem_without_its_tail_is_refuted() -> None:
    laws, users, epsilon, local = coarse_gaussians(3.0), 3, 3.0, 0.02
    law = shuffled_law(laws, (0, 0), users)
    exact = hockey_stick(add_user(law, laws[2]), add_user(law, laws[0]), epsilon)
    assert exact > 10 * mixtures(laws[2], laws[0], users, local, epsilon)


def spread(centres: tuple[tuple[float, float], ...], y: np.ndarray) -> np.ndarray:
    """Density of two shuffled reports in the plane at these centres, on the grid y^4, by symmetry of both orders."""
    one, two = (
        np.outer(*(np.exp(-((y - c) ** 2) / 2) / math.sqrt(2 * math.pi) for c in centre)).ravel() for centre in centres
    )
    return (np.outer(one, two) + np.outer(two, one)) / 2


def test_the_claim_holds_for_a_third_user_beside_the_line() -> None:
    mu, step = 1.2, 0.36
    y = np.arange(-4.8, 6.0, step)
    corners = ((0.0, 0.0), (mu, 0.0), (mu / 2, mu * math.sqrt(3) / 2))  # all at the distance mu of each other
    for other in (corners[2], corners[0], corners[1]):
        p, q = (spread((place, other), y) * step**4 for place in corners[:2])
        assert p.sum() == pytest.approx(1.0, abs=1e-4)
        for epsilon in (0.1, 0.5, 1.0):
            claim = shuffled_gaussian.shuffled_gaussian_delta(std=1.0, sensitivity=mu, users=2, epsilon=epsilon)
            assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= claim + 1e-5


def test_the_claim_holds_for_three_users_on_a_line() -> None:
    mu, step = 0.6, 0.1
    y = np.arange(-5.5, 6.2, step)
    at = {place: np.exp(-((y - place) ** 2) / 2) * step / math.sqrt(2 * math.pi) for place in (0.0, mu / 2, mu)}

    def law(*places: float) -> np.ndarray:
        orders = set(itertools.permutations(places))  # each as often as any other
        return sum(np.einsum("i,j,k->ijk", *(at[x] for x in order)) for order in orders) / len(orders)

    exact = dict.fromkeys((0.05, 0.3, 0.8), 0.0)
    for others in ((0.0, 0.0), (0.0, mu), (mu / 2, mu / 2), (mu, mu)):
        p, q = law(mu, *others), law(0.0, *others)
        for epsilon, most in exact.items():
            exact[epsilon] = max(most, hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
    for epsilon, most in exact.items():
        claim = shuffled_gaussian.shuffled_gaussian_delta(std=1.0, sensitivity=mu, users=3, epsilon=epsilon)
        assert most <= claim * (1 + 1e-6)
        assert claim <= 1.5 * most or epsilon > 0.1


@pytest.mark.parametrize(("epsilon", "users"), [(0.01, 2), (0.01, 20), (0.002, 200), (0.001, 2000)])
def test_a_fifth_less_noise_is_refuted_by_the_sum_alone(epsilon: float, users: int) -> None:
    std = shuffled_gaussian.shuffled_gaussian_std(sensitivity=1.0, users=users, epsilon=epsilon, delta=1e-5)
    assert float(gdp.delta(epsilon, 1 / (std * math.sqrt(users)))) <= 1e-5
    assert float(gdp.delta(epsilon, 1 / (0.8 * std * math.sqrt(users)))) > 1e-5


# --- its evaluation ------------------------------------------------------------------------------------------------


@cache
def means(users: int, mu: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Values of m on a fine grid, and their masses, with 1, 2, ... draws: by convolutions."""
    z = np.linspace(-9 - mu, 9 + mu, 40_001)
    half = np.exp(-((z - mu / 2) ** 2) / 2) + np.exp(-((z + mu / 2) ** 2) / 2)
    cells = 1500
    place = np.rint((np.tanh(mu * z / 2) + 1) * cells / 2).astype(int)
    one = np.bincount(place, half / half.sum(), cells + 1)
    laws = list(itertools.accumulate([one] * users, np.convolve))
    return [(np.arange(len(law)) * 2 / cells / (c + 1) - 1, law) for c, law in enumerate(laws)]


def convolved(users: int, chance: float, mu: float, epsilon: float) -> float:
    """E (m - tau)+ by those convolutions, one number of clones after the other."""
    weights = stats.binom.pmf(np.arange(users), users - 1, chance)
    return math.fsum(
        weight * float(law @ np.maximum(mean - math.tanh(epsilon / 2), 0.0))
        for weight, (mean, law) in zip(weights, means(users, mu), strict=True)
    )


@pytest.mark.parametrize(
    ("users", "chance", "mu"), [(1, 0.5, 1.0), (2, 0.9, 0.7), (4, 0.3, 1.5), (12, 0.4, 0.8), (25, 0.1, 1.2)]
)
def test_stop_loss_is_the_expectation_from_above(users: int, chance: float, mu: float) -> None:
    for epsilon in (0.05, 0.4, 1.1, 2.5):
        exact = convolved(users, chance, mu, epsilon)
        value = stop_loss(users=users, chance=chance, mu=mu, epsilon=epsilon)
        assert exact * (1 - 1e-3) <= value <= exact * 1.02


@pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-4, 0.3, 2.0, 12.0])
def test_a_batch_of_one_has_the_gaussian_profile(mu: float, epsilon: float) -> None:
    exact = float(gdp.delta(epsilon, mu)) / (1 + math.exp(epsilon))
    value = stop_loss(users=1, chance=0.5, mu=mu, epsilon=epsilon)
    assert exact * (1 - 1e-9) <= value <= exact * (1 + 2e-5) + 1e-40


@pytest.mark.parametrize(("users", "chance", "mu"), [(10**4, 0.02, 0.6), (10**6, 0.003, 1.0), (10**6, 0.5, 0.1)])
def test_many_users_far_in_the_tail_are_close_to_their_chernoff_bound(users: int, chance: float, mu: float) -> None:
    deviation = math.sqrt(np.mean(np.tanh(mu * (stats.norm.ppf((np.arange(2000) + 0.5) / 2000) + mu / 2) / 2) ** 2))
    deviation /= math.sqrt(users * chance)
    for times in (1.0, 2.0, 4.0):
        tau = times * deviation
        value = stop_loss(users=users, chance=chance, mu=mu, epsilon=2 * math.atanh(tau))
        gaussian = deviation * (stats.norm.pdf(times) - times * stats.norm.sf(times))
        assert 0.97 * gaussian <= value <= 2 * gaussian


def test_finer_lattices_only_lower_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    case = {"users": 300, "chance": 0.1, "mu": 0.7, "epsilon": 0.4}
    values = []
    for fineness in (4.0, 8.0, 16.0, 32.0):
        spread_on_lattice.cache_clear()
        monkeypatch.setattr(amplification, "_FINENESS", fineness)
        values.append(stop_loss(**case))
    spread_on_lattice.cache_clear()
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1] * 1.01


@pytest.mark.parametrize(("mu", "epsilon"), [(0.01, 0.0), (0.5, 0.2), (1.0, 3.0), (6.0, 1.0)])
def test_the_lattice_keeps_masses_and_means(mu: float, epsilon: float) -> None:
    found = spread_on_lattice(mu, epsilon)
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-13)
    mean = found.weights @ (found.step * found.places)
    assert 0 <= mean + math.tanh(epsilon / 2) <= 3e-13
    assert found.weights.min() >= 0.0
    above = found.weights @ np.maximum(found.step * found.places, 0.0)
    assert above == pytest.approx(float(gdp.delta(epsilon, mu)) / (1 + math.exp(epsilon)), rel=1e-9)


def test_the_excess_beyond_the_lattice_is_added() -> None:
    mu = 0.01
    assert stop_loss(users=10, chance=0.5, mu=mu, epsilon=1.0) == spread_on_lattice(mu, 1.0).excess > 0.0
    last = 2 * math.atanh(
        math.tanh(0.5) + spread_on_lattice(mu, 1.0).step * float(spread_on_lattice(mu, 1.0).places[-1])
    )
    assert spread_on_lattice(mu, 1.0).excess == pytest.approx(
        float(gdp.delta(last, mu)) / (1 + math.exp(last)), rel=1e-9
    )
    assert 16.0 <= last / mu <= 16.2


@pytest.mark.parametrize(("points", "most"), [(512, 1.2), (16, 1.3)])
def test_rounding_is_paid_for(points: int, most: float) -> None:
    theta, step, users, tilted = 3.0, 0.01, 40, np.full(30, 0.03)
    eta = 0.2 * (1e-13 + 5 * 2.0**-52 * math.log2(points) * math.sqrt(points / 30)) + 8 * 2.0**-52
    circle = np.exp(2j * math.pi * np.arange(points) / points)
    z = theta * step + np.log(circle)
    sizes = float(np.sum((step / 2) ** 2 / np.abs(np.sinh(z / 2)) ** 2)) / (points * step)
    found = amplification.bound_rounding(theta, step, points, users, 0.2, tilted)
    assert found >= sizes * (users * eta + math.exp(-45.0)) * (1 - 1e-9)
    assert found <= most * sizes * (users * eta + math.exp(-45.0))


@pytest.mark.parametrize(
    ("users", "chance", "mu"),
    [(1, 0.5, 1.0), (50, 0.02, 2.0), (300, 0.1, 0.7), (30_000, 0.02, 0.5), (10**6, 0.3, 0.01), (2, 2e-12, 3.3)],
)
def test_many_epsilons_at_once_have_their_own_bounds(users: int, chance: float, mu: float) -> None:
    epsilon = np.concatenate([np.arange(12) * mu / 7, [gdp.epsilon(1e-22, mu), 18 * mu]])
    together = stop_losses(users=users, chance=chance, mu=mu, epsilon=epsilon)
    alone = [stop_loss(users=users, chance=chance, mu=mu, epsilon=e) for e in epsilon.tolist()]
    lost = 1e-17 / chance  # of the digits of 1 + p (E e^(theta x) - 1)
    np.testing.assert_allclose(together, alone, rtol=1e-7 + lost, atol=1e-60)
    np.testing.assert_allclose(together[:6], alone[:6], rtol=1e-9 + lost, atol=1e-60)


# --- the least bound -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("users", [20, 400, 30_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.often(when=lambda epsilon, users: (epsilon == 1.0) == (users == 400))
def test_the_bound_is_least_among_those_of_many_local_epsilons(users: int, epsilon: float) -> None:
    scale = shuffled_gaussian.shuffled_gaussian_std(sensitivity=1.0, users=users, epsilon=epsilon, delta=1e-6)
    delta, mu = ShuffledBatches(users=users).delta(scale, epsilon), 1 / scale
    weight = math.expm1(epsilon) + 2 * float(gdp.delta(epsilon, mu))
    written = []
    for local in np.geomspace(0.05, math.log(users) + 5, 60):
        delta0, chance = float(gdp.delta(local, mu)), math.exp(-local)
        hidden = stop_loss(users=users, chance=chance, mu=mu, epsilon=epsilon)
        written.append((1 + math.exp(epsilon)) * hidden + weight * (users - 1) * chance * delta0)
        pair = float(clones_delta(users=users, local_epsilon=float(local), epsilon=epsilon))
        tail = tail_weight(users=users, local_epsilon=float(local)) * delta0
        assert written[-1] <= (pair + (1 + math.exp(epsilon)) * tail) * 1.02  # never more than the clones bound
    assert 0.6 * min(written) <= delta <= min(written) * (1 + 1e-3)
    assert delta == pytest.approx(1e-6, rel=2e-3)


# --- returning users -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 3, 20])
def test_reports_without_others_compose_as_gaussians(times: int) -> None:
    mu = 0.4
    composed = blanket_losses(users=1, local_epsilon=1.0, mu=mu).pld().self_compose(times)
    for epsilon in (0.1, 0.7, 2.1):
        exact = float(gdp.delta(epsilon, math.sqrt(times) * mu))
        assert exact * (1 - 1e-9) <= composed.get_delta_for_epsilon(epsilon) <= exact * 1.03 + 1e-15


@pytest.mark.parametrize(("users", "local", "mu"), [(3, 1.0, 0.8), (9, 1.5, 0.5)])
def test_three_batches_compose_as_dp_accounting_connects_the_dots(users: int, local: float, mu: float) -> None:
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    step = loss_std(users=users, local_epsilon=local, mu=mu) / 12
    k = np.arange(-150, 151)
    ahead = np.array([convolved(users, math.exp(-local), mu, step * j) for j in range(151)])
    grown = np.exp(step * np.arange(151))
    ahead *= 1 + grown
    behind = 1 - 1 / grown + ahead / grown  # at minus epsilon: the pair is its own mirror image
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, k, np.append(behind[:0:-1], ahead))
    other = privacy_loss_distribution.PrivacyLossDistribution(pmf).self_compose(3)
    composed = composed_blanket(users, local, mu, 3)
    for epsilon in (0.1, 0.4, 0.9):
        assert composed.get_delta_for_epsilon(epsilon) == pytest.approx(other.get_delta_for_epsilon(epsilon), rel=0.02)


@pytest.mark.parametrize(("users", "times"), [(2, 1), (40, 2), (300, 7), (5000, 400)])
def test_losses_compose_as_those_of_dp_accounting(users: int, times: int) -> None:
    one = blanket_losses(users=users, local_epsilon=1.3, mu=0.7)
    ours, theirs = one.composed(times), one.pld().self_compose(times, tail_mass_truncation=1e-15)
    pmf = theirs._pmf_remove
    assert (ours.first, len(ours.masses)) == (pmf._lower_loss, pmf.size)
    assert ours.infinite == pytest.approx(pmf._infinity_mass, rel=1e-9)
    np.testing.assert_allclose(ours.masses, pmf._probs, rtol=0, atol=1e-16)
    for epsilon in (0.0, 0.05, 0.5, 2.0, 19.0, 60.0):
        assert ours.get_delta_for_epsilon(epsilon) == pytest.approx(
            theirs.get_delta_for_epsilon(epsilon), rel=1e-9, abs=times * 1e-16
        )


@pytest.mark.parametrize(("users", "local", "mu"), [(2, 1.0, 1.0), (200, 2.0, 0.6), (10**6, 6.0, 1.0)])
def test_losses_are_a_law_whose_mirror_image_is_the_other(users: int, local: float, mu: float) -> None:
    pmf = blanket_losses(users=users, local_epsilon=local, mu=mu).pld()._pmf_remove
    loss = (pmf._lower_loss + np.arange(pmf.size)) * pmf._discretization
    by_loss = dict(zip((pmf._lower_loss + np.arange(pmf.size)).tolist(), pmf._probs, strict=True))
    image = {-k: mass * math.exp(-at) for (k, mass), at in zip(by_loss.items(), loss, strict=True)}
    assert max(abs(by_loss.get(k, 0.0) - image.get(k, 0.0)) for k in by_loss | image) < 1e-15
    assert pmf._probs.sum() + pmf._infinity_mass == pytest.approx(1.0, abs=1e-12)
    assert 0.0 < pmf._infinity_mass < 1e-18
    assert pmf._probs.min() >= 0.0


@pytest.mark.parametrize("mu", [1e3, 1e9])
def test_losses_of_reports_without_noise_compose_to_certainty(mu: float) -> None:
    assert composed_blanket(10, 20.0, mu, 3).get_delta_for_epsilon(1.0) == pytest.approx(1.0, abs=1e-6)


def test_losses_beyond_the_last_knot_count_as_infinite() -> None:
    pmf = blanket_losses(users=1, local_epsilon=1.0, mu=8.0).pld()._pmf_remove
    assert pmf._infinity_mass > 0.8
    assert pmf._probs.sum() + pmf._infinity_mass == pytest.approx(1.0, abs=1e-12)


def test_losses_on_any_grid_bound_the_profile_within_5_percent() -> None:
    case = {"users": 500, "local_epsilon": 2.0, "mu": 0.6}
    for step in (None, 1e-3, 1e-4):
        pld = blanket_losses(**case, discretization=step).pld()
        for epsilon in (0.02, 0.1, 0.2234):
            exact = (1 + math.exp(epsilon)) * stop_loss(users=500, chance=math.exp(-2.0), mu=0.6, epsilon=epsilon)
            assert exact * (1 - 1e-9) <= pld.get_delta_for_epsilon(epsilon) <= exact * 1.05


def test_the_convex_minorant_keeps_points_below_the_chords_only() -> None:
    assert _convex_minorant(np.array([0.5, 1.0, 2.0]), np.array([0.5, 0.6, 2.0])) == ([0.0, 1.0, 2.0], [0.0, 0.6, 2.0])
    assert _convex_minorant(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.3, 0.9])) == (
        [0.0, 1.0, 2.0, 3.0],
        [0.0, 0.1, 0.3, 0.9],
    )


def test_bad_input_of_the_losses_is_refused_by_name() -> None:
    from bandanna.errors import InvalidArgument

    good = {"users": 10, "local_epsilon": 1.0, "mu": 1.0, "discretization": 0.01}
    for name, value in [("users", 0), ("local_epsilon", -1.0), ("mu", 0.0), ("discretization", 0.0)]:
        with pytest.raises(InvalidArgument, match=name):
            blanket_losses(**good | {name: value}).pld()
