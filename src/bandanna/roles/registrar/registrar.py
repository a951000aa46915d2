"""Tickets: one per user and epoch, at most `participations` of them that may still be used; and the analyzer's witness.

A refusal is the collector's word that a slot was not used and never will be: its owner gets another one in a later
epoch. People are stored as HMAC-SHA256(secret, user), and what they report is nothing that comes here.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bandanna.core import require
from bandanna.errors import BandannaError, InvalidArgument, Unreadable
from bandanna.roles.registrar import tables
from bandanna.storage.database import Database
from bandanna.wire import canonical
from bandanna.wire.keys import verify
from bandanna.wire.record import EPOCHS
from bandanna.wire.ticket import MAC, SLOT, agrees, draw_slot, refusal, ticket

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
        ticket_key: bytes,
        secret: bytes,
        participations: int,
        analyzer_key: str,
        moves: bool = True,
    ) -> None:
        """moves: whether a refusal gives another ticket; not where the collector is whom reports are protected from,
        who has seen what it refuses and could refuse for ever.
        """
        self._db, self._task, self._ticket_key, self._secret = db, task, ticket_key, secret
        self._participations = require.whole("participations", participations)
        self._analyzer_key, self._moves = analyzer_key, moves
        own = self._hidden(b"binding|" + task)
        with db.transaction() as transaction:
            found = tables.mark(transaction, own)
            tables.look_again(transaction)
        if not hmac.compare_digest(found, own):
            raise BandannaError(
                f"{db.name} belongs to another task, or hides people under another secret: with this one everybody "
                "could take part once more"
            )

    def tickets(self, requests: Any) -> list[dict[str, Any]]:
        """For each {"user", "epoch", "refused"?}: {"slot", "mac", "epoch"}, or {"refused": reason}.

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

    def witness(self, document: Any) -> tuple[int, dict[str, Any] | None]:
        """Store what the analyzer says is newest: {"number", "chain", "epoch"?, "signature"}.

        (201, it) if it is news, (200, it) if it is known; (409, the stored one) if it is older, or another history of
        the same length: then the analyzer was rolled back. (403, None) if the analyzer has not signed it.
        """
        newest = _witness(document)
        signed = {name: value for name, value in document.items() if name != "signature"}
        if not verify(self._analyzer_key, canonical.dumps(signed), document.get("signature")):
            return 403, None
        with self._db.transaction() as transaction:
            known = tables.witness(transaction)
            if known is not None:
                if newest.number < known.number or newest.epoch < known.epoch:
                    return 409, canonical.loads(known.document)
                if newest.number == known.number and newest.chain != known.chain:
                    return 409, canonical.loads(known.document)
                if newest[:3] == known[:3]:
                    return 200, canonical.loads(known.document)
            tables.keep(transaction, newest)
        return 201, dict(document)

    def newest(self) -> dict[str, Any] | None:
        """The newest witness, as the analyzer has signed it."""
        with self._db.reading() as transaction:
            known = tables.witness(transaction)
        return None if known is None else canonical.loads(known.document)

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
        return Wanted(person=self._hidden(b"user|" + user.encode()), epoch=epoch, refused=refused)

    def _proved(self, epoch: Any, slot: Any, mac: Any) -> tuple[int, bytes]:
        """An epoch and its slot, if the collector has refused it."""
        if type(epoch) is not int or not 0 <= epoch <= EPOCHS:
            raise Unreadable("a refusal without an epoch")
        opened = canonical.unpacked(slot, SLOT)
        if not agrees(canonical.unpacked(mac, MAC), refusal(self._ticket_key, self._task, epoch, opened)):
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
            held[epoch] = draw_slot()
        mac = ticket(self._ticket_key, self._task, epoch, held[epoch])
        return {"slot": canonical.packed(held[epoch]), "mac": canonical.packed(mac), "epoch": epoch}

    def _hidden(self, content: bytes) -> bytes:
        return hmac.digest(self._secret, content, hashlib.sha256)


def _witness(document: Any) -> tables.Witness:
    """The parts of a witness; `epoch` is its number unless it says more."""
    if not isinstance(document, dict) or not set(document) <= {"number", "chain", "epoch", "signature"}:
        raise Unreadable("a witness has a number, a chain and a signature")
    number, chain, epoch = document.get("number"), document.get("chain"), document.get("epoch", document.get("number"))
    if type(number) is not int or type(epoch) is not int or not (0 <= number <= EPOCHS and 0 <= epoch <= EPOCHS):
        raise Unreadable("a witness whose number is none")
    if not isinstance(chain, str) or not 0 < len(chain) <= LONGEST or not chain.isascii():
        raise Unreadable("a witness without a chain")
    return tables.Witness(number, epoch, chain, canonical.dumps(document).decode())


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
