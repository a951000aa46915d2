"""What mixers have sent, as the views that a protocol's analyzer takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.errors import BandannaError, InvalidStatistic
from bandanna.policies.base import Ask
from bandanna.protocols.concurrent_shuffle.shuffler import LevelMixer
from bandanna.protocols.concurrent_shuffle.views import Full
from bandanna.protocols.mixing import mixed, mixers
from bandanna.protocols.roles import Adding, Held, Mixer
from bandanna.storage.declared import conforms
from bandanna.wire.canonical import unpacked
from bandanna.wire.keys import Opener
from bandanna.wire.plan import Part

Share = Mapping[str, Any]

_FIELDS: dict[str, Any] = {
    "task": str, "epoch": int, "round": int, "mixer": str, "count": int, "checksum": str, "bad": int, "parts": list,
}  # fmt: skip


class Burned(BandannaError):
    """Totals that were seen and cannot be used: they are paid for, and nothing is learned from them."""


def check_share(share: Any, *, task: str, epoch: int, round_: int, mixer: str) -> Share:
    """A share of this batch, from this mixer."""
    if not isinstance(share, dict) or not set(_FIELDS) <= set(share):
        raise InvalidStatistic("share", type(share).__name__, "a share of a batch")
    if not all(conforms(share[name], hint) for name, hint in _FIELDS.items()):
        raise InvalidStatistic("share", "fields of wrong types", "a share of a batch")
    _check_witness(share.get("witness"))
    if (share["task"], share["epoch"], share["round"], share["mixer"]) != (task, epoch, round_, mixer):
        raise InvalidStatistic("share", "of another batch", f"one of batch {epoch}, round {round_}, from {mixer}")
    return share


def _check_witness(witness: Any) -> None:
    """None, or the number and the chain of a publication."""
    if witness is None:
        return
    if not isinstance(witness, dict) or not conforms(witness.get("chain"), str):
        raise InvalidStatistic("witness", type(witness).__name__, "the number and the chain of a publication")
    number = witness.get("number")
    if type(number) is not int or not 0 <= number < 2**62:
        raise InvalidStatistic("witness", type(number).__name__, "the number of a publication")


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
        return _views(shares, parts, asks, opener, info)
    except Burned:
        raise
    except (BandannaError, AttributeError, TypeError, ValueError) as error:  # whatever a mixer may have signed
        raise Burned(f"shares that hold no views ({type(error).__name__})") from error


def _views(
    shares: Sequence[Share], parts: Sequence[Part], asks: Sequence[Ask], opener: Opener | None, info: bytes
) -> list[tuple[Any, ...]]:
    made = []
    for place, (part, ask) in enumerate(zip(parts, asks, strict=True)):
        texts = [share["parts"][place] for share in shares]
        if part.form == "sealed":
            made.append(_opened(texts[0], part, ask.protocol.mixer, opener, info))
            continue
        views = [mixers().loads(text) for text in texts]
        made.append(views[0] if len(views) == 1 else _added(*views))
        for view in made[-1]:
            _check(view, ask.protocol.mixer)
    return made


def rows_of(share: Share) -> np.ndarray[Any, Any]:
    """Rows as devices sent them, (n, length)."""
    rows = mixers().loads(share["parts"][0])
    if not isinstance(rows, np.ndarray) or rows.ndim != 2:
        raise InvalidStatistic("share", type(rows).__name__, "rows of numbers")
    return rows


def _opened(text: str, part: Part, mixer: Mixer, opener: Opener | None, info: bytes) -> tuple[Any, ...]:
    """Reports that were sealed for the analyzer, in the order in which they came: sorted by their ciphertexts.

    One that cannot be opened, or that no honest device sends, counts as a zero without noise: nobody between could see
    what it is, and its sender must not decide whether the others are heard. What is made of a view costs no privacy.
    """
    assert opener is not None
    plain = Part(form="plain", dtype=part.dtype, length=part.length)
    sealed = mixers().loads(text)
    if not isinstance(sealed, list):
        raise Burned("sealed reports that are none")
    bodies = [_body(each, plain, mixer, opener, info) for each in sealed]
    return mixed(mixer, mixer.empty(), plain.numbers(bodies))[1]


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
    if isinstance(left, Full):
        pairs = zip(left.levels, right.levels, strict=True)
        return Full(users=left.users, levels=tuple(_sum(a, b) for a, b in pairs))
    if left.users != right.users or left.numbers.shape != right.numbers.shape:
        raise Burned("the mixers have added different numbers of reports")
    return Held(users=left.users, numbers=_wrapped(left.numbers) + _wrapped(right.numbers))


def _wrapped(numbers: Any) -> Ints:
    """Sums of int64 wrap, which is what modulo 2^64 means."""
    return np.asarray(numbers, dtype=np.int64)


def _check(view: Any, mixer: Mixer) -> None:
    """Totals that counts of so many users can have; rows were checked one by one."""
    if isinstance(view, Full) and isinstance(mixer, LevelMixer):
        for level, held in zip(mixer.levels, view.levels, strict=False):
            _check(held, level)
    elif isinstance(mixer, Adding):
        totals, most = view.numbers, view.users * mixer.largest
        if totals.dtype != np.int64 or totals.shape != most.shape or np.any((totals < 0) | (totals > most)):
            raise Burned("totals that no sum of counts can have")
    elif isinstance(view, Held):
        mixer.check(view.numbers)
