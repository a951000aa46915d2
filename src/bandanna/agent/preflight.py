"""Checks before an agent runs: budget, noise, range, users and records."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.agent.episodes import EpisodeSpan, OpenSlots
from bandanna.data.features.columns import Report
from bandanna.data.features.map import Map
from bandanna.device.arm_sets import ArmSets, Contexts, FixedArmSet, parse_arms, read_row_names, split_mapping
from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise
from bandanna.errors import (
    BandannaError,
    BudgetExceeded,
    ClippingWarning,
    InvalidArgument,
    InvalidStatistic,
    ValueSummary,
)
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.policies.base import Policy, RunningSumPolicy, SumQuery
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.events import ContinualEvent, Event, unwrap_record
from bandanna.privacy.factorisation import BLT, use_factorisations
from bandanna.privacy.guarantee import Guarantee
from bandanna.privacy.stores.base import LedgerStore
from bandanna.protocols.running_sum import RunningSumProtocol
from bandanna.types import Floats

# The arms of an agent or a task whose arms stay: names, or names and features, that suit its policy.


def fixed_arms(policy: Policy[Any], arms: Any) -> FixedArmSet | None:
    """The arms of a policy without contexts: names, of arms without features, or features as `act` takes them."""
    count = getattr(policy, "n_arms", None)
    if count is None:
        if arms is None:
            return None
        ids, features = parse_arms(arms, count_features(policy), "arms")
        return FixedArmSet(ids=_normalize_names(ids), features=features)
    names = range(count) if arms is None else validation.list_entries("arms", arms, f"{count} names")
    if len(names) != count or len(set(names)) != count:
        raise InvalidArgument("arms", arms, f"{count} names, all different: one for each arm of the policy")
    users = count_features(policy)
    return FixedArmSet(ids=_normalize_names(names), features=np.zeros((count, users)), of_users=users > 0)


def count_features(policy: Policy[Any]) -> int:
    """How many features an arm has."""
    return int(getattr(policy, "dim", 0))


def _normalize_names(ids: Sequence[Any]) -> tuple[Any, ...]:
    """Names that a save can hold; NumPy's texts and numbers as Python's."""
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in ids)
    for place, name in enumerate(names):
        if not isinstance(name, str | int | float | tuple):
            raise InvalidArgument(f"arms[{place}]", name, "a text or a number")
    return names


# What an agent asks of its policy before it runs: noise, calibrated protocols, and whether the budget pays.


_ROUNDING = 1e-9


def find_first_query(policy: Policy[Any], state: Any) -> SumQuery | None:
    """What is asked first about the episode of a state; None if it is not released."""
    episode = policy.episode(state)
    return None if episode is None or not episode.released else next(policy.learn(state, episode), None)


def make_noise_source(seed: int | None) -> tuple[NoiseSource, np.random.Generator | None]:
    """Secure noise; or seeded noise and its generator."""
    if seed is None:
        return SecureNoise(), None
    rng = np.random.Generator(np.random.PCG64(seed))
    return FastNoise(rng), rng


def check_budget_suffices(policy: Policy[Any]) -> None:
    """Refuse a policy whose noise is not enough for its own budget, such as a paper's printed constants."""
    stated = next(policy.phases()).guarantee if isinstance(policy, RunningSumPolicy) else policy.guarantee
    budget, often = policy.privacy.budget, policy.privacy.participations
    if policy.keeps and often > 1:
        allowed = "1 where a policy keeps rows for later: somebody's reports would be in one sum"
        raise InvalidArgument("participations", often, allowed)
    if budget is not None and not _is_within_budget(stated, budget):
        raise BudgetExceeded(
            f"the policy's noise is not proven to keep {budget} for {policy.privacy.participations} participations: "
            'use calibration="tight", and batches of one size for returning users'
        )


def _is_within_budget(stated: Guarantee, budget: Budget) -> bool:
    """Whether what is promised is within the budget."""
    room = 1 + _ROUNDING
    if isinstance(budget, ZCDP):
        return stated.rho <= budget.rho * room
    if isinstance(budget, RenyiDP):
        return stated.rho * budget.alpha <= budget.epsilon * room
    if isinstance(budget, PureDP):
        return stated.epsilon <= budget.epsilon * room and stated.delta == 0.0
    return isinstance(budget, ApproxDP) and stated.epsilon <= budget.epsilon * room and stated.delta <= budget.delta


def estimate_release_seconds(policy: Policy[Any], ask: SumQuery | None, users: int, *, secure: bool) -> float:
    """The estimated time of the longest release that is planned, or of the next one."""
    pairs = [(ask.protocol, users)] if ask is not None else []
    if isinstance(policy, RunningSumPolicy):
        pairs = [(each, size) for channel in policy.calibrated().values() for size, each in channel.protocols.items()]
    return max((protocol.draws(size).seconds(secure=secure) for protocol, size in pairs), default=0.0)


def to_reward(reward: Any, name: str = "reward") -> float:
    """A finite number; True and False are 1 and 0."""
    if type(reward) is float and math.isfinite(reward):
        return reward
    if isinstance(reward, bool | np.bool_):
        return float(reward)
    return validation.finite(name, reward, "a finite number; the slot is still open", error=InvalidStatistic)


def continue_streams(policy: Policy[Any], events: Iterable[Event]) -> Policy[Any]:
    """The policy with the streams of these releases, where a search on this machine has found others.

    Policies on running sums keep their channels (`calibrations`); what others search for is in their releases.
    """
    if isinstance(policy, RunningSumPolicy):
        return policy
    atoms = {unwrap_record(atom) for event in set(events) for atom in accountant.count_atoms(event)}
    streams = [atom for atom in atoms if isinstance(atom, ContinualEvent)]
    if any(_is_same_stream(*pair) for pair in combinations(streams, 2)):
        raise BandannaError("the journal has half a stream of one noise and half of another, which has no price")
    known = [each.factorisation for each in streams if isinstance(each.factorisation, BLT)]
    if all(each == BLT.optimal(horizon=each.horizon) for each in known):
        return policy
    again: Policy[Any] = replace(policy)  # type: ignore[type-var]  # nothing searched yet
    with use_factorisations(known):
        _ = again.guarantee
    return again


def _is_same_stream(one: ContinualEvent, other: ContinualEvent) -> bool:
    """Whether two events must be one stream, searched for on two machines."""
    alike = replace(one, factorisation=other.factorisation, std=other.std, grid=other.grid) == other
    same_length = one.factorisation.horizon == other.factorisation.horizon
    return alike and same_length and math.isclose(one.std, other.std, rel_tol=1e-3)


def count_calibrations(policy: Policy[Any]) -> int:
    """How many `calibrations` there are by now."""
    return len(policy.calibrated()) if isinstance(policy, RunningSumPolicy) else 0


def calibrations_by_phase(policy: Policy[Any]) -> dict[int, tuple[RunningSumProtocol, list[int]]]:
    """The calibrated channels in use, by phase: a search elsewhere might find others, of the same budget.

    The batch sizes stand beside the channel as runs: size, how often, size, how often, ...
    """
    channels = policy.calibrated() if isinstance(policy, RunningSumPolicy) else {}
    return {
        phase: (replace(channel, sizes=RunLengthSizes()), [n for run in channel.sizes.runs for n in run])
        for phase, channel in channels.items()
    }


def restore_calibrations(policy: Policy[Any], saved: dict[int, tuple[RunningSumProtocol, list[int]]]) -> None:
    """Make a policy use these channels, where it has none yet; what they guarantee is computed from them anew."""
    for phase, (channel, runs) in saved.items():
        assert isinstance(policy, RunningSumPolicy)
        policy.recalibrate(
            phase, replace(channel, sizes=RunLengthSizes(tuple(zip(runs[::2], runs[1::2], strict=True))))
        )


# The first contexts and rewards of an agent: who sends most of them out of range is told before a batch is full.


_FEW = 10  # of which most are out of range: by chance they are not; so many are looked at together
_ENOUGH = 200  # after these nobody looks any more: releases count


class EarlyRangeCheck:
    """Counts of what was seen and what was out of range, of features and of rewards; said once. Not protected."""

    def __init__(self, policy: Policy[Any]) -> None:
        self._policy = policy if isinstance(policy, RunningSumPolicy) else None
        self._seen, self._out = {"features": 0, "rewards": 0}, {"features": 0, "rewards": 0}
        self._features: list[Floats] = []  # not looked at yet
        self._rewards: list[float] = []

    def contexts(self, sets: ArmSets) -> ClippingWarning | None:
        """What to say of these users' features, one arm of each."""
        if self._policy is None or self._seen["features"] >= _ENOUGH:
            return None
        self._features += [features[0] for _, features in sets[:_ENOUGH]]
        if len(self._features) < _FEW:
            return None
        rows, self._features = np.array(self._features), []
        arms = None if getattr(self._policy, "n_arms", None) is None else np.zeros(len(rows), dtype=np.int64)
        return self._count(
            "features", len(rows), int(self._policy.statistic(rows, np.full(len(rows), 0.5), arms).clipped)
        )

    def reward(self, reward: float) -> ClippingWarning | None:
        """What to say of one more reward."""
        if self._policy is None or self._seen["rewards"] >= _ENOUGH:
            return None
        self._rewards.append(reward)
        if len(self._rewards) < _FEW:
            return None
        rewards, self._rewards = np.array(self._rewards), []
        return self._count("rewards", len(rewards), int(np.count_nonzero(self._policy.centred(rewards)[1])))

    def _count(self, what: str, seen: int, out: int) -> ClippingWarning | None:
        self._seen[what] += seen
        self._out[what] += out
        if self._seen[what] < _FEW or 2 * self._out[what] <= self._seen[what]:
            return None
        self._policy = None
        bounds = "vectors of norm at most 1" if what == "features" else "numbers in [0, 1]"
        return ClippingWarning(
            f"{self._out[what]} of the first {self._seen[what]} {what} are out of range and will be clipped: scale "
            f"them to {bounds}, by public limits (bd.features.Map does that), or other numbers are learned from"
        )


# Users: counted when they decide, refused before anything is recorded.


def normalize_users(users: Any, count: int) -> list[Any]:
    """One entry for each set of arms: an id, or None."""
    if users is None:
        return [None] * count
    allowed = f"{count}, one for each set of arms"
    people = validation.list_entries("users", users, f"a list or an array of {allowed}")
    if len(people) != count:
        raise InvalidStatistic("users", ValueSummary(f"{len(people)} users"), allowed)
    return people


def check_participations(
    users: Sequence[str | None],
    *,
    names: Sequence[str],
    made: int,
    batches: Iterator[EpisodeSpan],
    slots: OpenSlots,
    store: LedgerStore,
    task: str,
    participations: int,
    present: set[str] | None = None,
) -> None:
    """Whether these users may make the next decisions, in this order; raises, and records nothing.

    batches: that of the next decision, and those after it; where they are not known, nobody comes twice.
    present: who is in the first of them, the slots' users unless given.
    """
    if participations > 1 and None in users:
        allowed = f"the user's id: the guarantee covers {participations} participations of each, which must be counted"
        raise InvalidArgument(names[users.index(None)], None, allowed)
    known = {user for user in users if user is not None}
    if not known:
        return
    before = store.appearances(task, known)
    counts = Counter({user: before[user] + slots.people[user] for user in known})
    batch = next(batches, None)
    if present is None:
        present = slots.present(batch.number) if batch is not None and participations > 1 else set()
    for number, (user, name) in enumerate(zip(users, names, strict=True), start=made):
        while batch is not None and number >= batch.end:
            batch, present = next(batches, None), set()
        if user is None or (batch is not None and not batch.episode.released):
            continue  # of an episode that is never released nobody pays
        if counts[user] >= participations:
            raise BudgetExceeded(
                f"{name} has taken part {counts[user]} times; allowed are at most {participations} for each user, in "
                f"as many batches; nothing was recorded"
            )
        if user in present:
            where = "a batch" if batch is None else f"batch {batch.number}"
            further = "" if batch is None else f", and the next batch begins after {batch.end - number} more decisions"
            raise BudgetExceeded(
                f"{name} is in {where} already; allowed is one participation in a batch{further}; nothing was recorded"
            )
        present.add(user)
        counts[user] += 1


# Callers' records as features, by an agent's public map: counted, and said once when most are not as it expects.


_OUTSIDE = 5  # calls between a caller's line and a warning about it


class RecordMapper:
    """A map, and what it had to do with the records so far."""

    def __init__(self, features: Map, policy: Policy[Any]) -> None:
        check_map(features, policy)
        self.map, self.report, self._told = features, Report(), False

    def of_user(self, record: Any) -> Floats:
        """The features of one user, (d,): of a dictionary, or of a table with one row."""
        values = self._mapped(record)
        if len(values) != 1:
            raise InvalidStatistic(
                "contexts", ValueSummary(f"{len(values)} records"), "one, of the user; act_many takes several users"
            )
        return np.asarray(values[0])

    def of_users(self, records: Any) -> Floats:
        """Of several users, (users, d)."""
        return self._mapped(records)

    def of_arms(self, records: Any, name: str = "contexts") -> Contexts:
        """Of arms: a mapping from ids to records, a table whose index has the ids, or records with ids 0..K-1."""
        if isinstance(records, Mapping):
            arms, own = split_mapping(records, name)
            return dict(zip(arms, self._mapped(own), strict=True))
        ids = read_row_names(records, name)
        values = self._mapped(records)
        return dict(zip(ids, values, strict=True)) if ids else values

    def _mapped(self, records: Any) -> Floats:
        mapped = self.map.mapped(records)
        self.report += mapped.report
        if not self._told and (said := self.report.warning()):
            self._told = True
            warnings.warn(said, stacklevel=_OUTSIDE)
        return mapped.values


def check_map(features: Any, policy: Policy[Any], name: str = "features") -> None:
    """Refuse a map whose vectors are not what the policy takes."""
    if not isinstance(features, Map):
        raise InvalidArgument(name, type(features).__name__, "a map: bd.features.Map(...)")
    wanted, own = count_features(policy), getattr(policy, "n_arms", None) is not None
    constant = bool(getattr(policy, "intercept", False)) and not own
    if features.intercept != constant and (constant or own):
        allowed = "with Intercept(): the policy says intercept=True" if constant else "without Intercept(): it is added"
        raise InvalidArgument(name, f"a map {'with' if features.intercept else 'without'} a constant", allowed)
    if features.dim != wanted:
        raise InvalidArgument(name, f"a map to {features.dim} features", f"{wanted}, as the policy has")
