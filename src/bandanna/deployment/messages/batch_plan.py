"""The public plan of a batch: slots, rounds and the form of their reports, without a policy."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from bandanna.deployment.messages.canonical import MAC, OVERHEAD, SEED, dumps, encode_base64url
from bandanna.errors import BandannaError, Unreadable
from bandanna.numeric.exact_sums import assigned_arms
from bandanna.storage.encoding import matches_type
from bandanna.types import Ints

# Batches


DTYPES = {"<u4": 4, "<u8": 8, "<i8": 8, "<f8": 8}
FORMS = ("row", "plain", "shares", "sealed")
MAX_EXACT_INTEGER = 2**53 - 1  # the largest whole number that every program reads alike
SEALED_LENGTH = SEED + MAC + OVERHEAD  # bytes of what is sealed for the helper: a seed, and the ticket's key for it


@dataclass(frozen=True, kw_only=True)
class Part:
    """One sum of a round, over all users or over those of one arm.

    `form` is "plain" (numbers), "shares" (one share of each number; one seed for all other shares of a round is sealed
    for the helper), "sealed" (numbers sealed for the analyzer) or "row" (features, rewards, arm, group, and whether
    there was an answer).
    """

    arm: int | None = None
    form: str
    dtype: str  # of the numbers on the wire
    length: int
    stream: int | None = None  # the stream that mixers continue; None: every batch begins with nothing
    mixer: str | None = None  # as JSON; None for rows

    @property
    def size(self) -> int:
        return DTYPES[self.dtype] * self.length + (OVERHEAD if self.form == "sealed" else 0)

    def numbers(self, bodies: Sequence[bytes]) -> np.ndarray[Any, Any]:
        """Return bodies as numbers (n, length), int64 or float64; for shares, the mixer's own."""
        width = DTYPES[self.dtype] * self.length
        content = b"".join(bodies if self.form in ("plain", "row") else [body[:width] for body in bodies])
        read = np.frombuffer(content, dtype=self.dtype).reshape(len(bodies), self.length)
        return read.astype(np.float64 if self.dtype == "<f8" else np.int64)

    def to_bytes(self, numbers: np.ndarray[Any, Any]) -> bytes:
        """Return the body of one user's numbers (length,)."""
        return np.ascontiguousarray(numbers).astype(self.dtype).tobytes()


_PART = tuple(each.name for each in fields(Part))


@dataclass(frozen=True, kw_only=True)
class Round:
    """The parts that are queried at once; users report for all, or for that of their own arm."""

    parts: tuple[Part, ...]

    @property
    def by_arm(self) -> bool:
        return self.parts[0].arm is not None

    @property
    def own(self) -> tuple[Part, ...]:
        """The parts that one user reports for; for assigned arms, one like that of the own arm."""
        return self.parts[:1] if self.by_arm else self.parts

    @property
    def lengths(self) -> list[int]:
        return [part.length for part in self.own]

    @property
    def split(self) -> bool:
        return self.parts[0].form == "shares"

    @cached_property
    def size(self) -> int:
        """The number of bytes of a body, the same for all users."""
        return sum(part.size for part in self.own) + (SEALED_LENGTH if self.split else 0)

    def cut(self, body: bytes) -> list[bytes]:
        """Cut a body into the parts that a user reports for."""
        return [body] if len(self._ends) == 1 else [body[begin:end] for begin, end in self._ends]

    def sealed(self, body: bytes) -> bytes:
        """Return the end of a split body, which is sealed for the helper."""
        return body[-SEALED_LENGTH:]

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        ends = np.cumsum([part.size for part in self.own]).tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch of `slots` users and the rounds of reports that they send.

    `arms`, `plays` and `in_turn` say what each place plays if arms are assigned.
    """

    epoch: int  # its number on the wire
    episode: int  # of the policy; a batch that could not be used and its successor share one
    slots: int
    rounds: tuple[Round, ...]
    arms: tuple[int, ...] = ()
    plays: tuple[int, ...] = ()
    in_turn: bool = False
    clients: bool = False  # whether every slot is a client who answers for all plays

    def arms_at(self, places: Ints) -> Ints:
        """Return the arms that are assigned to places."""
        return assigned_arms(places, arms=np.array(self.arms), plays=np.array(self.plays), in_turn=self.in_turn)

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(dumps(self.to_dict())).digest()

    def to_dict(self) -> dict[str, Any]:
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        # without the copies of `dataclasses.asdict`: every report needs its plan's digest
        rounds = [{"parts": tuple({k: getattr(part, k) for k in _PART} for part in each.parts)} for each in self.rounds]
        return {**plain, "rounds": rounds, "arms": list(self.arms), "plays": list(self.plays)}

    @classmethod
    def from_dict(cls, plain: Any) -> Batch:
        """Read a batch from JSON; Unreadable if it is none."""
        if not isinstance(plain, Mapping) or set(plain) != {each.name for each in fields(cls)}:
            raise Unreadable("a batch with other fields than this program knows")
        for name in ("arms", "plays"):
            _read_list(plain, name)
        rounds = tuple(
            Round(parts=tuple(_from_plain(Part, part) for part in _read_list(each, "parts")))
            for each in _read_list(plain, "rounds")
        )
        if any(set(each) != {"parts"} for each in plain["rounds"]):
            raise Unreadable("a round with other fields than its parts")
        made: Batch = _from_plain(
            cls, {**plain, "rounds": rounds, "arms": tuple(plain["arms"]), "plays": tuple(plain["plays"])}
        )
        for part in (part for each in made.rounds for part in each.parts):
            if part.dtype not in DTYPES or part.form not in FORMS or not 0 < part.length < 2**31:
                raise Unreadable("a part of a batch that is none")
        if (
            any(len({part.form == "shares" for part in each.parts}) != 1 for each in made.rounds)
            or made.slots < 1
            or not 0 <= made.epoch < 2**32
        ):
            raise Unreadable("a batch that is none")
        return made


def _read_list(plain: Any, name: str) -> list[Any]:
    if not isinstance(plain, Mapping) or not isinstance(plain.get(name), list | tuple):
        raise Unreadable(f"a batch without {name}")
    return list(plain[name])


_HINTS: dict[type, dict[str, Any]] = {
    Part: {"arm": int | None, "form": str, "dtype": str, "length": int, "stream": int | None, "mixer": str | None},
    Batch: {"epoch": int, "episode": int, "slots": int, "rounds": tuple[Any, ...], "arms": tuple[int, ...],
            "plays": tuple[int, ...], "in_turn": bool, "clients": bool},
}  # fmt: skip


def _from_plain(kind: Any, plain: Any) -> Any:
    names = {each.name for each in fields(kind)}
    if not isinstance(plain, Mapping) or set(plain) != names:
        raise Unreadable(f"a {kind.__name__.lower()} with other fields than {', '.join(sorted(names))}")
    if not all(matches_type(plain[name], hint) for name, hint in _HINTS[kind].items()):
        raise Unreadable(f"a {kind.__name__.lower()} with a field of a wrong type")
    numbers = [each for value in plain.values() for each in (value if isinstance(value, tuple) else (value,))]
    if any(type(each) is int and abs(each) > MAX_EXACT_INTEGER for each in numbers):
        raise Unreadable(f"a {kind.__name__.lower()} with a number that other programs cannot read")
    return kind(**plain)


# Batches that clients were promised


VERSION = 1


def rounds_digest(batch: Mapping[str, Any]) -> str:
    """Return the SHA-256, as text, of the rounds of `Batch.to_dict`.

    If users report only for their own arm, in one way for all arms, it covers one arm with arm = null.
    """
    return encode_base64url(hashlib.sha256(dumps([_without_arm(each) for each in batch["rounds"]])).digest())


def _without_arm(round_: Mapping[str, Any]) -> dict[str, Any]:
    parts = [dict(part) for part in round_["parts"]]
    arms = [part["arm"] for part in parts]
    alike = [{**part, "arm": None} for part in parts]
    one = None not in arms and len(set(arms)) == len(arms) and all(part == alike[0] for part in alike)
    return {"parts": alike[:1] if one else parts}


def check_announced_batch(device: Mapping[str, Any], batch: Batch, arms: int | None = None) -> Mapping[str, Any]:
    """Return the document's plan of a batch, if the batch was announced as the document defines it.

    `clients/js` has the same function: both refuse the same batches. The plan has the least number of users of each
    sum, and the devices that protect it. Raise BandannaError if there is none. `arms` counts the task's fixed arms.
    """
    told = batch.to_dict()
    rounds, least = rounds_digest(told), least_users(told)
    plan: Mapping[str, Any] | None = next((each for each in device["plans"] if each["rounds"] == rounds), None)
    assigned = device["choose"]["kind"] == "PlaceChooser"
    known = all(0 <= arm < (MAX_EXACT_INTEGER if arms is None else arms) for arm in batch.arms)
    if plan is None or least < plan["users"] or bool(batch.arms) != assigned or not known:
        raise BandannaError(f"batch {batch.epoch} was announced with another plan than the task has")
    return plan


def least_users(batch: Mapping[str, Any]) -> int:
    """Return the least number of users in any sum of a batch; 0 for an invalid plan."""
    reported = [part["arm"] for each in batch["rounds"] for part in each["parts"]]
    arms, plays, all_users = list(batch["arms"]), list(batch["plays"]), set(reported) == {None}
    if batch["clients"] or len(plays) != len(arms) or not (all_users or reported == arms != []):
        return 0
    if arms and (min(plays) < 1 or sum(plays) != batch["slots"]):
        return 0
    return int(batch["slots"]) if all_users else int(min(plays))


BROWSER_KINDS = frozenset(
    {"Counts", "Rounded", "Copies", "Answer", "Sign", "Levels", "Plain"}
)  # devices that clients/js has


def list_supported_clients(section: Mapping[str, Any] | None) -> list[str]:
    """Return the clients that can play a task: Python, Python without policies, browsers."""
    if section is None:
        return ["python, with the whole library"]
    devices = [device for plan in section["plans"] for part in plan["devices"] for device in part if device is not None]
    kinds = {kind for device in devices for kind in (device["kind"], *(e["kind"] for e in device.get("levels", ())))}
    return ["python", *(["browser"] if kinds <= BROWSER_KINDS else [])]
