"""The players of policies that learn in every round, and of policies that stop an episode at a public time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.device.noise import FastNoise, ReplicatedNoise
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import StreamRandomness, Streams
from bandanna.policies.base import AssignedArms, PlayedRounds, Policy
from bandanna.simulation.environments.base import World
from bandanna.simulation.players.reference import QueryAnswerer
from bandanna.simulation.result import RunTotals, Tally
from bandanna.types import Floats


def play_every_round(policy: Policy[Any], world: World, tally: Tally, rounds: int, *, path: str) -> RunTotals:
    """Play `rounds` rounds, one after the other, all seeds side by side; both paths are the same."""
    if not world.fixed:
        raise InvalidArgument("env", type(world.environment).__name__, "one whose arms stay the same in every round")
    table = world.means(world.contexts(0, 1))[:, 0]  # (S, K)
    gaps, seeds = table.max(axis=1, keepdims=True) - table, np.arange(tally.n_seeds)
    nothing = np.zeros((tally.n_seeds, 1, table.shape[1], 0))  # features of arms that have none
    coins = StreamRandomness(world.streams)
    answers = QueryAnswerer(policy, ReplicatedNoise(world.streams), coins, "messages")
    state = policy.init(replicates=(tally.n_seeds,))
    while tally.done < rounds:
        episode = policy.episode(state)
        if isinstance(episode, AssignedArms):
            arms = episode.arms
        else:
            assert episode is not None  # rounds are at most the policy's horizon
            arms = policy.act(policy.publish(state), nothing, coins).actions
        chosen = arms[:, 0]
        rewards = world.rewards(table[seeds, chosen][:, None])  # (S, 1)
        tally.steady(gaps[seeds, chosen], 1)
        tally.add_plays(chosen, 1)
        tally.rewards += rewards[:, 0]
        state = answers.learn(state, episode, PlayedRounds(rewards=rewards, arms=arms))
    return RunTotals(releases=rounds, users=rounds, clipped=answers.clipped, numbers_per_user=1)


_CHUNK = 1 << 18  # numbers in a chunk of contexts: small enough for a cache
_SHARE = 4  # a chunk is at most the rounds so far over this: an episode grows with them, so few crossings fall in it


def play_until_stopped(policy: Any, world: World, tally: Tally, rounds: int, *, path: str) -> RunTotals:
    """Play each seed by itself; path="messages" decides round by round.

    The frozen policy decides a chunk of rounds in one matrix product, which is cut at the round where public numbers
    end the episode. Rounds after the cut are decided anew; their contexts are not drawn twice.
    """
    switches, users, clipped = (np.zeros(tally.n_seeds, dtype=np.int64) for _ in range(3))
    most = max(1, _CHUNK // (world.n_arms * policy.dim)) if path == "law" else 1
    coins = StreamRandomness(world.streams)
    noise = world.streams.generators(policy.execution.noise_stream)
    for place, (seed, rng) in enumerate(zip(world.streams.seeds, noise, strict=True)):
        own = _StoppingRun(world.environment.begin(Streams([seed])), tally, place)
        answers = QueryAnswerer(policy, FastNoise(rng), coins.of(place), path)
        state, parts = policy.init(), []
        same = own.world.fixed and policy._devices_agree  # all users of an episode choose the same arm
        while own.played < rounds:
            contexts, means = own.look(min(most, rounds - own.played, max(16, own.played // _SHARE)))
            while len(contexts):
                seen = contexts[:1] if same else contexts
                actions = policy.act(policy.publish(state), seen, answers.coins).actions
                actions = np.broadcast_to(actions, len(contexts))
                features = contexts[np.arange(len(actions)), actions]
                cut = policy.stopping_round(state, features)
                n = len(actions) if cut is None else cut
                state = policy.advance_public(state, features[:n])
                parts.append(PlayedRounds(features=features[:n], rewards=own.play(means[:n], actions[:n])))
                if cut is not None:
                    rows, parts, users[place] = PlayedRounds.joined(parts), [], own.played
                    state = answers.learn(state, policy.episode(state), rows)
                contexts, means = contexts[n:], means[n:]
        if parts:
            answers.end(state, policy.episode(state), PlayedRounds.joined(parts))
        switches[place] = policy._run_counts(state)["switches"]
        clipped[place] = answers.clipped
    return RunTotals(
        releases=int(switches.max()),
        users=int(users.max()),
        reports=rounds,
        clipped=clipped,
        numbers_per_user=policy.dim + 1,
        counts={"switches": switches},
    )


class _StoppingRun:
    """One seed's world, read in order; regret and rewards go to its row of the tally."""

    def __init__(self, world: World, tally: Tally, place: int) -> None:
        self.world, self.tally, self.place, self.played, self._seen = world, tally, place, 0, 0

    def look(self, rounds: int) -> tuple[Floats, Floats]:
        """Return contexts (rounds, K, d) and true means (rounds, K) of the next rounds."""
        contexts = self.world.contexts(self._seen, rounds)
        means = self.world.means(contexts)
        self._seen += rounds
        k, d = contexts.shape[2:]
        return np.broadcast_to(contexts[0], (rounds, k, d)), np.broadcast_to(means[0], (rounds, k))

    def play(self, means: Floats, actions: NDArray[np.int64]) -> Floats:
        """Draw and tally the rewards of these actions, (rounds,)."""
        chosen = means[np.arange(len(actions)), actions]
        rewards = self.world.rewards(chosen[None])[0]
        best = means[0].max() if self.world.fixed else means.max(axis=1)
        self.tally.of_seed(self.place, self.played, best - chosen, rewards)
        self.tally.add_arms(actions[None], np.array([self.place]))
        self.played += len(actions)
        return np.asarray(rewards)
