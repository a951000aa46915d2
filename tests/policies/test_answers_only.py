"""What a policy learns is a function of the answers to its asks: raw data reach neither its asks nor its state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from bandanna.core.estimate import Estimate
from bandanna.core.streams import Streams
from bandanna.environments.glm import PublishedGLM
from bandanna.loop import Desk, close
from bandanna.policies.base import Ask, Played
from bandanna.policies.glm import GLMJDP, Constants
from bandanna.policies.glm.glm_jdp import JDPState
from bandanna.policies.registry import make
from bandanna.protocols.base import StreamProtocol
from bandanna.protocols.clear.rows import ClearRows
from bandanna.protocols.trust import central

from .answering import COINS

ROUNDS = 300
SHARED = {"dim": 3, "horizon": ROUNDS, "link": "probit", "parameter_bound": 2.0, "kappa": 18.39}
BUSY = Constants(
    share=0.4,
    steps=3,
    calls_o=4,
    calls_tau=5,
    regulariser_v=12.0,
    regulariser_h=3.0,
    ridge=1.0,
    threshold=1 / 16,
    elimination=9.0,
    bonus=1.0,
)
PRIVATE = {"epsilon": 4.0, "delta": 1e-3}
POLICIES = {
    "GLM-JDP": PRIVATE | {"constants": BUSY},
    "GLM-SDP": PRIVATE | {"warmup": 60, "steps": 2},
    "B-GLinUCB": {"warmup": 60},
    "RS-GLinUCB": {"constants": "published", "horizon": 80},
    "GLM-UCB": {"horizon": 50},
    "GLOC": {"horizon": 50},
}


@dataclass
class Seen:
    """Of one run: the asks, the states as numbers, and in which rounds criterion I fired (a secret of the devices)."""

    asks: list[tuple[Any, ...]] = field(default_factory=list)
    states: list[list[bytes]] = field(default_factory=list)
    explored: list[int] = field(default_factory=list)


def numbers(value: Any) -> Iterator[bytes]:
    """All arrays and numbers of a value, in order."""
    if is_dataclass(value):
        value = tuple(getattr(value, each.name) for each in fields(value))
    if isinstance(value, tuple | list):
        for each in value:
            yield from numbers(each)
    elif value is not None:
        yield np.asarray(value).tobytes()


def script(ask: Ask, number: int, rounds: int) -> np.ndarray:
    """The total that an ask is answered with, whatever the data are: streams grow, the others are noise."""
    dim = ask.protocol.domain.dim
    if isinstance(ask.protocol, StreamProtocol):
        rng = np.random.default_rng(9)
        growth = np.concatenate([[0.12] * 3, [0] * 3, [0.1] * 3, [0] * 3])
        return np.asarray(np.cumsum(rng.normal(size=(ROUNDS, dim)) * 0.2 + growth, axis=0)[rounds])
    rng = np.random.default_rng(number)
    if isinstance(ask.protocol, ClearRows):
        return ask.protocol.domain.project(rng.normal(size=(1 if ask.of == "episode" else 5, dim)))
    return rng.normal(size=dim) * 5


def replayed(policy: Any, instance: int) -> Seen:
    """A run on the data of an instance, with scripted answers; devices make their reports all the same."""
    world = PublishedGLM(n_arms=3, rounds=ROUNDS, instance=instance).begin(Streams([0]))
    contexts = policy.seen(world.contexts(0, ROUNDS)[0])
    outcomes = world.rewards(world.means(contexts[None]))[0]
    seen, state, desk, done = Seen(), policy.init(), Desk(), 0
    while done < policy.horizon:
        episode = policy.episode(state)
        rounds = np.arange(done, done + episode.users)
        choice = policy.act(policy.publish(state), contexts[rounds], COINS)
        rows = Played(
            features=contexts[rounds, choice.actions], rewards=outcomes[rounds, choice.actions], groups=choice.groups
        )
        desk = desk.keep(policy.keeps, rows)

        def answer(ask: Ask, rows: Played = rows, held: Desk = desk, done: int = done) -> Estimate:
            policy.report(ask, held.rows(ask, rows), COINS)
            seen.asks.append((done, ask.of, ask.step, ask.stream, repr(ask.protocol), list(numbers(ask.at))))
            return Estimate(total=script(ask, len(seen.asks), done), count=0, variance=0.0)

        if choice.groups is not None:
            seen.explored += rounds[choice.groups == 0].tolist()
        done += episode.users
        if episode.released:
            state = close(policy.learn(state, episode), answer)
            seen.states.append(list(numbers(state)))
    return seen


def only_answers_count(policy: Any) -> bool:
    """Whether other raw data with the same answers lead to the same asks and states."""
    first, second = replayed(policy, 1), replayed(policy, 2)
    return (first.asks, first.states) == (second.asks, second.states)


@pytest.mark.parametrize("name", list(POLICIES))
def test_the_same_answers_lead_to_the_same_asks_and_states(name: str) -> None:
    """Raw contexts or rewards would decide what is asked, when, at which point, or what a state holds."""
    assert only_answers_count(make(name, **SHARED | POLICIES[name]))


def test_refit_times_depend_on_releases_only() -> None:
    """GLM-JDP would refit at other times, or never, with the same releases; explored rounds do differ."""
    policy = make("GLM-JDP", **SHARED | POLICIES["GLM-JDP"])
    first, second = replayed(policy, 1), replayed(policy, 2)
    refits = [(done, of) for done, of, *_ in first.asks if of != "episode"]
    assert refits == [(done, of) for done, of, *_ in second.asks if of != "episode"]
    assert {of for _, of in refits} == {"explored", "rest"}
    assert first.explored != second.explored


class Printed(GLMJDP):
    """As printed: criterion I, which reads the raw contexts of a user, has theta_o fitted anew at once."""

    def act(self, snapshot: Any, contexts: Any, coins: Any) -> Any:
        """The server is told that it fired."""
        choice = super().act(snapshot, contexts, coins)
        object.__setattr__(self, "fired", bool(choice.groups is not None and choice.groups[-1] == 0))
        return choice

    def settled(self, state: JDPState) -> Any:
        """A call of the optimiser, and its counter."""
        settled = yield from super().settled(state)
        if self.fired and settled.calls_o < self.used.calls_o:  # type: ignore[attr-defined]
            snapshot = self.matrices(settled.released)[0] / 3  # as if it had outgrown
            settled = yield from super().settled(type(settled)(**{**vars(settled), "v_o": snapshot}))
        return settled


def test_the_printed_refit_rule_is_found_out() -> None:
    """The check would pass the rule that leaks: a call against no call tells what a user's contexts were."""
    leaking = Printed(**SHARED, privacy=central(**PRIVATE), constants=BUSY)  # type: ignore[arg-type]
    assert not only_answers_count(leaking)
