"""A guide for every task that can be deployed: it asks the policy itself, and needs the whole library."""

from __future__ import annotations

import numpy as np

from bandanna.client.guides import Content, Given, Guide, Slot, announced
from bandanna.client.leaflet import Leaflet
from bandanna.core.arrays import Floats
from bandanna.core.coins import Coins
from bandanna.device import NoiseSource
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.base import Assigned, Played
from bandanna.roles.client.reporting import Reporter
from bandanna.roles.client.view import View
from bandanna.tasks.document import Task
from bandanna.wire.canonical import digest, dumps
from bandanna.wire.plan import Batch


class WholeGuide(Guide):
    """As devices of the simulator do it."""

    def __init__(self, leaflet: Leaflet) -> None:
        self._task = Task.from_bytes(leaflet.document, leaflet.id)
        self._policy = self._task.policy
        self.dim = int(getattr(self._policy, "dim", 0))
        self.participations = self._policy.privacy.participations

    def _view(self, content: Content) -> View:
        return View(task=self._task, content=dict(content), chain=digest(dumps(dict(content))))

    def seen(self, features: Floats) -> Floats:
        """By the policy."""
        return np.asarray(self._policy.seen(features[None])[0])

    def choose(self, content: Content, seen: Floats, coins: Coins) -> tuple[int, int] | None:
        """By the policy, unless it assigns arms."""
        view = self._view(content)
        episode = view.episode()
        if isinstance(episode, Assigned):
            if episode.clients is not None:
                allowed = "one whose users play one arm each: here a client answers for all plays of a batch"
                raise InvalidArgument("task", self._task.content["algorithm"], allowed)
            return None
        choice = self._policy.act(view.snapshot, seen[None], coins)
        return int(choice.actions[0]), 0 if choice.groups is None else int(choice.groups[0])

    def batch(self, content: Content, place: int) -> Batch:
        """As the policy means it."""
        self._view(content).asks(place)  # checks the plan
        return announced(content, place)

    def zeros(self, content: Content, place: int, slot: Slot, source: NoiseSource) -> list[bytes]:
        """Of every round."""
        asks = self._view(content).asks(place)
        reporter, rounds = self._reporter(slot), range(len(slot.batch.rounds))
        return [reporter.zero(number, asks[number] if asks else (), slot.slot, source) for number in rounds]

    def final(
        self, content: Content, round_: int, slot: Slot, given: Given, reward: float, source: NoiseSource, coins: Coins
    ) -> bytes:
        """By the policy's own report, where the publication says."""
        view = self._view(content)
        epochs = [batch.epoch for batch in view.batches]
        if slot.batch.epoch not in epochs:
            raise BandannaError(f"batch {slot.batch.epoch} is not the one that is announced")
        place = epochs.index(slot.batch.epoch)
        if view.batches[place] != slot.batch:  # whose people are those of the plan that they have opened slots for
            raise BandannaError(f"batch {slot.batch.epoch} is announced with another plan than when it began")
        asks = view.asks(place)
        features = np.array([given.features]) if given.features else np.zeros((1, 0))
        played = Played(
            rewards=np.array([reward]),
            features=features,
            arms=np.array([given.arm]),
            groups=np.array([given.group]),
        )
        wanted = asks[round_] if asks else ()
        (body,) = self._reporter(slot).final(round_, wanted, played, [slot.slot], source, coins)
        return body

    def _reporter(self, slot: Slot) -> Reporter:
        return Reporter(self._task, slot.batch, seal_key=slot.key)
