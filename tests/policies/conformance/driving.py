"""Plays a policy by its interface alone, one seed, and tells what was asked, answered, learned and given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from bandanna.device.domain import Estimate
from bandanna.device.noise import FastNoise
from bandanna.numeric.rng import StreamRandomness, Streams
from bandanna.policies.base import Episode, PlayedRounds, Policy, SumQuery, drive_learning
from bandanna.protocols.base import StreamProtocol
from bandanna.simulation.engine import simulate
from bandanna.simulation.players.reference import QueryAnswerer, ReferenceRun
from bandanna.simulation.result import Result, Tally

from ...drawn import LONG
from .catalogue import CASES, Case


def arrays(value: Any) -> Iterator[Any]:
    """All arrays and numbers of a value, in order."""
    if is_dataclass(value):
        value = tuple(getattr(value, each.name) for each in fields(value))
    if isinstance(value, tuple | list):
        for each in value:
            yield from arrays(each)
    elif value is not None:
        yield np.asarray(value)


def bits(value: Any) -> list[bytes]:
    return [array.tobytes() for array in arrays(value)]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One query: in which episode, by its place among them, the exact sum of its reports, and what was answered."""

    episode: int
    query: SumQuery
    exact: Any
    estimate: Estimate


@dataclass
class Seen:
    """Of one run: episodes with their rows, queries with their answers, and the state after each episode."""

    episodes: list[tuple[Episode, PlayedRounds]] = field(default_factory=list)
    queries: list[Asked] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    noted: list[tuple[Any, list[bytes]]] = field(default_factory=list)
    final: Any = None
    regret: Any = None


@dataclass(frozen=True, kw_only=True)
class Way:
    """What is unusual about a run.

    script   the total that an query is answered with, whatever the data are, by the queries before it
    exact    answers are exact sums, without noise
    enough   end after so many queries
    stored   what becomes of a state after every episode
    rows     what becomes of an episode's rows
    """

    seed: int = 0
    path: str = "messages"
    script: Callable[[SumQuery, list[Asked]], Any] | None = None
    exact: bool = False
    enough: int | None = None
    stored: Callable[[Any], Any] = lambda state: state
    rows: Callable[[PlayedRounds], PlayedRounds] = lambda played: played


class Enough(Exception):
    """No more queries."""


class Recorder(QueryAnswerer):
    """The simulator's answers, written down."""

    def __init__(self, usual: QueryAnswerer, way: Way, seen: Seen) -> None:
        super().__init__(usual.policy, usual.source, usual.coins, usual.path, stream=usual.stream)
        self.way, self.seen, self.sums = way, seen, dict[int, Any]()

    def learn(self, state: Any, episode: Episode, played: PlayedRounds) -> Any:
        played = self.way.rows(played)
        self.seen.episodes.append((episode, played))
        self.desk = self.desk.keep(self.policy.execution.retained_groups, played)
        learned = drive_learning(self.policy.learn(state, episode), lambda query: self._answer(query, played))
        self.seen.states.append(learned)
        return self.way.stored(learned)

    def _answer(self, query: SumQuery, played: PlayedRounds) -> Estimate:
        statistic = self.policy.report(query, self.desk.rows(query, played), self.coins)
        exact, streams = statistic.total(), isinstance(query.protocol, StreamProtocol)
        if streams:
            exact = self.sums[query.stream] = self.sums.get(query.stream, 0.0) + exact
        source = self.stream if streams else self.source
        self.desk, estimate = self.desk.release(query, statistic, source, path=self.path)
        if self.way.script is not None:
            estimate = Estimate(total=self.way.script(query, self.seen.queries), count=0, variance=0.0)
        elif self.way.exact:
            estimate = replace(estimate, total=exact)
        place = len(self.seen.episodes) - 1
        self.seen.queries.append(Asked(episode=place, query=query, exact=exact, estimate=estimate))
        if len(self.seen.queries) == self.way.enough:
            raise Enough
        return estimate


SEEDS = 25 if LONG[0] else 20  # where laws are compared: a mean that moves by 1.1 or 1.3 standard deviations shows


@cache
def simulated(key: str, path: str, *, seeds: int) -> Result:
    """Seeds of a case's own policy side by side under its own player, which several tests look at."""
    case = CASES[key]
    return simulate(case.policy, case.env, n_seeds=seeds, seed=4, path=path, horizon=case.rounds, checkpoints=30)


@cache
def usual(key: str) -> Seen:
    """A run of a case's own policy, which several tests look at and none changes; with the bits of every new state."""
    noted = list[tuple[Any, list[bytes]]]()

    def note(state: Any) -> Any:
        noted.append((state, bits(state)))
        return state

    seen = drive(CASES[key].policy, CASES[key], Way(stored=note))
    seen.noted = noted
    return seen


def again(policy: Policy[Any], begun: Seen, seed: int, path: str) -> Asked:
    """The first query of a run that ended with it, answered anew with the noise and coins of this seed."""
    own, seen = Streams([seed]), Seen()
    names = policy.execution.noise_stream, policy.execution.stream_noise or policy.execution.noise_stream
    noise, stream = (FastNoise(own.generators(name)[0]) for name in names)
    answers = QueryAnswerer(policy, noise, StreamRandomness(own).of(0), path, stream=stream)
    with suppress(Enough):
        Recorder(answers, Way(enough=1), seen).learn(begun.final, *begun.episodes[0])
    return seen.queries[0]


def drive(policy: Policy[Any], case: Case, way: Way | None = None) -> Seen:
    way, seen, rounds = way or Way(), Seen(), case.rounds
    tally = Tally(checkpoints=np.arange(1, rounds + 1), n_seeds=1)
    run = ReferenceRun(policy, case.env.begin(Streams([way.seed])), tally, 0, way.path, counterfactual=False)
    run.answers = Recorder(run.answers, way, seen)
    with suppress(Enough):
        run.run(rounds)
    seen.final, seen.regret = run.state, tally.regret[0]
    return seen


FALSE_ALARM = 1e-5  # of one comparison, if the laws are one


def one_law(one: Any, two: Any) -> bool:
    """Whether a t-test of the seeds' differences (S,), which are the same worlds, finds none."""
    differences = np.asarray(one) - np.asarray(two)
    if np.ptp(differences) == 0:
        return bool(differences[0] == 0)
    return bool(stats.ttest_1samp(differences, 0.0).pvalue > FALSE_ALARM)
