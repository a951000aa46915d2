"""Freeze, collect, release, learn - decision by decision: what an agent does, without files."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from bandanna.accounting.ledger import Ledger, entry_name
from bandanna.accounting.stores.journals import Journals
from bandanna.agent.arms import features_of
from bandanna.agent.choices import Chosen, alike, choices
from bandanna.agent.clients import Clients
from bandanna.agent.decisions import Decision, Ids
from bandanna.agent.plan import Batch, batch_of, following
from bandanna.agent.progress import Progress
from bandanna.agent.release import TASK, NotStored, Release
from bandanna.agent.releases import affordable, calibrations, first_ask, noise_for, phases_of
from bandanna.agent.slots import Slot, Slots
from bandanna.agent.users import admit
from bandanna.core.arm_sets import FixedArms, Sets
from bandanna.core.arrays import Floats
from bandanna.errors import BandannaError, HorizonReached
from bandanna.loop import Desk
from bandanna.policies.base import Assigned, Played, Policy, Until


@dataclass(frozen=True, kw_only=True)
class Now:
    """What follows from the progress and the slots: the state, its snapshot, the running episode.

    ended: of an episode that public numbers end, whether they have.
    """

    state: Any
    snapshot: Any
    batch: Batch | None
    ended: bool = False


class Loop:
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
        self.late = 0
        self.over = False
        self.known = 0  # phases whose calibration all journals have
        self.settled = True  # False from the first change of a call to its last
        state = policy.init(None if arms is None else arms.features)
        self.source, self.rng = noise_for(first_ask(policy, state), seed)
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

    def see(self) -> None:
        """The running episode and the one that is filling, from the progress and the slots."""
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
        self.filling = batch
        while self.filling is not None and self.filling.end <= self.made:
            self.filling = following(self.policy, self.filling)
        if batch is not None and batch.clients is not None:
            self.clients.begin(batch.number)

    def _pass(self, state: Any, features: Any) -> tuple[Any, bool]:
        """One more round of an episode that public numbers end: the state after it, and whether they do."""
        ended = self.policy.crossing(state, features[None]) is not None
        return self.policy.passed(state, features[None]), ended

    def decide(self, sets: Sets, users: Sequence[str | None], names: Sequence[str]) -> list[Decision]:
        """Check everything, then decide for one user after the other, closing episodes on the way."""
        count = len(users)
        self._room_for(count)
        seen = self._seen(sets)
        self._admit(users, names)
        self.settled = False
        decisions: list[Decision] = []
        while len(decisions) < count:
            batch = self._running()
            done = slice(len(decisions), len(decisions) + self._together(count - len(decisions)))
            chosen = choices(self.policy, self.now.snapshot, batch, seen[done], number=self.made, seed=self.seed)
            decisions += map(self._record, sets[done], users[done], chosen)
        self.settled = True
        return decisions

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
        """The episode of the snapshot in force, after those that are due."""
        if self.at_once:
            self._close(self.grace)
        if self.now.batch is None:
            self.settled = True
            raise HorizonReached("decisions", self.made + 1, f"at most {self.made}: the policy has no more episodes")
        return self.now.batch

    def _seen(self, sets: Sets) -> list[Floats]:
        """Features as the policy takes them, (1, K, d) for each user; it refuses what it cannot take."""
        seen: list[Floats] = []
        for place, (_, features) in enumerate(sets):
            again = place > 0 and features is sets[place - 1][1]  # arms that stay
            seen.append(seen[-1] if again else self.policy.seen(features[None]))
        return seen

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

    def _together(self, left: int) -> int:
        """How many decisions may be made before an episode has to be closed, or public numbers looked at."""
        batch = self.now.batch
        assert batch is not None
        if isinstance(batch.episode, Until) and not self.now.ended:
            return 1
        return batch.end + self.grace - self.made if self.at_once and batch.episode.released else left

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

    def answer(self, number: int, session: str, reward: float) -> bool:
        """A reward: kept, or late."""
        kept = not self.over and self.slots.answer(number, session, reward)
        self.late += not kept
        return kept

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

    def due(self, grace: int) -> Batch | None:
        """The running episode, if it is complete and waits no more."""
        batch = self.now.batch
        if batch is None or not batch.episode.released:
            return None
        complete = batch.end + grace <= self.made and (self.now.ended or not isinstance(batch.episode, Until))
        return batch if complete or self.progress.asked else None

    def waiting(self) -> int | None:
        """How many decisions the running episode waits for."""
        batch, horizon = self.now.batch, self.policy.horizon
        if batch is None or self.over or not batch.episode.released or isinstance(batch.episode, Until):
            return None
        if horizon is not None and batch.end - self.made > horizon - (self.made - self.beside):
            return None  # the horizon cuts it short, and what is cut short is not released
        return max(0, batch.end + self.grace - self.made)

    def close(self) -> None:
        """Release the complete episodes, and no more decisions."""
        self.settled = False
        self._close(0)
        self.over = self.settled = True

    def _close(self, grace: int) -> None:
        """Release the episodes that are due, in order."""
        while (batch := self.due(grace)) is not None:
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
        begin = batch.end if following(self.policy, batch) is not None else max(batch.end, self.made)
        self.progress = replace(progress, state=learned, begin=begin, asked=0, closed=progress.closed + 1)
        needed = self._needed()
        if next(iter(self.kept), needed) < needed:
            self.kept = {number: rows for number, rows in self.kept.items() if number >= needed}
            self._split = {number: held for number, held in self._split.items() if number in self.kept}
        self.made = max(self.made, begin)  # more than a save knows
        self.slots.drop(batch)
        self.see()

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

    def randomness(self) -> Any:
        """Where the seeded generator is; None for secure noise."""
        return None if self.rng is None else self.rng.bit_generator.state


def as_columns(played: Played) -> dict[str, Any]:
    """Rows as a file holds them."""
    return {each.name: value for each in fields(played) if (value := getattr(played, each.name)) is not None}


def from_columns(columns: Mapping[str, Any]) -> Played:
    """The inverse of `as_columns`."""
    return Played(**columns)
