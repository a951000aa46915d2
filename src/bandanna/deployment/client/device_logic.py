"""How a client chooses and encodes from the task document alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.deployment.messages.batch_plan import VERSION, Batch, check_announced_batch
from bandanna.deployment.messages.canonical import decode_base64url, digest, loads
from bandanna.deployment.messages.report import Ticket, encode_body
from bandanna.device.action_selection import ActionSelector, AssignedSelector, OptimisticSelector
from bandanna.device.arm_sets import FixedArmSet
from bandanna.device.base import Device
from bandanna.device.domain import check_all_finite
from bandanna.device.linear_report import PerArmReport
from bandanna.device.noise import NoiseSource
from bandanna.device.randomizers import device_from_parameters, selector_from_parameters, statistic_from_parameters
from bandanna.device.statistics import ReportStatistic
from bandanna.errors import BandannaError, Unreadable
from bandanna.numeric.rng import DeviceRandomness
from bandanna.storage.encoding import Encoding, matches_type
from bandanna.types import Floats

# The task document


TASK_VERSION = 1
_FIELDS: dict[str, Any] = {
    "format": str, "version": int, "title": str, "mixers": int, "max_age": int, "urls": dict[str, str],
    "keys": dict[str, str], "seed": int | None, "test": bool, "promise": str, "arms": str | None,
    "device": dict[str, Any] | None,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ClientTask:
    """A task as its document describes it, without its policy."""

    document: bytes
    content: Mapping[str, Any]

    @classmethod
    def from_bytes(cls, document: bytes, name: str | None = None) -> ClientTask:
        """Read a document and check its id if one is given; BandannaError for any other."""
        content = loads(document)
        if not isinstance(content, dict) or content.get("format") != "bandanna task":
            raise Unreadable("this is not the document of a task")
        if content.get("version") != TASK_VERSION:
            raise Unreadable(f"a task of version {content.get('version')}: this client knows version {TASK_VERSION}")
        wrong = next((each for each, hint in _FIELDS.items() if not matches_type(content.get(each), hint)), None)
        if wrong is not None:
            raise Unreadable(f"a task whose {wrong} is none")
        made = cls(document=document, content=content)
        if name is not None and made.id != name:
            raise BandannaError(f"a task {made.id} where {name} belongs")
        return made

    @classmethod
    def read(cls, path: str | Path, name: str | None = None) -> ClientTask:
        """Read a file, or the folder of `bandanna task create`, and check its id if one is given."""
        place = Path(path)
        place = place / "task.json" if place.is_dir() else place
        try:
            return cls.from_bytes(place.read_bytes(), name)
        except OSError as error:
            raise BandannaError(f"{place} cannot be read: {error.strerror or error}") from error

    @cached_property
    def id(self) -> str:
        """The hash of the document: base64url(SHA-256(document))."""
        return digest(self.document)

    @cached_property
    def digest(self) -> bytes:
        return decode_base64url(self.id, 32)

    @property
    def mixers(self) -> int:
        return int(self.content["mixers"])

    @property
    def device(self) -> Mapping[str, Any] | None:
        """The section for clients without policies; None if the task has none."""
        found: Mapping[str, Any] | None = self.content["device"]
        return found

    @cached_property
    def arms(self) -> FixedArmSet | None:
        if self.content["arms"] is None:
            return None
        ids, features, of_users = Encoding({}).loads(self.content["arms"])
        return FixedArmSet(ids=ids, features=features, of_users=of_users)

    def url(self, role: str) -> str:
        where = self.content["urls"].get(role)
        if where is None:
            raise BandannaError(f"task {self.id[:12]} does not say where its {role} is")
        return f"{str(where).rstrip('/')}/tasks/{self.id}"

    @property
    def collector(self) -> str:
        return self.url("shuffler" if self.mixers else "analyzer")

    def key(self, name: str) -> str:
        found = self.content["keys"].get(name)
        if found is None:
            raise BandannaError(f"task {self.id[:12]} has no key of its {name}")
        return str(found)


Content = Mapping[str, Any]  # of a publication
_LARGEST_RADIUS = 1e150  # whose square is a number too
_ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, kw_only=True)
class PlayedArm:
    """A user's arm, its features as the policy takes them, and its group."""

    features: tuple[float, ...]
    arm: int
    group: int = 0


@dataclass(frozen=True, kw_only=True)
class ReportSlot:
    """A place in a batch with its ticket. `key` seals the reports of the place, or their seeds."""

    batch: Batch
    ticket: Ticket
    key: str | None


class DeviceLogic(ABC):
    """Choose arms and encode reports. Every draw is fresh: the caller keeps the bytes to send them again."""

    dim: int  # features of an arm
    participations: int

    @abstractmethod
    def clip_features(self, features: Floats) -> Floats:
        """Return features as they are scored and reported, (K, d)."""

    @abstractmethod
    def choose(self, content: Content, seen: Floats, coins: DeviceRandomness) -> tuple[int, int] | None:
        """Choose an arm and the row's group; None if the place in the batch assigns the arm."""

    @abstractmethod
    def batch(self, content: Content, place: int) -> Batch:
        """Return the running batch (0) or the next (1) if it agrees with the task; else BandannaError."""

    @abstractmethod
    def zeros(self, content: Content, place: int, slot: ReportSlot, source: NoiseSource) -> list[bytes]:
        """Draw the bodies of zero reports for all rounds."""

    @abstractmethod
    def final(
        self,
        content: Content,
        round_: int,
        slot: ReportSlot,
        given: PlayedArm,
        reward: float,
        source: NoiseSource,
        coins: DeviceRandomness,
    ) -> tuple[bytes, Exception | None]:
        """Draw the body of a reward for a round of the running batch; if that fails, a zero report and the error.

        Another batch than announced raises BandannaError before the reward is read. Else the body has one length, for
        all features, rewards and published numbers: the zero report is drawn first.
        """


def read_announced_batch(content: Content, place: int) -> Batch:
    """Return a batch of a publication as it was announced."""
    batches = content["batches"]
    if not 0 <= place < len(batches):
        raise Unreadable("a publication without the batch that takes reports")
    return Batch.from_dict(batches[place])


class DocumentDevice(DeviceLogic):
    """A device that knows the task's document alone."""

    def __init__(self, task: ClientTask) -> None:
        plain = task.device
        assert plain is not None
        if plain.get("version") != VERSION:
            raise Unreadable(f"a task for clients of version {plain.get('version')}: this one knows {VERSION}")
        self._task, self._plain = task, plain
        try:
            self.dim = (
                self._chooser.features if isinstance(self._chooser, AssignedSelector) else self._chooser.domain.features
            )
            self.participations = int(plain["participations"])
        except BandannaError:
            raise
        except _ODD as error:
            raise Unreadable("a task whose task this client does not understand") from error

    @cached_property
    def _chooser(self) -> ActionSelector | AssignedSelector:
        return selector_from_parameters(self._plain["choose"])

    @cached_property
    def _tells(self) -> list[list[ReportStatistic | None]]:
        return [
            [None if each == {"kind": "Row"} else statistic_from_parameters(each) for each in part]
            for part in self._plain["tells"]
        ]

    def clip_features(self, features: Floats) -> Floats:
        return (
            features
            if isinstance(self._chooser, AssignedSelector)
            else np.asarray(self._chooser.clip_features(features[None])[0])
        )

    def choose(self, content: Content, seen: Floats, coins: DeviceRandomness) -> tuple[int, int] | None:
        if isinstance(self._chooser, AssignedSelector):
            return None
        snapshot = _decode_snapshot(content["snapshot"])
        if not _snapshot_fits(self._chooser, snapshot, *seen.shape):
            raise Unreadable("a publication whose snapshot is none of this task's")
        return int(self._chooser.act(snapshot, seen[None], coins).actions[0]), 0

    def batch(self, content: Content, place: int) -> Batch:
        """Return a batch whose plan is in the document, with at least as many users as its noise requires."""
        batch = read_announced_batch(content, place)
        self._plan(batch)
        return batch

    def _plan(self, batch: Batch) -> Mapping[str, Any]:
        arms = self._task.arms
        return check_announced_batch(self._plain, batch, None if arms is None else len(arms.ids))

    def _devices(self, batch: Batch, round_: int) -> list[Device | None]:
        return [None if each is None else device_from_parameters(each) for each in self._plan(batch)["devices"][round_]]

    def zeros(self, content: Content, place: int, slot: ReportSlot, source: NoiseSource) -> list[bytes]:
        return [
            self._body(slot, round_, self._nothing(slot, round_, source)) for round_ in range(len(slot.batch.rounds))
        ]

    def _nothing(self, slot: ReportSlot, round_: int, source: NoiseSource) -> list[np.ndarray[Any, Any]]:
        devices, parts = self._devices(slot.batch, round_), slot.batch.rounds[round_].parts
        return [
            np.zeros(part.length) if device is None else device.zero(source)[0]
            for part, device in zip(parts[: len(devices)], devices, strict=True)
        ]

    def final(
        self,
        content: Content,
        round_: int,
        slot: ReportSlot,
        given: PlayedArm,
        reward: float,
        source: NoiseSource,
        coins: DeviceRandomness,
    ) -> tuple[bytes, Exception | None]:
        zero = self._nothing(slot, round_, source)
        try:
            with np.errstate(all="ignore"):
                return self._body(
                    slot, round_, self._draw_messages(zero, round_, slot, given, reward, source, coins)
                ), None
        except Exception as error:
            return self._body(slot, round_, zero), error

    def _draw_messages(
        self, zero: list[np.ndarray[Any, Any]], round_: int, slot: ReportSlot, given: PlayedArm, reward: float,
        source: NoiseSource, coins: DeviceRandomness,
    ) -> list[np.ndarray[Any, Any]]:  # fmt: skip
        features, rewards, arms = np.array([given.features]), np.array([reward]), np.array([given.arm])
        rows = []
        for how, device in zip(self._tells[round_], self._devices(slot.batch, round_), strict=True):
            if how is None or device is None:
                rows.append(np.array([*given.features, reward, given.arm, given.group, 1.0]))
                check_all_finite("row", rows[-1])
            else:
                rows.append(device.report(how.statistic(device.domain, features, rewards, arms, coins), source)[0])
        if [row.shape for row in rows] != [row.shape for row in zero]:
            raise Unreadable("a report of another length than the batch wants")
        return rows

    def _body(self, slot: ReportSlot, round_: int, rows: list[np.ndarray[Any, Any]]) -> bytes:
        task = self._task.digest
        return encode_body(rows, task=task, batch=slot.batch, round_=round_, ticket=slot.ticket, key=slot.key)


@dataclass(frozen=True, kw_only=True)
class _ThompsonSnapshot:
    theta: Floats
    root: Floats
    explore: float = 0.0


@dataclass(frozen=True, kw_only=True)
class _LinUCBSnapshot:
    theta: Floats
    inverse: Floats
    radius: float
    explore: float = 0.0


_SNAPSHOTS = Encoding({"Posterior": _ThompsonSnapshot, "LinUCBSnapshot": _LinUCBSnapshot})


def _decode_snapshot(text: str) -> Any:
    return _SNAPSHOTS.loads(text)


def _snapshot_fits(chooser: ActionSelector, snapshot: Any, arms: int, dim: int) -> bool:
    own = isinstance(chooser.domain, PerArmReport)
    d = dim + 1 if own else dim
    lead, plain = (arms,) if own else (), [snapshot.explore]
    if isinstance(chooser, OptimisticSelector):
        arrays = [(snapshot.theta, (d,)), (snapshot.inverse, (d, d))]
        plain.append(snapshot.radius if abs(snapshot.radius) <= _LARGEST_RADIUS else math.inf)
    else:
        arrays = [(snapshot.theta, (*lead, d)), (snapshot.root, (*lead, d, d))]
    right = all(np.shape(array) == shape and np.isfinite(array).all() for array, shape in arrays)
    return right and all(math.isfinite(number) for number in plain)
