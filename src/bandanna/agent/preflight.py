"""Checks before an agent decides: arms, noise, budget, clipping, users and records."""

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
from bandanna.agent.episodes import AgentProgress, EpisodeSpan, OpenSlots
from bandanna.data.features.columns import Report
from bandanna.data.features.map import Map
from bandanna.device.arm_sets import (
    ArmSets,
    Contexts,
    FixedArmSet,
    parse_arm_sets,
    parse_arms,
    read_row_names,
    repeat_user_features,
    split_mapping,
)
from bandanna.device.domain import read_real_array
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

# Arms.


def fixed_arms(policy: Policy[Any], arms: Any) -> FixedArmSet | None:
    """Return fixed arms: names, or features as `act` takes them."""
    count = getattr(policy, "n_arms", None)
    if count is None:
        if arms is None:
            return None
        ids, features = parse_arms(arms, count_features(policy), "arms")
        return FixedArmSet(ids=_normalize_names(ids), features=features)
    allowed = f"{count} different names, one for each arm of the policy"
    names = range(count) if arms is None else validation.list_entries("arms", arms, allowed)
    if len(names) != count or len(set(names)) != count:
        raise InvalidArgument("arms", arms, allowed)
    users = count_features(policy)
    return FixedArmSet(ids=_normalize_names(names), features=np.zeros((count, users)), of_users=users > 0)


def count_features(policy: Policy[Any]) -> int:
    """Return the features per arm."""
    return int(getattr(policy, "dim", 0))


def _normalize_names(ids: Sequence[Any]) -> tuple[Any, ...]:
    """Return names that a save can hold, without NumPy's types."""
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in ids)
    for place, name in enumerate(names):
        if not isinstance(name, str | int | float | tuple):
            raise InvalidArgument(f"arms[{place}]", name, "a string or a number")
    return names


# Noise, calibrated protocols and budget.


_ROUNDING = 1e-9


def find_first_query(policy: Policy[Any], state: Any) -> SumQuery | None:
    """Return the first query about a state's episode; None if it is not released."""
    episode = policy.episode(state)
    return None if episode is None or not episode.released else next(policy.learn(state, episode), None)


def make_noise_source(seed: int | None) -> tuple[NoiseSource, np.random.Generator | None]:
    """Return secure noise, or seeded noise and its generator."""
    if seed is None:
        return SecureNoise(), None
    rng = np.random.Generator(np.random.PCG64(seed))
    return FastNoise(rng), rng


def check_budget_suffices(policy: Policy[Any]) -> None:
    """Refuse a policy whose noise is not enough for its own budget, such as a paper's printed constants."""
    stated = next(policy._iterate_phases()).guarantee if isinstance(policy, RunningSumPolicy) else policy.guarantee
    budget, often = policy.privacy.budget, policy.privacy.participations
    if policy.execution.retained_groups and often > 1:
        hint = "This policy keeps rows for later sums, in which a user would be twice"
        raise InvalidArgument("participations", often, "1 for this policy", hint)
    if budget is not None and not _is_within_budget(stated, budget):
        raise BudgetExceeded(
            f"the policy's noise is not proven to keep {budget} for {policy.privacy.participations} participations. "
            'Use calibration="tight", and batches of one size if users return'
        )


def check_batch_memory(policy: Policy[Any]) -> None:
    """Refuse batches whose reports do not fit into memory at their release."""
    if isinstance(policy, RunningSumPolicy):
        most, numbers = max(next(policy._iterate_phases())._channel.sizes.counts()), policy._domain.dim
        needed = 24 * most * numbers  # as reports, as messages, as what is added
        validation.check_memory(
            "batch", most, needed, content=f"reports of {most:,} users with {numbers:,} numbers each"
        )


def _is_within_budget(stated: Guarantee, budget: Budget) -> bool:
    room = 1 + _ROUNDING
    if isinstance(budget, ZCDP):
        return stated.rho <= budget.rho * room
    if isinstance(budget, RenyiDP):
        return stated.rho * budget.alpha <= budget.epsilon * room
    if isinstance(budget, PureDP):
        return stated.epsilon <= budget.epsilon * room and stated.delta == 0.0
    return isinstance(budget, ApproxDP) and stated.epsilon <= budget.epsilon * room and stated.delta <= budget.delta


def estimate_release_seconds(policy: Policy[Any], query: SumQuery | None, users: int, *, secure: bool) -> float:
    """Return the estimated time of the longest planned release, or of the next one."""
    pairs = [(query.protocol, users)] if query is not None else []
    if isinstance(policy, RunningSumPolicy):
        pairs = [
            (each, size)
            for channel in policy._calibrated_channels().values()
            for size, each in channel.protocols.items()
        ]
    return max((protocol.draws(size).seconds(secure=secure) for protocol, size in pairs), default=0.0)


def to_reward(reward: Any, name: str = "reward") -> float:
    """Return a reward as a finite number; True and False are 1 and 0."""
    if type(reward) is float and math.isfinite(reward):
        return reward
    if isinstance(reward, bool | np.bool_):
        return float(reward)
    return validation.finite(name, reward, error=InvalidStatistic)


def continue_streams(policy: Policy[Any], events: Iterable[Event]) -> Policy[Any]:
    """Return the policy with the streams of these releases, if a search on this machine found others."""
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
    """Return whether two events must be one stream, found by searches on two machines."""
    alike = replace(one, factorisation=other.factorisation, std=other.std, grid=other.grid) == other
    same_length = one.factorisation.horizon == other.factorisation.horizon
    return alike and same_length and math.isclose(one.std, other.std, rel_tol=1e-3)


def count_calibrations(policy: Policy[Any]) -> int:
    """Return the number of calibrated phases."""
    return len(policy._calibrated_channels()) if isinstance(policy, RunningSumPolicy) else 0


def calibrations_by_phase(policy: Policy[Any]) -> dict[int, tuple[RunningSumProtocol, list[int]]]:
    """Return the calibrated channels by phase: a search elsewhere might find others of the same budget.

    Batch sizes are runs: size, times, size, times, ...
    """
    channels = policy._calibrated_channels() if isinstance(policy, RunningSumPolicy) else {}
    return {
        phase: (replace(channel, sizes=RunLengthSizes()), [n for run in channel.sizes.runs for n in run])
        for phase, channel in channels.items()
    }


def restore_calibrations(policy: Policy[Any], saved: dict[int, tuple[RunningSumProtocol, list[int]]]) -> None:
    """Make a policy use these channels where it has none; guarantees are computed from them anew."""
    for phase, (channel, runs) in saved.items():
        assert isinstance(policy, RunningSumPolicy)
        policy._use_channel(
            phase, replace(channel, sizes=RunLengthSizes(tuple(zip(runs[::2], runs[1::2], strict=True))))
        )


# Clipping.


_FEW = 10  # features or rewards that are checked together
_ENOUGH = 200  # features or rewards that are checked at most


class ClippingCheck:
    """Warn once that most of the first features, of the first rewards, or of all reports are out of range.

    The counts are not protected. `stacklevel` is that of a warning in the called method.
    """

    def __init__(self, policy: Policy[Any]) -> None:
        self.warned = False
        self._policy = policy if isinstance(policy, RunningSumPolicy) else None
        self._seen, self._out = {"features": 0, "rewards": 0}, {"features": 0, "rewards": 0}
        self._features: list[Floats] = []  # not looked at yet
        self._rewards: list[float] = []

    def check_reports(self, progress: AgentProgress, stacklevel: int) -> None:
        """Check the reports with a reward in closed batches."""
        clipped, count = progress.clipped, progress.reports - progress.missing
        if clipped and not self.warned and (warning := ClippingWarning.of(clipped, count)):
            self.warned = True
            warnings.warn(warning, stacklevel=stacklevel)

    def check_contexts(self, sets: ArmSets, stacklevel: int) -> None:
        """Check the features of these users, one arm each."""
        if self._policy is None or self.warned or self._seen["features"] >= _ENOUGH:
            return
        self._features += [features[0] for _, features in sets[:_ENOUGH]]
        if len(self._features) < _FEW:
            return
        rows, self._features = np.array(self._features), []
        arms = None if getattr(self._policy, "n_arms", None) is None else np.zeros(len(rows), dtype=np.int64)
        clipped = int(self._policy._form_statistic(rows, np.full(len(rows), 0.5), arms).clipped)
        self._count("features", len(rows), clipped, stacklevel + 1)

    def check_reward(self, reward: float, stacklevel: int) -> None:
        if self._policy is None or self.warned or self._seen["rewards"] >= _ENOUGH:
            return
        self._rewards.append(reward)
        if len(self._rewards) < _FEW:
            return
        rewards, self._rewards = np.array(self._rewards), []
        clipped = int(np.count_nonzero(self._policy._centre_rewards(rewards)[1]))
        self._count("rewards", len(rewards), clipped, stacklevel + 1)

    def _count(self, what: str, seen: int, out: int, stacklevel: int) -> None:
        self._seen[what] += seen
        self._out[what] += out
        if self._seen[what] < _FEW or 2 * self._out[what] <= self._seen[what]:
            return
        self.warned = True
        bounds = "vectors of norm at most 1" if what == "features" else "numbers in [0, 1]"
        warning = ClippingWarning(
            f"{self._out[what]} of the first {self._seen[what]} {what} are out of range and will be clipped. Scale "
            f"them to {bounds} by public limits, for example with bd.features.Map(...)"
        )
        warnings.warn(warning, stacklevel=stacklevel)


# Users.


def normalize_users(users: Any, count: int) -> list[Any]:
    """Return one entry for each set of arms: an id, or None."""
    if users is None:
        return [None] * count
    allowed = f"a list or an array of {count} ids, one for each set of arms"
    people = validation.list_entries("users", users, allowed)
    if len(people) != count:
        raise InvalidStatistic("users", ValueSummary(f"{len(people)}"), allowed)
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
    """Refuse users who may not make the next decisions, in this order. Nothing is recorded.

    `batches` are the batch of the next decision and the known ones after it; `present` are the users in the first, by
    default those of its slots.
    """
    if participations > 1 and None in users:
        hint = f"The guarantee covers {participations} participations of each user, so they must be counted"
        raise InvalidArgument(names[users.index(None)], None, "the user's id", hint)
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
            continue  # an episode that is never released costs nothing
        if counts[user] >= participations:
            raise BudgetExceeded(
                f"{name} has taken part {counts[user]} times, the maximum (participations={participations}). Nothing "
                "was recorded. Use agent.recommend(...) for this user"
            )
        if user in present:
            where = "a batch" if batch is None else f"batch {batch.number}"
            further = "" if batch is None else f" The next batch begins after {batch.end - number} more decisions."
            raise BudgetExceeded(
                f"{name} is in {where} already, and may be in a batch only once.{further} Nothing was recorded. Use "
                "agent.recommend(...) for this user"
            )
        present.add(user)
        counts[user] += 1


# Contexts and records of callers.


_OUTSIDE = 5  # calls between a caller's line and a warning about it


class RecordMapper:
    """Map records to features, and warn once when most of them do not fit the map.

    `report` counts values out of range, unknown, missing or clipped, and is not protected.
    """

    def __init__(self, features: Map, policy: Policy[Any]) -> None:
        check_map(features, policy)
        self.map, self.report, self._warned = features, Report(), False

    def of_user(self, record: Any) -> Floats:
        """Return features (d,) of a dictionary or a table with one row."""
        values = self._mapped(record)
        if len(values) != 1:
            raise InvalidStatistic(
                "contexts", ValueSummary(f"{len(values)}"), "the record of one user", "Use act_many for several users"
            )
        return np.asarray(values[0])

    def of_users(self, records: Any) -> Floats:
        return self._mapped(records)

    def of_arms(self, records: Any, name: str = "contexts") -> Contexts:
        """Return features by arm, from a mapping, a table indexed by arms, or records."""
        if isinstance(records, Mapping):
            arms, own = split_mapping(records, name)
            return dict(zip(arms, self._mapped(own), strict=True))
        ids = read_row_names(records, name)
        values = self._mapped(records)
        return dict(zip(ids, values, strict=True)) if ids else values

    def _mapped(self, records: Any) -> Floats:
        mapped = self.map.mapped(records)
        self.report += mapped.report
        if not self._warned and (warning := self.report.warning()):
            self._warned = True
            warnings.warn(warning, stacklevel=_OUTSIDE)
        return mapped.values


def check_map(features: Any, policy: Policy[Any], name: str = "features") -> None:
    """Refuse a map to vectors that the policy does not take."""
    if not isinstance(features, Map):
        raise InvalidArgument(name, ValueSummary.of(features), "a map, as bd.features.Map(...) makes")
    expected, own = count_features(policy), getattr(policy, "n_arms", None) is not None
    constant = bool(getattr(policy, "intercept", False)) and not own
    if features.intercept != constant and (constant or own):
        allowed = f"a map {'with' if constant else 'without'} Intercept()"
        hint = "The policy has intercept=True" if constant else "The policy adds the constant itself"
        raise InvalidArgument(name, ValueSummary(f"one {'without' if constant else 'with'} it"), allowed, hint)
    if features.dim != expected:
        allowed = f"a map to {expected} features, as many as the policy takes"
        raise InvalidArgument(name, ValueSummary(f"a map to {features.dim}"), allowed)


class ContextReader:
    """Read callers' contexts: ids and features, (K, d), of the arms of each user."""

    def __init__(self, policy: Policy[Any], fixed: FixedArmSet | None, records: RecordMapper | None) -> None:
        self._dim, self.fixed, self.records = count_features(policy), fixed, records

    def one(self, contexts: Any) -> tuple[Sequence[Any], Floats]:
        fixed = self.fixed
        if self.records is not None and contexts is not None and (fixed is None or fixed.of_users):
            contexts = (self.records.of_arms if fixed is None else self.records.of_user)(contexts)
        if fixed is not None and fixed.of_users:
            return repeat_user_features(fixed, contexts)
        if fixed is not None and contexts is not None:
            raise InvalidStatistic("contexts", contexts, "left out", "This agent has fixed arms without features")
        if fixed is None and contexts is None:
            allowed = f"the arms of this user, each with {self._dim} features"
            raise InvalidArgument("contexts", None, allowed, "For fixed arms use bd.Agent(policy, arms=...)")
        return parse_arms(contexts, self._dim) if fixed is None else (fixed.ids, fixed.features)

    def many(self, contexts: Any) -> ArmSets:
        fixed, records = self.fixed, self.records
        if fixed is None:
            if records is not None:
                sets = validation.list_entries("contexts", contexts, "a list with the arms of each user")
                contexts = list(map(records.of_arms, sets))
            return parse_arm_sets(contexts, self._dim)
        if not fixed.of_users:
            users = validation.integer("contexts", contexts, most=10**7, error=InvalidStatistic)
            return [(fixed.ids, fixed.features)] * users
        allowed = "an array (users, d) of the features of each user"
        if records is not None:
            contexts = records.of_users(contexts)
        elif hasattr(type(contexts), "columns"):  # a table; a foreign object may raise anything for its own attributes
            contexts = read_real_array("contexts", contexts, allowed)
        people = validation.list_entries("contexts", contexts, allowed)
        return [repeat_user_features(fixed, one, f"contexts[{i}]") for i, one in enumerate(people)]
