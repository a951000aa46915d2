"""Of every number the registrar cosigns one publication."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bandanna.deployment.messages.canonical import dumps, sign, signing_key
from bandanna.deployment.messages.publication import PublicationPin, is_cosigned
from bandanna.deployment.registrar import SCHEMA, Notary
from bandanna.errors import BandannaError
from bandanna.storage.database.base import Database, open_database

from ...postgres import postgres_url  # noqa: F401  # a fixture

TASK, (PRIVATE, PUBLIC), (OWN, KNOWN) = "the-task", signing_key(), signing_key()


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url = str(tmp_path / "r.db") if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    database = open_database(url, role="registrar", schema=SCHEMA)
    yield database
    database.close()


def notary(db: Database) -> Notary:
    return Notary(db, task=TASK, analyzer_key=PUBLIC, sign=partial(sign, OWN, TASK))


def told(number: int, chain: str, previous: str = "", *, private: str = PRIVATE, **others: Any) -> dict[str, Any]:
    document = {"number": number, "previous": previous, "chain": chain, "epoch": number, **others}
    return {**document, "signature": sign(private, TASK, "witness", dumps(document))}


def test_of_every_number_one_publication_is_cosigned(db: Database) -> None:
    one = notary(db)
    assert one.newest() is None
    status, first = one.witness(told(0, "a"))
    assert status == 201
    assert is_cosigned(PublicationPin(0, "a"), first["cosignature"], task_id=TASK, key=KNOWN)
    assert one.witness(told(0, "a")) == notary(db).witness(told(0, "a")) == (200, first)
    assert one.witness(told(0, "b")) == (409, {"witness": told(0, "a")})
    assert one.witness(told(1, "b", "a"))[0] == 201
    standing = (409, {"witness": told(1, "b", "a")})
    assert one.witness(told(0, "a")) == standing  # whoever tells of an older one lags behind
    assert one.witness(told(1, "c", "a")) == standing
    assert one.witness(told(2, "c", "a")) == standing  # it does not follow upon the newest
    assert one.witness(told(2, "c", "b", epoch=0)) == standing
    shown = {name: value for name, value in told(1, "b", "a").items() if name != "signature"}
    assert one.newest() == {**shown, "cosignature": one.witness(told(1, "b", "a"))[1]["cosignature"]}


def test_a_notary_that_lacks_publications_cosigns_none(db: Database) -> None:
    one = notary(db)
    one.witness(told(0, "a"))
    for number, chain, previous in ((2, "c", "b"), (1, "b", "a"), (2, "c", "b")):
        assert one.witness(told(number, chain, previous)) == (409, {})
        assert one.behind
    assert one.newest()["number"] == 0  # type: ignore[index]


def test_a_notary_accepts_only_the_analyzers_signature(db: Database) -> None:
    one = notary(db)
    assert one.witness(told(0, "a", private=signing_key()[0])) == (403, {})
    assert one.witness({**told(0, "a"), "chain": "b"}) == (403, {})
    other = {name: value for name, value in told(9, "a").items() if name != "signature"}
    assert one.witness({**other, "signature": sign(PRIVATE, TASK, "publication", dumps(other))}) == (403, {})
    assert not one.behind
    odd = [None, {}, [], {"number": 4}, told(-1, "a"), told(0, ""), {**told(0, "a"), "more": 1}, told(2**40, "a")]
    for document in [*odd, told(0, "a", "x" * 101), told(0, "x" * 101), told(True, "a"), told(0, "\u00e9")]:  # type: ignore[arg-type]
        with pytest.raises(BandannaError):
            one.witness(document)
    assert one.newest() is None
