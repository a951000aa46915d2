"""Store and read the analyzer's publications, their cosignatures and receipts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from bandanna.deployment.messages.canonical import Signer, dumps, loads
from bandanna.deployment.messages.publication import HASH, LINKS, chain_document
from bandanna.deployment.messages.share import write_receipt
from bandanna.storage.database.base import Transaction

_PIECE = 50  # publications that are read at once, where only some of what they say is wanted
_LETTERS = 1 << 22  # after so many, what is left is for the next question
_PLAIN = json.JSONDecoder()


@dataclass(frozen=True, kw_only=True)
class ServedPublication:
    """A publication as it is served.

    `entries` is the number of the ledger's last entry at that time. `cosignature` is None before it is known.
    """

    number: int
    document: bytes
    signature: str
    chain: str
    entries: int
    cosignature: str | None = None

    def read_field(self, name: str) -> Any:
        """Return a plain value of the document without parsing all of it."""
        return _read_plain_field(self.document.decode(), name)


def read_publication_row(rows: Transaction, number: int | None = None) -> ServedPublication:
    """Return the publication in force, or the one of a number; LookupError if there is none."""
    columns = "select number, document, signature, chain, entries, cosignature from releases"
    if number is None:
        found = rows.execute(columns + " order by number desc limit 1")
    else:
        found = rows.execute(columns + " where number = ?", number)
    if not found:
        raise LookupError(number)
    count, document, *others = found[0]
    signature, chain, entries, cosignature = others
    return ServedPublication(
        number=count,
        document=document.encode(),
        signature=signature,
        chain=chain,
        entries=entries,
        cosignature=cosignature,
    )


def read_history(rows: Transaction, after: int, most: int, last: int) -> list[dict[str, Any]]:
    """Return a line for each of at most `most` publications after number `after`, up to `last`; fewer if documents are
    long.
    """
    query = "select number, epoch, round, outcome, chain, document from releases"
    query += " where number > ? and number <= ? order by number"
    found: list[dict[str, Any]] = []
    letters = 0
    while len(found) < most and letters < _LETTERS:
        piece = rows.execute(
            f"{query} limit ?", found[-1]["number"] if found else after, last, min(_PIECE, most - len(found))
        )
        for number, epoch, round_, outcome, chain, document in piece:
            plain = {name: _read_plain_field(document, name) for name in ("status", "spent")}
            found.append(
                {"number": number, "epoch": epoch, "round": round_, "outcome": outcome, "chain": chain, **plain}
            )
            letters += len(document)
        if not piece:
            break
    return found


def read_document_hashes(rows: Transaction, block: int, last: int, known: bytes = b"") -> bytes:
    """Return the hashes of a block of documents, up to number `last`."""
    query = "select document from releases where number >= ? and number < ? order by number limit ?"
    found, end = bytearray(known), min(LINKS * (block + 1), last + 1)
    while piece := rows.execute(query, LINKS * block + len(found) // HASH, end, _PIECE):
        found += b"".join(hashlib.sha256(document.encode()).digest() for (document,) in piece)
    return bytes(found)


def _read_plain_field(document: str, name: str) -> Any:
    return _PLAIN.raw_decode(document, document.index(f',"{name}":') + len(name) + 4)[0]


def append_publication(
    rows: Transaction,
    document: dict[str, Any],
    sign: Signer,
    *,
    outcome: str,
    round_key: tuple[int, int],
    digests: dict[str, str],
) -> ServedPublication:
    """Sign a publication and append it to the chain, in the caller's transaction.

    `round_key` is the epoch and the round that it follows from; `digests` are those of its shares.
    """
    last = rows.execute("select number, chain from releases order by number desc limit 1")
    number, previous = (last[0][0] + 1, last[0][1]) if last else (0, "")
    content = dumps({**document, "number": number, "previous": previous})
    ((entries,),) = rows.execute("select coalesce(max(number), 0) from ledger_entries")
    made = ServedPublication(
        number=number,
        document=content,
        signature=sign("publication", content),
        chain=chain_document(previous, content),
        entries=entries,
    )
    rows.execute(
        "insert into releases values (?, ?, ?, ?, ?, ?, ?, ?, ?, null)",
        number, *round_key, outcome, content.decode(), made.signature, made.chain, dumps(digests).decode(), entries,
    )  # fmt: skip
    return made


def keep_cosignature(rows: Transaction, number: int, cosignature: str) -> None:
    """Store the registrar's cosignature, which lets the publication be served."""
    rows.execute("update releases set cosignature = ? where number = ?", cosignature, number)


def read_chain(rows: Transaction, number: int) -> str | None:
    """Return the chain of a publication; None if it does not exist."""
    found = rows.execute("select chain from releases where number = ?", number)
    return None if not found else str(found[0][0])


def read_share_digests(rows: Transaction, epoch: int, round_: int) -> dict[str, str] | None:
    """Return the digests of the shares of a released round, else None."""
    query = "select digests from releases where epoch = ? and round = ? and outcome in ('released', 'burned')"
    found = rows.execute(query, epoch, round_)
    return None if not found else dict(loads(found[0][0]))


def has_outcome(rows: Transaction, epoch: int, round_: int, outcome: str) -> bool:
    """Tell whether a round ended with this outcome."""
    query = "select 1 from releases where epoch = ? and round = ? and outcome = ?"
    return bool(rows.execute(query, epoch, round_, outcome))


def make_receipt(rows: Transaction, task: str, epoch: int, round_: int, sign: Signer) -> bytes:
    """Return a signed receipt: a round is over, and in which publication."""
    query = "select number, chain, outcome from releases where epoch = ? and round = ? and outcome <> 'begun'"
    ((number, chain, outcome),) = rows.execute(query + " order by number limit 1", epoch, round_)
    return dumps(
        write_receipt(task_id=task, epoch=epoch, round_=round_, number=number, chain=chain, outcome=outcome, sign=sign)
    )
