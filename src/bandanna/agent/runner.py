"""The agent's runner: decide, record rewards, release episodes and learn."""

from __future__ import annotations

import copy
import hashlib
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.agent.episodes import (
    TASK,
    AgentProgress,
    AnswerNotStored,
    ChosenArm,
    Decision,
    DecisionIds,
    EpisodeClients,
    EpisodeRelease,
    EpisodeSpan,
    OpenSlots,
    QueryAnswer,
    ReleaseOvertaken,
    Slot,
    choose_arms,
    choose_same_arm_count,
    device_randomness,
    ledger_arguments,
    next_span,
    to_span,
)
from bandanna.agent.preflight import (
    calibrations_by_phase,
    check_budget_suffices,
    check_participations,
    continue_streams,
    count_calibrations,
    count_features,
    make_noise_source,
)
from bandanna.device.arm_sets import ArmSets, FixedArmSet
from bandanna.errors import BandannaError, HorizonReached, InvalidArgument, ValueSummary
from bandanna.policies.base import (
    AssignedArms,
    PlayedRounds,
    Policy,
    PublicStoppingPolicy,
    RunnerState,
    StoppedByPublicData,
)
from bandanna.policies.registry import columns_from_played
from bandanna.privacy.ledger import Ledger, find_store_id
from bandanna.privacy.stores.journal import ReplicatedJournal
from bandanna.types import Floats

_RECOMMEND = "Nothing was recorded. Use agent.recommend(...) for more users"


@dataclass(frozen=True, kw_only=True)
class CurrentEpisode:
    """State, snapshot and running episode, which follow from progress and slots.

    `ended` says whether public numbers have ended the episode.
    """

    state: Any
    snapshot: Any
    batch: EpisodeSpan | None
    ended: bool = False


class AgentRunner:
    """Run one policy. Only this class changes the state of an agent; it writes no files.

    A signal may raise between any two lines. Then every decision has a slot, and everything in the journals is
    released; `settle` derives the rest.

    Attributes
    ----------
    name, secret, session
        The agent's name and key in its journals, and the mark of this run in decision ids.
    lock, releasing
        Held while the state is read or changed, and by the one running call of `release_due`.
    progress, now
        What was released and learned, and the running episode that follows.
    filling
        The episode of the next decision; None if it depends on what will be learned.
    kept
        Rows by episode, in order, for later queries.
    made, beside, before, late
        Numbers of decisions, of those in no episode, of those before the newest call, and of late rewards.
    at_once, over, settled, known
        Whether `decide` releases batches, the agent is closed, and no call is halfway; and the number of calibrated
        phases in all journals.
    """

    COUNTERS = "made", "beside", "late", "over"  # that a save holds under these names

    ids: DecisionIds

    def __init__(
        self, policy: Policy[Any], *, arms: FixedArmSet | None, grace: int, seed: int | None, at_once: bool
    ) -> None:
        self.arms, self.grace, self.seed, self.at_once = arms, grace, seed, at_once
        secret = secrets.token_bytes(32) if seed is None else hashlib.sha256(f"agent {seed}".encode()).digest()
        self.session = secrets.token_hex(8) if seed is None else secret.hex()[:16]
        self.lock, self.releasing = threading.RLock(), threading.Lock()
        self.take_identity(secrets.token_hex(16), secret)
        self._begin(policy)

    def take_identity(self, name: str, secret: bytes) -> None:
        self.name, self.secret, self.ids = name, secret, DecisionIds(secret)

    def with_policy(self, policy: Policy[Any]) -> AgentRunner:
        """Return a new runner of another policy with the same identity and locks."""
        other = copy.copy(self)
        other._begin(policy)
        return other

    def _begin(self, policy: Policy[Any]) -> None:
        self.policy = policy
        self.slots, self.clients = OpenSlots(count_features(policy)), EpisodeClients()
        self.kept: dict[int, PlayedRounds] = {}
        self._rows_cache: dict[int, tuple[PlayedRounds, Mapping[str, tuple[PlayedRounds, ...]]]] = {}  # `kept`, by name
        self.made = self.beside = self.before = self.late = self.known = 0
        self.over, self.settled = False, True
        self.source, self.rng = make_noise_source(self.seed)
        state = policy.init(None if self.arms is None else self.arms.features)
        self.progress = AgentProgress(state=state, source=self._randomness())
        self._refresh_episodes()

    def open_ledger(self, journals: ReplicatedJournal) -> None:
        """Send every release through a ledger over the journals, if the policy guarantees privacy."""
        privacy = self.policy.privacy
        self.journals: ReplicatedJournal = journals
        self.ledger: Ledger | None = None
        if privacy.noisy and privacy.budget is not None:
            self.policy = continue_streams(self.policy, [entry.event for entry in journals.entries()])
            often = self.policy._batch_privacy.participations  # a user is in no more batches than there are
            self.ledger = Ledger(budget=privacy.budget, participations=often, store=journals)
            check_budget_suffices(self.policy)

    def restore(
        self, progress: AgentProgress, *, counters: Mapping[str, Any], slots: OpenSlots, clients: EpisodeClients
    ) -> None:
        """Restore the content of a save."""
        for name in self.COUNTERS:
            setattr(self, name, counters[name])
        self.progress, self.slots, self.clients = progress, slots, clients
        self._refresh_episodes()

    def go_on_from(self, progress: AgentProgress, kept: Mapping[int, PlayedRounds]) -> None:
        """Continue after the newest release, with the rows kept then."""
        self.progress = progress
        self.kept.update(kept)
        self._tidy()

    # The running episode

    def _refresh_episodes(self, filling: EpisodeSpan | None = None) -> None:
        """Derive the running and the filling episode from progress and slots.

        The search begins at `filling`, a later episode of the same schedule.
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
        """Return the state after one more round of an episode that public numbers end, and whether they end it."""
        assert isinstance(self.policy, PublicStoppingPolicy)
        ended = self.policy.stopping_round(state, features[None]) is not None
        return self.policy.advance_public(state, features[None]), ended

    def played(self, batch: EpisodeSpan) -> tuple[PlayedRounds, int]:
        """Return an episode's rows and the number without a reward, which get the possible reward nearest to 0."""
        if batch.number in self.kept:  # asked about before
            return self.kept[batch.number], 0
        if batch.clients is not None:
            return self.clients.played(batch)
        low, high = getattr(self.policy, "reward_range", (0.0, 0.0))
        nothing = float(min(max(0.0, low), high))
        rows, missing = self.slots.played(batch, nothing, grouped=len(self.policy.execution.retained_groups) > 1)
        later = (
            self.policy.execution.retained_groups or self.policy.execution.has_several_queries
        )  # kept rows say by zeros alone who did not answer
        return (replace(rows, answered=None) if later else rows), missing

    def members(self, batch: EpisodeSpan, arm: int | None) -> list[str]:
        """Return the users of an episode or of one arm of it."""
        return self.slots.members(batch, arm) if batch.clients is None else self.clients.members(batch)

    def due(self, grace: int, made: int) -> EpisodeSpan | None:
        """Return the running episode if, after `made` decisions, it is complete and its grace is over."""
        batch = self.now.batch
        if batch is None or not batch.episode.released:
            return None
        complete = batch.end + grace <= made and (self.now.ended or not isinstance(batch.episode, StoppedByPublicData))
        return batch if complete or self.progress.asked else None

    def waiting(self) -> int | None:
        """Return the decisions until the running episode's release; None where not known."""
        batch, horizon = self.now.batch, self.policy.horizon
        if batch is None or self.over or not batch.episode.released or isinstance(batch.episode, StoppedByPublicData):
            return None
        if horizon is not None and batch.end - self.made > horizon - (self.made - self.beside):
            return None  # the horizon cuts it short, and what is cut short is not released
        return max(0, batch.end + self.grace - self.made)

    def _randomness(self) -> Any:
        return None if self.rng is None else self.rng.bit_generator.state

    # Decide

    def decide_one(self, one: tuple[Sequence[Any], Floats], user: str | None) -> Decision:
        self._room_for(1)
        clipped = self.policy.clip_features(one[1][None])
        self._admit((user,), ("user",))
        self.settled = False
        batch = self._running()
        (chosen,) = choose_same_arm_count(
            self.policy, self.now.snapshot, batch, clipped, number=self.made, seed=self.seed
        )
        decision = self._record(one, user, chosen)
        self.settled = True
        return decision

    def decide(self, sets: ArmSets, users: Sequence[str | None], names: Sequence[str]) -> list[Decision]:
        """Check everything, release the episodes that are due, then decide for all users by one snapshot.

        An episode that fills in this call stays open for its rewards until the next call.
        """
        self._room_for(len(users))
        if not users:
            return []
        clipped = self._clip_features(sets)
        self._admit(users, names)
        self.settled = False
        batch = self._running()
        chosen = choose_arms(self.policy, self.now.snapshot, batch, clipped, number=self.made, seed=self.seed)
        decisions = list(map(self._record, sets, users, chosen))
        self.settled = True
        return decisions

    def _clip_features(self, sets: ArmSets) -> list[Floats]:
        clipped: list[Floats] = []
        for place, (_, features) in enumerate(sets):
            again = place > 0 and features is sets[place - 1][1]  # arms that stay
            clipped.append(clipped[-1] if again else self.policy.clip_features(features[None]))
        return clipped

    def _running(self) -> EpisodeSpan:
        """Release what was due before this call, and return the snapshot's episode."""
        self.before = self.made
        if self.at_once:
            self._close(self.grace)
        if self.now.batch is None:
            self.settled = True
            raise HorizonReached("decisions", self.made + 1, f"at most {self.made}, the policy's last", _RECOMMEND)
        return self.now.batch

    def _admit(self, users: Sequence[str | None], names: Sequence[str]) -> None:
        """Refuse users who have taken part too often or lack a needed id."""
        if self.ledger is None or (self.now.batch is not None and self.now.batch.clients is not None):
            return
        participations = self.policy.privacy.participations
        if participations > 1 or users.count(None) < len(users):  # a user can be refused
            self._check_users(users, names, self._coming())

    def _check_users(
        self,
        users: Sequence[str | None],
        names: Sequence[str],
        batches: Iterator[EpisodeSpan],
        present: set[str] | None = None,
    ) -> None:
        often = self.policy.privacy.participations
        check_participations(users, names=names, made=self.made, batches=batches, slots=self.slots,
              store=self.journals, task=TASK, participations=often, present=present)  # fmt: skip

    def _coming(self) -> Iterator[EpisodeSpan]:
        """Yield the known episodes of the next decisions."""
        batch = self.filling
        while batch is not None:
            yield batch
            batch = next_span(self.policy, batch)

    def _room_for(self, count: int) -> None:
        if self.over:
            raise BandannaError("the agent is closed and makes no more decisions. Use agent.recommend(...)")
        horizon, rounds = self.policy.horizon, self.made - self.beside + count
        if horizon is not None and rounds > horizon:
            raise HorizonReached("decisions", rounds, f"at most {horizon}, the policy's horizon", _RECOMMEND)

    def _record(self, one: tuple[Sequence[Any], Floats], user: str | None, chosen: ChosenArm) -> Decision:
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
        """Go to the next episode if a decision with these features was the last of its own."""
        if isinstance(batch.episode, StoppedByPublicData):
            state, ended = self._pass(self.now.state, features)
            batch = replace(batch, users=self.made - batch.begin) if ended else batch
            self.now = replace(self.now, state=state, batch=batch, ended=ended)
        if batch.end <= self.made:
            self.filling = next_span(self.policy, batch)

    # Observe

    def answer(self, number: int, session: str, reward: float) -> bool:
        """Record a reward. Return whether it was kept, not late."""
        slot = None if self.over else self.slots.unanswered(number, session, "decision id")
        if slot is None:
            self.late += 1
            return False
        slot.reward = reward
        return True

    def answer_many(
        self, decisions: Sequence[tuple[int, str]], rewards: Sequence[float], names: Sequence[str]
    ) -> list[bool]:
        """Check all rewards, then record them; `decisions` are numbers and sessions. Return which were kept."""
        if len(places := {decision: place for place, decision in enumerate(decisions)}) < len(decisions):
            twice = next(place for place, decision in enumerate(decisions) if places[decision] != place)
            raise InvalidArgument(
                names[twice], ValueSummary("one that is listed twice"), "a decision that is listed once"
            )
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
        """Add a client and return its place, or None if there are enough."""
        batch = self.now.batch
        if self.over or batch is None or batch.clients is None or len(self.clients) >= batch.clients:
            return None
        assert isinstance(batch.episode, AssignedArms)
        if self.ledger is not None:
            self._check_users([user], [name], iter([replace(batch, begin=self.made, users=1)]), self.clients.users())
        return self.clients.join(len(batch.episode.arms), self.session, user)

    def record_client_reward(self, client: tuple[int, int, str], number: int, reward: float) -> bool:
        """Record a client's reward of a round. Return whether it was kept, not late."""
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

    # Release and learn

    def close(self) -> None:
        self.settled = False
        self._close(0)
        self.over = self.settled = True

    def _close(self, grace: int) -> None:
        while (batch := self.due(grace, self.made)) is not None:
            self.release(self.prepare_release(batch))

    def prepare_release(self, batch: EpisodeSpan) -> EpisodeRelease:
        played, missing = self.played(batch)
        return EpisodeRelease(
            policy=self.policy,
            batch=batch,
            state=self.now.state,
            before=self.progress,
            played=played,
            missing=missing,
            coins=device_randomness(self.seed, batch.begin),
            source=self.source,
            find=self._find,
            kept_rows=self.kept_rows_with,
            position=self._randomness,
            commit=None if self.ledger is None else self.commit,
        )

    def release(self, release: EpisodeRelease, *, draw: bool = True) -> None:
        """Answer an episode's queries and learn; without `draw`, from stored answers alone."""
        learned = release.run(draw=draw)
        with self.lock:
            self._check_not_overtaken(release.before)
            self._go_on(release.after, learned, release.batch, release.played)

    def commit(self, release: EpisodeRelease, answers: Sequence[QueryAnswer]) -> AgentProgress:
        """Write expense, answers and progress in one transaction; return the new progress."""
        assert self.ledger is not None
        batch, first = release.batch, answers[0].query
        own = first.group == "episode"
        rows = release.played if self.policy.execution.retained_groups and own else None
        estimates = tuple(answer.estimate for answer in answers)
        entry = ledger_arguments(batch, answers)

        def draw() -> Any:
            self.journals.record_state(self._notes(release.after, kept=(batch.number, rows)))
            return estimates[0] if len(estimates) == 1 else estimates

        with self.lock:
            self._check_not_overtaken(release.before)
            settled, self.settled = self.settled, False
            members = self.members(batch, first.arm) if own else None
            self.ledger.release(**entry, draw=draw, members=members)
            self.known = count_calibrations(self.policy)
            self.progress = AgentProgress.read(self.journals.state())
            self.settled = settled
            return self.progress

    def _check_not_overtaken(self, before: AgentProgress) -> None:
        """Raise, under the lock, if anything was released since `before`."""
        if self.progress is not before:
            raise ReleaseOvertaken

    def _find(self, task: str, batch: str, one_of: str | None) -> Any:
        """Return an earlier answer, one or several estimates; None if there is none."""
        entry = None if self.ledger is None else self.journals.find(*find_store_id(task, batch, one_of))
        return None if entry is None or entry.release is None else entry.release[0]

    def _go_on(self, progress: AgentProgress, learned: Any, batch: EpisodeSpan, played: PlayedRounds) -> None:
        """Close the episode and begin the next one with the learned state."""
        if self.policy.execution.retained_groups:
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
        self._refresh_episodes(self.filling if scheduled else None)

    def _needed(self) -> int:
        return min((self.progress.forgot.get(name, 0) for name in self.policy.execution.retained_groups), default=0)

    def kept_rows_with(self, episode: int, played: PlayedRounds) -> RunnerState:
        """Return the rows for later queries, those of the episode included."""
        kept: dict[str, list[PlayedRounds]] = {}
        forgot = self.progress.forgot
        for number, rows in sorted({**self.kept, episode: played}.items()):
            for name, parts in self._rows_by_name(number, rows).items():
                if number >= forgot.get(name, 0):
                    kept.setdefault(name, []).extend(parts)
        return RunnerState(kept={name: tuple(parts) for name, parts in kept.items()})

    def _rows_by_name(self, number: int, rows: PlayedRounds) -> Mapping[str, tuple[PlayedRounds, ...]]:
        """Return an episode's rows by the names that devices chose; cached, since queries repeat."""
        held = self._rows_cache.get(number)
        if held is None or held[0] is not rows:
            self._rows_cache[number] = held = rows, RunnerState().keep(self.policy.execution.retained_groups, rows).kept
        return held[1]

    def settle(self) -> None:
        """After an interrupted call, continue from journals and slots."""
        if self.settled:
            return
        if self.ledger is not None:
            self.journals.settle()
            if self.journals.count() != self.progress.released:  # released, and not known here
                self.progress = AgentProgress.read(self.journals.state())
        self._tidy()
        self.settled = True

    def _tidy(self) -> None:
        begin = self.progress.begin
        self.made = max(self.made, begin)  # more than a save knows, if they were released after it
        self.slots = self.slots.between(begin, self.made)
        self.known = 0
        if self.rng is not None:
            self.rng.bit_generator.state = self.progress.source  # what was drawn since was not shown
        self._refresh_episodes()
        self._replay()

    def _replay(self) -> None:
        while self.progress.asked and self.now.batch is not None:
            try:
                self.release(self.prepare_release(self.now.batch), draw=False)
            except AnswerNotStored:
                self.made = max(self.made, self.now.batch.end + self.grace)  # it was due
                return

    def _notes(self, after: AgentProgress, kept: tuple[int, PlayedRounds | None] = (0, None)) -> dict[str, Any]:
        """Return what a journal needs to continue: progress, new calibrations and new rows."""
        notes: dict[str, Any] = {"state": after.note()}
        if count_calibrations(self.policy) > self.known:
            notes["calibrations"] = calibrations_by_phase(self.policy)
        number, rows = kept
        if rows is not None:
            notes[f"kept {number}"] = columns_from_played(rows)
        before, needed = (
            self._needed(),
            min((after.forgot.get(n, 0) for n in self.policy.execution.retained_groups), default=0),
        )
        return notes | {f"kept {gone}": None for gone in range(before, needed)}

    def all_notes(self) -> dict[str, Any]:
        rows = {f"kept {number}": columns_from_played(played) for number, played in self.kept.items()}
        return {"state": self.progress.note(), "calibrations": calibrations_by_phase(self.policy)} | rows
