"""What mixers have sent, as the views that a protocol's analyzer takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.errors import BandannaError, InvalidStatistic, Summary
from bandanna.policies.base import Ask
from bandanna.protocols.concurrent_shuffle.shuffler import LevelMixer
from bandanna.protocols.concurrent_shuffle.views import Full
from bandanna.protocols.mixing import mixed, mixers
from bandanna.protocols.roles import Adding, Held, Mixer
from bandanna.storage.declared import conforms
from bandanna.wire.canonical import unpacked
from bandanna.wire.keys import ENCAPSULATION, Opener
from bandanna.wire.plan import Part

Share = Mapping[str, Any]

_FIELDS: dict[str, Any] = {
    "task": str, "epoch": int, "round": int, "mixer": str, "count": int, "checksum": str, "bad": int, "parts": list,
    "key": dict[str, Any] | None,
}  # fmt: skip


class Burned(BandannaError):
    """Totals that were seen and cannot be used: they are paid for, and nothing is learned from them."""


def check_share(share: Any, *, task: str, epoch: int, round_: int, mixer: str) -> Share:
    """A share of this batch, from this mixer."""
    if not isinstance(share, dict) or set(_FIELDS) != set(share):
        raise InvalidStatistic("share", share, "a share of a batch")
    if not all(conforms(share[name], hint) for name, hint in _FIELDS.items()):
        raise InvalidStatistic("share", Summary("fields of wrong types"), "a share of a batch")
    if (share["task"], share["epoch"], share["round"], share["mixer"]) != (task, epoch, round_, mixer):
        raise InvalidStatistic(
            "share", Summary("of another batch"), f"one of batch {epoch}, round {round_}, from {mixer}"
        )
    return share


def views_of(
    shares: Sequence[Share], parts: Sequence[Part], asks: Sequence[Ask], users: int, opener: Opener | None, info: bytes
) -> list[tuple[Any, ...]]:
    """The views of every ask of a round; Burned if the mixers do not agree, or if their sum is no sum of counts."""
    first = shares[0]
    for share in shares:
        if (share["count"], share["checksum"]) != (first["count"], first["checksum"]) or share["bad"]:
            raise Burned("the mixers have not added the same reports")
        if share["count"] != users or len(share["parts"]) != len(parts):
            raise Burned(f"a batch of {share['count']} users where {users} were announced")
    try:
        views = _views(shares, parts, asks, opener, info)
        _check_users(views, parts, users)
        return views
    except Burned:
        raise
    except (BandannaError, AttributeError, TypeError, ValueError) as error:  # whatever a mixer may have signed
        raise Burned(f"shares that hold no views ({type(error).__name__})") from error


def _views(
    shares: Sequence[Share], parts: Sequence[Part], asks: Sequence[Ask], opener: Opener | None, info: bytes
) -> list[tuple[Any, ...]]:
    made = []
    seals: set[bytes] = set()  # of the round: each was drawn for one report
    for place, (part, ask) in enumerate(zip(parts, asks, strict=True)):
        texts = [share["parts"][place] for share in shares]
        if part.form == "sealed":
            made.append(_opened(texts[0], part, ask.protocol.mixer, opener, info, seals))
            continue
        views = [mixers().loads(text) for text in texts]
        made.append(views[0] if len(views) == 1 else _added(*views))
        if not isinstance(made[-1], tuple) or not made[-1]:
            raise Burned("a share without a view of one of its parts")
        for view in made[-1]:
            _check(view, ask.protocol.mixer)
    return made


def _check_users(views: Sequence[tuple[Any, ...]], parts: Sequence[Part], users: int) -> None:
    """Refuse views of other people than were announced: one of everybody for each part, or of the users of its arm.

    Those of streams are of all people so far, and are compared with what their mixers hold.
    """
    told = [[view.users for view in each] for each, part in zip(views, parts, strict=True) if part.stream is None]
    if any(len(each) != 1 for each in told):
        raise Burned("a part of a round with other than one view")
    if parts[0].arm is not None:
        told = [[sum(each[0] for each in told)]]
    if any(each != [users] for each in told):
        raise Burned(f"views of other than the {users} users who were announced")


def rows_of(share: Share) -> np.ndarray[Any, Any]:
    """Rows as devices sent them, (n, length)."""
    rows = mixers().loads(share["parts"][0])
    if not isinstance(rows, np.ndarray) or rows.ndim != 2:
        raise InvalidStatistic("share", rows, "rows of numbers")
    return rows


def _opened(
    text: str, part: Part, mixer: Mixer, opener: Opener | None, info: bytes, seals: set[bytes]
) -> tuple[Any, ...]:
    """Reports that were sealed for the analyzer, in the order in which they came: sorted by their ciphertexts.

    One that cannot be opened, or that no honest device sends, counts as a zero without noise: nobody between could see
    what it is, and its sender must not decide whether the others are heard. What is made of a view costs no privacy.
    """
    assert opener is not None
    plain = Part(form="plain", dtype=part.dtype, length=part.length)
    sealed = mixers().loads(text)
    if not isinstance(sealed, list):
        raise Burned("sealed reports that are none")
    _check_once(sealed, seals)
    bodies = [_body(each, plain, mixer, opener, info) for each in sealed]
    return mixed(mixer, mixer.empty(), plain.numbers(bodies))[1]


def _check_once(sealed: list[Any], seals: set[bytes]) -> None:
    """Refuse a round in which two reports were sealed with the same key: they are copies of one device's.

    A device draws a new key for each report, and a collector takes no second one with it. So copies are the shuffler's,
    which would have one person's report weigh as much as the whole batch.
    """
    for each in sealed:
        try:
            seal = unpacked(each)[:ENCAPSULATION]
        except BandannaError:  # which opens for nobody
            continue
        if seal in seals:
            raise Burned("a sealed report that is there twice")
        seals.add(seal)


def _body(text: Any, plain: Part, mixer: Mixer, opener: Opener, info: bytes) -> bytes:
    """What was sealed, if it is a report."""
    try:
        body = opener.open(unpacked(text), info)
        if len(body) == plain.size:
            mixer.check(plain.numbers([body]))
            return body
    except BandannaError:
        pass
    return bytes(plain.size)


def _added(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shares modulo 2^64."""
    if len(one) != len(other):
        raise Burned("the mixers have closed different batches")
    return tuple(_sum(left, right) for left, right in zip(one, other, strict=True))


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, Full) and left.users == right.users:
        pairs = zip(left.levels, right.levels, strict=True)
        return Full(users=left.users, levels=tuple(_sum(a, b) for a, b in pairs))
    if left.users != right.users or left.numbers.shape != right.numbers.shape:
        raise Burned("the mixers have added different numbers of reports")
    return Held(users=left.users, numbers=_wrapped(left.numbers) + _wrapped(right.numbers))


def _wrapped(numbers: Any) -> Ints:
    """Sums of int64 wrap, which is what modulo 2^64 means."""
    return np.asarray(numbers, dtype=np.int64)


def _check(view: Any, mixer: Mixer) -> None:
    """What a mixer forwards: totals that counts of so many users can have; rows were checked one by one."""
    levels = isinstance(mixer, LevelMixer)
    if isinstance(view, Full) != levels or isinstance(view, Held) == levels or view.users < mixer.least:
        raise Burned("views that this mixer does not forward")
    if isinstance(mixer, LevelMixer):
        if tuple(held.users for held in view.levels) != mixer.sizes[: mixer.full(view.users)]:
            raise Burned("views of other levels than are full")
        for level, held in zip(mixer.levels, view.levels, strict=False):
            _check(held, level)
    elif isinstance(mixer, Adding):
        totals, most = view.numbers, view.users * mixer.largest
        if totals.dtype != np.int64 or totals.shape != most.shape or np.any((totals < 0) | (totals > most)):
            raise Burned("totals that no sum of counts can have")
    else:
        mixer.check(view.numbers)
