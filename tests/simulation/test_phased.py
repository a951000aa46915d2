from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.device import randomizers
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.policies.population import PhasedElimination
from bandanna.policies.registry import make
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.privacy_model import none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments import population
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.environments.population import Population
from bandanna.simulation.players.assigned import ClientInquiry

BUDGET = {"epsilon": 5.0, "delta": 1e-3}
NAMES: dict[str, dict[str, Any]] = {
    "DPE": {},
    "CDP-DPE": BUDGET,
    "LDP-DPE": BUDGET,
    "SDP-DPE": BUDGET,
    "Laplace-DPE": {"epsilon": 5.0},
    "PE": {},
}
PEOPLE = Population(dim=3, n_arms=8, sigma=0.1)


def released(policy: Any, world: Any, state: Any, phase: Any, source: FastNoise, path: str) -> Any:
    """The released averages of a phase, of 600 groups of clients."""
    inquiry, query = ClientInquiry(policy, world, 0, source, path), next(policy.learn(state, phase))
    people = phase.plays if policy.per_round else phase.answers
    return [inquiry.answer(query, phase).total / people for _ in range(600)]


@pytest.mark.often(when=lambda name: name not in ("DPE", "Laplace-DPE"))  # drawn as CDP-DPE is
@pytest.mark.parametrize("name", NAMES)
def test_law_and_messages(name: str) -> None:
    """What is released from aggregates differs in law from what single rewards and messages give.

    600 phases each way, two-sample Kolmogorov-Smirnov on every released average and on their sum; false alarm 1e-4.
    """
    policy = make(name, dim=3, horizon=1000, bound=0.9 if name != "PE" else 1.0, **NAMES[name])
    env = Population(arms=np.vstack([0.6 * np.eye(3), [[0.5, 0.5, 0.0]]]), theta=[0.8, 0.1, -0.3], sigma=0.3)
    found: dict[str, list[np.ndarray]] = {}
    for first, path in ((0, "law"), (10_000, "messages")):
        world = env.begin(Streams([first]))
        state = policy.init(world.arms[0])
        state = replace(state, number=3)
        source = FastNoise(np.random.default_rng(first))
        found[path] = released(policy, world, state, policy.episode(state), source, path)
    law, messages = np.array(found["law"]), np.array(found["messages"])
    for direction in (*np.eye(law.shape[1]), np.ones(law.shape[1])):
        one, other = (np.round(each @ direction, 9) for each in (law, messages))  # equal values are ties
        assert stats.ks_2samp(one, other).pvalue > 1e-4


def lean_of_three(epsilon: float) -> float:
    """The largest m = E<u, u0> of an epsilon-private direction among three numbers, where <u, u0> is uniform.

    A cap <u, u0> >= c has the mass q = (1 - c)/2, is hit with p = e^epsilon q / (1 - q + e^epsilon q), and then the
    mean is (1 + c)/2, otherwise (c - 1)/2.
    """
    c = np.linspace(-0.999, 0.999, 20_001)
    q = (1 - c) / 2
    p = math.exp(epsilon) * q / (1 - q + math.exp(epsilon) * q)
    return float(np.max(p * (1 + c) / 2 + (1 - p) * (c - 1) / 2))


@pytest.mark.parametrize("path", ["law", "messages"])
@pytest.mark.parametrize("name", ["CDP-DPE", "LDP-DPE", "LDP-DPE by directions", "SDP-DPE", "Laplace-DPE"])
def test_noise_is_what_the_budget_asks(name: str, path: str) -> None:
    """A run adds noise that is 20 % too small for its budget, or too large, along the law or along the messages.

    Local rewards of mean 0 and equal clients: an average varies by 1/(T U) and by the noise, whose standard deviation
    is 2 B sqrt(s)/(mu U), sqrt(U) times that without a server, and sqrt(2) 2 B s/(epsilon U) for Laplace. Directions of
    three numbers have a mean variance of (B/m)^2 - 1/T for each client, m as in `lean_of_three`. 600 phases; five
    standard errors of a variance are 0.17 (Laplace: 0.27), a fifth less noise is 0.33.
    """
    laplace, budget = name == "Laplace-DPE", ApproxDP(epsilon=0.5, delta=1e-3)
    own: dict[str, Any] = {} if laplace else {"delta": 1e-3}
    if name.startswith("LDP-DPE"):
        own["protocol"] = "gaussian" if name == "LDP-DPE" else "unit"
    policy = make(name.removesuffix(" by directions"), dim=3, horizon=1000, sigma=0.0, epsilon=0.5, **own)
    world = Population(arms=0.6 * np.eye(3), theta=[0.0, 0.0, 0.0], sigma=0.0).begin(Streams([5]))
    state = replace(policy.init(world.arms[0]), number=3)
    phase, source = policy.episode(state), FastNoise(np.random.default_rng(6))
    averages = released(policy, world, state, phase, source, path)
    s, users = len(phase.arms), phase.answers
    std = math.sqrt(2) * 2 * s / 0.5 if laplace else 2 * math.sqrt(s) / budget.mu()
    if name == "LDP-DPE":
        std *= math.sqrt(users)
    if name == "LDP-DPE by directions":
        std = math.sqrt(users * (1 / lean_of_three(0.5) ** 2 - np.mean(1 / phase.plays)))
    expected = (std / users) ** 2 + float(np.mean(1 / (phase.plays * users)))
    limit = 5 * math.sqrt((5 if laplace else 2) / (600 * s))
    assert np.mean(np.square(averages)) == pytest.approx(expected, rel=limit)


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_the_same_in_any_company(name: str) -> None:
    policy = make(name, dim=3, horizon=600, **NAMES[name])
    several, alone = simulate(policy, PEOPLE, n_seeds=3, seed=4), simulate(policy, PEOPLE, n_seeds=1, seed=6)
    np.testing.assert_array_equal(several.regret[2], alone.regret[0])
    assert several.counts["clients"][2] == alone.counts["clients"][0]


@pytest.mark.parametrize("n_seeds", [100, pytest.param(1000, marks=pytest.mark.full)])
def test_the_best_action_survives_every_phase(n_seeds: int) -> None:
    """The best action is left out in one of the short runs (the theorem: less often than once in 10^3)."""
    policy = make("CDP-DPE", dim=3, horizon=600, **BUDGET)
    result = simulate(policy, PEOPLE, n_seeds=n_seeds, checkpoints=1)
    assert np.all(result.counts["best_kept"] == 1)
    assert np.mean(result.counts["active"]) < 6  # of 8


def test_a_lost_best_action_is_noticed() -> None:
    policy = make("LDP-DPE", dim=3, horizon=600, width=0.0, **BUDGET)  # only the seeming best of a noisy phase stays
    counts = simulate(policy, PEOPLE, n_seeds=40, checkpoints=1).counts
    np.testing.assert_array_equal(counts["active"], 1)
    assert 0 < np.mean(counts["best_kept"]) < 0.6  # by luck alone: 1/8


@pytest.mark.parametrize("name", ["DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU"])
def test_communication_is_the_papers_sum(name: str) -> None:
    policy = make(name, dim=3, horizon=700, **({} if name == "DPE-FixedU" else NAMES[name]))
    arms = np.eye(3)
    counts = simulate(policy, Population(arms=arms, theta=[0.0, 0.0, 0.0])).counts
    phases, bits = int(counts["phases"][0]), []
    for number in range(1, phases + 1):
        phase = policy.episode(type(policy.init(arms))(arms=arms, active=np.arange(3), number=number))
        bits.append(phase.answers * policy.protocol(phase).bits_per_user)
    clients = sum(policy.count_clients(number) for number in range(1, phases + 1))
    assert (phases, counts["active"][0], counts["actions"][0]) == (8, 3, 24)
    assert (counts["clients"][0], counts["numbers"][0], counts["bits"][0]) == (clients, 3 * clients, sum(bits))
    assert counts["communication"][0] == (sum(bits) if name == "SDP-DPE" else 3 * clients)


def test_communication_is_counted_over_the_released_phases() -> None:
    horizon = 700
    for name in ("DPE", "SDP-DPE"):
        policy = make(name, dim=3, horizon=horizon, **NAMES[name])
        result = simulate(policy, PEOPLE, n_seeds=2, seed=1)
        counts = result.counts
        for index in range(2):
            phases = int(counts["phases"][index])
            assert phases <= policy.phases
            clients = [policy.count_clients(number) for number in range(1, phases + 1)]
            assert counts["clients"][index] == sum(clients)
            assert sum(clients) <= counts["numbers"][index] <= sum(clients) * (result.numbers_per_user or 0)
        if name == "DPE":
            np.testing.assert_array_equal(counts["communication"], counts["numbers"])
            np.testing.assert_array_equal(counts["bits"], 64 * counts["numbers"])
        else:
            np.testing.assert_array_equal(counts["communication"], counts["bits"])
        sent = result.to_dict()["communication"]
        assert sent["users"] == max(counts["clients"])
        assert sent["bits"] == round(np.mean(counts["bits"])) < sent["users"] * sent["bits_per_user"]
        assert sent["numbers"] == round(np.mean(counts["numbers"]))
    each = simulate(make("PE", dim=3, horizon=horizon), PEOPLE, n_seeds=2)
    for what in ("clients", "communication", "numbers"):
        np.testing.assert_array_equal(each.counts[what], horizon)


@pytest.mark.often(when=lambda name, path: path == "law" or name == "SDP-DPE")
@pytest.mark.parametrize("path", ["law", "messages"])
@pytest.mark.parametrize("name", ["DPE", "SDP-DPE", "PE"])
def test_clipped_clients_and_reports_are_counted(name: str, path: str) -> None:
    # 254 rounds are seven whole phases: nobody answers in vain
    sure = Population(arms=[[1.0]], theta=[1.0], sigma=0.0)  # every reward is 1, no mean leaves the range
    policy = make(name, dim=1, horizon=254, **NAMES[name])
    assert simulate(policy, sure, path=path).clipped[0] == 0
    if name != "PE":  # who has no reports to clip
        tight = simulate(make(name, dim=1, horizon=254, bound=0.5, **NAMES[name]), sure, path=path)
        assert tight.clipped[0] == tight.counts["clients"][0] > 0
    wide = simulate(policy, Population(arms=[[1.0]], theta=[1.0], sigma=1.0), n_seeds=20, path=path)
    asked, chance = float(np.sum(wide.counts["clients"])), 0.5 + stats.norm.cdf(-2)
    assert np.sum(wide.clipped) / asked == pytest.approx(chance, abs=5 * math.sqrt(0.25 / asked))


def test_population_must_be_large_enough() -> None:
    policy = PhasedElimination(dim=3, horizon=1000, privacy=none())
    needed = policy.clients_needed
    with pytest.raises(InvalidArgument, match=f"at least {needed} users"):
        simulate(policy, Population(dim=3, n_arms=8, size=needed - 1))
    enough = simulate(policy, Population(dim=3, n_arms=8, size=needed))
    assert enough.counts["clients"][0] <= needed
    with pytest.raises(InvalidArgument, match="Population"):
        simulate(policy, LinearContextual(dim=3, n_arms=8))


def test_cost_does_not_grow_with_the_rounds() -> None:
    policy = make("DPE", dim=3, horizon=10**9, alpha=0.4)
    result = simulate(policy, PEOPLE, n_seeds=2)
    assert result.horizon == 10**9
    assert np.all(result.counts["clients"] <= policy.clients_needed)
    assert np.all(result.final_regret < 1e-3 * 10**9)


def test_clients_are_not_all_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make("SDP-DPE", dim=3, horizon=600, **BUDGET)
    together = simulate(policy, PEOPLE, n_seeds=2)
    monkeypatch.setattr(population, "_BLOCK", 21)
    seen: list[int] = []
    encode = randomizers.encode_on_lattice
    monkeypatch.setattr(
        randomizers, "encode_on_lattice", lambda values, *rest: (seen.append(values.size), encode(values, *rest))[1]
    )
    apart = simulate(policy, PEOPLE, n_seeds=2)
    assert 0 < max(seen) <= 21
    np.testing.assert_array_equal(apart.regret, together.regret)
    np.testing.assert_array_equal(apart.clipped, together.clipped)
    assert np.sum(apart.clipped) > 0


@pytest.mark.often(when=lambda name, horizon: horizon == 30 or name in ("SDP-DPE", "PE"))
@pytest.mark.parametrize("horizon", [1, 2, 3, 30])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "arms",
    [
        [[0.5]],  # one arm, one dimension
        [[0.5], [-0.5], [0.2]],
        [[0.6, 0.0, 0.0]] * 4,  # the same arm again
        [[0.6, 0.0, 0.0], [0.3, 0.1, 0.0], [0.0, 0.5, 0.0]],  # no third dimension
        [[0.0, 0.0], [0.5, 0.0]],  # one that is worth nothing
    ],
)
def test_degenerate_action_sets_and_short_horizons_run(arms: list[list[float]], name: str, horizon: int) -> None:
    policy = make(name, dim=len(arms[0]), horizon=horizon, **NAMES[name])
    result = simulate(policy, Population(arms=arms), n_seeds=2)
    assert result.regret.shape[1] == horizon
    assert np.all(np.diff(result.regret, axis=1) >= 0)
    assert np.all(result.counts["best_kept"] == 1)


def test_only_the_zero_action_is_left() -> None:
    arms, theta = [[0.0, 0.0], [0.9, 0.0]], [-1.0, 0.0]
    result = simulate(make("DPE", dim=2, horizon=5000), Population(arms=arms, theta=theta), n_seeds=2)
    np.testing.assert_array_equal(result.counts["active"], 1)
    assert np.all(result.counts["best_kept"] == 1)


def test_regret_and_reward_fit_the_actions_played() -> None:
    people = Population(arms=[[0.5], [0.1]], theta=[1.0], sigma=0.0)
    result = simulate(make("DPE", dim=1, horizon=400, sigma=0.0), people, n_seeds=3)
    np.testing.assert_allclose(result.rewards + result.final_regret, 0.5 * 400)
    np.testing.assert_allclose(result.regret, 0.0)  # the design of one dimension is its longest arm


def test_infinite_budget_is_no_privacy() -> None:
    plain = simulate(make("DPE", dim=3, horizon=3000), PEOPLE, n_seeds=4)
    for name in ("CDP-DPE", "LDP-DPE", "SDP-DPE"):
        free = simulate(make(name, dim=3, horizon=3000, epsilon=math.inf, delta=1e-3), PEOPLE, n_seeds=4)
        np.testing.assert_array_equal(free.regret, plain.regret)


def test_trust_costs_what_the_paper_says() -> None:
    regret = {}
    for epsilon in (1.0, 10.0):
        for name in ("CDP-DPE", "SDP-DPE", "LDP-DPE"):
            policy = make(name, dim=3, horizon=30_000, epsilon=epsilon, delta=0.1)
            regret[name, epsilon] = float(simulate(policy, PEOPLE, n_seeds=10, checkpoints=1).mean()[-1])
    for name in ("CDP-DPE", "SDP-DPE", "LDP-DPE"):
        assert regret[name, 10.0] < regret[name, 1.0]
    for epsilon in (1.0, 10.0):
        assert regret["SDP-DPE", epsilon] < 1.3 * regret["CDP-DPE", epsilon]
        assert regret["LDP-DPE", epsilon] > 2 * regret["SDP-DPE", epsilon]


def test_clients_alike_are_a_linear_bandit() -> None:
    alike = Population(dim=3, n_arms=8, sigma=0.0)
    horizon = 300_000
    clear = simulate(make("DPE", dim=3, horizon=horizon, sigma=0.0), alike, n_seeds=10, checkpoints=1)
    private = simulate(make("CDP-DPE", dim=3, horizon=horizon, sigma=0.0, **BUDGET), alike, n_seeds=10, checkpoints=1)
    assert private.mean()[-1] < 5 * clear.mean()[-1] < 5e-3 * horizon
