"""The counterparts of a helper: devices that split counts, a shuffler that adds shares, plans of batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_bytes
from typing import Any

import numpy as np

from bandanna.deployment.helper import SCHEMA, Helper, Keyring
from bandanna.deployment.messages.batch_plan import Batch, Part, Round
from bandanna.deployment.messages.canonical import (
    HELPER,
    TicketKeys,
    draw_seed,
    expand_masks,
    seal,
    sealing_key,
    sign,
    signing_key,
)
from bandanna.deployment.messages.report import sealing_info
from bandanna.deployment.messages.share import JobEntry, write_job, write_receipt
from bandanna.device.domain import Ball, Bits
from bandanna.privacy.calibration import BinomialNoise
from bandanna.protocols.concurrent_shuffle import LevelMixer
from bandanna.protocols.factory import make_mixer_encoding, mix_messages
from bandanna.protocols.mixers import Mixer
from bandanna.protocols.shuffle_binomial import VectorMixer
from bandanna.protocols.shuffle_bits import BitMixer
from bandanna.storage.database.base import Database, open_database

TASK, TASK_ID, KEY = bytes(range(32)), "the-task", b"k" * 32
LEADER, LEADER_PUBLIC = signing_key()
OWN, OWN_PUBLIC = signing_key()
ANALYZER, ANALYZER_PUBLIC = signing_key()
SEAL, SEAL_PUBLIC = sealing_key()


def vector(users: int, dim: int = 2) -> Mixer:
    return VectorMixer(domain=Ball(dim=dim), least=users, noise=BinomialNoise(scale=4.0, trials=12, users=users))


def bits(users: int) -> Mixer:
    return BitMixer(domain=Bits(), least=users, noise=BinomialNoise(scale=1.0, trials=12, users=users))


def tree() -> Mixer:
    return LevelMixer(domain=Ball(dim=2), levels=tuple(vector(users) for users in (2, 4, 12)))  # type: ignore[arg-type]


def part(mixer: Mixer, **others: Any) -> Part:
    return Part(form="shares", dtype="<u8", length=mixer.length, mixer=make_mixer_encoding().dumps(mixer), **others)


def plain(epoch: int = 0, users: int = 5, rounds: int = 1) -> Batch:
    asked = Round(parts=(part(vector(users)), part(bits(users))))
    return Batch(epoch=epoch, episode=epoch, slots=users, rounds=(asked,) * rounds)


def streamed(epoch: int = 0, users: int = 3) -> Batch:
    """Return a batch of a stream of a tree."""
    return Batch(epoch=epoch, episode=epoch, slots=users, rounds=(Round(parts=(part(tree(), stream=1),)),))


def assigned(epoch: int = 0, in_turn: bool = True) -> Batch:
    """Return a batch with arm 5 for two users and arm 7 for four."""
    plays = {5: 2, 7: 4}
    parts = tuple(part(bits(users), arm=arm) for arm, users in plays.items())
    return Batch(
        epoch=epoch, episode=0, slots=6, rounds=(Round(parts=parts),), arms=(5, 7), plays=(2, 4), in_turn=in_turn
    )


@dataclass
class Users:
    """The users of a batch, with slots, tickets, counts, shares and sealed seeds of each round."""

    batch: Batch
    seed: int = 0
    slots: list[bytes] = field(default_factory=list)
    key: tuple[int, str] = (0, SEAL_PUBLIC)
    task: bytes = TASK
    pair: bytes = KEY  # of registrar and helper

    def __post_init__(self) -> None:
        self.slots = self.slots or [token_bytes(16) for _ in range(self.batch.slots)]
        random = np.random.default_rng(self.seed)
        self.counts = [
            [random.integers(0, 20, size=(self.batch.slots, length)) for length in each.lengths]
            for each in self.batch.rounds
        ]
        self.seeds = [[draw_seed() for _ in self.slots] for _ in self.batch.rounds]
        self.tickets = TicketKeys(self.pair, self.task, HELPER)

    def shares(self, round_: int) -> list[Any]:
        """counts - mask, modulo 2^64: for each part that a user reports for, (users, length)."""
        hidden = [expand_masks(seed, self.batch.rounds[round_].lengths) for seed in self.seeds[round_]]
        own = zip(self.counts[round_], zip(*hidden, strict=True), strict=True)
        return [counts - np.array(mask) for counts, mask in own]

    def entries(self, round_: int = 0) -> list[JobEntry]:
        return [
            JobEntry(slot, self.key[0], self.sealed(slot, seed, round_=round_))
            for slot, seed in zip(self.slots, self.seeds[round_], strict=True)
        ]

    def sealed(self, slot: bytes, seed: bytes, *, ticket: bytes | None = None, round_: int = 0) -> bytes:
        """Seal a seed and the ticket's key, or something else, for the helper."""
        key = self.tickets.key(self.batch.epoch, slot) if ticket is None else ticket
        return seal(self.key[1], seed + key, sealing_info(self.task, self.batch, round_, slot))

    def job(self, round_: int = 0, entries: list[JobEntry] | None = None, task_id: str = TASK_ID) -> bytes:
        listed = self.entries(round_) if entries is None else entries
        return write_job(task_id=task_id, batch=self.batch, round_=round_, entries=listed)


def mixed_by_one(batch: Batch, round_: int, messages: list[Any], held: dict[int, Any]) -> list[Any]:
    """Return what one mixer forwards for each part of messages (users, length); `held` has states of streams."""
    asked, views = batch.rounds[round_], []
    arms = batch.arms_at(np.arange(batch.slots)) if asked.by_arm else None
    for number, each in enumerate(asked.parts):
        mixer = make_mixer_encoding().loads(each.mixer or "")
        rows = messages[number] if arms is None else messages[0][arms == each.arm]
        before = held.get(each.stream, mixer.empty()) if each.stream is not None else mixer.empty()
        after, view = mix_messages(mixer, before, rows)
        if each.stream is not None:
            held[each.stream] = after
        views.append(view)
    return views


def plainly(views: Any) -> Any:
    if isinstance(views, list | tuple):
        return [plainly(view) for view in views]
    if hasattr(views, "levels"):
        return [views.users, plainly(views.levels)]
    return [views.users, views.numbers.tolist()]


def together(one: Any, other: Any) -> Any:
    """Add shares and masks modulo 2^64; the numbers of users must be equal."""
    if isinstance(one, list | tuple):
        return [together(a, b) for a, b in zip(one, other, strict=True)]
    assert one.users == other.users
    if hasattr(one, "levels"):
        return [one.users, together(one.levels, other.levels)]
    return [one.users, (one.numbers + other.numbers).tolist()]


def opened(url: str | Path) -> Database:
    return open_database(str(url), role="helper", schema=SCHEMA)


def helper(db: Database, **others: Any) -> Helper:
    parts: dict[str, Any] = {
        "task_id": TASK_ID, "task": TASK, "ticket_key": KEY, "leader_key": LEADER_PUBLIC,
        "analyzer_key": ANALYZER_PUBLIC, "sign": partial(sign, OWN, TASK_ID), **others,
    }  # fmt: skip
    return Helper(db, keyring=parts.pop("keyring", None) or Keyring(db, first=(SEAL, SEAL_PUBLIC)), **parts)


def receipt(epoch: int, round_: int = 0, outcome: str = "released", **others: Any) -> dict[str, Any]:
    key, task_id = others.pop("key", ANALYZER), others.pop("task_id", TASK_ID)
    signed = partial(sign, key, task_id)
    return write_receipt(
        task_id=task_id, epoch=epoch, round_=round_, number=epoch + 1, chain="c", outcome=outcome, sign=signed
    )


def give(one: Helper, users: Users, round_: int = 0, content: bytes | None = None) -> tuple[int, bytes]:
    job = users.job(round_) if content is None else content
    return one.job(job, sign(LEADER, TASK_ID, "job", job), epoch=users.batch.epoch, round_=round_)
