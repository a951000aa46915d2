"""What a device does in a task: choose from a snapshot, check what is asked of it, and make protected reports.

`LightGuide` needs the task's leaflet alone; `whole.WholeGuide` asks the policy itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bandanna.client.leaflet import Leaflet
from bandanna.core.arrays import Floats
from bandanna.core.coins import Coins
from bandanna.device import Device, NoiseSource, from_parameters
from bandanna.device.choosing import ByPlace, Chooser
from bandanna.device.parameters import chooser, tell
from bandanna.device.telling import Tell
from bandanna.errors import BandannaError, InvalidArgument, Unreadable
from bandanna.storage.encoding import Encoding
from bandanna.wire.bodies import body_of
from bandanna.wire.leaflets import VERSION, least_users, rounds_digest
from bandanna.wire.plan import Batch

Content = Mapping[str, Any]  # of a publication
_ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, kw_only=True)
class Given:
    """What one user was given: features of the arm as the policy takes them, the arm, and a group it may be kept in."""

    features: tuple[float, ...]
    arm: int
    group: int = 0


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place in a batch, to which reports belong; `key` seals them, or their seeds."""

    batch: Batch
    slot: bytes
    key: str | None


class Guide(ABC):
    """Every draw is fresh: whoever calls keeps the bytes, and sends them again."""

    dim: int  # features of an arm
    participations: int

    @abstractmethod
    def seen(self, features: Floats) -> Floats:
        """Features as they are scored and reported, (K, d)."""

    @abstractmethod
    def choose(self, content: Content, seen: Floats, coins: Coins) -> tuple[int, int] | None:
        """An arm and the row's group; None where the place in the batch says what is played."""

    @abstractmethod
    def batch(self, content: Content, place: int) -> Batch:
        """The running batch (0), or the one after it (1), if it is what the task has promised; else BandannaError."""

    @abstractmethod
    def zeros(self, content: Content, place: int, slot: Slot, source: NoiseSource) -> list[bytes]:
        """Bodies of zero reports for all rounds."""

    @abstractmethod
    def final(
        self, content: Content, round_: int, slot: Slot, given: Given, reward: float, source: NoiseSource, coins: Coins
    ) -> bytes:
        """The body of what happened, for a round of the running batch."""


def announced(content: Content, place: int) -> Batch:
    """A batch of a publication, as it was announced."""
    batches = content["batches"]
    if not 0 <= place < len(batches):
        raise Unreadable("a publication without the batch that takes reports")
    return Batch.from_dict(batches[place])


class LightGuide(Guide):
    """By the task's leaflet alone."""

    def __init__(self, leaflet: Leaflet) -> None:
        plain = leaflet.device
        assert plain is not None
        if plain.get("version") != VERSION:
            raise Unreadable(f"a task for clients of version {plain.get('version')}: this one knows {VERSION}")
        self._leaflet, self._plain = leaflet, plain
        try:
            self.dim = self._chooser.features if isinstance(self._chooser, ByPlace) else self._chooser.domain.features
            self.participations = int(plain["participations"])
        except BandannaError:
            raise
        except _ODD as error:
            raise Unreadable("a task whose leaflet this client does not understand") from error

    @cached_property
    def _chooser(self) -> Chooser | ByPlace:
        return chooser(self._plain["choose"])

    @cached_property
    def _tells(self) -> list[list[Tell | None]]:
        """By round and part; None for rows."""
        return [[None if each == {"kind": "Row"} else tell(each) for each in part] for part in self._plain["tells"]]

    def seen(self, features: Floats) -> Floats:
        """By the chooser."""
        return features if isinstance(self._chooser, ByPlace) else np.asarray(self._chooser.seen(features[None])[0])

    def choose(self, content: Content, seen: Floats, coins: Coins) -> tuple[int, int] | None:
        """By the chooser."""
        if isinstance(self._chooser, ByPlace):
            return None
        try:
            choice = self._chooser.act(_snapshot(content["snapshot"]), seen[None], coins)
        except InvalidArgument:
            raise
        except _ODD as error:
            raise Unreadable("a publication whose snapshot is none of this task's") from error
        return int(choice.actions[0]), 0

    def batch(self, content: Content, place: int) -> Batch:
        """Of a plan that the document holds, with at least as many people as its noise is meant for."""
        batch = announced(content, place)
        plan, assigned = self._plan(batch), isinstance(self._chooser, ByPlace)
        if plan is None or least_users(batch.to_dict()) < plan["users"] or bool(batch.arms) != assigned:
            raise BandannaError(f"batch {batch.epoch} was announced with another plan than the task has")
        return batch

    def _plan(self, batch: Batch) -> Mapping[str, Any] | None:
        """What the document says of batches with such rounds."""
        wanted = rounds_digest(batch.to_dict())
        found: Mapping[str, Any] | None = next((e for e in self._plain["plans"] if e["rounds"] == wanted), None)
        return found

    def _devices(self, batch: Batch, round_: int) -> list[Device | None]:
        plan = self._plan(batch)
        if plan is None:
            raise BandannaError(f"batch {batch.epoch} has another plan than the task")
        return [None if each is None else from_parameters(each) for each in plan["devices"][round_]]

    def zeros(self, content: Content, place: int, slot: Slot, source: NoiseSource) -> list[bytes]:
        """Noised in full; rows of zeros where a server is trusted with them."""
        made = []
        for round_, asked in enumerate(slot.batch.rounds):
            devices = self._devices(slot.batch, round_)
            rows = [
                np.zeros(part.length) if device is None else device.zero(source)[0]
                for part, device in zip(asked.parts[: len(devices)], devices, strict=True)
            ]
            made.append(self._body(slot, round_, rows))
        return made

    def final(
        self, content: Content, round_: int, slot: Slot, given: Given, reward: float, source: NoiseSource, coins: Coins
    ) -> bytes:
        """What is told, each part protected by its device."""
        features, rewards, arms = np.array([given.features]), np.array([reward]), np.array([given.arm])
        rows = []
        for how, device in zip(self._tells[round_], self._devices(slot.batch, round_), strict=True):
            if how is None or device is None:
                rows.append(np.array([*given.features, reward, given.arm, given.group, 1.0]))
            else:
                statistic = how.statistic(device.domain, features, rewards, arms, coins)
                rows.append(device.message(statistic, source)[0])
        return self._body(slot, round_, rows)

    def _body(self, slot: Slot, round_: int, rows: list[np.ndarray[Any, Any]]) -> bytes:
        parts: dict[str, Any] = {"task": self._leaflet.digest, "batch": slot.batch, "slot": slot.slot, "key": slot.key}
        bodies = (body_of(row, round_=round_, part=number, **parts) for number, row in enumerate(rows))
        return b"".join(bodies)


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """What Thompson draws from."""

    theta: Floats
    root: Floats
    explore: float = 0.0


@dataclass(frozen=True, kw_only=True)
class _Index:
    """What an optimist looks at."""

    theta: Floats
    inverse: Floats
    radius: float
    explore: float = 0.0


_SNAPSHOTS = Encoding({"lints.Posterior": _Drawn, "linucb.Snapshot": _Index})


def _snapshot(text: str) -> Any:
    return _SNAPSHOTS.loads(text)
