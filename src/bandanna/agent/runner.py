"""The agent's state, and what happens between its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from bandanna.agent.episodes import Batch, Clients, Decision, Ids, Slot, Slots, batch_of, following
from bandanna.agent.preflight import admit, affordable, calibrations, features_of, noise_for, phases_of
from bandanna.agent.release import TASK, NotStored, Release, coins_for
from bandanna.device.action_selection import Choice, Sampled, certain
from bandanna.device.arm_sets import FixedArms, Sets
from bandanna.errors import BandannaError, HorizonReached, InvalidArgument, Summary
from bandanna.policies.base import Assigned, Desk, Played, Policy, Until
from bandanna.policies.serialization import as_columns
from bandanna.privacy.ledger import Ledger, entry_name
from bandanna.privacy.stores.journal import Journals
from bandanna.types import Floats

# What the devices of a call choose, by the snapshot in force: checked, because a policy may be one's own.


Chosen = tuple[int, float | Callable[[], float], int]  # an action, its probability or what computes it, a group or -1


def choices(
    policy: Policy[Any], snapshot: Any, batch: Batch, seen: Sequence[Floats], *, number: int, seed: int | None
) -> list[Chosen]:
    """Of decisions `number`, `number` + 1, ... with these `seen` features, (1, K, d) each; each by its own coins."""
    if len(seen) == 1:
        return alike(policy, snapshot, batch, seen[0], number=number, seed=seed)
    chosen: list[Chosen] = []
    for _, some in groupby(seen, key=_arms):
        contexts = np.concatenate(list(some))  # (users, K, d)
        chosen += alike(policy, snapshot, batch, contexts, number=number + len(chosen), seed=seed)
    return chosen


def _arms(each: Floats) -> int:
    """How many arms a set has."""
    return int(each.shape[1])


def alike(
    policy: Policy[Any], snapshot: Any, batch: Batch, contexts: Floats, *, number: int, seed: int | None
) -> list[Chosen]:
    """Of users with as many arms, (users, K, d)."""
    if isinstance(batch.episode, Assigned):
        places = (number - batch.begin + np.arange(len(contexts))) % batch.users
        return checked(policy, certain(batch.episode.arms_at(places)), contexts)
    return checked(policy, policy.act(snapshot, contexts, coins_for(seed, number)), contexts)


def checked(policy: Policy[Any], choice: Any, contexts: Floats) -> list[Chosen]:
    """Arms that are there, with probabilities that are some: what a policy of one's own says is not believed."""
    if (type(choice) is Choice or type(choice) is Sampled) and (one := _one(policy, choice, contexts.shape[1])):
        return [one]
    if not isinstance(choice, Choice):
        raise InvalidArgument(_name(policy), type(choice).__name__, "a Choice: actions and their probabilities")
    users, arms = contexts.shape[0], contexts.shape[1]
    actions = np.asarray(choice.actions)
    if actions.shape != (users,) or actions.dtype.kind not in "iu":
        given = f"{actions.dtype} {actions.shape}"
        raise InvalidArgument(f"{_name(policy)}: actions", given, f"{users} whole numbers")
    chosen: list[int] = actions.tolist()
    if min(chosen) < 0 or max(chosen) >= arms:
        raise InvalidArgument(f"{_name(policy)}: actions", Summary("some outside"), f"numbers of arms, 0 to {arms - 1}")
    groups = [-1] * users if choice.groups is None else choice.groups.tolist()
    if isinstance(choice, Sampled):  # whose probabilities are computed when somebody looks
        later = [partial(_chance, policy, choice, place) for place in range(users)]
        return list(zip(chosen, later, groups, strict=True))
    return list(zip(chosen, _chances(policy, choice), groups, strict=True))


def _one(policy: Policy[Any], choice: Choice, arms: int) -> Chosen | None:
    """What one device has chosen, if it is what it should be; None: it has to be looked at."""
    actions = choice.actions
    if type(actions) is not np.ndarray or actions.shape != (1,) or actions.dtype.kind not in "iu":
        return None
    action = actions.item()
    if choice.groups is not None or not 0 <= action < arms:
        return None
    if type(choice) is Sampled:  # whose probability is computed when somebody looks
        return action, partial(_chance, policy, choice, 0), -1
    chances = choice.probabilities
    if type(chances) is not np.ndarray or chances.shape != (1,):
        return None
    chance = chances.item()
    return (action, chance, -1) if 0 < chance <= 1 + 1e-9 else None


def _chances(policy: Policy[Any], choice: Choice) -> list[float]:
    """The probabilities of a choice."""
    array = np.asarray(choice.probabilities)
    chances: list[float] = array.tolist()
    users = len(choice.actions)
    if array.shape != (users,) or [chance for chance in chances if not 0 < chance <= 1 + 1e-9]:
        raise InvalidArgument(f"{_name(policy)}: probabilities", Summary.of(array), f"{users} numbers in (0, 1]")
    return chances


def _chance(policy: Policy[Any], choice: Choice, place: int) -> float:
    """One of them."""
    return _chances(policy, choice)[place]


def _name(policy: Policy[Any]) -> str:
    return f"{type(policy).__name__}.act"


# What a release changes, as one value: an interrupt finds the one before or the one after, never half of each.


@dataclass(frozen=True, kw_only=True)
class Progress:
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
    def read(cls, note: Mapping[str, Any]) -> Progress:
        """The inverse of `note`."""
        return cls(**{each.name: note[each.name] for each in fields(cls)})


# What an agent is between two calls: progress, open slots, the running episode; without files.


@dataclass(frozen=True, kw_only=True)
class Now:
    """What follows from the progress and the slots: the state, its snapshot, the running episode.

    ended: of an episode that public numbers end, whether they have.
    """

    state: Any
    snapshot: Any
    batch: Batch | None
    ended: bool = False


class Standing:
    """The state of an agent. `PLAIN` are the attributes that a save holds as they are.

    A signal may raise between any two lines. What is true then: the decisions made have slots, and what the journals
    hold is released. `settle` derives the rest from that.
    """

    PLAIN = "made", "beside", "late", "over"

    ids: Ids  # by the secret

    def __init__(
        self, policy: Policy[Any], arms: FixedArms | None, grace: int, seed: int | None, secret: bytes, session: str
    ) -> None:
        self.policy, self.arms, self.grace = policy, arms, grace
        self.session, self.seed = session, seed
        self.secret = secret
        self.lock, self.releasing = threading.RLock(), threading.Lock()
        self.at_once = True  # batches are released as soon as they are due, by whoever decides next
        self.slots, self.clients = Slots(features_of(policy)), Clients()
        self.kept: dict[int, Played] = {}  # by episode, in order: rows that later asks may be about
        self._split: dict[int, tuple[Played, Mapping[str, tuple[Played, ...]]]] = {}  # the same by name, if asked for
        self.made = self.beside = 0  # decisions; those of them that belong to no episode
        self.before = 0  # decisions before the newest call that decides
        self.late = 0
        self.over = False
        self.known = 0  # phases whose calibration all journals have
        self.settled = True  # False from the first change of a call to its last
        state = policy.init(None if arms is None else arms.features)
        self.source, self.rng = noise_for(seed)
        self.progress = Progress(state=state, source=self.randomness())
        self.see()

    @property
    def secret(self) -> bytes:
        """What ids and the hashes of users are made with."""
        return self._secret

    @secret.setter
    def secret(self, secret: bytes) -> None:
        self._secret, self.ids = secret, Ids(secret)

    def open_ledger(self, journals: Journals) -> None:
        """Where something is promised, every release goes through a ledger over the journals."""
        privacy = self.policy.privacy
        self.journals, self.ledger = journals, None
        if privacy.noisy and privacy.budget is not None:
            often = getattr(self.policy, "spends", privacy).participations  # nobody is in more batches than there are
            self.ledger = Ledger(budget=privacy.budget, participations=often, store=journals)
            affordable(self.policy)

    def see(self, filling: Batch | None = None) -> None:
        """The running episode and the one that is filling, from the progress and the slots.

        filling: an episode of the same schedule that no decision is after, where one is known: the search begins there.
        """
        progress, ended = self.progress, self.progress.asked > 0
        state, batch = progress.state, batch_of(self.policy.episode(progress.state), progress.begin)
        if batch is not None and isinstance(batch.episode, Until):
            rows = [] if ended else self.slots.features(batch, self.made)
            for place, features in enumerate(rows, start=1):
                state, ended = self._pass(state, features)
                if ended:
                    batch = replace(batch, users=place)
                    break
            else:
                batch = replace(batch, users=max(1, self.made - batch.begin)) if ended else batch
        self.now = Now(state=state, snapshot=self.policy.publish(state), batch=batch, ended=ended)
        self.filling = batch if filling is None else filling
        while self.filling is not None and self.filling.end <= self.made:
            self.filling = following(self.policy, self.filling)
        if batch is not None and batch.clients is not None:
            self.clients.begin(batch.number)

    def _pass(self, state: Any, features: Any) -> tuple[Any, bool]:
        """One more round of an episode that public numbers end: the state after it, and whether they do."""
        ended = self.policy.crossing(state, features[None]) is not None
        return self.policy.passed(state, features[None]), ended

    def played(self, batch: Batch) -> tuple[Played, int]:
        """The rows of an episode, and how many have no answer; a reward of nothing is the one nearest to 0."""
        if batch.number in self.kept:  # asked about before
            return self.kept[batch.number], 0
        if batch.clients is not None:
            return self.clients.played(batch)
        low, high = getattr(self.policy, "reward_range", (0.0, 0.0))
        nothing = float(min(max(0.0, low), high))
        rows, missing = self.slots.played(batch, nothing, grouped=len(self.policy.keeps) > 1)
        later = self.policy.keeps or self.policy.asks_again  # rows that are kept, and saved, say it by zeros alone
        return (replace(rows, answered=None) if later else rows), missing

    def members(self, batch: Batch, arm: int | None) -> list[str]:
        """Who is in an episode, or was assigned an arm of it."""
        return self.slots.members(batch, arm) if batch.clients is None else self.clients.members(batch)

    def answered(self) -> int:
        """The reports that were asked for, without those that nobody gave a reward for."""
        return self.progress.reports - self.progress.missing

    def due(self, grace: int, made: int) -> Batch | None:
        """The running episode, if it is complete and waits no more after `made` decisions."""
        batch = self.now.batch
        if batch is None or not batch.episode.released:
            return None
        complete = batch.end + grace <= made and (self.now.ended or not isinstance(batch.episode, Until))
        return batch if complete or self.progress.asked else None

    def waiting(self) -> int | None:
        """How many decisions the running episode waits for."""
        batch, horizon = self.now.batch, self.policy.horizon
        if batch is None or self.over or not batch.episode.released or isinstance(batch.episode, Until):
            return None
        if horizon is not None and batch.end - self.made > horizon - (self.made - self.beside):
            return None  # the horizon cuts it short, and what is cut short is not released
        return max(0, batch.end + self.grace - self.made)

    def randomness(self) -> Any:
        """Where the seeded generator is; None for secure noise."""
        return None if self.rng is None else self.rng.bit_generator.state


# Release and learn: what closes an agent's episodes, and what puts things right after an interruption.


class Releasing(Standing):
    """The part of the loop that answers asks and goes on with what was learned."""

    def close(self) -> None:
        """Release the complete episodes, and no more decisions."""
        self.settled = False
        self._close(0)
        self.over = self.settled = True

    def _close(self, grace: int) -> None:
        """Release the episodes that are due, in order."""
        while (batch := self.due(grace, self.made)) is not None:
            Release(self, batch).run()

    def find(self, task: str, batch: str, one_of: str | None) -> Any:
        """What was answered before: an estimate, or several."""
        entry = None if self.ledger is None else self.journals.find(*entry_name(task, batch, one_of))
        return None if entry is None or entry.release is None else entry.release[0]

    def noted(self) -> None:
        """Go on from what the journals know."""
        self.known = phases_of(self.policy)
        self.progress = Progress.read(self.journals.state())

    def go_on(self, progress: Progress, learned: Any, batch: Batch, played: Played) -> None:
        """The episode is learned."""
        if self.policy.keeps:
            self.kept.setdefault(batch.number, played)
        scheduled = following(self.policy, batch) is not None
        begin = batch.end if scheduled else max(batch.end, self.made)
        self.progress = replace(progress, state=learned, begin=begin, asked=0, closed=progress.closed + 1)
        needed = self._needed()
        if next(iter(self.kept), needed) < needed:
            self.kept = {number: rows for number, rows in self.kept.items() if number >= needed}
            self._split = {number: held for number, held in self._split.items() if number in self.kept}
        self.made = max(self.made, begin)  # more than a save knows
        self.slots.drop(batch)
        self.see(self.filling if scheduled else None)

    def _needed(self) -> int:
        """Rows of episodes before this number are kept under no name."""
        return min((self.progress.forgot.get(name, 0) for name in self.policy.keeps), default=0)

    def kept_with(self, episode: int, played: Played) -> Desk:
        """The rows that later asks may be about, those of an episode among them."""
        kept: dict[str, list[Played]] = {}
        forgot = self.progress.forgot
        for number, rows in sorted({**self.kept, episode: played}.items()):
            for name, parts in self._by_name(number, rows).items():
                if number >= forgot.get(name, 0):
                    kept.setdefault(name, []).extend(parts)
        return Desk(kept={name: tuple(parts) for name, parts in kept.items()})

    def _by_name(self, number: int, rows: Played) -> Mapping[str, tuple[Played, ...]]:
        """The rows of an episode under the names that their devices chose: found once, since later asks come again."""
        held = self._split.get(number)
        if held is None or held[0] is not rows:
            self._split[number] = held = rows, Desk().keep(self.policy.keeps, rows).kept
        return held[1]

    def settle(self) -> None:
        """After a call that was interrupted, go on from what the journals and the slots say; else do nothing."""
        if self.settled:
            return
        if self.ledger is not None:
            self.journals.settle()
            if self.journals.count() != self.progress.released:  # released, and not known here
                self.progress = Progress.read(self.journals.state())
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
        self.see()
        self.replay()

    def replay(self) -> None:
        """An episode all of whose asks were answered is learned, by whatever is stored."""
        while self.progress.asked and self.now.batch is not None:
            try:
                Release(self, self.now.batch).run(draw=False)
            except NotStored:
                self.made = max(self.made, self.now.batch.end + self.grace)  # it was due
                return

    def notes(self, after: Progress, kept: tuple[int, Played | None] = (0, None)) -> dict[str, Any]:
        """What a journal must know to go on: calibrations if there are more than it knows, rows that are new."""
        notes: dict[str, Any] = {"state": after.note()}
        if phases_of(self.policy) > self.known:
            notes["calibrations"] = calibrations(self.policy)
        number, rows = kept
        if rows is not None:
            notes[f"kept {number}"] = as_columns(rows)
        before, needed = self._needed(), min((after.forgot.get(n, 0) for n in self.policy.keeps), default=0)
        return notes | {f"kept {gone}": None for gone in range(before, needed)}

    def all_notes(self) -> dict[str, Any]:
        """For a journal that knows nothing."""
        rows = {f"kept {number}": as_columns(played) for number, played in self.kept.items()}
        return {"state": self.progress.note(), "calibrations": calibrations(self.policy)} | rows


# Freeze and collect, one device at a time: the path of `act`, which takes as few steps as it can.


class Deciding(Releasing):
    """The part of the loop that decides for a user and records it."""

    def decide_one(self, one: tuple[Sequence[Any], Floats], user: str | None) -> Decision:
        """`decide` for one user."""
        self._room_for(1)
        seen = self.policy.seen(one[1][None])
        self._admit((user,), ("user",))
        self.settled = False
        batch = self._running()
        (chosen,) = alike(self.policy, self.now.snapshot, batch, seen, number=self.made, seed=self.seed)
        decision = self._record(one, user, chosen)
        self.settled = True
        return decision

    def _running(self) -> Batch:
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
            admit(users, names=names, made=self.made, batches=self._coming(), slots=self.slots,
                  store=self.journals, task=TASK, participations=participations)  # fmt: skip

    def _coming(self) -> Iterator[Batch]:
        """The episodes of the next decisions, as far as they are known."""
        batch = self.filling
        while batch is not None:
            yield batch
            batch = following(self.policy, batch)

    def _room_for(self, count: int) -> None:
        if self.over:
            raise BandannaError("the agent is closed: it makes no more decisions; recommend(...) still answers")
        horizon, rounds = self.policy.horizon, self.made - self.beside + count
        if horizon is not None and rounds > horizon:
            allowed = f"at most {horizon}, the policy's horizon; nothing was recorded, and recommend(...) still answers"
            raise HorizonReached("decisions", rounds, allowed)

    def _record(self, one: tuple[Sequence[Any], Floats], user: str | None, chosen: Chosen) -> Decision:
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
        decision = Decision.made(self.ids.issue(number, session), ids[action], chance, episode.number)
        self.made = number + 1
        if batch is not None and (batch.end <= self.made or isinstance(batch.episode, Until)):
            self._go_forward(batch, features[action])
        return decision

    def _go_forward(self, batch: Batch, features: Floats) -> None:
        """After a decision, with these features, that may be the last of an episode."""
        if isinstance(batch.episode, Until):
            state, ended = self._pass(self.now.state, features)
            batch = replace(batch, users=self.made - batch.begin) if ended else batch
            self.now = replace(self.now, state=state, batch=batch, ended=ended)
        if batch.end <= self.made:
            self.filling = following(self.policy, batch)


# Freeze, collect, release, learn - decision by decision: what an agent does, without files.


class Loop(Deciding):
    """All of it: decisions for many at once, rewards, and the clients of episodes that ask a few."""

    def decide(self, sets: Sets, users: Sequence[str | None], names: Sequence[str]) -> list[Decision]:
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
        chosen = choices(self.policy, self.now.snapshot, batch, seen, number=self.made, seed=self.seed)
        decisions = list(map(self._record, sets, users, chosen))
        self.settled = True
        return decisions

    def _seen(self, sets: Sets) -> list[Floats]:
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
        assert isinstance(batch.episode, Assigned)
        if self.ledger is not None:
            admit([user], names=[name], made=self.made, batches=iter([replace(batch, begin=self.made, users=1)]),
                  slots=self.slots, store=self.journals, task=TASK, participations=self.policy.privacy.participations,
                  present=self.clients.users())  # fmt: skip
        return self.clients.join(len(batch.episode.arms), self.session, user)

    def client_answer(self, client: tuple[int, int, str], number: int, reward: float) -> bool:
        """A client's reward of a round: kept, or late."""
        batch, (episode, place, session) = self.now.batch, client
        kept = False
        inside = batch is not None and batch.begin <= number < min(batch.end, self.made)
        if not self.over and batch is not None and inside and episode == self.clients.episode == batch.number:
            assert isinstance(batch.episode, Assigned)
            arm = int(batch.episode.arms_at(np.array([number - batch.begin]))[0])
            where = int(np.flatnonzero(batch.episode.arms == arm)[0])
            kept = self.clients.answer(place, session, number, where, reward)
        self.late += not kept
        return kept
