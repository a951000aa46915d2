"""The simulator: freeze, collect, release, learn."""

from __future__ import annotations

import math
import pickle
import tracemalloc
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.errors import ClippingWarning, InvalidArgument, InvalidStatistic
from bandanna.numeric import compiled
from bandanna.numeric.rng import Streams
from bandanna.policies.glm.baselines import GLMUCB
from bandanna.policies.linear import linucb
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.base import Schedule, geometric
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.linear.oful import OFUL, OFULJDP
from bandanna.policies.registry import make
from bandanna.protocols.privacy_model import Privacy, central, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bounded, Environment, World
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.environments.recorded import ArrayEnvironment
from bandanna.simulation.players import fixed_batches
from bandanna.simulation.players.fixed_batches import FixedArmsPlayer
from bandanna.simulation.result import Result
from benchmarks.clock import peak as measure_peak

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
FRESH = LinearContextual(dim=3, n_arms=4)
FIXED = LinearContextual(dim=3, n_arms=4, fixed=True)
CHANNELS = {
    "none": (none(), 20),
    "none-every-round": (none(), 1),
    "central-blt": (central(**BUDGET), 20),
    "central-tree": (central(**BUDGET, mechanism="tree"), 20),
    "central-rho": (central(rho=0.5), 1),
    "local": (local(**BUDGET), 1),
    "shuffle": (shuffle(**BUDGET), 50),
    "shuffle-gaussian": (shuffle(**BUDGET, protocol="gaussian"), 50),
    "shuffle-geometric": (shuffle(**BUDGET), geometric(first=50, ratio=2.0)),
}
each = pytest.mark.parametrize("name", CHANNELS)
worlds = pytest.mark.parametrize("env", [FRESH, FIXED], ids=["fresh", "fixed"])


@cache
def policy(name: str, horizon: int = 200, **changes: Any) -> LinUCB:
    """A small policy over one of the channels."""
    privacy, batch = CHANNELS[name]
    return LinUCB(dim=3, horizon=horizon, privacy=privacy, batch=batch, **changes)


@pytest.mark.often(when=lambda name, env: env is FRESH or name in ("none-every-round", "local", "shuffle-geometric"))
@each
@worlds
def test_a_seed_gives_the_same_run_in_any_company(name: str, env: LinearContextual) -> None:
    many, alone = simulate(policy(name), env, n_seeds=4), simulate(policy(name), env, n_seeds=1, seed=2)
    np.testing.assert_allclose(many.regret[2], alone.regret[0], rtol=0, atol=1e-9)
    assert many.rewards[2] == alone.rewards[0]


@pytest.mark.often(when=lambda name, env: env is FRESH or name in ("none-every-round", "local", "shuffle-geometric"))
@each
@worlds
def test_regret_is_bounded_and_grows(name: str, env: LinearContextual) -> None:
    result = simulate(policy(name), env, n_seeds=3, checkpoints=17)
    assert result.checkpoints[-1] == 200
    assert result.regret.shape == (3, len(result.checkpoints))
    assert np.all(np.diff(result.regret, axis=1) >= -1e-12)
    assert np.all(result.final_regret <= 200)
    assert np.all(result.clipped == 0)


@worlds
@pytest.mark.parametrize("name", ["local", "shuffle", "central-blt"])
def test_infinite_epsilon_is_no_noise(name: str, env: LinearContextual) -> None:
    privacy, batch = CHANNELS[name]
    makers = {"local": local, "shuffle": shuffle, "central-blt": central}
    unlimited = makers[name](epsilon=math.inf, delta=1e-5)
    noisy = simulate(LinUCB(dim=3, horizon=200, privacy=unlimited, batch=batch), env, n_seeds=3)
    clear = simulate(LinUCB(dim=3, horizon=200, batch=batch, privacy=bd.none()), env, n_seeds=3)
    assert privacy.noisy
    np.testing.assert_array_equal(noisy.regret, clear.regret)
    assert noisy.guarantee.trust == "none"


@pytest.mark.often(when=lambda name, env: (env is FIXED) == (name in ("shuffle", "central-blt")))
@worlds
@pytest.mark.parametrize("name", ["shuffle", "shuffle-gaussian", "local", "central-blt"])
def test_law_and_messages_agree_in_distribution(name: str, env: LinearContextual) -> None:
    n_seeds = 150
    shortcut = simulate(policy(name, 100), env, n_seeds=n_seeds)
    plain = simulate(policy(name, 100), env, n_seeds=n_seeds, seed=1000, path="messages")
    assert stats.ks_2samp(shortcut.final_regret, plain.final_regret).pvalue > 1e-4


def test_without_noise_regret_is_far_below_random_play() -> None:
    result = simulate(LinUCB(dim=3, horizon=2000, privacy=bd.none()), LinearContextual(dim=3, n_arms=20), n_seeds=4)
    world_gap = 0.45  # best of 20 against an average arm: between 0.4 and 0.5
    assert np.mean(result.final_regret) < 0.5 * world_gap * 2000


def test_bounded_rewards_on_fixed_arms_are_drawn_user_by_user() -> None:
    env = LinearContextual(dim=3, n_arms=4, fixed=True, reward=Bounded(width=0.2))
    result = simulate(policy("shuffle"), env, n_seeds=2)
    assert np.all((result.rewards > 0) & (result.rewards < 200))


def test_a_shorter_last_batch_is_not_released() -> None:
    result = simulate(LinUCB(dim=3, horizon=130, batch=50, privacy=bd.none()), FRESH, n_seeds=2)
    assert result.releases == 2
    assert result.checkpoints[-1] == 130


@pytest.mark.parametrize("env", [None, "LinearContextual", bd.none(), LinearContextual])
def test_what_is_no_environment_is_refused(env: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"env must be an environment"):
        simulate(LinUCB(dim=2, horizon=10, batch=5, privacy=bd.none()), env)


def test_a_class_is_no_policy() -> None:
    world = bd.environments.LinearContextual(dim=3, n_arms=4)
    called = r"policy must be a policy .*, got the class LinTS. Call it: LinTS\(...\)$"
    for act in (lambda: bd.simulate(bd.LinTS, world), lambda: bd.Agent(policy=bd.LinTS)):  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match=called):
            act()
    with pytest.raises(InvalidArgument, match=r"got the class FiniteArms. Call it: FiniteArms\(...\)$"):
        bd.simulate(bd.LinTS(dim=3, horizon=10, privacy=bd.none()), bd.environments.FiniteArms)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"policy must be a policy .*, got the class int$"):
        bd.simulate(int, world)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"policy must be a policy .*, got a str"):
        bd.simulate("LinTS", world)  # type: ignore[arg-type]


def test_bad_arguments_of_simulate_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="dim"):
        simulate(LinUCB(dim=2, horizon=10, privacy=bd.none()), FRESH)
    with pytest.raises(InvalidArgument, match="path"):
        simulate(LinUCB(dim=3, horizon=10, privacy=bd.none()), FRESH, path="short")
    with pytest.raises(InvalidArgument, match="horizon"):
        simulate(LinUCB(dim=3, horizon=10, batch=20, privacy=bd.none()), FRESH)


@pytest.mark.parametrize("wanted", [[1, 5], 0, -3, 2.5, "many"])
def test_checkpoints_must_be_a_number(wanted: Any) -> None:
    env = LinearContextual(dim=3, n_arms=4)
    with pytest.raises(InvalidArgument, match="checkpoints"):
        simulate(LinUCB(dim=3, horizon=20, privacy=bd.none()), env, checkpoints=wanted)


# The simulator at its edges: one arm, one dimension, short horizons, bad numbers from one's own world


MODELS = [none(), central(**BUDGET), local(**BUDGET), shuffle(**BUDGET), shuffle(**BUDGET, protocol="gaussian")]
models = pytest.mark.parametrize("privacy", MODELS, ids=lambda privacy: f"{privacy.model}-{privacy.protocol}")
paths = pytest.mark.parametrize("path", ["law", "messages"])


@models
@paths
@pytest.mark.parametrize("fixed", [True, False])
def test_one_arm_has_no_regret(privacy: Privacy, path: str, fixed: bool) -> None:
    policy = LinUCB(dim=3, horizon=40, privacy=privacy, batch=20)
    result = simulate(policy, LinearContextual(dim=3, n_arms=1, fixed=fixed), n_seeds=2, path=path)
    assert not np.any(result.regret)


@models
@pytest.mark.parametrize("fixed", [True, False])
def test_a_world_of_one_dimension_has_no_regret(privacy: Privacy, fixed: bool) -> None:
    policy = LinUCB(dim=1, horizon=40, privacy=privacy, batch=20)
    result = simulate(policy, LinearContextual(dim=1, n_arms=5, fixed=fixed), n_seeds=2)
    assert np.max(result.regret) < 1e-9


@models
def test_a_horizon_shorter_than_a_batch_is_refused_by_name(privacy: Privacy) -> None:
    with pytest.raises(InvalidArgument, match="horizon"):
        simulate(LinUCB(dim=2, horizon=19, privacy=privacy, batch=20), LinearContextual(dim=2, n_arms=3))
    assert (
        simulate(LinUCB(dim=2, horizon=20, privacy=privacy, batch=20), LinearContextual(dim=2, n_arms=3)).releases == 1
    )


class Broken(World):
    """Arms of which one has a feature that is not finite, in round 7."""

    def contexts(self, start: int, rounds: int) -> np.ndarray:
        """Zeros elsewhere."""
        features = np.zeros((len(self.streams.seeds), rounds, self.n_arms, 2))
        if start <= 7 < start + rounds:
            features[:, 7 - start, 2, 1] = BAD[0]
        return features

    def means(self, contexts: np.ndarray) -> np.ndarray:
        """All alike."""
        return np.full(contexts.shape[:-1], 0.5)


BAD = [np.nan]


@dataclass(frozen=True, kw_only=True)
class BrokenEnvironment(Environment):
    """Made of `Broken` worlds."""

    def begin(self, streams: Streams) -> World:
        """One per seed."""
        return Broken(environment=self, streams=streams)


@models
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_named(privacy: Privacy, bad: float) -> None:
    BAD[0] = bad
    with pytest.raises(InvalidStatistic, match=r"contexts\[0, 7, 2, 1\]"):
        simulate(LinUCB(dim=2, horizon=40, privacy=privacy, batch=20), BrokenEnvironment(dim=2, n_arms=4))


@dataclass(frozen=True, kw_only=True)
class Wild:
    """A law whose rewards are all `value`, whatever their mean."""

    value: float

    binary = False

    def draw(self, means: np.ndarray, streams: Streams) -> np.ndarray:
        """One value for all."""
        return np.full(means.shape, self.value)


@models
@paths
@pytest.mark.parametrize("fixed", [True, False])
def test_rewards_that_are_not_finite_are_refused_and_large_ones_clipped(
    privacy: Privacy, path: str, fixed: bool
) -> None:
    policy = LinUCB(dim=2, horizon=40, privacy=privacy, batch=20)
    for value in (np.nan, np.inf, -np.inf):
        env = LinearContextual(dim=2, n_arms=3, fixed=fixed, reward=Wild(value=value))
        with pytest.raises(InvalidStatistic, match=r"rewards\[0, 0\]"):
            simulate(policy, env, path=path)
    for value in (-1.0, 3.0):
        env = LinearContextual(dim=2, n_arms=3, fixed=fixed, reward=Wild(value=value))
        with pytest.warns(ClippingWarning, match="40 of 40"):
            assert int(simulate(policy, env, path=path).clipped[0]) == 40


@models
def test_features_out_of_range_are_clipped_and_counted(privacy: Privacy) -> None:
    for arms in (np.full((3, 2), 2.0), np.full((40, 3, 2), 2.0)):
        env = ArrayEnvironment(arms=arms, means=np.full(3, 0.5))
        with pytest.warns(ClippingWarning, match="40 of 40"):
            result = simulate(LinUCB(dim=2, horizon=40, privacy=privacy, batch=20), env)
        assert int(result.clipped[0]) == 40


def test_sums_plus_noise_are_the_released_sums() -> None:
    env = LinearContextual(dim=3, n_arms=6, fixed=True, reward=Bounded(width=0.1))
    for privacy in (none(), central(**BUDGET), central(**BUDGET, mechanism="tree"), local(epsilon=50.0, delta=1e-5)):
        policy = LinUCB(dim=3, horizon=100, privacy=privacy, batch=1, width=0.1)
        law = simulate(policy, env, n_seeds=3, path="law")
        messages = simulate(policy, env, n_seeds=3, path="messages")  # one user per batch: the same draws in one order
        np.testing.assert_allclose(law.regret, messages.regret, rtol=1e-9)


class Careless(World):
    """Contexts and means with a mistake."""

    def contexts(self, start: int, rounds: int) -> np.ndarray:
        """Without an axis for the seeds, if asked to."""
        features = self.streams.uniform("contexts", (rounds, self.n_arms, 2)) / 2
        return features[0] if MISTAKE[0] == "seeds" else features

    def means(self, contexts: np.ndarray) -> np.ndarray:
        """Of one arm, above 1, below 0 or not numbers, if asked to."""
        means = contexts.sum(axis=-1)
        wrong = {"arms": means[..., 0], "large": means + 1, "small": means - 1, "nan": means * np.nan}
        return wrong.get(MISTAKE[0], means)


MISTAKE = [""]


@dataclass(frozen=True, kw_only=True)
class CarelessEnvironment(Environment):
    """Made of `Careless` worlds."""

    fixed: bool = False

    def begin(self, streams: Streams) -> World:
        """One per seed."""
        return Careless(environment=self, streams=streams, fixed=self.fixed)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        ("seeds", r"shape of Careless.contexts must be \(S, rounds, K, d\) = \(3, .*, 4, 2\), got \(.*, 4, 2\)"),
        ("arms", r"shape of Careless.means must be \(S, rounds, K\) = \(3, .*, 4\), got"),
        ("large", r"Careless.means must be in \[0, 1\], got numbers outside"),
        ("small", r"Careless.means must be in \[0, 1\], got numbers outside"),
        ("nan", r"Careless.means must be in \[0, 1\], got numbers outside"),
    ],
)
def test_a_world_with_wrong_shapes_or_means_is_named(mistake: str, named: str, fixed: bool) -> None:
    MISTAKE[0] = mistake
    with pytest.raises(InvalidStatistic, match=named):
        simulate(
            LinUCB(dim=2, horizon=40, batch=20, privacy=none()),
            CarelessEnvironment(dim=2, n_arms=4, fixed=fixed),
            n_seeds=3,
        )


@pytest.mark.parametrize("seed", [-1, 1.5, np.random.default_rng(0)], ids=["negative", "fraction", "generator"])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"seed must be a whole number"):
        simulate(LinUCB(dim=2, horizon=4, privacy=none()), LinearContextual(dim=2, n_arms=3), seed=seed)


# Reports that had to be clipped: counted once each, said, and a warning where they are most of all


@dataclass(frozen=True, kw_only=True)
class Always:
    """All rewards are `value`."""

    value: float

    binary = False

    def draw(self, means: np.ndarray, streams: Streams) -> np.ndarray:
        """One value for all."""
        return np.full(means.shape, self.value)


def world(size: float, rounds: int | None, *, short: int = 0, **changes: Any) -> ArrayEnvironment:
    """Two equal arms of norm `size`, the same in all rounds or given for each; of norm 1/2 in the first `short`."""
    arms = np.tile(size * np.eye(2), (rounds or 1, 1, 1))
    arms[:short] /= 2 * size
    return ArrayEnvironment(arms=arms if rounds else arms[0], means=np.full(2, 0.5), **changes)


POLICIES = {
    "LinUCB": LinUCB(dim=2, horizon=40, batch=20, privacy=none()),
    "shuffle": LinUCB(dim=2, horizon=40, batch=20, privacy=shuffle(epsilon=1.0, delta=1e-5)),
    "OFUL": OFUL(dim=2, horizon=40, privacy=none()),
    "OFUL-JDP": OFULJDP(dim=2, horizon=40, batch=20, privacy=central(rho=1.0)),
    "GLM-UCB": GLMUCB(dim=2, horizon=40),
}
each_clipping = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


@each_clipping
@pytest.mark.parametrize("rounds", [None, 40], ids=["fixed", "fresh"])
def test_it_is_said_when_most_reports_are_clipped(policy: Any, rounds: int | None) -> None:
    with pytest.warns(ClippingWarning, match="80 of 80 reports were clipped") as said:
        result = simulate(policy, world(3.0, rounds), n_seeds=2)
    assert len(said) == 1
    assert "80 clipped" in str(result)
    assert "80 clipped" in repr(result)


@each_clipping
def test_a_few_clipped_reports_are_counted_without_a_warning(policy: Any) -> None:
    result = simulate(policy, world(3.0, 40, short=20))
    assert int(result.clipped[0]) == 20
    assert ", 20 clipped," in str(result)
    assert "clipped" not in str(simulate(policy, world(0.9, 40)))


@each_clipping
@pytest.mark.parametrize("rounds", [None, 40], ids=["fixed", "fresh"])
@pytest.mark.parametrize("path", ["law", "messages"])
def test_a_report_is_counted_once(policy: Any, rounds: int | None, path: str) -> None:
    with pytest.warns(ClippingWarning, match="40 of 40"):
        assert int(simulate(policy, world(3.0, rounds, reward=Always(value=2.0)), path=path).clipped[0]) == 40


def test_rewards_alone_are_said_too() -> None:
    run = Anytime(first=LinUCB(dim=2, horizon=20, batch=10, privacy=none()))
    with pytest.warns(ClippingWarning, match="60 of 60"):
        simulate(run, world(0.5, None, reward=Always(value=7.0)), horizon=60)


def test_the_warning_travels_between_processes() -> None:
    again = pickle.loads(pickle.dumps(ClippingWarning.of(1960, 2000)))
    assert str(again) == str(ClippingWarning.of(1960, 2000))
    assert "1,960 of 2,000" in str(again)
    assert isinstance(again, UserWarning)
    assert ClippingWarning.of(1000, 2000) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(POLICIES["LinUCB"], world(1.0, None))


# Memory of a simulation: it holds some users at a time and the checkpoints, however long the run is


WORLDS = {
    "fixed": LinearContextual(dim=2, n_arms=3, fixed=True),
    "fixed-bounded": LinearContextual(dim=2, n_arms=3, fixed=True, reward=Bounded()),
    "fresh": LinearContextual(dim=2, n_arms=3),
}


def peak(privacy: Privacy, env: LinearContextual, horizon: int) -> int:
    """Bytes that a run of a few large batches needs at once."""
    policy = LinUCB(dim=2, horizon=horizon, privacy=privacy, batch=horizon // 4)
    _ = policy.radii, policy.guarantee
    tracemalloc.start()
    simulate(policy, env, n_seeds=2)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def _in_its_own_world(privacy: Privacy, world: str) -> bool:
    """Every model in one world, and every world with several."""
    own = {"none": "fixed", "central": "fixed-bounded", "local": "fresh"}.get(privacy.model, world)
    return world == own and (privacy.protocol != "gaussian" or world == "fresh")


@pytest.mark.often(when=_in_its_own_world)
@models
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rounds", [6_000, pytest.param(30_000, marks=pytest.mark.full)])
def test_memory_does_not_grow_with_the_horizon(
    privacy: Privacy, world: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rounds == 6_000:  # a batch has several parts all the same
        monkeypatch.setattr(fixed_batches, "_PART", 512)
        monkeypatch.setattr(fixed_batches, "_PART", 512)
    simulate(LinUCB(dim=2, horizon=40, privacy=privacy, batch=10), WORLDS[world], n_seeds=2)  # what is loaded once
    assert peak(privacy, WORLDS[world], 8 * rounds) < 1.3 * peak(privacy, WORLDS[world], rounds)


def _once(privacy: Privacy, world: str, batch: int | Schedule) -> bool:
    """Every model with both schedules, each in another world; Gaussians that are shuffled, of one size."""
    return (batch == 150) == (world == "fresh") and (batch == 150 or privacy.protocol != "gaussian")


@pytest.mark.often(when=_once)
@models
@pytest.mark.parametrize("world", ["fixed-bounded", "fresh"])
@pytest.mark.parametrize("batch", [150, geometric(first=30, ratio=2.0)], ids=["fixed", "geometric"])
def test_batches_played_in_parts_give_the_same_run(
    privacy: Privacy, world: str, batch: int | Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = LinearContextual(dim=3, n_arms=4, fixed=world != "fresh", reward=WORLDS[world].reward)
    policy = LinUCB(dim=3, horizon=500, privacy=privacy, batch=batch, width=0.2)
    whole = simulate(policy, env, n_seeds=3)
    monkeypatch.setattr(fixed_batches, "_PART", 7)
    monkeypatch.setattr(fixed_batches, "_PART", 7)
    parts = simulate(policy, env, n_seeds=3)
    np.testing.assert_allclose(parts.regret, whole.regret, rtol=1e-9)
    np.testing.assert_allclose(parts.rewards, whole.rewards, rtol=1e-9)
    assert (parts.releases, parts.users) == (whole.releases, whole.users)


# Tables of products of fixed arms are bounded, and what is computed without them is the same


def test_many_arms_of_many_features_have_no_tables() -> None:
    env, policy = LinearContextual(dim=50, n_arms=2000, fixed=True), LinUCB(dim=50, horizon=20, privacy=none())
    simulate(policy, env, horizon=2)  # what is made once
    assert measure_peak(lambda: simulate(policy, env)) < 12 << 20
    arms = FixedArmsPlayer(policy, env.begin(Streams([0])))
    assert arms.arms.squares is None
    assert arms.reports is None


def test_tables_are_no_larger_than_stated() -> None:
    for n_arms in (600, 700):  # of 210 products: 0.96 and 1.12 MiB
        env, policy = LinearContextual(dim=20, n_arms=n_arms, fixed=True), LinUCB(dim=20, horizon=20, privacy=none())
        for seeds in ([0], [0, 1, 2]):
            table = FixedArmsPlayer(policy, env.begin(Streams(seeds))).arms.squares
            assert (table is None) == (n_arms == 700)
            assert table is None or table.nbytes <= len(seeds) * linucb.PRODUCTS


@pytest.mark.parametrize("name", ["LinUCB", "LinUCB-JDP-batched", "LinTS", "LinUCB-SDP-Vec"])
def test_runs_are_the_same_without_tables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {} if name in ("LinUCB", "LinTS") else {"epsilon": 1.0, "delta": 1e-5}
    policy, env = make(name, dim=4, horizon=300, **options), LinearContextual(dim=4, n_arms=30, fixed=True)
    whole = simulate(policy, env, n_seeds=3)
    monkeypatch.setattr(linucb, "PRODUCTS", 0)
    monkeypatch.setattr(fixed_batches, "_TABLE", 0)
    _same(whole, simulate(policy, env, n_seeds=3))


@pytest.mark.parametrize("dim", [2, 5])
def test_the_kernel_has_no_table_of_many_arms(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n_arms, results = (1 << 17) // (dim * (dim + 1) // 2) + 7, []
    policy = LinUCB(dim=dim, horizon=40, privacy=central(epsilon=1.0, delta=1e-5), batch=1)
    for least in (1, math.inf):
        monkeypatch.setattr(compiled, "BREAK_EVEN", least)
        results.append(simulate(policy, LinearContextual(dim=dim, n_arms=n_arms, fixed=True), n_seeds=2))
    _same(*results)


def _same(one: Result, two: Result) -> None:
    np.testing.assert_array_equal(one.plays, two.plays)
    np.testing.assert_allclose(one.regret, two.regret, rtol=1e-12, atol=1e-12)
