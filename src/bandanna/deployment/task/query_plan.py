"""Planned queries, batches, and the section of a task that clients read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from bandanna.deployment.messages.batch_plan import VERSION, Batch, Part, Round, least_users, rounds_digest
from bandanna.device.action_selection import AssignedSelector
from bandanna.device.arm_sets import FixedArmSet
from bandanna.device.base import to_plain_value
from bandanna.device.domain import Estimate
from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise
from bandanna.device.statistics import ReportStatistic, RewardStatistic
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.base import (
    AssignedArms,
    Episode,
    FixedLength,
    Policy,
    PublicStoppingPolicy,
    RunningSumPolicy,
    StoppedByPublicData,
    SumQuery,
    drive_learning,
)
from bandanna.policies.finite.elimination import Elimination
from bandanna.policies.linear.base import BatchedLinearPolicy
from bandanna.policies.linear.private_rewards import LinTSRewards
from bandanna.policies.registry import make_encoding
from bandanna.protocols.base import StreamProtocol
from bandanna.protocols.clear import ClearRows
from bandanna.protocols.concurrent_shuffle import LevelMixer
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.protocols.gaussian import SortingMixer
from bandanna.protocols.mixers import Mixer, SummingMixer

# Planned queries


_MOST = 10_000  # queries of one episode


@dataclass(frozen=True, kw_only=True)
class QueryPlan:
    """The queries of an episode and their rounds, before any answer.

    Protocols are fixed from the start, so devices can open slots with a zero report for every query, and mixers know
    what to add. A round holds queries up to the first that depends on an answer of this episode.
    """

    queries: tuple[SumQuery, ...]
    rounds: tuple[tuple[int, ...], ...]

    def round_of(self, number: int) -> tuple[SumQuery, ...]:
        return tuple(self.queries[place] for place in self.rounds[number])


def count_reporters(episode: Episode) -> int:
    """Return how many users report in an episode: its clients, or the users of its rounds."""
    if isinstance(episode, AssignedArms):
        return episode.users if episode.clients is None else episode.clients
    assert isinstance(episode, FixedLength)
    return episode.users


def plan_queries(policy: Policy[Any], state: Any, episode: Episode) -> QueryPlan:
    """Return the plan of an episode, found with two sets of trial answers and compared."""
    if not episode.released:
        return QueryPlan(queries=(), rounds=())
    if isinstance(policy, RunningSumPolicy) and isinstance(episode, FixedLength):  # one sum, whatever the state
        return QueryPlan(queries=(policy._query(episode),), rounds=((0,),))
    first, second = (_trial_queries(policy, state, episode, answer) for answer in (0.0, 0.25))
    if [each.protocol for each in first] != [each.protocol for each in second]:
        raise BandannaError(f"{type(policy).__name__} queries other sums if answers are different: not deployable")
    rounds: list[list[int]] = []
    for place, (one, other) in enumerate(zip(first, second, strict=True)):
        if not rounds or not _is_equal(one.at, other.at):
            rounds.append([])
        rounds[-1].append(place)
    return QueryPlan(queries=first, rounds=tuple(map(tuple, rounds)))


def _trial_queries(policy: Policy[Any], state: Any, episode: Episode, share: float) -> tuple[SumQuery, ...]:
    """Return the queries if every answer were `share` of the number of users."""
    steps, users = policy.learn(state, episode), count_reporters(episode)
    queries: list[SumQuery] = []
    try:
        query = next(steps)
        while len(queries) < _MOST:
            queries.append(query)
            total = np.full(query.protocol.domain.dim, share * users)
            query = steps.send(Estimate(total=total, count=users, variance=1.0))
    except StopIteration:
        return tuple(queries)
    raise BandannaError(f"{type(policy).__name__} makes more than {_MOST} queries about one episode")


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if hasattr(one, "__dataclass_fields__") and type(one) is type(other):
        return all(_is_equal(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
    return bool(one == other)


def next_query_or_state(
    policy: Policy[Any], state: Any, episode: Episode, answers: Sequence[Estimate]
) -> tuple[SumQuery | None, Any]:
    """Return the query after these answers or the learned state: (query, None) or (None, state)."""
    steps = policy.learn(state, episode)
    try:
        query = next(steps)
        for answer in answers:
            query = steps.send(answer)
    except StopIteration as learned:
        return None, learned.value
    return query, None


def queries_of_round(
    policy: Policy[Any], state: Any, episode: Episode, answers: Sequence[Estimate], plan: QueryPlan, number: int
) -> tuple[SumQuery, ...]:
    """Return the queries of a round, evaluated where earlier answers say."""
    queries: list[SumQuery] = []
    given = list(answers)
    for place in plan.rounds[number]:
        query, _ = next_query_or_state(policy, state, episode, given)
        if query is None or query.protocol != plan.queries[place].protocol:
            raise BandannaError(f"{type(policy).__name__} queries another sum than was planned")
        queries.append(query)
        total = np.zeros(query.protocol.domain.dim)  # no query depends on an answer of its round
        given.append(Estimate(total=total, count=count_reporters(episode), variance=1.0))
    return tuple(queries)


# Batches of episodes


_ROWS = ("none", "central")  # privacy models whose server is sent rows as they are


def sends_rows(policy: Policy[Any]) -> bool:
    """Return whether devices send rows to a trusted server."""
    return policy.privacy.model in _ROWS


def check_deployable(policy: Policy[Any]) -> None:
    """Refuse a policy whose episodes end round by round: devices would have to act one after another."""
    if isinstance(policy, PublicStoppingPolicy):
        hint = "This policy looks at every round. Run it with bandanna.Agent"
        raise InvalidArgument("policy", type(policy).__name__, "a policy whose episodes have public lengths", hint)


def make_batch(
    policy: Policy[Any], state: Any, episode: Episode, *, epoch: int, mixer_count: int, seeded: bool
) -> tuple[Batch, QueryPlan]:
    """Return the public plan of an episode and its queries; without rounds if nothing is released."""
    if isinstance(episode, StoppedByPublicData):
        check_deployable(policy)
    assigned = episode if isinstance(episode, AssignedArms) else None
    rows, plan = sends_rows(policy), QueryPlan(queries=(), rounds=())
    if rows and episode.released:
        averages = 1 if assigned is None or assigned.clients is None else len(assigned.arms)
        length = int(getattr(policy, "dim", 0)) + averages + 3  # arm, group, whether there was an answer
        rounds: tuple[Round, ...] = (Round(parts=(Part(form="row", dtype="<f8", length=length),)),)
    else:
        plan = plan_queries(policy, state, episode)
        rounds = tuple(
            Round(
                parts=tuple(
                    _make_part(query, mixer_count=mixer_count, seeded=seeded) for query in plan.round_of(number)
                )
            )
            for number in range(len(plan.rounds))
        )
        for each in rounds:
            _check_lengths(each)
    made = Batch(
        epoch=epoch,
        episode=episode.number,
        slots=count_reporters(episode),
        rounds=rounds,
        arms=() if assigned is None else tuple(assigned.arms.tolist()),
        plays=() if assigned is None else tuple(assigned.plays.tolist()),
        in_turn=assigned is not None and assigned.in_turn,
        clients=assigned is not None and assigned.clients is not None,
    )
    return made, plan


def _make_part(query: SumQuery, *, mixer_count: int, seeded: bool) -> Part:
    mixer, stream = query.protocol.mixer, isinstance(query.protocol, StreamProtocol)
    form, dtype = "plain", _choose_dtype(query, seeded)
    if mixer_count == 2:
        if not isinstance(mixer, SummingMixer | LevelMixer):
            raise InvalidArgument("mixers", 2, f"1 with {query.protocol.name}", "Only counts can be split into shares")
        form, dtype = "shares", "<u8"
    elif isinstance(mixer, SortingMixer) and query.protocol.trust == "shuffle":
        form = "sealed"
    return Part(
        arm=query.arm,
        form=form,
        dtype=dtype,
        length=mixer.length,
        stream=query.stream if stream else None,
        mixer=make_mixer_encoding().dumps(mixer),
    )


def _choose_dtype(query: SumQuery, seeded: bool) -> str:
    if isinstance(query.protocol.mixer, SummingMixer | LevelMixer):
        return "<u4" if _largest(query.protocol.mixer) < 2**32 else "<u8"
    source: NoiseSource = FastNoise(np.random.default_rng(0)) if seeded else SecureNoise()
    return "<i8" if query.protocol.device.zero(source).dtype.kind in "iu" else "<f8"


def _largest(mixer: Mixer) -> int:
    levels = mixer.levels if isinstance(mixer, LevelMixer) else (mixer,)
    return max(int(np.max(level.largest)) for level in levels if isinstance(level, SummingMixer))


def _check_lengths(round_: Round) -> None:
    """Refuse a round in which users would send different lengths."""
    arms = {part.arm is None for part in round_.parts}
    if len(arms) > 1 or (round_.by_arm and len({(part.size, part.dtype) for part in round_.parts}) > 1):
        raise BandannaError("queries of one round whose reports have different lengths: not deployable")


# The first batches of a task


_ANSWERS = (0.25, 0.0)  # tried one after the other, so that what overflows is found; the last one is gone on from


def first_batches(
    policy: Policy[Any], arms: FixedArmSet | None, *, mixers: int, seeded: bool, most: int = 2
) -> tuple[Batch, ...]:
    """Return at most `most` batches, with answers of zero between them."""
    check_deployable(policy)
    state, found = _initial_state(policy, arms), list[Batch]()
    while len(found) < most and (episode := policy.episode(state)) is not None:
        made, _ = make_batch(policy, state, episode, epoch=len(found), mixer_count=mixers, seeded=seeded)
        found.append(made)
        if len(found) == most or not episode.released:
            break
        after = [
            drive_learning(policy.learn(state, episode), partial(_constant_answer, each, count_reporters(episode)))
            for each in _ANSWERS
        ]
        state = after[-1]
    return tuple(found)


def _constant_answer(value: float, users: int, query: SumQuery) -> Estimate:
    """Return the answer if every user had reported this number."""
    rows = isinstance(query.protocol, ClearRows)
    shape = (*(users,) * rows, query.protocol.domain.dim)
    return Estimate(total=np.full(shape, value if rows else value * users), count=users, variance=1.0)


def _initial_state(policy: Policy[Any], arms: FixedArmSet | None) -> Any:
    try:
        return policy.init(None if arms is None else arms.features)
    except InvalidArgument as error:
        if arms is None and error.argument.startswith("arms"):
            allowed = f"a table [arms] with features = {{ name = [numbers], ... }} for {type(policy).__name__}"
            raise InvalidArgument("arms", None, allowed, "It plans with fixed arms") from error

        raise


# The section for clients without a policy


_MAX_CLIENT_PLANS = 1_000  # different sizes of batches


def client_task_section(policy: Policy[Any], features: Any, *, mixers: int, seeded: bool) -> dict[str, Any] | None:
    """Return the task's `device` section for JSON; None if a device needs the policy.

    The task's id covers the section, so a client without policies sends no report to an analyzer that announces another
    batch.

        choose   an action selector of `device.action_selection`, as plain values
        tells    by round and part, statistics of `device.statistics`; {"kind": "Row"} for a server trusted with rows
        plans    for each kind of batch: the digest of its rounds, the least number of users, and by round and part the
                 device that protects the statistic (None for rows)

    Seeded tests have none.
    """
    if seeded:
        return None
    state = policy.init(features)
    known = (
        _rules_of_chosen_arms(policy)
        if isinstance(policy, BatchedLinearPolicy | LinTSRewards)
        else _rules_of_assigned_arms(policy, state)
    )
    if known is None:
        return None
    choose, tells, episodes = known
    rows, plans = sends_rows(policy), dict[str, dict[str, Any]]()
    for episode in episodes:
        batch, planned = make_batch(policy, state, episode, epoch=0, mixer_count=mixers, seeded=False)
        queries = [planned.round_of(number) for number in range(len(planned.rounds))]
        told = batch.to_dict()
        rounds, devices = rounds_digest(told), [[None]] if rows else [_device_parameters(each) for each in queries]
        users = 1 if rows else least_users(told)
        found = plans.setdefault(rounds, {"rounds": rounds, "users": users, "devices": devices})
        if found["devices"] != devices:
            return None  # what is announced would not tell which
    return {
        "version": VERSION,
        "participations": policy.privacy.participations,
        "choose": to_plain_value(choose),
        "tells": [[{"kind": "Row"}]] if rows else [[to_plain_value(each) for each in tells]],
        "plans": list(plans.values()),
    }


DeviceRules = tuple[
    Any, tuple[ReportStatistic, ...], list[Episode]
]  # how to choose, what to tell, an episode of every size


def _rules_of_chosen_arms(policy: BatchedLinearPolicy | LinTSRewards) -> DeviceRules | None:
    sizes = sorted(policy._channel.sizes.counts())
    episodes: list[Episode] = [FixedLength(number=0, users=users) for users in sizes]
    tells = policy._statistics if isinstance(policy, LinTSRewards) else (policy._report_statistic,)
    return (policy._selector, tells, episodes) if len(sizes) <= _MAX_CLIENT_PLANS else None


def _rules_of_assigned_arms(policy: Policy[Any], state: Any) -> DeviceRules | None:
    """Return the plans where places assign arms."""
    first = policy.episode(state)
    if not isinstance(first, AssignedArms) or first.clients is not None:
        return None
    choose = AssignedSelector(features=int(getattr(policy, "dim", 0)))
    if sends_rows(policy):
        return choose, (), [first]
    if not isinstance(policy, Elimination) or not policy.shuffled:
        return None
    low, high = policy.domain.low, policy.domain.high
    episodes: list[Episode] = [replace(first, plays=np.full(len(first.arms), users)) for users in policy.sizes]
    return choose, (RewardStatistic(low=low, high=high),), episodes


def _device_parameters(queries: tuple[SumQuery, ...]) -> list[dict[str, Any]]:
    return [query.protocol.device.parameters for query in (queries[:1] if queries[0].arm is not None else queries)]


# Verified publications


@dataclass(frozen=True, kw_only=True)
class VerifiedPublication:
    """A publication whose signature was checked. Its parts may still raise any error."""

    content: Mapping[str, Any]

    @property
    def number(self) -> int:
        return int(self.content["number"])

    @property
    def epoch(self) -> int:
        return int(self.content["epoch"])

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """The running batch and the one after it."""
        return tuple(map(Batch.from_dict, self.content["batches"]))

    @cached_property
    def state(self) -> Any:
        return make_encoding().loads(self.content["state"])

    @cached_property
    def snapshot(self) -> Any:
        return make_encoding().loads(self.content["snapshot"])
