"""What an agent is between two calls: progress, open slots, the running episode; without files."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bandanna.accounting.ledger import Ledger
from bandanna.accounting.stores.journals import Journals
from bandanna.agent.arms import features_of
from bandanna.agent.clients import Clients
from bandanna.agent.decisions import Ids
from bandanna.agent.plan import Batch, batch_of, following
from bandanna.agent.progress import Progress
from bandanna.agent.releases import affordable, noise_for
from bandanna.agent.slots import Slots
from bandanna.core.arm_sets import FixedArms
from bandanna.policies.base import Played, Policy, Until


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
