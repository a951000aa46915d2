"""A batch's bodies, through the mixers of its parts, to what is forwarded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bandanna.errors import BandannaError
from bandanna.protocols.mixing import mixed, mixers
from bandanna.protocols.roles import Gathering
from bandanna.storage.database import Transaction
from bandanna.wire.canonical import packed
from bandanna.wire.keys import ENCAPSULATION
from bandanna.wire.plan import Batch, Part, Round

Finish = Callable[[Any, Any], Any]  # mixer, held -> held


def nothing(mixer: Any, held: Any) -> Any:
    """Mixers draw nothing."""
    return held


@lru_cache(maxsize=256)
def mixer_of(text: str) -> Any:
    """The mixer that a plan names."""
    return mixers().loads(text)


def in_range(round_: Round, bodies: Sequence[bytes]) -> bool:
    """Whether all these bodies hold numbers that an honest device may send, as far as this mixer can see them."""
    for part, cut in zip(round_.parts, zip(*map(round_.cut, bodies), strict=True), strict=False):
        if part.form == "row" and not _are_rows(part.numbers(cut)):
            return False
        if part.form == "plain":
            try:
                mixer_of(part.mixer or "").check(part.numbers(cut))
            except BandannaError:
                return False
    return True


def encapsulations(round_: Round, body: bytes) -> list[bytes]:
    """The keys with which the sealed reports of a body were sealed: a device draws a new one for each of them."""
    pairs = zip(round_.parts, round_.cut(body), strict=False)
    return [cut[:ENCAPSULATION] for part, cut in pairs if part.form == "sealed"]


def _are_rows(rows: np.ndarray[Any, Any]) -> bool:
    """Finite numbers, of which the last three are small whole ones: arm, group, whether there was an answer."""
    tail = rows[:, -3:]
    return bool(np.all(np.isfinite(rows)) and np.all((tail >= 0) & (tail < 2**31) & (tail == np.floor(tail))))


def views(rows: Transaction, plan: Batch, round_: int, bodies: Sequence[bytes], finish: Finish) -> list[str]:
    """What is forwarded of each part, as texts; what mixers still hold is stored with it."""
    wanted, places = plan.rounds[round_], np.arange(len(bodies))
    arms = plan.arms_at(places) if wanted.by_arm else None
    cut = [wanted.cut(body) for body in bodies]
    forwarded = []
    for number, part in enumerate(wanted.parts):
        if arms is None:
            own = [each[number] for each in cut]
        else:
            own = [each[0] for each, arm in zip(cut, arms.tolist(), strict=True) if arm == part.arm]
        forwarded.append(_view(rows, part, f"{round_}.{number}.{part.stream}", own, finish))
    return forwarded


def _view(rows: Transaction, part: Part, name: str, bodies: list[bytes], finish: Finish) -> str:
    if part.form == "row":
        return mixers().dumps(part.numbers(bodies))
    if part.form == "sealed":  # in an order that only they decide
        return mixers().dumps([packed(body) for body in sorted(bodies)])
    mixer = mixer_of(part.mixer or "")
    held = mixer.empty()
    if part.stream is not None:
        _check_same(rows, name, part.mixer or "")
        found = rows.execute("select held from streams where name = ?", name)
        held = mixers().loads(found[0][0]) if found else held
    if isinstance(mixer, Gathering) and part.dtype != "<f8":  # rows are forwarded: in an order that only they decide
        bodies = sorted(bodies)
    held, seen = mixed(mixer, held, part.numbers(bodies), finish)
    if part.stream is not None:
        rows.execute("delete from streams where name = ?", name)
        rows.execute("insert into streams values (?, ?)", name, mixers().dumps(held))
    return mixers().dumps(seen)


def _check_same(rows: Transaction, name: str, mixer: str) -> None:
    """A stream keeps the mixer that it began with.

    Plans come from the analyzer. With smaller levels, and one user of its own, it would be told the sums of levels
    that are not full: of people who added noise for a full one.
    """
    name = f"{name} mixer"
    found = rows.execute("select held from streams where name = ?", name)
    if not found:
        rows.execute("insert into streams values (?, ?)", name, mixer)
    elif found[0][0] != mixer:
        raise BandannaError("a stream goes on with another mixer than it began with: what it holds stays here")
