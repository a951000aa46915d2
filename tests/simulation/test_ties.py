"""Ties in simulations: every user's own coin, in the same law whichever way an episode is played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.errors import ClippingWarning
from bandanna.numeric.rng import Streams
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import central, concurrent, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bounded, Environment, World
from bandanna.simulation.environments.population import OneClientPerRound, Population
from bandanna.types import Floats

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
MEANS = np.array([0.1, 0.5, 0.9])
PRIVACY = {
    "none": none(),
    "central": central(**BUDGET),
    "local": local(**BUDGET),
    "shuffle": shuffle(**BUDGET),
    "shuffle-gaussian": shuffle(**BUDGET, protocol="gaussian"),
    "concurrent": concurrent(**BUDGET, shufflers=2),
}
each = pytest.mark.parametrize("privacy", PRIVACY.values(), ids=PRIVACY)


@dataclass(frozen=True, kw_only=True)
class Clinic(Environment):
    """Treatments without features of their own, tied until something is known; if `mixed`, not in all seeds."""

    dim: int = 3
    n_arms: int = 3
    fixed: bool = True
    mixed: bool = False
    size: float = 1.0

    def begin(self, streams: Streams) -> World:
        """Nothing to draw."""
        return ClinicWorld(environment=self, streams=streams, fixed=self.fixed)


class ClinicWorld(World):
    """One-hot arms; in some seeds the last one is shorter than the others, or the only one of full length."""

    environment: Clinic

    def contexts(self, start: int, rounds: int) -> Floats:
        """(S, rounds, 3, 3)."""
        arms = np.array([self.environment.size * np.eye(3)] * len(self.streams.seeds))
        if self.environment.mixed:
            seeds = np.array(self.streams.seeds)
            arms[seeds % 3 == 1, 2] *= 0.5
            arms[seeds % 3 == 2, :2] *= 0.5
        return np.repeat(arms[:, None], 1 if self.fixed else rounds, axis=1)

    def means(self, contexts: Floats) -> Floats:
        """The same in every round."""
        return np.broadcast_to(MEANS, contexts.shape[:-1]).copy()


def policy(privacy: Any = PRIVACY["none"], **changes: Any) -> LinUCB:
    """Two batches and a shorter rest."""
    return LinUCB(**{"dim": 3, "horizon": 290, "batch": 120, "privacy": privacy, **changes})


@pytest.mark.often(of=lambda path, reward: (path == "law") == (reward is None))
@each
@pytest.mark.filterwarnings("ignore::bandanna.errors.ClippingWarning")
@pytest.mark.parametrize("path", ["law", "messages"])
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "fresh"])
@pytest.mark.parametrize("reward", [None, Bounded(width=0.2)], ids=["bits", "bounded"])
def test_a_seed_with_a_tie_is_the_same_in_any_company(privacy: Any, path: str, fixed: bool, reward: Any) -> None:
    env = Clinic(fixed=fixed, mixed=True, size=1.5, **({} if reward is None else {"reward": reward}))
    one = policy(privacy)  # calibrated once
    many = simulate(one, env, n_seeds=5, path=path)
    for seed in range(5):
        alone = simulate(one, env, n_seeds=1, seed=seed, path=path)
        np.testing.assert_array_equal(alone.regret[0], many.regret[seed])
        assert (alone.rewards[0], alone.clipped[0]) == (many.rewards[seed], many.clipped[seed])


@pytest.mark.parametrize("path", ["law", "messages"])
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "fresh"])
@pytest.mark.parametrize("reward", [None, Bounded(width=0.1)], ids=["bits", "bounded"])
def test_users_of_the_first_batch_choose_for_themselves(path: str, fixed: bool, reward: Any) -> None:
    """Regret inside an episode of tied arms is not a sum of independent uniform choices. Seeded: no false alarms.

    An episode in which all users take the same one of the tied arms would have 120 times the variance.
    """
    env = Clinic(fixed=fixed, **({} if reward is None else {"reward": reward}))
    result = simulate(policy(), env, n_seeds=400, path=path, checkpoints=290)
    gaps = np.max(MEANS) - MEANS
    for rounds in (1, 50, 120):
        regret = result.regret[:, rounds - 1]
        assert stats.ttest_1samp(regret, rounds * np.mean(gaps)).pvalue > 1e-3
        assert 0.8 < np.var(regret) / (rounds * np.var(gaps)) < 1.25
    steps = np.diff(result.regret[:, :120], axis=1)
    assert abs(np.corrcoef(steps[:, 3], steps[:, 70])[0, 1]) < 0.17  # 3.3 standard errors


@pytest.mark.often(of=lambda privacy, reward: reward is None or privacy.model in ("none", "local"))
@each
@pytest.mark.parametrize("reward", [None, Bounded(width=0.2)], ids=["bits", "bounded"])
def test_ties_along_law_and_messages_agree_in_distribution(privacy: Any, reward: Any) -> None:
    env = Clinic(mixed=True, **({} if reward is None else {"reward": reward}))
    law, messages = (
        simulate(policy(privacy, horizon=250), env, n_seeds=150, seed=seed, path=path, checkpoints=250)
        for seed, path in ((0, "law"), (3000, "messages"))
    )
    tied = np.arange(150) % 3 != 2
    for rounds in (60, 120, 180, 250):
        assert stats.ks_2samp(law.regret[tied, rounds - 1], messages.regret[tied, rounds - 1]).pvalue > 1e-3
    assert stats.ks_2samp(law.rewards[tied], messages.rewards[tied]).pvalue > 1e-3


def test_reports_of_tied_arms_are_counted_and_clipped_by_arm() -> None:
    with pytest.warns(ClippingWarning):
        result = simulate(policy(horizon=120), Clinic(size=1.5), n_seeds=3)
    np.testing.assert_array_equal(result.clipped, [120] * 3)
    later = simulate(policy(horizon=2400), Clinic(), n_seeds=20)
    pace = np.diff(later.regret[:, [-60, -1]], axis=1)[:, 0] / 59 / 12
    assert np.mean(pace) < 0.1  # guessing costs 0.4 a round, and a batch spent on one arm says nothing of the others


def test_an_anytime_policy_shares_the_first_batch_of_every_phase() -> None:
    run = Anytime(first=LinUCB(dim=3, horizon=200, batch=200, privacy=none()))
    result = simulate(run, Clinic(), n_seeds=50, horizon=600, checkpoints=600)
    assert abs(np.mean(result.regret[:, 199]) / 200 - 0.4) < 0.01
    assert abs(np.mean(result.regret[:, 399] - result.regret[:, 199]) / 200 - 0.4) < 0.01


def test_one_client_per_round_is_asked_about_all_tied_arms() -> None:
    env = OneClientPerRound(population=Population(dim=2, n_arms=5, sigma=0.1, size=None))
    first = simulate(LinUCB(dim=3, horizon=400, batch=400, ties="first", privacy=none()), env, n_seeds=4)
    shared = simulate(LinUCB(dim=3, horizon=400, batch=400, privacy=none()), env, n_seeds=4, checkpoints=400)
    assert len(np.unique(np.round(np.diff(first.regret, axis=1), 9))) <= 4 * 2
    assert len(np.unique(np.round(np.diff(shared.regret[0]), 9))) == 5


def test_ties_that_go_to_the_first_arm_spend_the_batch_on_it() -> None:
    result = simulate(policy(ties="first"), Clinic(), n_seeds=2, checkpoints=290)
    np.testing.assert_allclose(result.regret[:, 119], 120 * 0.8)
