"""A job's arithmetic: sealed seeds become masks, and masks are added as the other mixer adds what they hide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core.arrays import Bools, Ints
from bandanna.errors import BandannaError, Unreadable
from bandanna.protocols.concurrent_shuffle.shuffler import LevelMixer
from bandanna.protocols.mixing import mixed, mixers
from bandanna.protocols.roles import Adding
from bandanna.wire.jobs import Job
from bandanna.wire.keys import Opener, mask
from bandanna.wire.plan import Part
from bandanna.wire.sealing import sealing_info


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

    def mixed(self, held: str | None) -> tuple[str, str]:
        """What is held after them and what is forwarded; `held`: before them, None for nothing."""
        before = self.mixer.empty() if held is None else mixers().loads(held)
        after, views = mixed(self.mixer, before, self.messages)
        return mixers().dumps(after), mixers().dumps(views)


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
    return Summand(stream=part.stream, mixer=mixer, messages=messages)


def masks_of(job: Job, task: bytes, openers: Mapping[int, Opener]) -> tuple[list[Ints], int]:
    """For each body that a user sends the masks of everybody, (users, length), and how many users' cannot be had.

    Theirs are zeros: the sum is useless then, and the analyzer is told so.
    """
    parts = job.parts.parts[:1] if job.parts.by_arm else job.parts.parts
    masks = [np.zeros((len(job.entries), part.length), dtype=np.int64) for part in parts]
    bad: Bools = np.zeros(len(job.entries), dtype=bool)
    for place, entry in enumerate(job.entries):
        opener = openers.get(entry.key_id)
        for number, sealed in enumerate(entry.seeds):
            info = sealing_info(task, job.batch, job.round, number, entry.slot)
            seed = None if opener is None else _opened(opener, sealed, info)
            if seed is None:
                bad[place] = True
            else:
                masks[number][place] = mask(seed, parts[number].length)
    return masks, int(bad.sum())


def _opened(opener: Opener, sealed: bytes, info: bytes) -> Any:
    try:
        return opener.open(sealed, info)
    except BandannaError:
        return None
