"""A job's arithmetic: sealed seeds become masks, and masks are added as the other mixer adds what they hide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.errors import BandannaError, Unreadable
from bandanna.protocols.concurrent_shuffle.shuffler import LevelMixer
from bandanna.protocols.concurrent_shuffle.views import Full
from bandanna.protocols.mixing import mixed, mixers
from bandanna.protocols.roles import Adding
from bandanna.wire.jobs import Job
from bandanna.wire.keys import SEED, Opener, masks
from bandanna.wire.plan import Part
from bandanna.wire.sealing import sealing_info
from bandanna.wire.ticket import Tickets, agrees


@dataclass(frozen=True, kw_only=True)
class Summand:
    """The masks of one part of a round, in the order of places, and the mixer that adds them."""

    stream: int | None
    mixer: Adding | LevelMixer
    messages: Ints  # (users, length)

    @property
    def text(self) -> str:
        """The mixer, as a plan holds it."""
        return mixers().dumps(self.mixer)

    def mixed(self, held: str | None) -> tuple[str, str, list[tuple[int, int]]]:
        """Add the masks to what is held.

        Parameters
        ----------
        held
            What is held before them; None for nothing.

        Returns
        -------
        tuple[str, str, list[tuple[int, int]]]
            What is held after them, what is forwarded, and the level and number of each sum of a stream in it.
        """
        before = self.mixer.empty() if held is None else mixers().loads(held)
        after, views = mixed(self.mixer, before, self.messages)
        full = [view for view in views if isinstance(view, Full)]
        sums = [(level, view.users // each.users) for view in full for level, each in enumerate(view.levels)]
        return mixers().dumps(after), mixers().dumps(views), sums


def summands(job: Job, masks: list[Ints]) -> list[Summand]:
    """One for each part of the job's round; Unreadable if the plan cannot be followed."""
    parts = job.parts.parts
    if not job.parts.by_arm:
        return [_summand(part, rows) for part, rows in zip(parts, masks, strict=True)]
    try:
        arms = job.batch.arms_at(np.arange(len(job.entries)))
    except (IndexError, ValueError, TypeError) as error:
        raise Unreadable("a plan that does not say who plays which arm") from error
    if sorted(set(arms.tolist())) != sorted(-1 if part.arm is None else part.arm for part in parts):
        raise Unreadable("a plan whose parts are not those of its arms")
    return [_summand(part, masks[0][arms == part.arm]) for part in parts]


def _summand(part: Part, messages: Ints) -> Summand:
    mixer = mixers().loads(part.mixer or "null")
    if not isinstance(mixer, Adding | LevelMixer) or mixer.length != part.length:
        raise Unreadable("a plan whose mixer does not add counts of this length")
    if part.stream is not None and not isinstance(mixer, LevelMixer):
        raise Unreadable("a plan with a stream whose mixer has no levels")
    return Summand(stream=part.stream, mixer=mixer, messages=messages)


def masks_of(job: Job, task: bytes, openers: Mapping[int, Opener], tickets: Tickets) -> tuple[list[Ints], int]:
    """For each part that a user reports for the masks of everybody, (users, length), and how many users are bad.

    Bad is whose seed cannot be opened as that of this slot, round and plan, or comes without the ticket's key: the
    shuffler has put something else in its place, or the user has sent it. Their masks are zeros, and no sum is made.
    """
    lengths, epoch, bad = job.parts.lengths, job.batch.epoch, 0
    made = [np.zeros((len(job.entries), length), dtype=np.int64) for length in lengths]
    for place, entry in enumerate(job.entries):
        info = sealing_info(task, job.batch, job.round, entry.slot)
        seed = _seed(openers.get(entry.key_id), entry.sealed, info, tickets.key(epoch, entry.slot))
        if seed is None:
            bad += 1
            continue
        for rows, own in zip(made, masks(seed, lengths), strict=True):
            rows[place] = own
    return made, bad


def _seed(opener: Opener | None, sealed: bytes, info: bytes, key: bytes) -> bytes | None:
    """The seed, if it was sealed for this, together with the ticket's key."""
    if opener is None:
        return None
    try:
        opened = opener.open(sealed, info)
    except BandannaError:
        return None
    return opened[:SEED] if agrees(opened[SEED:], key) else None
