"""What every environment owes its runners; each class that is exported is held to it."""

from __future__ import annotations

import doctest
import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from bandanna import environments as worlds
from bandanna.device.domain import clip_norm
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments import linear, recorded
from bandanna.simulation.environments.base import Bernoulli, Bounded, Environment, World
from bandanna.simulation.environments.finite import ClippedGaussian
from bandanna.simulation.environments.glm import GeneralisedLinear
from bandanna.simulation.environments.linear import DriftingContexts, LinearContextual, PublishedLinear
from bandanna.simulation.environments.population import PopulationWorld
from bandanna.simulation.environments.recorded import ArrayEnvironment, CallableEnvironment

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


# What every environment owes the simulator


HORIZON = 90
_RNG = np.random.default_rng(5)
SETS_WORLDS = _RNG.dirichlet(np.ones(3), size=(HORIZON, 4))  # (T, K, d)


@dataclass(frozen=True, kw_only=True)
class Quadrant(Environment):
    """The subclass that the documentation shows."""

    def begin(self, streams: Streams) -> World:
        """One per seed."""
        return QuadrantWorld(environment=self, streams=streams)


class QuadrantWorld(World):
    """Uniform features, quadratic means."""

    def contexts(self, start: int, rounds: int) -> Any:
        """(S, rounds, K, d)."""
        return self.streams.uniform("contexts", (rounds, self.n_arms, self.environment.dim)) / np.sqrt(
            self.environment.dim
        )

    def means(self, contexts: Any) -> Any:
        """(S, rounds, K)."""
        return np.mean(contexts**2, axis=-1)


ENVIRONMENTS: dict[str, Callable[[], Environment]] = {
    "fresh": lambda: LinearContextual(dim=3, n_arms=4),
    "fixed": lambda: LinearContextual(dim=3, n_arms=4, fixed=True),
    "bounded": lambda: LinearContextual(dim=3, n_arms=4, fixed=True, reward=Bounded(width=0.3)),
    "one dimension": lambda: LinearContextual(dim=1, n_arms=4, fixed=True),
    "two dimensions": lambda: LinearContextual(dim=2, n_arms=4, fixed=True),
    "one arm": lambda: LinearContextual(dim=3, n_arms=1),
    "published": lambda: PublishedLinear(dim=3, n_arms=9),
    "published, few arms": lambda: PublishedLinear(dim=3, n_arms=2),
    "published, one dimension": lambda: PublishedLinear(dim=1, n_arms=3),
    "published, normalised": lambda: PublishedLinear(dim=3, n_arms=9, normalised=True),
    "drifting": lambda: DriftingContexts(dim=4, n_arms=9, horizon=HORIZON, turns=2),
    "drifting, even": lambda: DriftingContexts(dim=3, n_arms=6, horizon=HORIZON),
    "drifting, one arm": lambda: DriftingContexts(dim=3, n_arms=1, horizon=HORIZON),
    "drifting, one dimension": lambda: DriftingContexts(dim=1, n_arms=3, horizon=HORIZON),
    "drifting, two dimensions": lambda: DriftingContexts(dim=2, n_arms=3, horizon=HORIZON),
    "standing": lambda: DriftingContexts(dim=3, n_arms=9, horizon=HORIZON, turns=0),
    "arrays": lambda: ArrayEnvironment(arms=SETS_WORLDS, theta=[0.1, 0.5, 0.9]),
    "arrays, fixed": lambda: ArrayEnvironment(arms=SETS_WORLDS[0], theta=[0.1, 0.5, 0.9], reward=Bounded()),
    "arrays, means": lambda: ArrayEnvironment(arms=SETS_WORLDS[0], means=SETS_WORLDS[..., 0]),
    "functions": lambda: CallableEnvironment(dim=3, n_arms=4, contexts=features, mean=largest),
    "subclass": lambda: Quadrant(dim=3, n_arms=4),
}
each_worlds = pytest.mark.parametrize("name", ENVIRONMENTS)


def read_worlds(env: Environment, sizes: list[int], seeds: list[int]) -> tuple[Any, Any]:
    """Contexts and means of the first rounds, read in blocks of these sizes."""
    world, start, contexts, means = env.begin(Streams(seeds)), 0, [], []
    for size in sizes:
        block = world.contexts(start, size)
        assert block.shape == (len(seeds), 1 if world.fixed else size, env.n_arms, env.dim)
        contexts.append(block)
        means.append(world.means(block))
        start += size
    return np.concatenate(contexts, axis=1), np.concatenate(means, axis=1)


@pytest.mark.filterwarnings("ignore::bandanna.errors.ClippingWarning")  # published arms are longer than 1
@each_worlds
def test_a_seed_gives_the_same_run_in_any_company(name: str) -> None:
    env = ENVIRONMENTS[name]()
    policy = LinUCB(dim=env.dim, horizon=HORIZON, batch=7, privacy=none())
    many, alone = simulate(policy, env, n_seeds=4), simulate(policy, env, n_seeds=1, seed=2)
    np.testing.assert_allclose(many.regret[2], alone.regret[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(many.rewards[2], alone.rewards[0], rtol=0, atol=1e-9)
    assert np.all(np.diff(many.regret, axis=1) >= 0)


@each_worlds
def test_rounds_do_not_depend_on_the_blocks_they_are_read_in(name: str) -> None:
    env = ENVIRONMENTS[name]()
    if env.begin(Streams([0])).fixed:
        sizes = [[1], [1]]
    else:
        sizes = [[HORIZON], [1, 2, HORIZON - 40, 37]]
    (contexts, means), (same_contexts, same_means) = (read_worlds(env, split, [3, 1]) for split in sizes)
    np.testing.assert_allclose(contexts, same_contexts, rtol=0, atol=1e-13)
    np.testing.assert_allclose(means, same_means, rtol=0, atol=1e-13)


@each_worlds
def test_means_are_means_of_rewards_in_the_unit_interval(name: str) -> None:
    env = ENVIRONMENTS[name]()
    contexts, means = read_worlds(env, [HORIZON], list(range(20)))
    assert means.shape == contexts.shape[:-1]
    assert np.all((means >= 0) & (means <= 1))
    bound = np.sqrt(2) if isinstance(env, PublishedLinear) and not env.normalised else 1.0
    assert np.all(np.linalg.norm(contexts, axis=-1) <= bound + 1e-12)


@each_worlds
def test_environments_are_equal_hashable_and_picklable_by_value(name: str) -> None:
    env, twin = ENVIRONMENTS[name](), ENVIRONMENTS[name]()
    assert env == twin
    assert hash(env) == hash(twin)
    assert pickle.loads(pickle.dumps(env)) == env
    other = replace(env, reward=Bounded(width=0.01))
    assert other != env
    assert replace(other, reward=env.reward) == env


@pytest.mark.often(when=lambda name: ("," not in name and "dimension" not in name) or name == "arrays, fixed")
@each_worlds
def test_sums_of_rewards_have_the_law_of_rewards(name: str) -> None:
    world = ENVIRONMENTS[name]().begin(Streams(range(600)))
    means = np.full(600, 0.3)
    at_once, one_by_one = world.reward_sums(means, 40), world.rewards(np.full((600, 40), 0.3)).sum(axis=1)
    for sums in (at_once, one_by_one):
        assert abs(np.mean(sums) - 12) < 5 * np.std(sums) / np.sqrt(600)
    spread = np.var(one_by_one)
    assert abs(np.var(at_once) - spread) < 5 * spread * np.sqrt(2 * 2 / 600)  # nearly normal sums


@pytest.mark.parametrize("module", [recorded, linear], ids=lambda module: module.__name__)
def test_examples_in_docstrings_run(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_laws_of_rewards_stay_in_range_and_are_values() -> None:
    assert Bounded(width=0.2) == Bounded(width=0.2) != Bounded(width=0.3)
    assert hash(Bernoulli()) == hash(Bernoulli())
    means = np.linspace(0, 1, 101)[None].repeat(200, axis=0)
    draws = Bounded(width=0.5).draw(means, Streams(range(200)))
    assert np.all((draws >= 0) & (draws <= 1))
    exact = Bounded(width=0).draw(means, Streams(range(200)))
    np.testing.assert_array_equal(exact, means)
    errors = np.mean(draws - means, axis=0)  # standard error at most 0.5 / sqrt(3 200): 5 of them, false alarm 1e-4
    assert np.all(np.abs(errors) <= 5 * 0.5 / np.sqrt(3 * 200))
    for width in (-0.1, 0.51, np.nan, "wide"):
        with pytest.raises(InvalidArgument, match="width"):
            Bounded(width=width)


@pytest.mark.parametrize("bad", [{"dim": 0}, {"dim": 2.5}, {"n_arms": 0}, {"n_arms": None}])
def test_worlds_of_bad_sizes_are_refused_by_name(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(bad))):
        LinearContextual(**{"dim": 2, "n_arms": 2, **bad})


@pytest.mark.parametrize("std", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("end", [0.05, 1.0, 7.0])
def test_the_centre_gives_the_mean(end: float, std: float) -> None:
    law = ClippedGaussian(std=std, low=-end, high=end)
    wanted = np.concatenate([np.linspace(-end, end, 2001), end * (1 - np.geomspace(1e-12, 1e-2, 50))])
    noise = np.linspace(-12, 12, 48_001) * std
    centres = law.centre(wanted)
    assert np.allclose(law._clipped_mean(centres), wanted, rtol=0, atol=1e-13 * max(1.0, end))
    some = slice(100, 2001, 190)  # a second route: the mean of clipped rewards, integrated
    weights = np.exp(-((noise / std) ** 2) / 2)
    means = np.clip(centres[some, None] + noise, -end, end) @ weights / weights.sum()
    assert np.allclose(means, wanted[some], rtol=0, atol=1e-6 * std)


@pytest.mark.parametrize("kind", [LinearContextual, GeneralisedLinear])
def test_unit_vectors_need_no_clipping(kind: type[LinearContextual | GeneralisedLinear]) -> None:
    for dim in (1, 2, 5, 8, 9, 40):
        world = kind(dim=dim, n_arms=50).begin(Streams([0, 1]))
        contexts = world.contexts(0, 200)
        assert world.unit
        assert clip_norm(contexts, 1.0) is contexts
