"""The registrar as notary: of every number it cosigns one publication, whatever the analyzer's database says later.

The analyzer shows a publication to nobody before it has the cosignature. So an analyzer whose database was restored, or
a second one beside it, can release a batch once more, with fresh noise, but nobody ever sees what it has released.
"""

from __future__ import annotations

from typing import Any

from bandanna.errors import Unreadable
from bandanna.roles.registrar import tables
from bandanna.roles.registrar.tables import Witness
from bandanna.storage.database import Database
from bandanna.wire import canonical
from bandanna.wire.keys import Signer, verify
from bandanna.wire.publications import Pin, head
from bandanna.wire.record import EPOCHS

_LONGEST = 100  # characters of a chain
_FIELDS = {"number", "previous", "chain", "epoch", "signature"}


class Notary:
    """What stands, in transactions of the registrar's database.

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
        Whether the analyzer has told of a publication beyond the next one: then this database is not the newest.
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
            publications are missing here; 403 and nothing if the analyzer has not signed the document.
        """
        told = _told(document)
        signed = {name: value for name, value in document.items() if name != "signature"}
        if not verify(self._analyzer_key, self._task, "witness", canonical.dumps(signed), document["signature"]):
            return 403, {}
        with self._db.transaction() as transaction:
            known = tables.witness(transaction)
            number, chain, epoch = (-1, "", 0) if known is None else (known.number, known.chain, known.epoch)
            if known is not None and told == (number, chain):
                return 200, {"cosignature": known.cosignature}
            self.behind = told.number > number + 1
            if self.behind:
                return 409, {}
            if told.number <= number or document["previous"] != chain or document["epoch"] < epoch:
                assert known is not None
                return 409, {"witness": canonical.loads(known.document)}
            cosignature = self._sign("cosignature", head(told))
            text = canonical.dumps(document).decode()
            tables.keep(transaction, Witness(told.number, document["epoch"], told.chain, text, cosignature))
        return 201, {"cosignature": cosignature}

    def newest(self) -> dict[str, Any] | None:
        """What the analyzer has said of the newest publication, and the cosignature."""
        with self._db.reading() as transaction:
            known = tables.witness(transaction)
        return None if known is None else {**canonical.loads(known.document), "cosignature": known.cosignature}


def _told(document: Any) -> Pin:
    """The number and the chain of a document whose fields are what they have to be."""
    if not isinstance(document, dict) or set(document) != _FIELDS:
        raise Unreadable(f"a witness has the fields {', '.join(sorted(_FIELDS))}")
    if not all(type(document[name]) is int and 0 <= document[name] <= EPOCHS for name in ("number", "epoch")):
        raise Unreadable("a witness whose number or epoch is none")
    if not all(isinstance(document[name], str) and document[name].isascii() for name in ("previous", "chain")):
        raise Unreadable("a witness without chains")
    if not 0 < len(document["chain"]) <= _LONGEST or len(document["previous"]) > _LONGEST:
        raise Unreadable("a witness without chains")
    return Pin(document["number"], document["chain"])
