"""Random directions (PrivUnit) in the local model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import bandanna as bd
from bandanna.device.domain import Ball, Bits, Box, Domain, Statistic, StreamedStatistic, SymmetricMatrix
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, ReplicatedNoise, SecureNoise
from bandanna.errors import CalibrationError, InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.numeric.rng import Streams
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.events import RepetitionEvent
from bandanna.protocols.factory import PROTOCOLS, local_protocol_for, protocol_for
from bandanna.protocols.gaussian import LocalGaussian
from bandanna.protocols.randomized_response import LocalBits
from bandanna.protocols.running_sum import find_mismatch, running_sum_protocol_for
from bandanna.protocols.spherical_cap import LocalUnit, cosine_from_uniform
from bandanna.storage.encoding import Encoding

Floats = NDArray[np.float64]
REPORT, APPROX = LinearReport(features=5), ApproxDP(epsilon=1.0, delta=1e-5)
B = {"epsilon": 1.0, "delta": 1e-5}
DRAWS, USERS = 12_000, 3
BAND = math.sqrt(-math.log(1e-6 / 2) / 2)  # of sqrt(n) times a Kolmogorov distance
ROWS = np.array([[0.125, 0.9], [0.4, 0.0], [1.0, 0.5]])
UNIT = LocalUnit.calibrate(domain=Box(dim=2), budget=ApproxDP(epsilon=2.0, delta=1e-5))


def fast(seed: int = 1) -> FastNoise:
    return FastNoise(np.random.default_rng(seed))


def errors(protocol: LocalUnit, path: str, seed: int, rows: Floats = ROWS) -> Floats:
    batches = np.broadcast_to(rows, (DRAWS, *rows.shape))
    return protocol.release(batches, fast(seed), path=path).total - rows.sum(axis=0)


def gap(first: Floats, second: Floats) -> float:
    """Two-sample Kolmogorov distance in units of its standard scale."""
    scale = math.sqrt(len(first) * len(second) / (len(first) + len(second)))
    return scale * float(stats.ks_2samp(first, second, method="asymp").statistic)


# Balls


@pytest.mark.parametrize(
    "domain",
    [
        Ball(dim=4, bound=2.0),
        Box(dim=3, low=-1.0, high=5.0),
        SymmetricMatrix(size=3, bound=0.5),
        *(LinearReport(features=d, reward_bound=y) for d in (1, 2, 5) for y in (0.1, 1.0, 3.0)),
    ],
    ids=str,
)
def test_balls_hold_their_domains(domain: Domain) -> None:
    rng = np.random.default_rng(3)
    if isinstance(domain, LinearReport):
        x = rng.normal(size=(4000, domain.features))
        x *= (rng.choice([0.0, 0.5, 1.0], 4000) / np.linalg.norm(x, axis=1))[:, None]
        points = domain.statistic(x, domain.reward_bound * rng.choice([-1.0, 0.3, 1.0], 4000)).values
    else:
        points = domain.admit(rng.normal(size=(4000, domain.dim)) * 100).values
    centre, radius = domain.ball
    assert centre.shape == (domain.dim,)
    farthest = np.linalg.norm(points - centre, axis=1).max()
    assert 0.9999 * radius < farthest < radius * (1 + 1e-12)


def test_reports_lie_in_a_smaller_ball_than_around_zero() -> None:
    """The ball around 0, of radius sqrt 2, would be the best for rewards in [-1, 1]."""
    assert REPORT.ball[1] == pytest.approx(math.sqrt(1.8))
    assert LinearReport(features=1).ball[1] == pytest.approx(1.0)


# Budgets


def test_one_report_spends_the_whole_epsilon_and_no_delta() -> None:
    for budget in (APPROX, PureDP(epsilon=1.0)):
        protocol = LocalUnit.calibrate(domain=REPORT, budget=budget)
        assert protocol.guarantee.delta == 0.0
        assert 0.9999 < protocol.guarantee.epsilon <= 1.0
        assert protocol.std(1) == pytest.approx(3.3404, rel=1e-3)
        assert protocol.std_along(4) == pytest.approx(2 * 3.5873, rel=1e-3)
        assert protocol.bits_per_user == 540


@pytest.mark.parametrize(
    "budget", [ZCDP(rho=0.1), ZCDP(rho=3.0), RenyiDP(alpha=8.0, epsilon=1.0), PureDP(epsilon=0.2), APPROX]
)
@pytest.mark.parametrize("participations", [1, 3])
@pytest.mark.often(when=lambda budget, participations: participations == 3 or budget == APPROX)
def test_every_kind_of_budget_is_met(budget: Budget, participations: int) -> None:
    protocol = LocalUnit.calibrate(domain=REPORT, budget=budget, participations=participations)
    assert accountant.satisfies(RepetitionEvent(event=protocol.event, times=participations), budget)
    louder = LocalUnit.of_std(domain=REPORT, std=0.8 * protocol.std(1))
    assert not accountant.satisfies(RepetitionEvent(event=louder.event, times=participations), budget)
    assert LocalUnit.calibrate(domain=REPORT, budget=budget, participations=participations) == protocol


@pytest.mark.parametrize("participations", [2, 5])
def test_several_reports_meet_the_budget_exactly(participations: int) -> None:
    protocol = LocalUnit.calibrate(domain=REPORT, budget=APPROX, participations=participations)

    def profile(epsilon: float) -> float:
        q, true = 1 / (1 + math.exp(-epsilon)), np.arange(participations + 1)
        one, other = stats.binom.pmf(true, participations, q), stats.binom.pmf(true, participations, 1 - q)
        return float(np.sum(np.maximum(one - math.e * other, 0.0)))

    each = accountant.epsilon(protocol.event, 0.0)
    assert profile(each) <= 1e-5 < profile(1.2 * each)
    assert (protocol.guarantee.participations, protocol.guarantee.delta) == (participations, 1e-5)


@pytest.mark.parametrize("budget", [PureDP(epsilon=1e-5), ZCDP(rho=1e-30), ApproxDP(epsilon=1e-6, delta=1e-14)])
def test_budgets_that_no_direction_keeps_are_refused_by_their_own_name(budget: Budget) -> None:
    for participations in (1, 3):
        with pytest.raises(CalibrationError, match=type(budget).__name__):
            LocalUnit.calibrate(domain=REPORT, budget=budget, participations=participations)


# Noise


def test_both_paths_have_one_law() -> None:
    messages, law = errors(UNIT, "messages", 1), errors(UNIT, "law", 2)
    less = errors(LocalUnit.of_std(domain=Box(dim=2), std=0.8 * UNIT.std(1)), "law", 3)
    for across in (np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([1.0, -1.0])):
        assert gap(messages @ across, law @ across) < BAND
        assert gap(messages @ across, less @ across) > BAND


@pytest.mark.parametrize("path", ["messages", "law"])
def test_errors_are_as_stated(path: str) -> None:
    """The mean error is not 0, or the squared error not sum r^2/m^2 - |x - c|^2, or above what `std` says."""
    found = errors(UNIT, path, 5)
    assert np.all(np.abs(found.mean(axis=0)) < 5 * UNIT.std_along(USERS) / math.sqrt(DRAWS))
    centre, radius = UNIT.domain.ball
    whole = USERS * radius**2 / UNIT.mechanism.lean**2 - np.sum((ROWS - centre) ** 2)
    squares = np.sum(found**2, axis=-1)
    spread = 6 * np.std(squares) / math.sqrt(DRAWS)
    assert abs(np.mean(squares) - whole) < spread
    assert whole <= 2 * UNIT.std(USERS) ** 2
    assert 0.64 * whole < whole - 2 * spread
    assert UNIT.release(ROWS, fast(), path=path).variance == pytest.approx(UNIT.std(USERS) ** 2)


def test_no_direction_is_noisier_than_stated() -> None:
    rows = np.tile([[0.5001, 0.5]], (USERS, 1))  # hardly off the centre, along the first axis
    found = errors(UNIT, "law", 6, rows)
    spread = 6 * np.std(found[:, 0] ** 2) / math.sqrt(DRAWS)
    assert abs(np.mean(found[:, 0] ** 2) - UNIT.std_along(USERS) ** 2) < spread
    assert np.mean(found[:, 1] ** 2) < UNIT.std(USERS) ** 2


@pytest.mark.parametrize("dim", [2, 3, 20])
def test_angles_are_drawn_from_their_law(dim: int) -> None:
    protocol = LocalUnit.calibrate(domain=Ball(dim=dim), budget=PureDP(epsilon=2.0))
    axis = np.eye(dim)[:1]
    sent = protocol.device.encode(np.broadcast_to(axis, (DRAWS, dim)), fast(8))
    angles = (sent @ axis[0]) / np.sqrt(np.sum(sent.astype(float) ** 2, axis=-1))
    assert gap(angles, cosine_from_uniform(np.random.default_rng(9).random(DRAWS), protocol.event)) < BAND
    exact = cosine_from_uniform(np.linspace(0, 1, 1001), protocol.event)
    assert np.all(np.abs(exact) <= 1)


def test_groups_have_the_law_of_their_users() -> None:
    rows, counts = ROWS[:2], np.array([2, 1])
    grouped = Statistic(
        domain=UNIT.domain,
        values=np.broadcast_to(rows, (DRAWS, 2, 2)),
        clipped=np.zeros(DRAWS, dtype=np.int64),
        counts=np.broadcast_to(counts, (DRAWS, 2)),
    )
    single = np.repeat(rows, counts, axis=0)
    found = UNIT.release(grouped, fast(10), path="law").total - single.sum(axis=0)
    alone = errors(UNIT, "messages", 11, single)
    for k in range(2):
        assert gap(found[:, k], alone[:, k]) < BAND
        assert gap(0.8 * found[:, k], alone[:, k]) > BAND


def test_batches_that_arrive_in_parts_have_their_law() -> None:
    parts = [UNIT.domain.admit(np.broadcast_to(rows, (DRAWS, *rows.shape))) for rows in (ROWS[:1], ROWS[1:])]
    arriving = StreamedStatistic(UNIT.domain, users=USERS, source=parts, replicates=(DRAWS,))
    found = UNIT.release(arriving, fast(12), path="law").total - ROWS.sum(axis=0)
    whole = errors(UNIT, "law", 13)
    assert max(gap(found[:, k], whole[:, k]) for k in range(2)) < BAND


def test_a_seed_draws_the_same_in_any_company() -> None:
    rows = np.broadcast_to(ROWS, (2, *ROWS.shape))
    for path in ("messages", "law"):
        both = UNIT.release(rows, ReplicatedNoise(Streams((4, 5))), path=path).total
        alone = UNIT.release(rows[1:], ReplicatedNoise(Streams((5,))), path=path).total
        assert np.array_equal(both[1:], alone)


# Who opens it


@pytest.mark.parametrize("epsilon", [0.05, 10.0])
@pytest.mark.parametrize("participations", [1, 5, 40])
@pytest.mark.often(when=lambda epsilon, participations: participations == (1 if epsilon == 10.0 else 5))
def test_less_noise_is_chosen_by_computation(epsilon: float, participations: int) -> None:
    privacy = bd.local(epsilon=epsilon, delta=1e-5, participations=participations)
    made = [local_protocol_for(replace(privacy, protocol=name), REPORT) for name in ("gaussian", "unit", "auto")]
    assert made[2].std(1) == min(made[0].std(1), made[1].std(1))
    assert participations > 5 or (made[2].name == "local_unit") == (epsilon == 10.0 or participations == 1)
    assert local_protocol_for(privacy, REPORT) == made[0]
    assert local_protocol_for(privacy.with_default_protocol("auto"), REPORT) == made[2]


@pytest.mark.parametrize(("participations", "name"), [(1, "local_unit"), (40, "local_gaussian")])
@pytest.mark.often(when=lambda participations: participations == 1)
def test_auto_is_gaussian_for_many_participations(participations: int, name: str) -> None:
    privacy = bd.local(**B, participations=participations, protocol="auto")
    assert local_protocol_for(privacy, REPORT).name == name


def test_a_chosen_protocol_is_not_replaced_by_the_default() -> None:
    chosen = bd.local(**B, protocol="gaussian")
    assert chosen.with_default_protocol("auto") == chosen
    assert bd.shuffle(**B).with_default_protocol("auto") == bd.shuffle(**B)
    assert bd.protocols.Privacy(model="local", budget=APPROX) == bd.local(**B)
    with pytest.raises(InvalidArgument, match="protocol"):
        bd.local(**B).with_default_protocol("laplace")


def test_directions_are_opened_wherever_local_reports_are() -> None:
    wish, pure = bd.local(**B, protocol="unit"), bd.local(epsilon=1.0, delta=0.0, protocol="unit")
    assert isinstance(protocol_for(wish, REPORT, 10), LocalUnit)
    assert isinstance(protocol_for(pure, REPORT, 10), LocalUnit)
    assert isinstance(protocol_for(replace(pure, protocol="auto"), REPORT, 10), LocalUnit)
    assert isinstance(protocol_for(wish, Bits(), 10), LocalBits)
    channel = running_sum_protocol_for(wish, domain=REPORT, sizes=[5, 5, 7])
    assert all(isinstance(protocol, LocalUnit) for protocol in channel.protocols.values())
    assert channel.prefix_std()[-1] == pytest.approx(channel.protocols[5].std(17))
    assert channel.guarantee.epsilon <= 1.0
    made, other = channel.protocols[5], LocalGaussian(domain=REPORT, noise_std=1.0)
    for name, allowed in {"unit": (True, False), "auto": (True, True), "default": (False, True)}.items():
        found = [find_mismatch(replace(wish, protocol=name), each, size=5, steps=3) is None for each in (made, other)]
        assert tuple(found) == allowed
    counter = bd.agent.ContinualSum(horizon=9, values=Ball(dim=3), privacy=wish, source=fast())
    assert isinstance(counter.protocol, LocalUnit)
    assert np.all(np.isfinite([counter.update(row) for row in np.eye(3)]))


def test_auto_is_gaussian_where_no_directions_exist() -> None:
    auto = bd.local(**B, protocol="auto")
    for domain in (Box(dim=1), Ball(dim=10_000)):
        assert isinstance(local_protocol_for(auto, domain), LocalGaussian)
        with pytest.raises(InvalidArgument, match="coordinates"):
            local_protocol_for(replace(auto, protocol="unit"), domain)
    tiny = bd.local(epsilon=1e-5, delta=1e-5, protocol="auto")
    assert isinstance(local_protocol_for(tiny, REPORT), LocalGaussian)
    printed = bd.local(epsilon=0.5, delta=1e-5, protocol="auto", calibration="paper")
    assert isinstance(local_protocol_for(printed, REPORT), LocalGaussian)


def test_a_bandit_runs_on_directions(tmp_path: Path) -> None:
    policy = bd.LinUCB(dim=2, horizon=60, batch=20, privacy=bd.local(epsilon=4.0, delta=1e-5, protocol="unit"))
    for fixed in (False, True):
        world = bd.environments.LinearContextual(dim=2, n_arms=3, fixed=fixed)
        for path in ("law", "messages"):
            assert np.all(np.isfinite(bd.simulate(policy, world, n_seeds=2, path=path).regret))
    agent = bd.Agent(policy=policy)
    for number in range(45):
        agent.observe(agent.act(np.eye(2), user=number).id, 0.5)
    assert agent.releases == 2
    agent.save(tmp_path / "agent.json")
    assert bd.Agent.load(tmp_path / "agent.json").releases == 2
    assert policy.guarantee.epsilon <= 4.0
    assert policy.guarantee.delta == 0.0


# Values and refusals


def test_it_is_saved_and_states_who_sees_what() -> None:
    code = Encoding({**PROTOCOLS, "Box": Box})
    assert code.loads(code.dumps(UNIT)) == UNIT
    assert "one random direction per user" in str(UNIT.guarantee)
    secure = UNIT.release(np.tile(ROWS, (500, 1)), SecureNoise())
    assert np.all(np.abs(secure.total - 500 * ROWS.sum(axis=0)) < 10 * UNIT.std_along(1500))


def test_words_are_counted() -> None:
    assert UNIT.draws(7).words == 3 * 7 * UNIT.candidates
    assert LocalUnit.calibrate(domain=REPORT, budget=APPROX).draws(2).words == 3 * 2 * 3 * 10


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidStatistic, match="integers"):
        UNIT.mixer.check(np.zeros((3, 2)))
    with pytest.raises(InvalidStatistic, match=r"messages\[0, 1\]"):
        UNIT.mixer.check(np.array([[0, 2**26]]))
    with pytest.raises(InvalidBudget, match="budget"):
        LocalUnit.calibrate(domain=REPORT, budget=1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="domain"):
        LocalUnit.calibrate(domain=3, budget=APPROX)  # type: ignore[arg-type]
    for std in (1e-3, 1e9):
        with pytest.raises(CalibrationError, match="standard deviation"):
            LocalUnit.of_std(domain=REPORT, std=std)
    for wrong in (bd.central(**B), bd.none(), bd.local(epsilon=math.inf, delta=1e-5), None):
        with pytest.raises(InvalidArgument, match="privacy"):
            local_protocol_for(wrong, REPORT)  # type: ignore[arg-type]
    with pytest.raises(InvalidBudget, match='protocol="unit"'):
        local_protocol_for(bd.local(epsilon=1.0, delta=0.0), REPORT)
    with pytest.raises(InvalidArgument, match="calibration"):
        bd.local(**B, protocol="unit", calibration="paper")
    for trust, protocol in ((bd.shuffle, "unit"), (bd.local, "binomial"), (bd.local, "units")):
        with pytest.raises(InvalidArgument, match="protocol"):
            trust(**B, protocol=protocol)
