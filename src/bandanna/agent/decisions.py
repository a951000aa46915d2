"""Decisions, and ids that cannot be guessed or mistaken for another decision's, not even after a crash."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bandanna.errors import InvalidStatistic

_ID = re.compile(r"(0|[1-9][0-9]{0,17})-([0-9a-f]{16})-([0-9a-f]{16})", re.ASCII)
_CLIENT = re.compile(r"client-([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{16})-([0-9a-f]{16})", re.ASCII)
_LATER = "_later"  # where a decision keeps what computes its probability, until somebody looks


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What was decided: give `id` back with the reward.

    arm          the id of the chosen arm, as in the contexts
    probability  with which the policy chose it, for off-policy evaluation later: 1/n where n arms were tied. Where it
                 takes an integral (LinTS, Thompson) it is computed when it is first looked at, from the snapshot and
                 the features that decided, which the decision keeps until then; a copy or a pickle has the number
    episode      the batch to which it belongs, counted from 0: public
    """

    id: str
    arm: Hashable
    probability: float
    episode: int

    @classmethod
    def made(cls, name: str, arm: Hashable, chance: float | Callable[[], float], episode: int) -> Decision:
        """With a probability, or with what computes it."""
        decision = object.__new__(cls)
        held = vars(decision)
        held["id"], held["arm"], held["episode"] = name, arm, episode
        held[_LATER if callable(chance) else "probability"] = chance
        return decision

    if not TYPE_CHECKING:  # there, `probability` is a field like the others

        def __getattr__(self, name: str) -> Any:
            """The probability, of a decision that nobody has asked for it."""
            held = vars(self)
            if name != "probability" or not held:
                raise AttributeError(f"a decision has no attribute {name!r}", name=name, obj=self)
            later = held.get(_LATER)
            if later is not None:  # another thread may have been here: it has found the same
                held["probability"] = later()
                held.pop(_LATER, None)
            return held["probability"]

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy or a pickle: the numbers alone."""
        return {"id": self.id, "arm": self.arm, "probability": self.probability, "episode": self.episode}


class Ids:
    """The ids that one agent issues and recognises, by its secret of 32 bytes."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._keyed = hashlib.blake2s(key=secret, digest_size=8)  # to be copied: the key is taken in once

    def issue(self, number: int, session: str) -> str:
        """The id of decision `number`: what two runs of one agent decide under the same number has different ids."""
        return f"{number}-{session}-{self._mark(f'decision {number} {session}')}"

    def recognise(self, given: Any, name: str = "decision id") -> tuple[int, str]:
        """Number and session of an id that the agent has issued, in this run or an earlier one; others are refused."""
        found = _ID.fullmatch(given) if isinstance(given, str) else None
        if found is not None:
            number, session, mark = found.groups()
            if self._marked(f"decision {number} {session}", mark):
                return int(number), session
        raise InvalidStatistic(name, given, "the `id` of a decision of this agent")

    def issue_client(self, episode: int, place: int, session: str) -> str:
        """The id of a client of an episode."""
        return f"client-{episode}-{place}-{session}-{self._mark(f'decision {place} {session} client {episode}')}"

    def recognise_client(self, given: Any) -> tuple[int, int, str]:
        """Episode, place and session of a client's id that the agent has issued."""
        found = _CLIENT.fullmatch(given) if isinstance(given, str) else None
        if found is not None:
            episode, place, session = int(found[1]), int(found[2]), found[3]
            if self._marked(f"decision {place} {session} client {episode}", found[4]):
                return episode, place, session
        raise InvalidStatistic("client", given, "what recruit() of this agent has given")

    def _mark(self, what: str) -> str:
        """64 bits that nobody without the secret can tell from random ones."""
        keyed = self._keyed.copy()
        keyed.update(what.encode())
        return keyed.hexdigest()

    def _marked(self, what: str, mark: str) -> bool:
        """Whether this is the mark, or the one of agents that were saved before: HMAC, which takes longer."""
        if hmac.compare_digest(mark, self._mark(what)):
            return True
        return hmac.compare_digest(mark, hmac.digest(self._secret, what.encode(), "sha256").hex()[:16])
