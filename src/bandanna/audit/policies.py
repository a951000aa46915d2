"""Policies as targets of an audit: search for users whose rows leak, and record neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bandanna.audit import replay, targets
from bandanna.audit.mechanisms import target_from_scripts
from bandanna.audit.releases import FAR_REWARD, N_SOURCES, SURE
from bandanna.audit.replay import (
    TOO_LONG_BY,
    NeighbourRecording,
    RecordedRun,
    Substitution,
    play_probe,
    play_recorded,
    protects_features,
    record_neighbours,
    record_worlds,
)
from bandanna.audit.sampled_bounds import Claim
from bandanna.audit.targets import Target
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.base import Policy
from bandanna.simulation.environments.base import Environment
from bandanna.types import Floats

# The search for leaks


MIN_REWARD_VALUES = 128  # values between the ends of the range, at least, where few users are enough
_FIXED = 4  # runs with given rewards
_FEWEST, _MOST = 2, 6  # runs with rewards from all over the range
_BATCHES = 5  # whose noise is looked at
_CALM_REWARDS = (0.0, 0.5, 1.0, -1.0)  # rewards
_LENGTHS = (1.0, 1.0, 0.5, 2.0, 0.0)  # of features; what is longer than 1 is clipped


@dataclass(frozen=True, kw_only=True)
class UserPosition:
    """A user: the number of an episode, and the position in it."""

    episode: int
    position: int


@dataclass(frozen=True, kw_only=True, eq=False)
class LeakSearch:
    """Search for users whose rows change the output of a policy although the noised sums stay the same.

    A run is repeated several times with the same answers and other rows of all users: extreme rewards, 0, rewards from
    all over their range, and random features. If the output differs, bisection finds the first user whose row makes the
    difference, and so two neighbours. The same runs show reports longer than the domain allows. `base` replaces the
    environment's rewards in the first run.
    """

    policy: Policy[Any]
    env: Environment
    rounds: int
    seed: int
    base: Substitution | None = None

    @cached_property
    def probe(self) -> RecordedRun:
        return play_probe(self.policy, self.env, rounds=self.rounds, seed=self.seed, canaries=self.base)

    def with_calm_rewards(self) -> LeakSearch | None:
        """Return the search with one common reward that does not fail, None without any."""
        rounds = np.arange(self.rounds)
        for reward in _CALM_REWARDS:
            base = Substitution(rounds=rounds, rewards=np.full(self.rounds, reward), private=False)
            search = replace(self, base=base)
            if search.probe.failed is None:
                return search
        return None

    @cached_property
    def places(self) -> list[UserPosition]:
        return [
            UserPosition(episode=number, position=position)
            for number, (_, played) in enumerate(self.probe.episodes)
            for position in range(len(played.rewards))
        ]

    def find_round(self, place: UserPosition) -> int:
        return self.probe.begins[place.episode] + place.position

    @cached_property
    def reward_range(self) -> tuple[float, float]:
        """Return the policy's or the environment's range of rewards; at least [-1, 1]."""
        declared = getattr(self.policy, "reward_range", None) or (-1.0, 1.0)
        seen = [
            float(each) for _, played in self.probe.episodes for each in (played.rewards.min(), played.rewards.max())
        ]
        return min(*declared, *seen), max(*declared, *seen)

    @cached_property
    def crowds(self) -> list[Substitution]:
        """Return other rows for all users, with rewards large, small, none, at the ends and between."""
        users, rng = len(self.places), np.random.default_rng([self.seed, 7])
        runs = min(_MOST, max(_FEWEST, math.ceil(MIN_REWARD_VALUES / users)))
        low, high = self.reward_range
        strata = (rng.permutation(users * runs) + rng.random(users * runs)) / (users * runs)
        drawn = (low + (high - low) * strata).reshape(runs, users)
        clicks = rng.permutation(np.resize([low, 0.0, high], users))
        rounds = np.array([self.find_round(each) for each in self.places], dtype=np.int64)
        private = protects_features(self.policy)
        crowds = [
            Substitution(
                rounds=rounds, rewards=rewards, features=self._features(rng) if private else None, private=private
            )
            for rewards in (np.full(users, FAR_REWARD), np.full(users, -FAR_REWARD), np.zeros(users), clicks, *drawn)
        ]
        nothing = crowds[2].features
        if nothing is not None:
            nothing[:, : nothing.shape[-1] - self._intercept] = 0.0
        return crowds

    @property
    def _intercept(self) -> bool:
        return bool(getattr(self.policy, "intercept", False))

    def _features(self, rng: np.random.Generator) -> Floats | None:
        own = self.probe.episodes[0][1].features
        if own is None or self.base is not None:
            return None
        users = len(self.places)
        slopes = rng.normal(size=(users, own.shape[-1] - self._intercept))
        slopes *= rng.choice(_LENGTHS, size=(users, 1)) / np.linalg.norm(slopes, axis=-1, keepdims=True)
        return np.column_stack([slopes, np.ones(users)]) if self._intercept else slopes

    @cached_property
    def seen(self) -> list[RecordedRun]:
        """Return a run per crowd with the answers of the first run."""
        return [self._with(crowd) for crowd in self.crowds]

    def _with(self, crowd: Substitution) -> RecordedRun:
        rows, forced = self._over_base(crowd), self.probe.queries
        return play_recorded(self.policy, self.env, rounds=self.rounds, seed=self.seed, canaries=rows, forced=forced)

    def _over_base(self, crowd: Substitution) -> Substitution:
        return crowd if self.base is None else crowd.over(self.base)

    def leaks(self) -> Iterator[tuple[str, UserPosition, tuple[Substitution, Substitution]]]:
        """Yield each difference with the same answers, the user whose row causes it, and the neighbours."""
        checked = False
        for crowd, seen in zip(self.crowds, self.seen, strict=True):
            if self.probe.difference(seen) is not None:
                if not checked:
                    self._check_repeatable(crowd)
                    checked = True
                yield self._find_culprit(crowd, self.probe.difference)

    def _check_repeatable(self, crowd: Substitution) -> None:
        """Refuse a policy whose repeated runs differ."""
        again = self._with(crowd.first(0))
        if (difference := self.probe.difference(again)) is not None:
            hint = f"With the same rows, coins and answers {difference} differed in a second run. Draw from coins only"
            allowed = "a policy whose methods are functions of their arguments"
            raise InvalidArgument("target", type(self.policy).__name__, allowed, hint)

    def find_suspects(self) -> list[NeighbourRecording]:
        """Return neighbours for whom scales of noise, fields beside a total, or others' reports differ.

        That alone is no refutation: the releases to them are attacked like others.
        """
        half = self.crowds[0].only(slice(0, None, 2))  # all users between them keep their own rows

        def unlike_fields(seen: RecordedRun) -> str | None:
            return "a field beside the total" if seen.fields != self.probe.fields else None

        tries = [(unlike_fields, crowd, seen) for crowd, seen in zip(self.crowds, self.seen, strict=True)]
        found = [
            next((self._find_culprit(crowd, unlike) for unlike, crowd, seen in each if unlike(seen)), None)
            for each in (tries, [(self._unlike_reports, half, self._with(half))])
        ]
        return [self._recorded(place, worlds) for _, place, worlds in filter(None, found)]

    def _unlike_reports(self, seen: RecordedRun) -> str | None:
        for step, (asked, number) in enumerate(zip(self.probe.queries, self.probe.places, strict=True)):
            if asked.query.group != "episode" or not _has_same_query(seen, step, asked.values.shape):
                continue
            rounds = self.probe.begins[number] + np.arange(len(asked.values))
            own = ~np.isin(rounds, seen.replaced)
            if not np.array_equal(asked.values[own], seen.queries[step].values[own]):
                return "another user's report"
        return None

    def _find_culprit(
        self, crowd: Substitution, difference: Callable[[RecordedRun], str | None]
    ) -> tuple[str, UserPosition, tuple[Substitution, Substitution]]:
        """Find by bisection the first user whose row changes the output, and the neighbours."""
        without, with_it = 0, len(crowd.rounds)
        what = difference(self._with(crowd)) or ""
        while with_it - without > 1:
            middle = (without + with_it) // 2
            if (found := difference(self._with(crowd.first(middle)))) is None:
                without = middle
            else:
                with_it, what = middle, found
        return (
            what,
            self.places[without],
            (self._over_base(crowd.first(without)), self._over_base(crowd.first(with_it))),
        )

    def _recorded(self, place: UserPosition, worlds: tuple[Substitution, Substitution]) -> NeighbourRecording:
        return record_worlds(
            self.policy,
            self.env,
            worlds,
            rounds=self.rounds,
            seed=self.seed,
            place=place.episode,
            position=place.position,
        )

    @cached_property
    def standard(self) -> NeighbourRecording:
        return record_neighbours(self.policy, self.env, rounds=self.rounds, seed=self.seed, probe=self.probe)

    def others(self) -> Iterator[NeighbourRecording]:
        """Yield recordings of the users with the longest reports in some other batches."""
        longest = self._find_longest()
        for turn, number in enumerate(self._batches(longest)):
            users = len(self.probe.episodes[number][1].rewards)
            length, position, pair = longest.get(number, (0.0, 0, (0, 0)))
            if length > TOO_LONG_BY:
                place = UserPosition(episode=number, position=position)
                at = int(np.searchsorted(self.crowds[0].rounds, self.find_round(place)))
                one, two = (self.crowds[each].only(slice(at, at + 1)) for each in pair)
                yield self._recorded(place, (one, two))
                continue
            position = (users // 2, users - 1, users // 3)[turn % 3]
            if (number, position) != (self.standard.place, self.standard.position):
                yield record_neighbours(
                    self.policy,
                    self.env,
                    rounds=self.rounds,
                    seed=self.seed,
                    probe=self.probe,
                    place=number,
                    position=position,
                )

    def _batches(self, longest: dict[int, tuple[float, int, tuple[int, int]]]) -> list[int]:
        """Return the first two, the middle, the last, the dearest and the longest batches."""
        asked = sorted(set(self.probe.places))
        if len(asked) > _BATCHES:
            some = {asked[0], asked[1], asked[len(asked) // 2], asked[-1], self.standard.place}
            asked = sorted(some | {max(longest, key=lambda each: longest[each][0], default=asked[0])})
        return asked

    def _find_longest(self) -> dict[int, tuple[float, int, tuple[int, int]]]:
        """Return where, and how far, two reports of one user exceed the allowed distance."""
        found: dict[int, tuple[float, int, tuple[int, int]]] = {}
        for step, (asked, number) in enumerate(zip(self.probe.queries, self.probe.places, strict=True)):
            whole = asked.query.group == "episode" and len(asked.values) == len(self.probe.episodes[number][1].rewards)
            runs = [at for at, each in enumerate(self.seen) if _has_same_query(each, step, asked.values.shape)]
            if not whole or len(runs) < 2:
                continue
            reports = np.stack([self.seen[at].queries[step].values for at in runs])  # (runs, users, dim)
            gaps = np.abs(reports[:, None] - reports[None])  # (runs, runs, users, dim)
            domain = asked.query.protocol.domain
            lengths = np.maximum(
                np.sqrt(np.sum(gaps * gaps, axis=-1)) / domain.sensitivity,
                np.sum(gaps, axis=-1) / domain.l1_sensitivity,
            )
            one, two, position = (int(each) for each in np.unravel_index(np.argmax(lengths), lengths.shape))
            longest = float(lengths[one, two, position])
            if longest > found.get(number, (0.0,))[0]:
                found[number] = (longest, position, (runs[one], runs[two]))
        return found

    @property
    def looked(self) -> tuple[str, ...]:
        low, high = self.reward_range
        batches, fields = len(self.probe.episodes), len(self.probe.queries)
        between = (len(self.crowds) - _FIXED) * len(self.places)
        features = "random features, and none" if self.crowds[0].features is not None else "their own features"
        opaque = self.probe.opaque
        unseen = f"; not what is inside {', '.join(sorted(opaque))}" if opaque else ""
        return (
            f"rows of {len(self.places)} users in {batches} batches, at every position, with {between} rewards from "
            f"{low:g} to {high:g}, 0, and {FAR_REWARD:g} and {-FAR_REWARD:g} beyond, and {features}",
            f"with the same answers: errors, queries, states, snapshots, episodes, choices and reports of other "
            f"users, scales of noise and all fields of {fields} estimates{unseen}",
        )


def _has_same_query(seen: RecordedRun, step: int, shape: tuple[int, ...]) -> bool:
    return step < len(seen.queries) and seen.queries[step].values.shape == shape


# Targets


_NOT_LOOKED_AT = (
    "other worlds and later rounds",
    "rewards and features between these",
    "faults that need certain rows of several users",
    "the secure noise source",
)


def target_from_policy(
    policy: Policy[Any],
    env: Environment,
    *,
    rounds: int | None = None,
    name: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    seed: int = 0,
) -> Target:
    """Make the target of a policy by record and replay, at its stated guarantee or a claimed epsilon."""
    stated = policy.guarantee
    claimed, at = stated.epsilon if epsilon is None else epsilon, stated.delta if delta is None else delta
    shown = name or type(policy).__name__
    if not policy.privacy.noisy and epsilon is None:
        return Target(name=shown, claim=Claim(epsilon=stated.epsilon, delta=at))
    played = policy.horizon if rounds is None else rounds
    if played is None:
        raise InvalidArgument("rounds", rounds, "the number of rounds to play", "The policy has no horizon")
    search = LeakSearch(policy=policy, env=env, rounds=played, seed=seed)
    plain = Claim(epsilon=claimed, delta=at)
    try:
        _ = search.probe
    except BandannaError:
        raise
    except Exception:  # of the policy: does it depend on a reward?
        calm = search.with_calm_rewards()
        if calm is None or (why := _find_leak(calm, at)) is None:
            raise
        return Target(name=shown, claim=plain, leaks=SURE, why=why, looked=calm.looked, unseen=_NOT_LOOKED_AT)
    if (why := _find_leak(search, at)) is not None:
        return Target(name=shown, claim=plain, leaks=SURE, why=why, looked=search.looked, unseen=_NOT_LOOKED_AT)
    standard = search.standard
    if not standard.script.releases:
        raise InvalidArgument("rounds", rounds, "large enough for a release with the first user")
    others = [*search.others(), *search.find_suspects()]
    recordings = [standard, *(each for each in others if each.script.releases)]
    places = ", ".join(f"{each.place + 1}/{each.position + 1}" for each in recordings)
    looked = (*search.looked, f"the noise of batch/position {places}, of {N_SOURCES} sources, and noise used twice")
    target, worst = target_from_scripts([each.script for each in recordings], epsilon=claimed, delta=at)
    if worst is not None:
        chosen = recordings[worst]
        looked = (*looked, f"runs of batch {chosen.place + 1}, position {chosen.position + 1}")
        target = replace(target, through=tuple(sorted({each.protocol.name for each in chosen.script.releases})))
    return replace(target, name=shown, looked=looked, unseen=_NOT_LOOKED_AT)


def _find_leak(search: LeakSearch, delta: float) -> str | None:
    """Describe the raw data that reach the output with a probability above delta, if any."""
    policy, env = search.policy, search.env
    for difference, place, worlds in search.leaks():
        if replay.leaks_often(policy, env, worlds, rounds=search.rounds, delta=delta, confidence=SURE):
            return (
                f"with the same answers, {difference} differs between neighbours (batch {place.episode + 1}, position "
                f"{place.position + 1}): raw data have reached it"
            )
    return None


def policy_target(name: str, *, epsilon: float, delta: float) -> Target:
    """Make the target of an algorithm by name or place, in a small environment."""
    policy, setting = targets.make_audited_policy(name, epsilon=epsilon, delta=delta)
    return target_from_policy(policy, setting.env, rounds=setting.rounds, name=name)
