"""A guide for every task that can be deployed: it asks the policy itself, and needs the whole library."""

from __future__ import annotations

import numpy as np

from bandanna.client.guides import Content, Given, Guide, Slot, announced
from bandanna.client.leaflet import Leaflet
from bandanna.core.arrays import Floats
from bandanna.core.coins import Coins
from bandanna.core.domain import all_finite
from bandanna.device import NoiseSource
from bandanna.errors import BandannaError, InvalidArgument, Unreadable, raise_alone
from bandanna.policies.base import Assigned, Played
from bandanna.roles.client.reporting import Reporter
from bandanna.roles.client.view import View
from bandanna.tasks.document import Task
from bandanna.wire.plan import Batch


class WholeGuide(Guide):
    """As devices of the simulator do it."""

    def __init__(self, leaflet: Leaflet) -> None:
        self._task = Task.from_bytes(leaflet.document, leaflet.id)
        self._policy = self._task.policy
        self.dim = int(getattr(self._policy, "dim", 0))
        self.participations = self._policy.privacy.participations

    def _view(self, content: Content) -> View:
        return View(task=self._task, content=dict(content), chain="")

    def seen(self, features: Floats) -> Floats:
        """By the policy."""
        return np.asarray(self._policy.seen(features[None])[0])

    def choose(self, content: Content, seen: Floats, coins: Coins) -> tuple[int, int] | None:
        """By the policy, unless it assigns arms."""
        view = self._view(content)
        episode = view.episode()
        if isinstance(episode, Assigned):
            return None
        choice = self._policy.act(view.snapshot, seen[None], coins)
        return int(choice.actions[0]), 0 if choice.groups is None else int(choice.groups[0])

    def batch(self, content: Content, place: int) -> Batch:
        """As the policy means it."""
        batch = announced(content, place)
        if batch.clients:
            allowed = "one whose users play one arm each: here a client answers for all plays of a batch"
            raise InvalidArgument("task", self._task.content["algorithm"], allowed)
        try:
            self._view(content).asks(place)  # checks the plan
        except BandannaError:
            raise
        except Exception as error:  # a state that is none of this policy's fails anywhere
            raise_alone(Unreadable(f"a publication whose state is none of the policy's ({type(error).__name__})"))
        return batch

    def zeros(self, content: Content, place: int, slot: Slot, source: NoiseSource) -> list[bytes]:
        """Of every round."""
        asks = self._view(content).asks(place)
        reporter, rounds = self._reporter(slot), range(len(slot.batch.rounds))
        return [reporter.zero(number, asks[number] if asks else (), slot.ticket, source) for number in rounds]

    def final(
        self, content: Content, round_: int, slot: Slot, given: Given, reward: float, source: NoiseSource, coins: Coins
    ) -> tuple[bytes, Exception | None]:
        """By the policy's own report, where the publication says."""
        view = self._view(content)
        epochs = [batch.epoch for batch in view.batches]
        if slot.batch.epoch not in epochs:
            raise BandannaError(f"batch {slot.batch.epoch} is not the one that is announced")
        place = epochs.index(slot.batch.epoch)
        if view.batches[place] != slot.batch:  # whose people are those of the plan that they have opened slots for
            raise BandannaError(f"batch {slot.batch.epoch} is announced with another plan than when it began")
        self.batch(content, place)
        asks = view.asks(place)
        wanted, reporter = asks[round_] if asks else (), self._reporter(slot)
        zero = reporter.zero(round_, wanted, slot.ticket, source)
        try:
            played = Played(
                rewards=np.array([reward]),
                features=np.array([given.features]) if given.features else np.zeros((1, 0)),
                arms=np.array([given.arm]),
                groups=np.array([given.group]),
            )
            all_finite("rewards", played.rewards)
            with np.errstate(all="ignore"):
                (body,) = reporter.final(round_, wanted, played, [slot.ticket], source, coins)
            if len(body) != len(zero):
                raise Unreadable("a report of another length than the batch wants")
        except Exception as error:
            return zero, error
        return body, None

    def _reporter(self, slot: Slot) -> Reporter:
        return Reporter(self._task, slot.batch, seal_key=slot.key)
