"""Plays episodes that end when public numbers say so, each seed by itself: actions of the frozen policy for a chunk of
rounds in one matrix product, cut at the first crossing. What comes after the cut is decided anew; contexts are never
drawn twice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats
from bandanna.core.coins import StreamCoins
from bandanna.core.streams import Streams
from bandanna.environments.base import World
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.base import Played
from bandanna.simulation.players.answers import Answers
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

_CHUNK = 1 << 18  # numbers in a chunk of contexts: small enough for a cache
_SHARE = 4  # a chunk is at most the rounds so far over this: an episode grows with them, so few crossings fall in it


def play(policy: Any, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; path="messages" decides round by round."""
    switches, users, clipped = (np.zeros(tally.n_seeds, dtype=np.int64) for _ in range(3))
    most = max(1, _CHUNK // (world.n_arms * policy.dim)) if path == "law" else 1
    coins = StreamCoins(world.streams)
    noise = world.streams.generators(policy.noise_stream)
    for place, (seed, rng) in enumerate(zip(world.streams.seeds, noise, strict=True)):
        own = _Seed(world.environment.begin(Streams([seed])), tally, place)
        answers = Answers(policy, FastNoise(rng), coins.of(place), path)
        state, parts = policy.init(), []
        same = own.world.fixed and policy.steady  # of one episode: all users see the same arms, and none flips a coin
        while own.played < rounds:
            contexts, means = own.look(min(most, rounds - own.played, max(16, own.played // _SHARE)))
            while len(contexts):
                seen = contexts[:1] if same else contexts
                actions = policy.act(policy.publish(state), seen, answers.coins).actions
                actions = np.broadcast_to(actions, len(contexts))
                features = contexts[np.arange(len(actions)), actions]
                cut = policy.crossing(state, features)
                n = len(actions) if cut is None else cut
                state = policy.passed(state, features[:n])
                parts.append(Played(features=features[:n], rewards=own.play(means[:n], actions[:n])))
                if cut is not None:
                    rows, parts, users[place] = Played.joined(parts), [], own.played
                    state = answers.learn(state, policy.episode(state), rows)
                contexts, means = contexts[n:], means[n:]
        if parts:
            answers.end(state, policy.episode(state), Played.joined(parts))
        switches[place] = policy.counts(state)["switches"]
        clipped[place] = answers.clipped
    return Run(
        releases=int(switches.max()),
        users=int(users.max()),
        reports=rounds,
        clipped=clipped,
        numbers_per_user=policy.dim + 1,
        counts={"switches": switches},
    )


class _Seed:
    """One seed's world, read in order; regret and rewards go to its row of the tally."""

    def __init__(self, world: World, tally: Tally, place: int) -> None:
        self.world, self.tally, self.place, self.played, self._seen = world, tally, place, 0, 0

    def look(self, rounds: int) -> tuple[Floats, Floats]:
        """Contexts (rounds, K, d) and true means (rounds, K) of the next rounds."""
        contexts = self.world.contexts(self._seen, rounds)
        means = self.world.means(contexts)
        self._seen += rounds
        k, d = contexts.shape[2:]
        return np.broadcast_to(contexts[0], (rounds, k, d)), np.broadcast_to(means[0], (rounds, k))

    def play(self, means: Floats, actions: NDArray[np.int64]) -> Floats:
        """Rewards of these actions, (rounds,)."""
        chosen = means[np.arange(len(actions)), actions]
        rewards = self.world.rewards(chosen[None])[0]
        best = means[0].max() if self.world.fixed else means.max(axis=1)
        self.tally.of_seed(self.place, self.played, best - chosen, rewards)
        self.tally.chose(actions[None], np.array([self.place]))
        self.played += len(actions)
        return np.asarray(rewards)
