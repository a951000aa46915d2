"""The agent's state, and what happens between its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from bandanna.agent.episodes import (
    Decision,
    DecisionIds,
    EpisodeClients,
    EpisodeSpan,
    OpenSlots,
    Slot,
    next_span,
    to_span,
)
from bandanna.agent.preflight import (
    calibrations_by_phase,
    check_budget_suffices,
    check_participations,
    count_calibrations,
    count_features,
    make_noise_source,
)
from bandanna.agent.release import TASK, AnswerNotStored, EpisodeRelease, device_randomness
from bandanna.device.action_selection import Choice, SampledChoice, make_certain_choice
from bandanna.device.arm_sets import ArmSets, FixedArmSet
from bandanna.errors import BandannaError, HorizonReached, InvalidArgument, ValueSummary
from bandanna.policies.base import AssignedArms, PlayedRounds, Policy, RunnerState, StoppedByPublicData
from bandanna.policies.serialization import columns_from_played
from bandanna.privacy.ledger import Ledger, find_store_id
from bandanna.privacy.stores.journal import ReplicatedJournal
from bandanna.types import Floats

# What the devices of a call choose, by the snapshot in force: checked, because a policy may be one's own.


ChosenArm = tuple[
    int, float | Callable[[], float], int
]  # an action, its probability or what computes it, a group or -1


def choose_arms(
    policy: Policy[Any], snapshot: Any, batch: EpisodeSpan, seen: Sequence[Floats], *, number: int, seed: int | None
) -> list[ChosenArm]:
    """Of decisions `number`, `number` + 1, ... with these `seen` features, (1, K, d) each; each by its own coins."""
    if len(seen) == 1:
        return choose_same_arm_count(policy, snapshot, batch, seen[0], number=number, seed=seed)
    chosen: list[ChosenArm] = []
    for _, some in groupby(seen, key=_count_arms):
        contexts = np.concatenate(list(some))  # (users, K, d)
        chosen += choose_same_arm_count(policy, snapshot, batch, contexts, number=number + len(chosen), seed=seed)
    return chosen


def _count_arms(each: Floats) -> int:
    """How many arms a set has."""
    return int(each.shape[1])


def choose_same_arm_count(
    policy: Policy[Any], snapshot: Any, batch: EpisodeSpan, contexts: Floats, *, number: int, seed: int | None
) -> list[ChosenArm]:
    """Of users with as many arms, (users, K, d)."""
    if isinstance(batch.episode, AssignedArms):
        places = (number - batch.begin + np.arange(len(contexts))) % batch.users
        return validate_choice(policy, make_certain_choice(batch.episode.arms_at(places)), contexts)
    return validate_choice(policy, policy.act(snapshot, contexts, device_randomness(seed, number)), contexts)


def validate_choice(policy: Policy[Any], choice: Any, contexts: Floats) -> list[ChosenArm]:
    """Arms that are there, with probabilities that are some: what a policy of one's own says is not believed."""
    if (type(choice) is Choice or type(choice) is SampledChoice) and (
        one := _validate_single_choice(policy, choice, contexts.shape[1])
    ):
        return [one]
    if not isinstance(choice, Choice):
        raise InvalidArgument(_act_name(policy), type(choice).__name__, "a Choice: actions and their probabilities")
    users, arms = contexts.shape[0], contexts.shape[1]
    actions = np.asarray(choice.actions)
    if actions.shape != (users,) or actions.dtype.kind not in "iu":
        given = f"{actions.dtype} {actions.shape}"
        raise InvalidArgument(f"{_act_name(policy)}: actions", given, f"{users} whole numbers")
    chosen: list[int] = actions.tolist()
    if min(chosen) < 0 or max(chosen) >= arms:
        raise InvalidArgument(
            f"{_act_name(policy)}: actions", ValueSummary("some outside"), f"numbers of arms, 0 to {arms - 1}"
        )
    groups = [-1] * users if choice.groups is None else choice.groups.tolist()
    if isinstance(choice, SampledChoice):  # whose probabilities are computed when somebody looks
        later = [partial(_probability_of_user, policy, choice, place) for place in range(users)]
        return list(zip(chosen, later, groups, strict=True))
    return list(zip(chosen, _validate_probabilities(policy, choice), groups, strict=True))


def _validate_single_choice(policy: Policy[Any], choice: Choice, arms: int) -> ChosenArm | None:
    """What one device has chosen, if it is what it should be; None: it has to be looked at."""
    actions = choice.actions
    if type(actions) is not np.ndarray or actions.shape != (1,) or actions.dtype.kind not in "iu":
        return None
    action = actions.item()
    if choice.groups is not None or not 0 <= action < arms:
        return None
    if type(choice) is SampledChoice:  # whose probability is computed when somebody looks
        return action, partial(_probability_of_user, policy, choice, 0), -1
    chances = choice.probabilities
    if type(chances) is not np.ndarray or chances.shape != (1,):
        return None
    chance = chances.item()
    return (action, chance, -1) if 0 < chance <= 1 + 1e-9 else None


def _validate_probabilities(policy: Policy[Any], choice: Choice) -> list[float]:
    """The probabilities of a choice."""
    array = np.asarray(choice.probabilities)
    chances: list[float] = array.tolist()
    users = len(choice.actions)
    if array.shape != (users,) or [chance for chance in chances if not 0 < chance <= 1 + 1e-9]:
        raise InvalidArgument(
            f"{_act_name(policy)}: probabilities", ValueSummary.of(array), f"{users} numbers in (0, 1]"
        )
    return chances


def _probability_of_user(policy: Policy[Any], choice: Choice, place: int) -> float:
    """One of them."""
    return _validate_probabilities(policy, choice)[place]


def _act_name(policy: Policy[Any]) -> str:
    return f"{type(policy).__name__}.act"


# What a release changes, as one value: an interrupt finds the one before or the one after, never half of each.


@dataclass(frozen=True, kw_only=True)
class AgentProgress:
    """Before the episode of decision `begin`, of which `asked` asks have been answered.

    state     of the policy; of an episode that ends by public numbers, as soon as something is asked, at its end
    streams   states of stream protocols
    source    where the seeded noise is
    closed    episodes before this one;  `released`: entries in the ledger
    reports   that closed episodes asked for; `missing` of them were nobody's, `clipped` were: not protected
    forgot    by name of `Policy.keeps`: rows of episodes before this number are kept no more
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
        """What saves and journals hold of it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def read(cls, note: Mapping[str, Any]) -> AgentProgress:
        """The inverse of `note`."""
        return cls(**{each.name: note[each.name] for each in fields(cls)})


# What an agent is between two calls: progress, open slots, the running episode; without files.


@dataclass(frozen=True, kw_only=True)
class CurrentEpisode:
    """What follows from the progress and the slots: the state, its snapshot, the running episode.

    ended: of an episode that public numbers end, whether they have.
    """

    state: Any
    snapshot: Any
    batch: EpisodeSpan | None
    ended: bool = False


class AgentState:
    """The state of an agent. `PLAIN` are the attributes that a save holds as they are.

    A signal may raise between any two lines. What is true then: the decisions made have slots, and what the journals
    hold is released. `settle` derives the rest from that.
    """

    PLAIN = "made", "beside", "late", "over"

    ids: DecisionIds  # by the secret

    def __init__(
        self, policy: Policy[Any], arms: FixedArmSet | None, grace: int, seed: int | None, secret: bytes, session: str
    ) -> None:
        self.policy, self.arms, self.grace = policy, arms, grace
        self.session, self.seed = session, seed
        self.secret = secret
        self.lock, self.releasing = threading.RLock(), threading.Lock()
        self.at_once = True  # batches are released as soon as they are due, by whoever decides next
        self.slots, self.clients = OpenSlots(count_features(policy)), EpisodeClients()
        self.kept: dict[int, PlayedRounds] = {}  # by episode, in order: rows that later asks may be about
        self._rows_cache: dict[
            int, tuple[PlayedRounds, Mapping[str, tuple[PlayedRounds, ...]]]
        ] = {}  # the same by name, if asked for
        self.made = self.beside = 0  # decisions; those of them that belong to no episode
        self.before = 0  # decisions before the newest call that decides
        self.late = 0
        self.over = False
        self.known = 0  # phases whose calibration all journals have
        self.settled = True  # False from the first change of a call to its last
        state = policy.init(None if arms is None else arms.features)
        self.source, self.rng = make_noise_source(seed)
        self.progress = AgentProgress(state=state, source=self.randomness())
        self.refresh_episodes()

    @property
    def secret(self) -> bytes:
        """What ids and the hashes of users are made with."""
        return self._secret

    @secret.setter
    def secret(self, secret: bytes) -> None:
        self._secret, self.ids = secret, DecisionIds(secret)

    def open_ledger(self, journals: ReplicatedJournal) -> None:
        """Where something is promised, every release goes through a ledger over the journals."""
        privacy = self.policy.privacy
        self.journals, self.ledger = journals, None
        if privacy.noisy and privacy.budget is not None:
            often = getattr(self.policy, "spends", privacy).participations  # nobody is in more batches than there are
            self.ledger = Ledger(budget=privacy.budget, participations=often, store=journals)
            check_budget_suffices(self.policy)

    def refresh_episodes(self, filling: EpisodeSpan | None = None) -> None:
        """The running episode and the one that is filling, from the progress and the slots.

        filling: an episode of the same schedule that no decision is after, where one is known: the search begins there.
        """
        progress, ended = self.progress, self.progress.asked > 0
        state, batch = progress.state, to_span(self.policy.episode(progress.state), progress.begin)
        if batch is not None and isinstance(batch.episode, StoppedByPublicData):
            rows = [] if ended else self.slots.features(batch, self.made)
            for place, features in enumerate(rows, start=1):
                state, ended = self._pass(state, features)
                if ended:
                    batch = replace(batch, users=place)
                    break
            else:
                batch = replace(batch, users=max(1, self.made - batch.begin)) if ended else batch
        self.now = CurrentEpisode(state=state, snapshot=self.policy.publish(state), batch=batch, ended=ended)
        self.filling = batch if filling is None else filling
        while self.filling is not None and self.filling.end <= self.made:
            self.filling = next_span(self.policy, self.filling)
        if batch is not None and batch.clients is not None:
            self.clients.begin(batch.number)

    def _pass(self, state: Any, features: Any) -> tuple[Any, bool]:
        """One more round of an episode that public numbers end: the state after it, and whether they do."""
        ended = self.policy.crossing(state, features[None]) is not None
        return self.policy.passed(state, features[None]), ended

    def played(self, batch: EpisodeSpan) -> tuple[PlayedRounds, int]:
        """The rows of an episode, and how many have no answer; a reward of nothing is the one nearest to 0."""
        if batch.number in self.kept:  # asked about before
            return self.kept[batch.number], 0
        if batch.clients is not None:
            return self.clients.played(batch)
        low, high = getattr(self.policy, "reward_range", (0.0, 0.0))
        nothing = float(min(max(0.0, low), high))
        rows, missing = self.slots.played(batch, nothing, grouped=len(self.policy.keeps) > 1)
        later = (
            self.policy.keeps or self.policy.has_several_queries
        )  # rows that are kept, and saved, say it by zeros alone
        return (replace(rows, answered=None) if later else rows), missing

    def members(self, batch: EpisodeSpan, arm: int | None) -> list[str]:
        """Who is in an episode, or was assigned an arm of it."""
        return self.slots.members(batch, arm) if batch.clients is None else self.clients.members(batch)

    def answered(self) -> int:
        """The reports that were asked for, without those that nobody gave a reward for."""
        return self.progress.reports - self.progress.missing

    def due(self, grace: int, made: int) -> EpisodeSpan | None:
        """The running episode, if it is complete and waits no more after `made` decisions."""
        batch = self.now.batch
        if batch is None or not batch.episode.released:
            return None
        complete = batch.end + grace <= made and (self.now.ended or not isinstance(batch.episode, StoppedByPublicData))
        return batch if complete or self.progress.asked else None

    def waiting(self) -> int | None:
        """How many decisions the running episode waits for."""
        batch, horizon = self.now.batch, self.policy.horizon
        if batch is None or self.over or not batch.episode.released or isinstance(batch.episode, StoppedByPublicData):
            return None
        if horizon is not None and batch.end - self.made > horizon - (self.made - self.beside):
            return None  # the horizon cuts it short, and what is cut short is not released
        return max(0, batch.end + self.grace - self.made)

    def randomness(self) -> Any:
        """Where the seeded generator is; None for secure noise."""
        return None if self.rng is None else self.rng.bit_generator.state


# Release and learn: what closes an agent's episodes, and what puts things right after an interruption.


class ReleasingRunner(AgentState):
    """The part of the loop that answers asks and goes on with what was learned."""

    def close(self) -> None:
        """Release the complete episodes, and no more decisions."""
        self.settled = False
        self._close(0)
        self.over = self.settled = True

    def _close(self, grace: int) -> None:
        """Release the episodes that are due, in order."""
        while (batch := self.due(grace, self.made)) is not None:
            EpisodeRelease(self, batch).run()

    def find(self, task: str, batch: str, one_of: str | None) -> Any:
        """What was answered before: an estimate, or several."""
        entry = None if self.ledger is None else self.journals.find(*find_store_id(task, batch, one_of))
        return None if entry is None or entry.release is None else entry.release[0]

    def noted(self) -> None:
        """Go on from what the journals know."""
        self.known = count_calibrations(self.policy)
        self.progress = AgentProgress.read(self.journals.state())

    def go_on(self, progress: AgentProgress, learned: Any, batch: EpisodeSpan, played: PlayedRounds) -> None:
        """The episode is learned."""
        if self.policy.keeps:
            self.kept.setdefault(batch.number, played)
        scheduled = next_span(self.policy, batch) is not None
        begin = batch.end if scheduled else max(batch.end, self.made)
        self.progress = replace(progress, state=learned, begin=begin, asked=0, closed=progress.closed + 1)
        needed = self._needed()
        if next(iter(self.kept), needed) < needed:
            self.kept = {number: rows for number, rows in self.kept.items() if number >= needed}
            self._rows_cache = {number: held for number, held in self._rows_cache.items() if number in self.kept}
        self.made = max(self.made, begin)  # more than a save knows
        self.slots.drop(batch)
        self.refresh_episodes(self.filling if scheduled else None)

    def _needed(self) -> int:
        """Rows of episodes before this number are kept under no name."""
        return min((self.progress.forgot.get(name, 0) for name in self.policy.keeps), default=0)

    def kept_rows_with(self, episode: int, played: PlayedRounds) -> RunnerState:
        """The rows that later asks may be about, those of an episode among them."""
        kept: dict[str, list[PlayedRounds]] = {}
        forgot = self.progress.forgot
        for number, rows in sorted({**self.kept, episode: played}.items()):
            for name, parts in self._rows_by_name(number, rows).items():
                if number >= forgot.get(name, 0):
                    kept.setdefault(name, []).extend(parts)
        return RunnerState(kept={name: tuple(parts) for name, parts in kept.items()})

    def _rows_by_name(self, number: int, rows: PlayedRounds) -> Mapping[str, tuple[PlayedRounds, ...]]:
        """The rows of an episode under the names that their devices chose: found once, since later asks come again."""
        held = self._rows_cache.get(number)
        if held is None or held[0] is not rows:
            self._rows_cache[number] = held = rows, RunnerState().keep(self.policy.keeps, rows).kept
        return held[1]

    def settle(self) -> None:
        """After a call that was interrupted, go on from what the journals and the slots say; else do nothing."""
        if self.settled:
            return
        if self.ledger is not None:
            self.journals.settle()
            if self.journals.count() != self.progress.released:  # released, and not known here
                self.progress = AgentProgress.read(self.journals.state())
        self.tidy()
        self.settled = True

    def tidy(self) -> None:
        """What follows from the progress and the decisions made: open slots, the episode that is filling, noise."""
        begin = self.progress.begin
        self.made = max(self.made, begin)  # more than a save knows, if they were released after it
        self.slots = self.slots.between(begin, self.made)
        self.known = 0
        if self.rng is not None:
            self.rng.bit_generator.state = self.progress.source  # nobody has seen what was drawn since
        self.refresh_episodes()
        self.replay()

    def replay(self) -> None:
        """An episode all of whose asks were answered is learned, by whatever is stored."""
        while self.progress.asked and self.now.batch is not None:
            try:
                EpisodeRelease(self, self.now.batch).run(draw=False)
            except AnswerNotStored:
                self.made = max(self.made, self.now.batch.end + self.grace)  # it was due
                return

    def notes(self, after: AgentProgress, kept: tuple[int, PlayedRounds | None] = (0, None)) -> dict[str, Any]:
        """What a journal must know to go on: calibrations if there are more than it knows, rows that are new."""
        notes: dict[str, Any] = {"state": after.note()}
        if count_calibrations(self.policy) > self.known:
            notes["calibrations"] = calibrations_by_phase(self.policy)
        number, rows = kept
        if rows is not None:
            notes[f"kept {number}"] = columns_from_played(rows)
        before, needed = self._needed(), min((after.forgot.get(n, 0) for n in self.policy.keeps), default=0)
        return notes | {f"kept {gone}": None for gone in range(before, needed)}

    def all_notes(self) -> dict[str, Any]:
        """For a journal that knows nothing."""
        rows = {f"kept {number}": columns_from_played(played) for number, played in self.kept.items()}
        return {"state": self.progress.note(), "calibrations": calibrations_by_phase(self.policy)} | rows


# Freeze and collect, one device at a time: the path of `act`, which takes as few steps as it can.


class DecidingRunner(ReleasingRunner):
    """The part of the loop that decides for a user and records it."""

    def decide_one(self, one: tuple[Sequence[Any], Floats], user: str | None) -> Decision:
        """`decide` for one user."""
        self._room_for(1)
        seen = self.policy.seen(one[1][None])
        self._admit((user,), ("user",))
        self.settled = False
        batch = self._running()
        (chosen,) = choose_same_arm_count(self.policy, self.now.snapshot, batch, seen, number=self.made, seed=self.seed)
        decision = self._record(one, user, chosen)
        self.settled = True
        return decision

    def _running(self) -> EpisodeSpan:
        """The episode of the snapshot in force, after those that were due before this call are closed."""
        self.before = self.made
        if self.at_once:
            self._close(self.grace)
        if self.now.batch is None:
            self.settled = True
            raise HorizonReached("decisions", self.made + 1, f"at most {self.made}: the policy has no more episodes")
        return self.now.batch

    def _admit(self, users: Sequence[str | None], names: Sequence[str]) -> None:
        """Refuse users who have come too often, or without an id where they must be counted."""
        if self.ledger is None or (self.now.batch is not None and self.now.batch.clients is not None):
            return
        participations = self.policy.privacy.participations
        if participations > 1 or users.count(None) < len(users):  # somebody can be refused
            check_participations(users, names=names, made=self.made, batches=self._coming(), slots=self.slots,
                  store=self.journals, task=TASK, participations=participations)  # fmt: skip

    def _coming(self) -> Iterator[EpisodeSpan]:
        """The episodes of the next decisions, as far as they are known."""
        batch = self.filling
        while batch is not None:
            yield batch
            batch = next_span(self.policy, batch)

    def _room_for(self, count: int) -> None:
        if self.over:
            raise BandannaError("the agent is closed: it makes no more decisions; recommend(...) still answers")
        horizon, rounds = self.policy.horizon, self.made - self.beside + count
        if horizon is not None and rounds > horizon:
            allowed = f"at most {horizon}, the policy's horizon; nothing was recorded, and recommend(...) still answers"
            raise HorizonReached("decisions", rounds, allowed)

    def _record(self, one: tuple[Sequence[Any], Floats], user: str | None, chosen: ChosenArm) -> Decision:
        """What was chosen is decided: it has a slot, unless its episode is not known yet."""
        (ids, features), (action, chance, group) = one, chosen
        batch, number, session = self.filling, self.made, self.session
        if batch is None:
            self.beside += 1
        elif batch.clients is None:
            slot = Slot(batch=batch.number, session=session, features=features[action].copy(), arm=action,
                        group=group, user=user)  # fmt: skip
            self.slots.record(number, slot)
        episode = self.now.batch if batch is None else batch
        assert episode is not None
        decision = Decision.made(self.ids.issue_decision(number, session), ids[action], chance, episode.number)
        self.made = number + 1
        if batch is not None and (batch.end <= self.made or isinstance(batch.episode, StoppedByPublicData)):
            self._advance_filling(batch, features[action])
        return decision

    def _advance_filling(self, batch: EpisodeSpan, features: Floats) -> None:
        """After a decision, with these features, that may be the last of an episode."""
        if isinstance(batch.episode, StoppedByPublicData):
            state, ended = self._pass(self.now.state, features)
            batch = replace(batch, users=self.made - batch.begin) if ended else batch
            self.now = replace(self.now, state=state, batch=batch, ended=ended)
        if batch.end <= self.made:
            self.filling = next_span(self.policy, batch)


# Freeze, collect, release, learn - decision by decision: what an agent does, without files.


class AgentRunner(DecidingRunner):
    """All of it: decisions for many at once, rewards, and the clients of episodes that ask a few."""

    def decide(self, sets: ArmSets, users: Sequence[str | None], names: Sequence[str]) -> list[Decision]:
        """Check everything, close the episodes that are due, then decide for all users by one snapshot.

        The rewards of this call cannot be there yet. So an episode that fills in it stays open until the next call.
        """
        self._room_for(len(users))
        if not users:
            return []
        seen = self._seen(sets)
        self._admit(users, names)
        self.settled = False
        batch = self._running()
        chosen = choose_arms(self.policy, self.now.snapshot, batch, seen, number=self.made, seed=self.seed)
        decisions = list(map(self._record, sets, users, chosen))
        self.settled = True
        return decisions

    def _seen(self, sets: ArmSets) -> list[Floats]:
        """Features as the policy takes them, (1, K, d) for each user; it refuses what it cannot take."""
        seen: list[Floats] = []
        for place, (_, features) in enumerate(sets):
            again = place > 0 and features is sets[place - 1][1]  # arms that stay
            seen.append(seen[-1] if again else self.policy.seen(features[None]))
        return seen

    def answer(self, number: int, session: str, reward: float) -> bool:
        """A reward: kept, or late."""
        slot = None if self.over else self.slots.unanswered(number, session, "decision id")
        if slot is None:
            self.late += 1
            return False
        slot.reward = reward
        return True

    def answer_many(
        self, decisions: Sequence[tuple[int, str]], rewards: Sequence[float], names: Sequence[str]
    ) -> list[bool]:
        """Rewards of several decisions, numbers and sessions: which were kept. All are checked first."""
        if len(places := {decision: place for place, decision in enumerate(decisions)}) < len(decisions):
            twice = next(place for place, decision in enumerate(decisions) if places[decision] != place)
            raise InvalidArgument(names[twice], "a decision that is there twice", "each decision once")
        slots = [
            None if self.over else self.slots.unanswered(*decision, name)
            for decision, name in zip(decisions, names, strict=True)
        ]
        for slot, reward in zip(slots, rewards, strict=True):
            if slot is not None:
                slot.reward = reward
        self.late += slots.count(None)
        return [slot is not None for slot in slots]

    def recruit(self, user: str | None, name: str) -> int | None:
        """A client of the running episode: its place, or None if there are enough."""
        batch = self.now.batch
        if self.over or batch is None or batch.clients is None or len(self.clients) >= batch.clients:
            return None
        assert isinstance(batch.episode, AssignedArms)
        if self.ledger is not None:
            check_participations(
                [user],
                names=[name],
                made=self.made,
                batches=iter([replace(batch, begin=self.made, users=1)]),
                slots=self.slots,
                store=self.journals,
                task=TASK,
                participations=self.policy.privacy.participations,
                present=self.clients.users(),
            )
        return self.clients.join(len(batch.episode.arms), self.session, user)

    def record_client_reward(self, client: tuple[int, int, str], number: int, reward: float) -> bool:
        """A client's reward of a round: kept, or late."""
        batch, (episode, place, session) = self.now.batch, client
        kept = False
        inside = batch is not None and batch.begin <= number < min(batch.end, self.made)
        if not self.over and batch is not None and inside and episode == self.clients.episode == batch.number:
            assert isinstance(batch.episode, AssignedArms)
            arm = int(batch.episode.arms_at(np.array([number - batch.begin]))[0])
            where = int(np.flatnonzero(batch.episode.arms == arm)[0])
            kept = self.clients.answer(place, session, number, where, reward)
        self.late += not kept
        return kept
