"""Decisions, and ids that cannot be guessed or mistaken for another decision's, not even after a crash."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from bandanna.errors import InvalidArgument

_ID = re.compile(r"(0|[1-9][0-9]{0,17})-([0-9a-f]{16})-([0-9a-f]{16})", re.ASCII)
_CLIENT = re.compile(r"client-([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{16})-([0-9a-f]{16})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What was decided: give `id` back with the reward.

    arm          the id of the chosen arm, as in the contexts
    probability  with which the policy chose it, for off-policy evaluation later: 1/n where n arms were tied
    episode      the batch to which it belongs, counted from 0: public
    """

    id: str
    arm: Hashable
    probability: float
    episode: int


def issue(secret: bytes, number: int, session: str) -> str:
    """The id of decision `number`: what two runs of one agent decide under the same number has different ids."""
    return f"{number}-{session}-{_mark(secret, number, session)}"


def recognise(secret: bytes, given: Any) -> tuple[int, str]:
    """Number and session of an id that this agent has issued, in this run or in an earlier one; others are refused."""
    found = _ID.fullmatch(given) if isinstance(given, str) else None
    if found is None or not hmac.compare_digest(found[3], _mark(secret, int(found[1]), found[2])):
        raise InvalidArgument("decision id", given, "the `id` of a decision of this agent")
    return int(found[1]), found[2]


def _mark(secret: bytes, number: int, session: str) -> str:
    return hmac.digest(secret, f"decision {number} {session}".encode(), hashlib.sha256).hex()[:16]


def issue_client(secret: bytes, episode: int, place: int, session: str) -> str:
    """The id of a client of an episode."""
    return f"client-{episode}-{place}-{session}-{_mark(secret, place, f'{session} client {episode}')}"


def recognise_client(secret: bytes, given: Any) -> tuple[int, int, str]:
    """Episode, place and session of a client's id that this agent has issued."""
    found = _CLIENT.fullmatch(given) if isinstance(given, str) else None
    if found is None or not hmac.compare_digest(
        found[4], _mark(secret, int(found[2]), f"{found[3]} client {int(found[1])}")
    ):
        raise InvalidArgument("client", given, "what recruit() of this agent has given")
    return int(found[1]), int(found[2]), found[3]
