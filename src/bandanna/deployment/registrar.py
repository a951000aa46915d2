"""The registrar: tickets and witnesses."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from bandanna import validation
from bandanna.deployment.messages import canonical
from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    MAC,
    SLOT,
    Signer,
    TicketKeys,
    encode_label,
    is_equal_mac,
    mac,
    prove_unused,
    verify,
)
from bandanna.deployment.messages.publication import PublicationPin, cosigned_statement
from bandanna.deployment.messages.report import EPOCHS
from bandanna.errors import BandannaError, InvalidArgument, Unreadable
from bandanna.storage.database.base import Database, Transaction

# Tables


# users    a ticket: the user's key (a keyed hash), the epoch, the slot; a refusal deletes the row
# witness  every publication that has the cosignature; never deleted
# binding  a hash of the task and of the secret that hides users: what this database belongs to
SCHEMA = """
create table users (
    person {blob} not null, epoch {bigint} not null, slot {blob} not null, primary key (person, epoch)
);
create table witness (
    number {bigint} primary key, epoch {bigint} not null, chain text not null, document text not null,
    cosignature text not null
);
create table binding (one {bigint} primary key, mark {blob} not null);
"""

TicketsByUser = dict[bytes, dict[int, bytes]]  # key of the user -> epoch -> slot


class Witness(NamedTuple):
    """A cosigned publication: its number and chain, the epoch awaited after it, the analyzer's document, and the
    cosignature."""

    number: int
    epoch: int
    chain: str
    document: str
    cosignature: str


_WITNESS_COLUMNS = ", ".join(Witness._fields)


def select_tickets(rows: Transaction, users: Collection[bytes]) -> TicketsByUser:
    """Return the tickets of these users."""
    tickets: TicketsByUser = {user: {} for user in users}
    if tickets:
        keys = list(tickets)
        keys += keys[-1:] * ((1 << (len(keys) - 1).bit_length()) - len(keys))  # few statements, each prepared once
        places = ", ".join("?" * len(keys))
        sql = f"select person, epoch, slot from users where person in ({places})"
        for person, epoch, slot in rows.execute(sql, *keys):
            tickets[person][epoch] = slot
    return tickets


def store_changes(rows: Transaction, before: TicketsByUser, after: TicketsByUser) -> None:
    """Write the tickets that differ."""
    old, new = set(_iterate_rows(before)), set(_iterate_rows(after))
    rows.many("delete from users where person = ? and epoch = ? and slot = ?", old - new)
    rows.many("insert into users (person, epoch, slot) values (?, ?, ?)", sorted(new - old))


def _iterate_rows(tickets: TicketsByUser) -> Iterable[tuple[bytes, int, bytes]]:
    return ((person, epoch, slot) for person, own in tickets.items() for epoch, slot in own.items())


def select_witness(rows: Transaction) -> Witness | None:
    """Return the newest witness; None if there is none."""
    found = rows.execute(f"select {_WITNESS_COLUMNS} from witness order by number desc limit 1")
    return Witness(*found[0]) if found else None


# The notary


_LONGEST_CHAIN = 100  # characters
_FIELDS = {"number", "previous", "chain", "epoch", "signature"}


class Notary:
    """Cosigns one publication of each number, in transactions of the registrar's database.

    The analyzer shows a publication only with the cosignature. An analyzer whose database was restored, or a second one
    beside it, can release a batch again with fresh noise, but no other party sees that release.

    Attributes
    ----------
    behind
        Whether the analyzer has sent a publication beyond the next one. Then this database is not the newest, until the
        process ends: the tickets given since are missing too.
    """

    def __init__(self, db: Database, *, task: str, analyzer_key: str, sign: Signer) -> None:
        self._db, self._task, self._analyzer_key, self._sign = db, task, analyzer_key, sign
        self.behind = False

    def witness(self, document: Any) -> tuple[int, dict[str, Any]]:
        """Cosign the publication after the newest one, once.

        `document` is the analyzer's signed statement: number, previous chain, chain and awaited epoch.

        Returns
        -------
        tuple[int, dict[str, Any]]
            201 and the cosignature of a new publication; 200 and the same cosignature of the newest one again; 409 and
            the analyzer's statement of the newest one if another or a later one is cosigned; 409 and nothing if
            publications are or were missing here; 403 and nothing if the analyzer has not signed the document.
        """
        pin = _read_witness(document)
        statement = {name: value for name, value in document.items() if name != "signature"}
        if not verify(self._analyzer_key, self._task, "witness", canonical.dumps(statement), document["signature"]):
            return 403, {}
        with self._db.transaction() as rows:
            newest = select_witness(rows)
            number, chain, epoch = (-1, "", 0) if newest is None else (newest.number, newest.chain, newest.epoch)
            if newest is not None and pin == (number, chain):
                return 200, {"cosignature": newest.cosignature}
            self.behind = self.behind or pin.number > number + 1
            if self.behind:
                return 409, {}
            if pin.number <= number or document["previous"] != chain or document["epoch"] < epoch:
                assert newest is not None
                return 409, {"witness": canonical.loads(newest.document)}
            cosignature = self._sign("cosignature", cosigned_statement(pin))
            values = (pin.number, document["epoch"], pin.chain, canonical.dumps(document).decode(), cosignature)
            rows.execute(f"insert into witness ({_WITNESS_COLUMNS}) values (?, ?, ?, ?, ?)", *values)
        return 201, {"cosignature": cosignature}

    def newest(self) -> dict[str, Any] | None:
        """Return the newest cosigned statement; None if there is none.

        The analyzer's signature is left out: with it, any party could let a restored registrar cosign publications
        before the analyzer does.
        """
        with self._db.reading() as rows:
            newest = select_witness(rows)
        if newest is None:
            return None
        statement = {name: value for name, value in canonical.loads(newest.document).items() if name != "signature"}
        return {**statement, "cosignature": newest.cosignature}


def _read_witness(document: Any) -> PublicationPin:
    if not isinstance(document, dict) or set(document) != _FIELDS:
        raise Unreadable(f"a witness has the fields {', '.join(sorted(_FIELDS))}")
    if not all(type(document[name]) is int and 0 <= document[name] <= EPOCHS for name in ("number", "epoch")):
        raise Unreadable("a witness without a valid number or epoch")
    if not all(isinstance(document[name], str) and document[name].isascii() for name in ("previous", "chain")):
        raise Unreadable("a witness without chains")
    if not 0 < len(document["chain"]) <= _LONGEST_CHAIN or len(document["previous"]) > _LONGEST_CHAIN:
        raise Unreadable("a witness without chains")
    return PublicationPin(document["number"], document["chain"])


# Tickets


MOST_TICKETS = 1000  # in a request
LONGEST_NAME = 200  # characters of a user's name
EPOCHS_AHEAD = 2  # of the newest publication
MOST_PROOFS = 64  # of refusals in one request for a ticket


@dataclass(frozen=True, kw_only=True)
class TicketRequest:
    """One user's request for a ticket, with the refusals (epoch, slot) that were proved."""

    person: bytes
    epoch: int
    refused: tuple[tuple[int, bytes], ...]


class Registrar:
    """Gives tickets, in transactions of the registrar's database: one for each user and epoch.

    A user has at most `participations` tickets that may still be used. With the collector's proof that a slot was not
    used, and never will be, its owner gets a ticket of a later epoch. No reports are sent to the registrar.

        person = HMAC-SHA256(secret, "user" | task | user), its first 16 bytes: the key under which a user is stored
        slot   = HMAC-SHA256(secret, "slot" | task | epoch | person), likewise: the same one after a restore

    Parameters
    ----------
    ticket_keys
        By verifier, the keys that the registrar shares with it.
    secret
        The key that hides users.
    participations
        The most batches that one user may be in.
    moves
        Whether a refusal gives another ticket. It must not if reports are protected from the collector, which could
        refuse, and read, reports without end.
    """

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
        self._db, self._task, self._secret, self._collector = db, task, secret, ticket_keys[COLLECTOR]
        self._tickets = {verifier: TicketKeys(key, task, verifier) for verifier, key in ticket_keys.items()}
        self._participations = validation.integer("participations", participations)
        self._moves = moves
        own = mac(secret, encode_label("registrar"), task)
        with db.transaction() as rows:
            found = rows.execute("select mark from binding where one = 1")
            if not found:
                rows.execute("insert into binding (one, mark) values (1, ?)", own)
            if rows.dialect == "postgres":  # without statistics, it would read a restored table completely
                rows.execute("analyze users")
        if found and not hmac.compare_digest(bytes(found[0][0]), own):
            raise BandannaError(
                f"{db.name} belongs to another task, or hides users under another secret: with this one every user "
                "could take part once more"
            )

    def tickets(self, requests: Any) -> list[dict[str, Any]]:
        """Give tickets in one transaction.

        For each {"user", "epoch", "refused"?} the answer is {"epoch", "slot", "collector", "helper"?} or {"refused":
        reason}: "user" (not a text of 1 to 200 characters), "epoch" (invalid or too far ahead), "proof" (a refusal that
        the collector has not made) or "participations" (none left).
        """
        if not isinstance(requests, list) or not 0 < len(requests) <= MOST_TICKETS:
            raise InvalidArgument("tickets", type(requests).__name__, f"a list of 1 to {MOST_TICKETS} requests")
        parsed = [self._parse_request(each) for each in requests]
        users = {each.person for each in parsed if isinstance(each, TicketRequest)}
        with self._db.transaction() as rows:
            newest = select_witness(rows)
            last = EPOCHS_AHEAD + (0 if newest is None else newest.epoch)
            tickets = select_tickets(rows, users)
            before = {person: dict(own) for person, own in tickets.items()}
            answers = [
                each if isinstance(each, str) else self._give(each, tickets[each.person], last) for each in parsed
            ]
            store_changes(rows, before, tickets)
        return [{"refused": each} if isinstance(each, str) else each for each in answers]

    def counts(self) -> dict[str, int]:
        """Return the number of tickets, for the operator."""
        with self._db.reading() as rows:
            return {"tickets": int(rows.execute("select count(*) from users")[0][0])}

    def _parse_request(self, request: Any) -> TicketRequest | str:
        if not isinstance(request, Mapping) or not {"user", "epoch"} <= set(request) <= {"user", "epoch", "refused"}:
            return "user"
        user, epoch, proofs = request["user"], request["epoch"], request.get("refused", [])
        try:
            name = user.encode() if isinstance(user, str) and len(user) <= LONGEST_NAME else b""
        except UnicodeEncodeError:  # half characters
            name = b""
        if not name:
            return "user"
        if type(epoch) is not int or not 0 <= epoch <= EPOCHS:
            return "epoch"
        if not isinstance(proofs, list) or len(proofs) > MOST_PROOFS or not all(isinstance(p, list) for p in proofs):
            return "proof"
        try:
            refused = tuple(self._parse_proof(*proof) for proof in proofs)
        except (TypeError, Unreadable):
            return "proof"
        person = mac(self._secret, encode_label("user"), self._task, name)
        return TicketRequest(person=person, epoch=epoch, refused=refused)

    def _parse_proof(self, epoch: Any, slot: Any, proof: Any) -> tuple[int, bytes]:
        if type(epoch) is not int or not 0 <= epoch <= EPOCHS:
            raise Unreadable("a refusal without an epoch")
        opened = canonical.decode_base64url(slot, SLOT)
        expected = prove_unused(self._collector, self._task, epoch, opened)
        if not is_equal_mac(canonical.decode_base64url(proof, MAC), expected):
            raise Unreadable("a refusal that the collector has not made")
        return epoch, opened

    def _give(self, request: TicketRequest, tickets: dict[int, bytes], last: int) -> dict[str, Any] | str:
        epoch = request.epoch
        if epoch not in tickets:
            if epoch > last:
                return "epoch"
            for before, slot in request.refused:
                if self._moves and before < epoch and tickets.get(before) == slot:
                    del tickets[before]
            if len(tickets) >= self._participations:
                return "participations"
            parts = (encode_label("slot"), self._task, epoch.to_bytes(4, "little"), request.person)
            tickets[epoch] = mac(self._secret, *parts)
        slot = tickets[epoch]
        keys = {verifier: canonical.encode_base64url(each.key(epoch, slot)) for verifier, each in self._tickets.items()}
        return {"epoch": epoch, "slot": canonical.encode_base64url(slot), **keys}
