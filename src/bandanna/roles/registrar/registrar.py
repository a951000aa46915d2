"""Tickets: one per user and epoch, at most `participations` of them that may still be used.

A refusal is the collector's word that a slot was not used and never will be: its owner gets another one in a later
epoch. What people report is nothing that comes here.

    person = HMAC-SHA256(secret, "user" | task | user), its first 16 bytes: so people are stored
    slot   = HMAC-SHA256(secret, "slot" | task | epoch | person), likewise: after a restore the same one again
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bandanna.core import require
from bandanna.errors import BandannaError, InvalidArgument, Unreadable
from bandanna.roles.registrar import tables
from bandanna.storage.database import Database
from bandanna.wire import canonical
from bandanna.wire.record import EPOCHS
from bandanna.wire.ticket import COLLECTOR, MAC, SLOT, Tickets, agrees, label, mac, refusal

MOST = 1000  # tickets in a request
LONGEST = 200  # characters of a user's name
AHEAD = 2  # epochs beyond the newest that is known
PROOFS = 64  # refusals that one user may bring along


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One person's wish for a ticket, and the refusals (epoch, slot) that were proved."""

    person: bytes
    epoch: int
    refused: tuple[tuple[int, bytes], ...]


class Registrar:
    """What a registrar does, in transactions of its database. Refusals are answers here: many are asked for at once."""

    def __init__(
        self,
        db: Database,
        *,
        task: bytes,
        ticket_keys: Mapping[str, bytes],
        secret: bytes,
        participations: int,
        moves: bool = True,
    ) -> None:
        """ticket_keys: by verifier, those that this registrar and it share.

        moves: whether a refusal gives another ticket; not where the collector is whom reports are protected from,
        who has seen what it refuses and could refuse for ever.
        """
        self._db, self._task, self._secret, self._collector = db, task, secret, ticket_keys[COLLECTOR]
        self._tickets = {verifier: Tickets(key, task, verifier) for verifier, key in ticket_keys.items()}
        self._participations = require.whole("participations", participations)
        self._moves = moves
        own = mac(secret, label("registrar"), task)
        with db.transaction() as transaction:
            found = tables.mark(transaction, own)
            tables.look_again(transaction)
        if not hmac.compare_digest(found, own):
            raise BandannaError(
                f"{db.name} belongs to another task, or hides people under another secret: with this one everybody "
                "could take part once more"
            )

    def tickets(self, requests: Any) -> list[dict[str, Any]]:
        """For each {"user", "epoch", "refused"?}: {"epoch", "slot", "collector", "helper"?}, or {"refused": reason}.

        Reasons: "user" (no text of 1 to 200 characters), "epoch" (none, or too far ahead), "proof" (a refusal that the
        collector has not made), "participations" (no more of them). All in one transaction.
        """
        if not isinstance(requests, list) or not 0 < len(requests) <= MOST:
            raise InvalidArgument("tickets", type(requests).__name__, f"a list of 1 to {MOST}")
        wanted = [self._wanted(each) for each in requests]
        people = {each.person for each in wanted if isinstance(each, Wanted)}
        with self._db.transaction() as transaction:
            known = tables.witness(transaction)
            last = AHEAD + (0 if known is None else known.epoch)
            held = tables.held_by(transaction, people)
            before = {person: dict(tickets) for person, tickets in held.items()}
            answers = [each if isinstance(each, str) else self._given(each, held[each.person], last) for each in wanted]
            tables.change(transaction, before, held)
        return [{"refused": each} if isinstance(each, str) else each for each in answers]

    def counts(self) -> dict[str, int]:
        """For the administrator."""
        with self._db.reading() as transaction:
            return {"tickets": tables.counts(transaction)}

    def _wanted(self, request: Any) -> Wanted | str:
        """What was asked for, or the reason why it is nothing."""
        if not isinstance(request, Mapping) or not {"user", "epoch"} <= set(request) <= {"user", "epoch", "refused"}:
            return "user"
        user, epoch, proofs = request["user"], request["epoch"], request.get("refused", [])
        if not isinstance(user, str) or not 0 < len(user) <= LONGEST or not _whole(user):
            return "user"
        if type(epoch) is not int or not 0 <= epoch <= EPOCHS:
            return "epoch"
        try:
            refused = tuple(self._proved(*proof) for proof in _listed(proofs))
        except (TypeError, Unreadable):
            return "proof"
        person = mac(self._secret, label("user"), self._task, user.encode())
        return Wanted(person=person, epoch=epoch, refused=refused)

    def _proved(self, epoch: Any, slot: Any, proof: Any) -> tuple[int, bytes]:
        """An epoch and its slot, if the collector has refused it."""
        if type(epoch) is not int or not 0 <= epoch <= EPOCHS:
            raise Unreadable("a refusal without an epoch")
        opened = canonical.unpacked(slot, SLOT)
        if not agrees(canonical.unpacked(proof, MAC), refusal(self._collector, self._task, epoch, opened)):
            raise Unreadable("a refusal that nobody has made")
        return epoch, opened

    def _given(self, wanted: Wanted, held: dict[int, bytes], last: int) -> dict[str, Any] | str:
        """A ticket, entered into what its owner holds; the same again for whoever has one in this epoch."""
        epoch = wanted.epoch
        if epoch not in held:
            if epoch > last:
                return "epoch"
            for before, slot in wanted.refused:
                if self._moves and before < epoch and held.get(before) == slot:
                    del held[before]  # once: nobody has this slot any more
            if len(held) >= self._participations:
                return "participations"
            held[epoch] = mac(self._secret, label("slot"), self._task, epoch.to_bytes(4, "little"), wanted.person)
        slot = held[epoch]
        keys = {verifier: canonical.packed(each.key(epoch, slot)) for verifier, each in self._tickets.items()}
        return {"epoch": epoch, "slot": canonical.packed(slot), **keys}


def _listed(proofs: Any) -> list[Any]:
    if not isinstance(proofs, list) or len(proofs) > PROOFS or not all(isinstance(each, list) for each in proofs):
        raise Unreadable("refusals that are no list")
    return proofs


def _whole(text: str) -> bool:
    """Whether it can be written: no half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
