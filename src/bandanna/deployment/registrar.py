"""The registrar: tickets, witnesses and tables."""

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


# users     a ticket that was given: the person (a keyed hash), the epoch, the slot
#           none -> given -> moved: a refusal takes the row away, and a later epoch gets another one
# witness   every publication that the analyzer has told of, with the cosignature: none -> stands, for ever
# binding   what this database belongs to: a hash of the task and of the key that hides people
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

TicketsByUser = dict[bytes, dict[int, bytes]]  # person -> epoch -> slot


class Witness(NamedTuple):
    """A publication that stands: its number and chain, the epoch that is awaited after it, what the analyzer has signed
    of it, and the registrar's own signature."""

    number: int
    epoch: int
    chain: str
    document: str
    cosignature: str


def select_tickets(transaction: Transaction, people: Collection[bytes]) -> TicketsByUser:
    """The tickets of these people."""
    held: TicketsByUser = {person: {} for person in people}
    if not held:
        return held
    asked = list(held)
    asked += asked[-1:] * ((1 << (len(asked) - 1).bit_length()) - len(asked))  # few statements, each prepared once
    places = ", ".join("?" * len(asked))
    rows = transaction.execute(f"select person, epoch, slot from users where person in ({places})", *asked)
    for person, epoch, slot in rows:
        held[person][epoch] = slot
    return held


def store_changes(transaction: Transaction, before: TicketsByUser, after: TicketsByUser) -> None:
    """Write what is different."""
    gone, new = set(_rows(before)) - set(_rows(after)), set(_rows(after)) - set(_rows(before))
    transaction.many("delete from users where person = ? and epoch = ? and slot = ?", gone)
    transaction.many("insert into users (person, epoch, slot) values (?, ?, ?)", sorted(new))


def select_witness(transaction: Transaction) -> Witness | None:
    """The newest, if there is any."""
    columns = ", ".join(Witness._fields)
    rows = transaction.execute(f"select {columns} from witness order by number desc limit 1")
    return Witness(*rows[0]) if rows else None


def store_witness(transaction: Transaction, newest: Witness) -> None:
    """One more: a number that stands already is refused."""
    columns = ", ".join(Witness._fields)
    transaction.execute(f"insert into witness ({columns}) values (?, ?, ?, ?, ?)", *newest)


def check_registrar_task(transaction: Transaction, own: bytes) -> bytes:
    """What the database belongs to; `own` if it is new."""
    rows = transaction.execute("select mark from binding where one = 1")
    if rows:
        return bytes(rows[0][0])
    transaction.execute("insert into binding (one, mark) values (1, ?)", own)
    return own


def analyze_tables(transaction: Transaction) -> None:
    """PostgreSQL plans by what it knows of a table: of one that was just restored, nothing, and it would read all."""
    if transaction.dialect == "postgres":
        transaction.execute("analyze users")


def count_tickets(transaction: Transaction) -> int:
    """How many tickets there are."""
    return int(transaction.execute("select count(*) from users")[0][0])


def _rows(held: TicketsByUser) -> Iterable[tuple[bytes, int, bytes]]:
    return ((person, epoch, slot) for person, tickets in held.items() for epoch, slot in tickets.items())


# The notary


_LONGEST = 100  # characters of a chain
_FIELDS = {"number", "previous", "chain", "epoch", "signature"}


class Notary:
    """Cosign one publication of each number, in transactions of the registrar's database.

    The analyzer shows a publication only with the cosignature. An analyzer whose database was restored, or a second one
    beside it, can release a batch again with fresh noise, but nobody sees what it releases.

    Parameters
    ----------
    task
        The id of the task.
    analyzer_key
        The public key by which the analyzer signs what it tells.
    sign
        Signs by the registrar's own key.

    Attributes
    ----------
    behind
        Whether the analyzer has told of a publication beyond the next one: then this database is not the newest, until
        the process ends. To be told of the missing ones, by whoever has kept what the analyzer signed, mends nothing:
        the tickets that were given since are missing too.
    """

    def __init__(self, db: Database, *, task: str, analyzer_key: str, sign: Signer) -> None:
        self._db, self._task, self._analyzer_key, self._sign = db, task, analyzer_key, sign
        self.behind = False

    def witness(self, document: Any) -> tuple[int, dict[str, Any]]:
        """Cosign the publication after the newest one, once.

        Parameters
        ----------
        document
            What the analyzer tells: number, previous chain, chain, awaited epoch, and its signature of these.

        Returns
        -------
        tuple[int, dict[str, Any]]
            201 and the cosignature of a new publication, 200 and the same cosignature of the newest one told again,
            409 and what the analyzer has said of the newest one if that is another, or a later one; 409 and nothing if
            publications are missing here, or were; 403 and nothing if the analyzer has not signed the document.
        """
        told = _read_witness(document)
        signed = {name: value for name, value in document.items() if name != "signature"}
        if not verify(self._analyzer_key, self._task, "witness", canonical.dumps(signed), document["signature"]):
            return 403, {}
        with self._db.transaction() as transaction:
            known = select_witness(transaction)
            number, chain, epoch = (-1, "", 0) if known is None else (known.number, known.chain, known.epoch)
            if known is not None and told == (number, chain):
                return 200, {"cosignature": known.cosignature}
            self.behind = self.behind or told.number > number + 1
            if self.behind:
                return 409, {}
            if told.number <= number or document["previous"] != chain or document["epoch"] < epoch:
                assert known is not None
                return 409, {"witness": canonical.loads(known.document)}
            cosignature = self._sign("cosignature", cosigned_statement(told))
            text = canonical.dumps(document).decode()
            store_witness(transaction, Witness(told.number, document["epoch"], told.chain, text, cosignature))
        return 201, {"cosignature": cosignature}

    def newest(self) -> dict[str, Any] | None:
        """The newest publication that stands, with the cosignature.

        The analyzer's signature is not shown: who has it could bring a restored registrar, which lacks publications, to
        cosign them before the analyzer is heard.
        """
        with self._db.reading() as transaction:
            known = select_witness(transaction)
        if known is None:
            return None
        shown = {name: value for name, value in canonical.loads(known.document).items() if name != "signature"}
        return {**shown, "cosignature": known.cosignature}


def _read_witness(document: Any) -> PublicationPin:
    """The number and the chain of a document whose fields are what they have to be."""
    if not isinstance(document, dict) or set(document) != _FIELDS:
        raise Unreadable(f"a witness has the fields {', '.join(sorted(_FIELDS))}")
    if not all(type(document[name]) is int and 0 <= document[name] <= EPOCHS for name in ("number", "epoch")):
        raise Unreadable("a witness whose number or epoch is none")
    if not all(isinstance(document[name], str) and document[name].isascii() for name in ("previous", "chain")):
        raise Unreadable("a witness without chains")
    if not 0 < len(document["chain"]) <= _LONGEST or len(document["previous"]) > _LONGEST:
        raise Unreadable("a witness without chains")
    return PublicationPin(document["number"], document["chain"])


# Tickets


MOST = 1000  # tickets in a request
LONGEST = 200  # characters of a user's name
AHEAD = 2  # epochs beyond the newest that is known
PROOFS = 64  # refusals that one user may bring along


@dataclass(frozen=True, kw_only=True)
class TicketRequest:
    """One person's wish for a ticket, and the refusals (epoch, slot) that were proved."""

    person: bytes
    epoch: int
    refused: tuple[tuple[int, bytes], ...]


class Registrar:
    """Give tickets, in transactions of the registrar's database: one for each user and epoch.

    At most `participations` tickets of a user may still be used. A proof of the collector that a slot was not used, and
    never will be, gives its owner a ticket of a later epoch. Nothing that people report comes here. Many tickets are
    asked for at once, so a refusal is one of the answers.

        person = HMAC-SHA256(secret, "user" | task | user), its first 16 bytes: the key under which a user is stored
        slot   = HMAC-SHA256(secret, "slot" | task | epoch | person), likewise: the same one after a restore
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
        """ticket_keys: by verifier, those that this registrar and it share.

        moves: whether a refusal gives another ticket; not where the collector is whom reports are protected from,
        who has seen what it refuses and could refuse for ever.
        """
        self._db, self._task, self._secret, self._collector = db, task, secret, ticket_keys[COLLECTOR]
        self._tickets = {verifier: TicketKeys(key, task, verifier) for verifier, key in ticket_keys.items()}
        self._participations = validation.integer("participations", participations)
        self._moves = moves
        own = mac(secret, encode_label("registrar"), task)
        with db.transaction() as transaction:
            found = check_registrar_task(transaction, own)
            analyze_tables(transaction)
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
        people = {each.person for each in wanted if isinstance(each, TicketRequest)}
        with self._db.transaction() as transaction:
            known = select_witness(transaction)
            last = AHEAD + (0 if known is None else known.epoch)
            held = select_tickets(transaction, people)
            before = {person: dict(tickets) for person, tickets in held.items()}
            answers = [each if isinstance(each, str) else self._given(each, held[each.person], last) for each in wanted]
            store_changes(transaction, before, held)
        return [{"refused": each} if isinstance(each, str) else each for each in answers]

    def counts(self) -> dict[str, int]:
        """For the administrator."""
        with self._db.reading() as transaction:
            return {"tickets": count_tickets(transaction)}

    def _wanted(self, request: Any) -> TicketRequest | str:
        """What was asked for, or the reason why it is nothing."""
        if not isinstance(request, Mapping) or not {"user", "epoch"} <= set(request) <= {"user", "epoch", "refused"}:
            return "user"
        user, epoch, proofs = request["user"], request["epoch"], request.get("refused", [])
        if not isinstance(user, str) or not 0 < len(user) <= LONGEST or not _is_writable_text(user):
            return "user"
        if type(epoch) is not int or not 0 <= epoch <= EPOCHS:
            return "epoch"
        try:
            refused = tuple(self._parse_proof(*proof) for proof in _list_proofs(proofs))
        except (TypeError, Unreadable):
            return "proof"
        person = mac(self._secret, encode_label("user"), self._task, user.encode())
        return TicketRequest(person=person, epoch=epoch, refused=refused)

    def _parse_proof(self, epoch: Any, slot: Any, proof: Any) -> tuple[int, bytes]:
        """An epoch and its slot, if the collector has refused it."""
        if type(epoch) is not int or not 0 <= epoch <= EPOCHS:
            raise Unreadable("a refusal without an epoch")
        opened = canonical.decode_base64url(slot, SLOT)
        if not is_equal_mac(
            canonical.decode_base64url(proof, MAC), prove_unused(self._collector, self._task, epoch, opened)
        ):
            raise Unreadable("a refusal that nobody has made")
        return epoch, opened

    def _given(self, wanted: TicketRequest, held: dict[int, bytes], last: int) -> dict[str, Any] | str:
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
            held[epoch] = mac(
                self._secret, encode_label("slot"), self._task, epoch.to_bytes(4, "little"), wanted.person
            )
        slot = held[epoch]
        keys = {verifier: canonical.encode_base64url(each.key(epoch, slot)) for verifier, each in self._tickets.items()}
        return {"epoch": epoch, "slot": canonical.encode_base64url(slot), **keys}


def _list_proofs(proofs: Any) -> list[Any]:
    if not isinstance(proofs, list) or len(proofs) > PROOFS or not all(isinstance(each, list) for each in proofs):
        raise Unreadable("refusals that are no list")
    return proofs


def _is_writable_text(text: str) -> bool:
    """Whether it can be written: no half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
