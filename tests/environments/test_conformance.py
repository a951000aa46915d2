"""What every environment owes its runners; each class that is exported is held to it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from bandanna import environments as worlds
from bandanna.numeric.rng import Streams
from bandanna.simulation.environments.base import Environment
from bandanna.simulation.environments.population import PopulationWorld

ROUNDS = 30
SETS = np.random.default_rng(5).dirichlet(np.ones(3), size=(ROUNDS, 4))  # (T, K, d)


def features(_: int, rng: np.random.Generator) -> Any:
    """Arms of a user's own world."""
    return rng.dirichlet(np.ones(3), size=4)


def largest(arms: Any) -> Any:
    """Means of a user's own world."""
    return np.max(arms, axis=-1)


_PEOPLE = worlds.Population(dim=2, n_arms=4, sigma=0.2)
CASES: dict[str, tuple[Environment, ...]] = {
    "ArrayEnvironment": (
        worlds.ArrayEnvironment(arms=SETS, theta=[0.1, 0.5, 0.9]),
        worlds.ArrayEnvironment(arms=SETS[0], means=SETS[..., 0]),
    ),
    "CallableEnvironment": (worlds.CallableEnvironment(dim=3, n_arms=4, contexts=features, mean=largest),),
    "DisjointLinear": (worlds.DisjointLinear(dim=2, n_arms=4),),
    "DriftingContexts": (worlds.DriftingContexts(dim=4, n_arms=5, horizon=ROUNDS, turns=2),),
    "FiniteArms": (worlds.FiniteArms(means=(0.8, 0.4, 0.2)),),
    "GeneralisedLinear": (worlds.GeneralisedLinear(dim=2, n_arms=4, norm=2.0),),
    "LinearContextual": (
        worlds.LinearContextual(dim=3, n_arms=4),
        worlds.LinearContextual(dim=3, n_arms=4, fixed=True, reward=worlds.Bounded(width=0.3)),
    ),
    "OneClientPerRound": (worlds.OneClientPerRound(population=_PEOPLE),),
    "Population": (_PEOPLE,),
    "PublishedGLM": (worlds.PublishedGLM(n_arms=4, rounds=ROUNDS),),
    "PublishedLinear": (worlds.PublishedLinear(dim=3, n_arms=9),),
    "SphereArms": (
        worlds.SphereArms(dim=3, n_arms=4),
        worlds.SphereArms(dim=2, n_arms=3, reward=worlds.ClippedGaussian(low=-1.0, high=1.0)),
    ),
    "SphereContexts": (worlds.SphereContexts(dim=3, n_arms=4),),
    "Table": (
        worlds.Table(features=SETS, rewards=SETS[..., 0]),
        worlds.Table(features=SETS[:, 0], rewards=SETS[..., 0], resample=False, reward=worlds.Bernoulli()),
        worlds.Table.from_labels(SETS[:, 0], np.argmax(SETS[:, 0], axis=-1)),
    ),
}
EVERY = [pytest.param(env, id=f"{name} {place}") for name, envs in CASES.items() for place, env in enumerate(envs)]
each = pytest.mark.parametrize("env", EVERY)
with_contexts = pytest.mark.parametrize("env", [case for case in EVERY if case.id != "Population 0"])


def test_every_environment_is_held_to_this() -> None:
    exported = {name for name in worlds.__all__ if _is_environment(getattr(worlds, name))}
    assert exported == set(CASES)


def _is_environment(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Environment) and not inspect.isabstract(value)


def read(env: Environment, seeds: list[int], sizes: list[int]) -> tuple[Any, Any]:
    """Contexts and means of the first rounds in blocks of these sizes; those of arms that stay are repeated."""
    world, parts, start = env.begin(Streams(seeds)), [], 0
    for size in sizes:
        contexts = world.contexts(start, size)
        means = world.means(contexts)
        assert contexts.shape == (len(seeds), 1 if world.fixed else size, env.n_arms, env.dim)
        assert means.shape == contexts.shape[:-1]
        parts.append((np.repeat(contexts, size, 1), np.repeat(means, size, 1)) if world.fixed else (contexts, means))
        start += size
    return tuple(np.concatenate(each, axis=1) for each in zip(*parts, strict=True))  # type: ignore[return-value]


@with_contexts
def test_rounds_read_in_blocks_are_those_read_at_once(env: Environment) -> None:
    for one, two in zip(read(env, [3, 1], [ROUNDS]), read(env, [3, 1], [1, 2, ROUNDS - 10, 7]), strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-13)


@with_contexts
def test_a_seed_has_the_same_world_alone_and_among_others(env: Environment) -> None:
    together, alone = read(env, [4, 2, 9], [ROUNDS]), read(env, [2], [ROUNDS])
    for one, two in zip(together, alone, strict=True):
        np.testing.assert_allclose(one[1], two[0], rtol=0, atol=1e-13)
    drawn = []
    for seeds in ([4, 2, 9], [2]):
        world = env.begin(Streams(seeds))
        means = np.ascontiguousarray(np.broadcast_to(world.means(world.contexts(0, 1))[:, 0, :1], (len(seeds), ROUNDS)))
        drawn.append(world.rewards(means)[seeds.index(2)])
    np.testing.assert_array_equal(drawn[0], drawn[1])


@with_contexts
def test_numbers_are_finite_and_worlds_say_whether_they_stay(env: Environment) -> None:
    contexts, means = read(env, [0, 1], [ROUNDS])
    assert np.all(np.isfinite(contexts))
    assert np.all(np.isfinite(means))
    world = env.begin(Streams([0]))
    if world.fixed:
        np.testing.assert_array_equal(world.contexts(0, 1), world.contexts(7, 1))


@with_contexts
def test_rewards_have_their_means(env: Environment) -> None:
    """Rewards, or sums of them, are not centred at the means (6 standard errors of 40 seeds: 1e-6 each)."""
    world = env.begin(Streams(range(40)))
    means = world.means(world.contexts(0, 1))[:, 0, -1]  # (S,)
    one_by_one = np.mean(world.rewards(np.repeat(means[:, None], 100, axis=1)), axis=1)
    for averages in (one_by_one, world.reward_sums(means, 100) / 100):
        errors = averages - means
        assert abs(np.mean(errors)) <= 6 * np.std(errors) / np.sqrt(40) + 1e-12


def test_clients_answer_around_their_means() -> None:
    env = worlds.Population(dim=2, n_arms=3, sigma=0.05, theta=[0.5, 0.0])
    world, plays = env.begin(Streams([1])), np.array([50])
    assert isinstance(world, PopulationWorld)
    for arm in range(3):
        features, mean = world.arms[0][[arm]], world.global_means()[0, arm]
        for drawn in (True, False):
            averages = np.concatenate(list(world.clients(0, features, plays, 500, each=drawn)))[:, 0]
            assert abs(np.mean(averages) - mean) <= 5 * np.std(averages) / np.sqrt(500)
        ones, _ = world.strangers(0, features, np.array([4000]))
        assert abs(ones[0] / 4000 - (1 + mean) / 2) <= 5 * 0.5 / np.sqrt(4000)


@each
def test_a_description_has_its_sizes(env: Environment) -> None:
    world = env.begin(Streams([0, 1]))
    assert (world.n_arms, world.environment) == (env.n_arms, env)
    assert env.check_rounds(ROUNDS) == ROUNDS
