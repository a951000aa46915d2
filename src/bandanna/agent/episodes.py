"""Episodes of an agent: slots, clients, choices, decisions and releases."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from bandanna.device.action_selection import Choice, SampledChoice, make_certain_choice
from bandanna.device.domain import Estimate, Statistic
from bandanna.device.noise import NoiseSource
from bandanna.errors import InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.numeric.rng import DeviceRandomness, NumberedRandomness, SecureRandomness
from bandanna.policies.base import (
    AssignedArms,
    Episode,
    FixedLength,
    PlayedRounds,
    Policy,
    RunnerState,
    StoppedByPublicData,
    SumQuery,
    drive_learning,
    form_reports,
    ledger_key,
)
from bandanna.privacy.events import CompositionEvent
from bandanna.types import Floats

# Episodes by decision number


@dataclass(frozen=True, kw_only=True)
class EpisodeSpan:
    """An episode of the decisions begin, ..., begin + users - 1.

    `clients` users answer for all its rounds; None if every round has its own user.
    """

    episode: Episode
    begin: int
    users: int
    number: int = field(init=False, repr=False, compare=False)
    end: int = field(init=False, repr=False, compare=False)
    clients: int | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        clients = self.episode.clients if isinstance(self.episode, AssignedArms) else None
        vars(self).update(number=self.episode.number, end=self.begin + self.users, clients=clients)


def to_span(episode: Episode | None, begin: int) -> EpisodeSpan | None:
    """Return the span of an episode from `begin` on; one that public numbers end has its largest length."""
    if episode is None:
        return None
    assert isinstance(episode, FixedLength | StoppedByPublicData | AssignedArms)
    return EpisodeSpan(episode=episode, begin=begin, users=episode.users)


def next_span(policy: Policy[Any], batch: EpisodeSpan) -> EpisodeSpan | None:
    """Return the batch after this one; None if it depends on what will be learned."""
    episode, number = policy.next_episode(batch.episode), batch.number + 1
    if policy.execution.learns_every_round and (policy.horizon is None or number < policy.horizon):
        episode = FixedLength(number=number, users=1)
    return to_span(episode, batch.end)


# Slots of the decisions in open episodes


_RUN = re.compile(r"slots ([0-9]{1,16})-([0-9]{1,16})", re.ASCII)


@dataclass(kw_only=True, slots=True)
class Slot:
    """One decision: arm, features, the device's group, reward if any, and hashed user."""

    batch: int
    session: str
    features: Floats  # (d,)
    arm: int
    group: int  # -1: none
    user: str | None
    reward: float | None = None


def slot_count_of_member(member: str) -> int:
    """Return how many slots a member stands for: one for a user, the length of a run without users."""
    run = _RUN.fullmatch(member)
    return int(run[2]) - int(run[1]) + 1 if run else 1


class OpenSlots:
    """The slots of all open episodes by decision number; each decision there has one, rewarded or not."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._slots: dict[int, Slot] = {}
        self._present: dict[int, set[str]] = {}  # the hashed users of each open episode
        self.people: Counter[str] = Counter()  # in how many open episodes each user is

    def record(self, number: int, slot: Slot) -> None:
        self._slots[number] = slot
        if slot.user is not None:
            self._present.setdefault(slot.batch, set()).add(slot.user)
            self.people[slot.user] += 1

    def unanswered(self, number: int, session: str, name: str) -> Slot | None:
        """Return a decision's open slot, if any; `name` is the argument to refuse if there is a reward."""
        slot = self._slots.get(number)
        if slot is None or slot.session != session:
            return None
        if slot.reward is not None:
            allowed, hint = "a decision without a reward", "The first reward is kept"
            raise InvalidArgument(name, ValueSummary(f"decision {number}, which has one"), allowed, hint)
        return slot

    def features(self, batch: EpisodeSpan, until: int) -> list[Floats]:
        """Return the features of the episode's slots before `until`, in order."""
        return [self._slots[n].features for n in range(batch.begin, min(batch.end, until)) if n in self._slots]

    def played(self, batch: EpisodeSpan, nothing: float, *, grouped: bool) -> tuple[PlayedRounds, int]:
        """Return the rows of an episode, and the number without a reward.

        Those have features of 0 and the reward `nothing`: a report noised in full like any other.
        """
        users = batch.users
        features, rewards, answered = np.zeros((users, self._dim)), np.full(users, nothing), np.zeros(users, dtype=bool)
        arms, groups = np.zeros(users, dtype=np.int64), np.zeros(users, dtype=np.int64)
        if isinstance(batch.episode, AssignedArms):
            arms = batch.episode.arms_at(np.arange(users))
        slots = [self._slots.get(number) for number in range(batch.begin, batch.end)]
        if held := [place for place, slot in enumerate(slots) if slot is not None]:
            arms[held] = [slot.arm for slot in slots if slot is not None]
            groups[held] = [max(slot.group, 0) for slot in slots if slot is not None]
        if filled := [place for place, slot in enumerate(slots) if slot is not None and slot.reward is not None]:
            answers = [slot for slot in slots if slot is not None and slot.reward is not None]
            features[filled] = np.concatenate([slot.features for slot in answers]).reshape(len(filled), self._dim)
            rewards[filled] = [slot.reward for slot in answers]
            answered[filled] = True
        rows = PlayedRounds(rewards=rewards, features=features, arms=arms, groups=groups if grouped else None)
        missing = users - len(filled)
        return (replace(rows, answered=answered) if missing else rows), missing

    def members(self, batch: EpisodeSpan, arm: int | None = None) -> list[str]:
        """Return hashed users of an episode or of one arm; a run of slots without users is one member."""
        slots = [(n, slot) for n in range(batch.begin, batch.end) if (slot := self._slots.get(n)) is not None]
        if arm is not None:
            named = [slot.user for _, slot in slots if slot.arm == arm and slot.user is not None]
            unnamed = any(slot.arm == arm and slot.user is None for _, slot in slots)
            return named + [f"arm {arm} of slots {batch.begin}-{batch.end - 1}"] * (unnamed or not named)
        people: list[str] = []
        for unnamed, some in groupby(slots, lambda pair: pair[1].user is None):
            run = list(some)
            people += [f"slots {run[0][0]}-{run[-1][0]}"] if unnamed else [str(slot.user) for _, slot in run]
        return people or [f"slots {batch.begin}-{batch.end - 1}"]

    def present(self, batch: int) -> set[str]:
        return set(self._present.get(batch, ()))

    def places(self) -> list[tuple[int, int]]:
        return [(number, slot.batch) for number, slot in self._slots.items()]

    def drop(self, batch: EpisodeSpan) -> None:
        self._present.pop(batch.number, None)
        for number in range(batch.begin, batch.end):
            slot = self._slots.pop(number, None)
            if slot is not None and slot.user is not None:
                self.people[slot.user] -= 1
                if not self.people[slot.user]:
                    del self.people[slot.user]

    def between(self, begin: int, end: int) -> OpenSlots:
        """Return the slots of the decisions begin, ..., end - 1."""
        made = OpenSlots(self._dim)
        for number, slot in self._slots.items():
            if begin <= number < end:
                made.record(number, slot)
        return made

    def to_columns(self) -> dict[str, Any]:
        slots = list(self._slots.values())
        return {
            "numbers": np.array(list(self._slots), dtype=np.int64),
            "batches": np.array([slot.batch for slot in slots], dtype=np.int64),
            "features": np.array([slot.features for slot in slots], dtype=np.float64).reshape(len(slots), self._dim),
            "arms": np.array([slot.arm for slot in slots], dtype=np.int64),
            "groups": np.array([slot.group for slot in slots], dtype=np.int64),
            "answered": np.array([slot.reward is not None for slot in slots], dtype=np.bool_),
            "rewards": np.array([slot.reward or 0.0 for slot in slots], dtype=np.float64),
            "sessions": [slot.session for slot in slots],
            "users": [slot.user for slot in slots],
        }

    @classmethod
    def from_columns(cls, dim: int, columns: dict[str, Any]) -> OpenSlots:
        made = cls(dim)
        for place, number in enumerate(columns["numbers"]):
            batch, arm, group = (int(columns[name][place]) for name in ("batches", "arms", "groups"))
            session, user, features = (columns[name][place] for name in ("sessions", "users", "features"))
            reward = float(columns["rewards"][place]) if columns["answered"][place] else None
            slot = Slot(batch=batch, session=session, features=features, arm=arm, group=group, user=user, reward=reward)
            made.record(int(number), slot)
        return made


# Clients, who answer for all rounds of an episode


@dataclass(kw_only=True)
class EpisodeClient:
    """A client: sums and counts of rewards by arm, and the answered rounds."""

    session: str
    user: str | None
    sums: Floats  # (k,)
    counts: Floats  # (k,)
    rounds: set[int]


class EpisodeClients:
    """The clients of the running episode, by their place in it."""

    def __init__(self) -> None:
        self.episode = 0
        self._clients: list[EpisodeClient] = []

    def __len__(self) -> int:
        return len(self._clients)

    def begin(self, episode: int) -> None:
        if episode != self.episode:
            self.episode, self._clients = episode, []

    def users(self) -> set[str]:
        return {client.user for client in self._clients if client.user is not None}

    def join(self, arms: int, session: str, user: str | None) -> int:
        client = EpisodeClient(session=session, user=user, sums=np.zeros(arms), counts=np.zeros(arms), rounds=set())
        self._clients.append(client)
        return len(self._clients) - 1

    def answer(self, place: int, session: str, round_: int, arm: int, reward: float) -> bool:
        """Add a client's reward of a round and of place `arm` in the episode. Return whether it exists."""
        if place >= len(self._clients) or self._clients[place].session != session:
            return False
        client = self._clients[place]
        if round_ in client.rounds:
            given, hint = ValueSummary(f"round {round_}, which has one"), "The first reward is kept"
            raise InvalidArgument("decision id", given, "a round without a reward of this client", hint)
        client.rounds.add(round_)
        client.sums[arm] += reward
        client.counts[arm] += 1
        return True

    def played(self, batch: EpisodeSpan) -> tuple[PlayedRounds, int]:
        """Return averages of all arms, (clients, k), 0 without answers; and how many clients have not answered."""
        assert isinstance(batch.episode, AssignedArms)
        assert batch.clients is not None
        averages = np.zeros((batch.clients, len(batch.episode.arms)))
        for row, client in enumerate(self._clients):
            averages[row] = client.sums / np.maximum(client.counts, 1.0)
        answered = sum(bool(client.rounds) for client in self._clients)
        return PlayedRounds(rewards=averages), batch.clients - answered

    def members(self, batch: EpisodeSpan) -> list[str]:
        named = sorted(self.users())
        others = (batch.clients or 0) - len(named)
        return named + [f"{others} clients of episode {batch.number}"] * bool(others)

    def to_columns(self) -> dict[str, Any]:
        return {
            "episode": self.episode,
            "sums": [client.sums for client in self._clients],
            "counts": [client.counts for client in self._clients],
            "rounds": [sorted(client.rounds) for client in self._clients],
            "sessions": [client.session for client in self._clients],
            "users": [client.user for client in self._clients],
        }

    @classmethod
    def from_columns(cls, columns: dict[str, Any]) -> EpisodeClients:
        made = cls()
        made.episode = columns["episode"]
        names = "sums", "counts", "rounds", "sessions", "users"
        for sums, counts, rounds, session, user in zip(*(columns[name] for name in names), strict=True):
            made._clients.append(
                EpisodeClient(session=session, user=user, sums=sums, counts=counts, rounds=set(rounds))
            )
        return made


# Choices of devices


_SECURE = SecureRandomness()  # which hold nothing
ChosenArm = tuple[int, float | Callable[[], float], int]  # action, probability or what computes it, group or -1


def device_randomness(seed: int | None, number: int) -> DeviceRandomness:
    """Return the coins of the devices of decisions `number`, `number` + 1, ...: secure, or a seed's."""
    return _SECURE if seed is None else NumberedRandomness(seed, number)


def choose_arms(
    policy: Policy[Any], snapshot: Any, batch: EpisodeSpan, seen: Sequence[Floats], *, number: int, seed: int | None
) -> list[ChosenArm]:
    """Choose for decisions `number`, `number` + 1, ... with features `seen`, (1, K, d) each, by their own coins."""
    if len(seen) == 1:
        return choose_same_arm_count(policy, snapshot, batch, seen[0], number=number, seed=seed)
    chosen: list[ChosenArm] = []
    for _, some in groupby(seen, key=_count_arms):
        contexts = np.concatenate(list(some))  # (users, K, d)
        chosen += choose_same_arm_count(policy, snapshot, batch, contexts, number=number + len(chosen), seed=seed)
    return chosen


def _count_arms(each: Floats) -> int:
    return int(each.shape[1])


def choose_same_arm_count(
    policy: Policy[Any], snapshot: Any, batch: EpisodeSpan, contexts: Floats, *, number: int, seed: int | None
) -> list[ChosenArm]:
    """Choose for users with equally many arms, (users, K, d)."""
    if isinstance(batch.episode, AssignedArms):
        places = (number - batch.begin + np.arange(len(contexts))) % batch.users
        return validate_choice(policy, make_certain_choice(batch.episode.arms_at(places)), contexts)
    return validate_choice(policy, policy.act(snapshot, contexts, device_randomness(seed, number)), contexts)


def validate_choice(policy: Policy[Any], choice: Any, contexts: Floats) -> list[ChosenArm]:
    """Return checked choices: a caller's own policy may return anything."""
    if (type(choice) is Choice or type(choice) is SampledChoice) and (
        one := _validate_single_choice(policy, choice, contexts.shape[1])
    ):
        return [one]
    if not isinstance(choice, Choice):
        raise InvalidArgument(_act_name(policy), ValueSummary.of(choice), "a Choice of actions and probabilities")
    users, arms = contexts.shape[0], contexts.shape[1]
    actions = np.asarray(choice.actions)
    if actions.shape != (users,) or actions.dtype.kind not in "iu":
        raise InvalidArgument(f"{_act_name(policy)}: actions", ValueSummary.of(actions), f"{users} integers")
    chosen: list[int] = actions.tolist()
    if min(chosen) < 0 or max(chosen) >= arms:
        raise InvalidArgument(
            f"{_act_name(policy)}: actions", ValueSummary("another number"), f"numbers of arms, 0 to {arms - 1}"
        )
    groups = [-1] * users if choice.groups is None else choice.groups.tolist()
    if isinstance(choice, SampledChoice):  # its probabilities are computed when they are read
        later = [partial(_probability_of_user, policy, choice, place) for place in range(users)]
        return list(zip(chosen, later, groups, strict=True))
    return list(zip(chosen, _validate_probabilities(policy, choice), groups, strict=True))


def _validate_single_choice(policy: Policy[Any], choice: Choice, arms: int) -> ChosenArm | None:
    """Return the choice of one device if it is plainly valid, else None."""
    actions = choice.actions
    if type(actions) is not np.ndarray or actions.shape != (1,) or actions.dtype.kind not in "iu":
        return None
    action = actions.item()
    if choice.groups is not None or not 0 <= action < arms:
        return None
    if type(choice) is SampledChoice:  # its probability is computed when it is read
        return action, partial(_probability_of_user, policy, choice, 0), -1
    chances = choice.probabilities
    if type(chances) is not np.ndarray or chances.shape != (1,):
        return None
    chance = chances.item()
    return (action, chance, -1) if 0 < chance <= 1 + 1e-9 else None


def _validate_probabilities(policy: Policy[Any], choice: Choice) -> list[float]:
    array = np.asarray(choice.probabilities)
    chances: list[float] = array.tolist()
    users = len(choice.actions)
    if array.shape != (users,) or [chance for chance in chances if not 0 < chance <= 1 + 1e-9]:
        raise InvalidArgument(
            f"{_act_name(policy)}: probabilities", ValueSummary.of(array), f"{users} numbers in (0, 1]"
        )
    return chances


def _probability_of_user(policy: Policy[Any], choice: Choice, place: int) -> float:
    return _validate_probabilities(policy, choice)[place]


def _act_name(policy: Policy[Any]) -> str:
    return f"{type(policy).__name__}.act"


# Decisions and their ids


_ID = re.compile(r"(0|[1-9][0-9]{0,17})-([0-9a-f]{16})-([0-9a-f]{16})", re.ASCII)
_CLIENT = re.compile(r"client-([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{16})-([0-9a-f]{16})", re.ASCII)
_LATER = "_later"  # where a decision keeps the function of its probability until it is read


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The decision of an agent for one user.

    Parameters
    ----------
    id
        Pass it, or the decision, to `observe` with the reward.
    arm
        The name of the chosen arm, as in the contexts.
    probability
        The probability of the arm, for off-policy evaluation; 1/n if n arms were tied. LinTS and Thompson compute it
        when it is first read.
    episode
        The batch of the decision, counted from 0. Public.
    """

    id: str
    arm: Hashable
    probability: float
    episode: int

    @classmethod
    def made(cls, name: str, arm: Hashable, chance: float | Callable[[], float], episode: int) -> Decision:
        """Return a decision with a probability, or with a function that computes it."""
        decision = object.__new__(cls)
        held = vars(decision)
        held["id"], held["arm"], held["episode"] = name, arm, episode
        held[_LATER if callable(chance) else "probability"] = chance
        return decision

    if not TYPE_CHECKING:  # there, `probability` is a field like the others

        def __getattr__(self, name: str) -> Any:
            """Compute the probability at its first use."""
            held = vars(self)
            if name != "probability" or not held:
                raise AttributeError(f"a decision has no attribute {name!r}", name=name, obj=self)
            later = held.get(_LATER)
            if later is not None:  # another thread may have been here: it has found the same
                held["probability"] = later()
                held.pop(_LATER, None)
            return held["probability"]

    def __getstate__(self) -> dict[str, Any]:
        return {"id": self.id, "arm": self.arm, "probability": self.probability, "episode": self.episode}


class DecisionIds:
    """Issue and recognise the ids of one agent, which cannot be forged without its secret of 32 bytes."""

    def __init__(self, secret: bytes) -> None:
        self._keyed = hashlib.blake2s(key=secret, digest_size=8)  # to be copied: the key is taken in once

    def issue_decision(self, number: int, session: str) -> str:
        """Return the id of decision `number`, which is different in each run."""
        return f"{number}-{session}-{self._mark(f'decision {number} {session}')}"

    def recognise(self, given: Any, name: str = "decision id") -> tuple[int, str]:
        """Return number and session of an id that the agent issued in any run; refuse others."""
        found = _ID.fullmatch(given) if isinstance(given, str) else None
        if found is not None:
            number, session, mark = found.groups()
            if self._marked(f"decision {number} {session}", mark):
                return int(number), session
        raise InvalidStatistic(name, given, "a Decision of this agent, or its id")

    def issue_client_id(self, episode: int, place: int, session: str) -> str:
        return f"client-{episode}-{place}-{session}-{self._mark(f'decision {place} {session} client {episode}')}"

    def parse_client_id(self, given: Any) -> tuple[int, int, str]:
        """Return episode, place and session of an issued client's id; refuse others."""
        found = _CLIENT.fullmatch(given) if isinstance(given, str) else None
        if found is not None:
            episode, place, session = int(found[1]), int(found[2]), found[3]
            if self._marked(f"decision {place} {session} client {episode}", found[4]):
                return episode, place, session
        raise InvalidStatistic("client", given, "an id that recruit() of this agent returned")

    def _mark(self, what: str) -> str:
        """Return 64 bits that look random without the secret."""
        keyed = self._keyed.copy()
        keyed.update(what.encode())
        return keyed.hexdigest()

    def _marked(self, what: str, mark: str) -> bool:
        return hmac.compare_digest(mark, self._mark(what))


# One release


TASK = "agent"  # the agent's releases in its ledger


class AnswerNotStored(Exception):
    """The ledger has no answer to a query, which must be drawn."""


class ReleaseOvertaken(Exception):
    """Another thread has released the episode first; the noise drawn here is dropped unseen."""


@dataclass(frozen=True, kw_only=True)
class AgentProgress:
    """All that a release changes, in one value, so that an interrupt finds the old or the new one.

    Attributes
    ----------
    begin, asked, closed
        The first decision of the running episode, its number of answered queries, and the number of episodes before it.
    state
        The policy's state; in an episode that public numbers end, the state at its end once `asked` is positive.
    streams, source
        The states of stream protocols and of the seeded generator (None for secure noise).
    released, reports, missing, clipped
        Numbers of ledger entries, and of reports in closed episodes: all, without a reward, out of range.
    forgot
        For each name of `Policy.execution.retained_groups`, the first episode whose rows are still kept.
    """

    state: Any
    source: Any
    streams: Mapping[int, Any] = field(default_factory=dict)
    forgot: Mapping[str, int] = field(default_factory=dict)
    begin: int = 0
    asked: int = 0
    closed: int = 0
    released: int = 0
    reports: int = 0
    missing: int = 0
    clipped: int = 0

    def note(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def read(cls, note: Mapping[str, Any]) -> AgentProgress:
        return cls(**{each.name: note[each.name] for each in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class QueryAnswer:
    """One query, the statistic of its reports, and the drawn estimate."""

    query: SumQuery
    statistic: Statistic
    estimate: Estimate


def ledger_arguments(batch: EpisodeSpan, answers: Sequence[QueryAnswer]) -> dict[str, Any]:
    """Return the arguments of `Ledger.release` for one entry with these answers."""
    first = answers[0]
    task, name, group = ledger_key(first.query, task=TASK, batch=str(batch.number))
    events = tuple(answer.query.event(TASK) for answer in answers)
    event = events[0] if len(events) == 1 else CompositionEvent(events=events)
    data: Statistic | bytes = first.statistic
    if len(answers) > 1:
        data = b"".join(np.ascontiguousarray(answer.statistic.rows()).tobytes() for answer in answers)
    return {"event": event, "task": task, "batch": name, "data": data, "streams": first.query.begun, "one_of": group}


@dataclass(kw_only=True)
class EpisodeRelease:
    """Answer the queries of a policy about one episode.

    Stored answers of the ledger are reused. Others are drawn, and written by `commit` before they are used.

    Attributes
    ----------
    before, after
        The progress before the next commit, and with everything drawn so far.
    played, missing
        The rows of the episode, and the number without a reward.
    find, kept_rows, position, commit
        Functions that look up the ledger, return kept rows and the seeded generator's state, and write answers to the
        ledger (None without one).
    """

    policy: Policy[Any]
    batch: EpisodeSpan
    state: Any
    before: AgentProgress
    played: PlayedRounds
    missing: int
    coins: DeviceRandomness
    source: NoiseSource
    find: Callable[[str, str, str | None], Any]
    kept_rows: Callable[[int, PlayedRounds], RunnerState]
    position: Callable[[], Any]
    commit: Callable[[EpisodeRelease, Sequence[QueryAnswer]], AgentProgress] | None

    def __post_init__(self) -> None:
        self.after = self.before
        self._kept: RunnerState | None = None
        self._held: list[QueryAnswer] = []  # drawn about the episode's users, and not yet written
        self._read: Counter[Any] = Counter()  # how many answers of an entry were used

    def run(self, *, draw: bool = True) -> Any:
        """Answer all queries and return the state that the policy learns.

        Without `draw`, raise `AnswerNotStored` at the first answer that the ledger lacks.
        """
        answer = self._answer if draw else self._stored
        learned = drive_learning(self.policy.learn(self.state, self.batch.episode), answer)
        self._write()
        return learned

    def _stored(self, query: SumQuery) -> Estimate:
        name = ledger_key(query, task=TASK, batch=str(self.batch.number))
        found = self.find(*name)
        place, self._read[name] = self._read[name], self._read[name] + 1
        if found is None:
            raise AnswerNotStored
        answer: Estimate = found[place] if isinstance(found, tuple) else found
        return answer

    def _answer(self, query: SumQuery) -> Estimate:
        """Return the stored answer, or draw one.

        Answers about all users are held and written as one entry, others one by one.
        """
        try:
            return self._stored(query)
        except AnswerNotStored:
            pass
        together = query.group == "episode" and query.arm is None
        if not together:
            self._write()
        before, first = self.after, self.after.asked == 0
        statistic = form_reports(self.policy, query, self._rows(query), self.coins)
        drawn, estimate = RunnerState(streams=before.streams).release(query, statistic, self.source, path="messages")
        counted = query.group == "episode" and (query.step == 0 or not together)
        self.after = replace(
            before,
            state=self.state,
            streams=drawn.streams,
            forgot={**before.forgot, query.group: self.batch.number + 1} if query.last else before.forgot,
            source=self.position(),
            asked=before.asked + 1,
            reports=before.reports + (self.played.rewards.shape[0] if first else 0),
            missing=before.missing + (self.missing if first else 0),
            clipped=before.clipped + (int(statistic.clipped) if counted else 0),
        )
        self._held.append(QueryAnswer(query=query, statistic=statistic, estimate=estimate))
        if not together:
            self._write()
        return estimate

    def _write(self) -> None:
        held, self._held = self._held, []
        if held and self.commit is not None:
            self.after = replace(self.after, released=self.after.released + 1)
            self.before = self.commit(self, held)

    def _rows(self, query: SumQuery) -> PlayedRounds:
        if query.group == "episode":
            return RunnerState().rows(query, self.played)
        if self._kept is None:
            self._kept = self.kept_rows(self.batch.number, self.played)
        return self._kept.rows(query, self.played)
