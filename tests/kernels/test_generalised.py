"""Kernels of generalised linear policies play what NumPy plays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna import kernels
from bandanna.core.arrays import Floats
from bandanna.core.domain import clip_norm
from bandanna.core.estimate import Estimate
from bandanna.core.streams import Streams
from bandanna.environments import glm
from bandanna.environments.base import Environment
from bandanna.environments.glm import FreshGLM, GeneralisedLinear, PublishedGLM
from bandanna.kernels.scene import Scene
from bandanna.policies.base import Played
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.players import every_round
from bandanna.simulation.result import Result

LINKS = {"GLOC": ["logistic", "probit", "linear"], "ECOLog": ["logistic"], "GLM-UCB": ["logistic", "probit"]}


def both(policy: Any, env: Environment, rounds: int) -> list[Result]:
    """By the kernel, however short the run, and by NumPy."""
    assert policy.kernel in kernels.KERNELS
    results = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        for least in (1, math.inf):
            monkeypatch.setattr(kernels, "BREAK_EVEN", least)
            results.append(simulate(policy, env, n_seeds=3, checkpoints=rounds))
    return results


@settings(max_examples=15, deadline=None)
@given(
    algorithm=st.sampled_from(sorted(LINKS)),
    data=st.data(),
    dim=st.integers(1, 6),
    n_arms=st.integers(1, 12),
    preset=st.sampled_from(["published", "corrected"]),
    bound=st.sampled_from([0.3, 2.0]),
    drawn=st.sampled_from(["logistic", "probit", "linear", None]),
)
def test_kernel_and_numpy_take_the_same_arms(
    algorithm: str, data: Any, dim: int, n_arms: int, preset: str, bound: float, drawn: str | None
) -> None:
    """A run by the kernel is another one; a small S makes it project in nearly every round.

    drawn: the link of a world whose arms the kernel draws itself; it need not be the policy's.
    """
    link, rounds = data.draw(st.sampled_from(LINKS[algorithm])), 60
    norm = 0.5 if link == "linear" else 2.0
    env = PublishedGLM(dim=dim, n_arms=n_arms, link=link, norm=norm, rounds=rounds)
    fresh = GeneralisedLinear(dim=dim, n_arms=n_arms, link=drawn, norm=2.0) if drawn else env
    policy = make(algorithm, dim=dim, horizon=rounds, link=link, preset=preset, parameter_bound=bound)
    same_run(*both(policy, fresh, rounds))


def same_run(one: Result, two: Result) -> None:
    """But for rounding errors of what is lost."""
    np.testing.assert_allclose(one.regret, two.regret, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(one.rewards, two.rewards)
    np.testing.assert_array_equal(one.plays, two.plays)
    np.testing.assert_array_equal(one.clipped, two.clipped)


@pytest.mark.parametrize("dim", [4, 7])
def test_arms_that_are_drawn_inside_go_on_from_span_to_span(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel draws the same arms or rewards twice, or skips some; or it draws where a vector has too many entries."""
    monkeypatch.setattr(every_round, "_ROUNDS", 25)
    drawn, draw = [], FreshGLM.drawn
    monkeypatch.setattr(FreshGLM, "drawn", lambda world, scene: drawn.append(draw(world, scene)))
    policy = make("GLOC", dim=dim, horizon=70)
    same_run(*both(policy, GeneralisedLinear(dim=dim, n_arms=9, norm=2.0), 70))
    assert len(drawn) == (3 if dim == 4 else 0)


@pytest.mark.parametrize("stream", ["contexts", "rewards"])
def test_what_was_drawn_ahead_is_used_first(stream: str) -> None:
    """A kernel draws from a generator while the stream holds numbers that come before."""
    world = GeneralisedLinear(dim=3, n_arms=4).begin(Streams([0, 1]))
    assert world.scene(5) is not None
    world.streams.uniform(stream, (3,))
    assert world.scene(5) is None


def test_a_world_of_ones_own_is_asked_for_its_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel draws arms of the ball where a subclass has others."""

    class Halved(FreshGLM):
        def contexts(self, start: int, rounds: int) -> Floats:
            return super().contexts(start, rounds) / 2

    env = GeneralisedLinear(dim=3, n_arms=6, norm=2.0)
    monkeypatch.setattr(glm, "FreshGLM", Halved)
    same_run(*both(make("GLOC", dim=3, horizon=40), env, 40))


@pytest.mark.parametrize("algorithm", ["GLOC", "ECOLog"])
def test_projections_are_made_once(algorithm: str) -> None:
    """A projection, by the kernel or elsewhere, is forgotten or made twice: it and NumPy leave other states behind."""
    dim, rounds, rng = 3, 50, np.random.default_rng(0)
    policy = make(algorithm, dim=dim, horizon=rounds, parameter_bound=0.2)
    contexts, outcomes = rng.normal(size=(2, rounds, 7, dim)) / 4, rng.integers(0, 2, (2, rounds, 7)).astype(float)
    loop, calls, nothing = kernels.compiled(policy.kernel), [], Played(rewards=np.zeros((2, 0)))
    assert loop is not None

    def counted(*given: Any) -> bool:
        calls.append(loop(*given))
        return bool(calls[-1])

    scene = Scene.given(contexts, outcomes)
    whole, actions = policy.many(counted, policy.init(replicates=(2,)), scene, nothing), scene.actions
    assert algorithm == "GLOC" or sum(calls) > 10  # rounds that left the ball
    on_sphere = 0
    for seed in range(2):
        state = policy.init()
        for t in range(rounds):
            arm = int(policy.act(state, contexts[seed, t][None], None).actions[0])
            assert arm == actions[seed, t]
            state = policy._after(state, np.append(contexts[seed, t, arm], outcomes[seed, t, arm]))
            on_sphere += abs(np.linalg.norm(state.theta) - 0.2) < 1e-9
        assert state.rounds == whole.rounds
        for name in ("theta", "inverse", "matrix"):
            np.testing.assert_allclose(getattr(whole, name)[seed], getattr(state, name), rtol=1e-9, atol=1e-12)
    assert on_sphere > 10


@pytest.mark.parametrize("link", LINKS["GLM-UCB"])
@pytest.mark.parametrize("refit", [1, 7, 40])
def test_estimates_from_all_rows_are_those_of_numpy(link: str, refit: int) -> None:
    """The kernel follows the loss to another minimum, also around new points, or where steps have to be damped."""
    dim, rounds, rng = 3, 200, np.random.default_rng(1)
    policy = make("GLM-UCB", dim=dim, horizon=rounds, link=link, refit=refit)
    contexts = clip_norm(rng.normal(size=(2, rounds, 5, dim)), 1.0)
    outcomes = (contexts @ np.full(dim, 9.0) > 0).astype(float)  # no noise: theta goes far
    loop, states, calls = kernels.compiled("glm_ucb"), [], []
    assert loop is not None

    def counted(*given: Any) -> bool:
        calls.append(loop(*given))
        return bool(calls[-1])

    kept = Played(features=np.zeros((2, rounds, dim)), rewards=np.zeros((2, rounds)))
    state = policy.init(replicates=(2,))
    for begin in (0, 90):  # what is between two parts is a state of NumPy's
        span = slice(begin, rounds if begin else 90)
        scene = Scene.given(contexts[:, span], outcomes[:, span])
        state = policy.many(counted, state, scene, kept)
        states.append((span, scene.actions))
    one = policy.init(replicates=(2,))
    for span, actions in states:
        for t in range(span.start, span.stop):
            arms = actions[:, t - span.start]
            np.testing.assert_array_equal(policy.act(one, contexts[:, t : t + 1], None).actions[:, 0], arms)
            one = _learned(policy, one, kept, t + 1)
    np.testing.assert_allclose(state.theta, one.theta, rtol=1e-8, atol=1e-10)
    assert np.linalg.norm(one.theta, axis=1).min() > 1.0
    assert (sum(calls) > 0) == (refit > 1)


def _learned(policy: Any, state: Any, kept: Played, rounds: int) -> Any:
    """NumPy's next state, from the rows that the kernel wrote."""
    assert kept.features is not None
    learning = policy.learn(state, policy.episode(state))
    ask = next(learning)
    while True:
        first = 0 if ask.of == "everybody" else rounds - 1
        some = Played(features=kept.features[:, first:rounds], rewards=kept.rewards[:, first:rounds])
        try:
            total = policy.report(ask, some, None).values
            ask = learning.send(Estimate(total=total, count=rounds - first, variance=0.0))
        except StopIteration as done:
            return done.value
