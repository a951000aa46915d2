"""Tables of a role in SQLite or PostgreSQL: transactions of one writer, durable when they end."""

from __future__ import annotations

import re

from bandanna.core import require
from bandanna.errors import InvalidArgument
from bandanna.storage.database import migrations as made
from bandanna.storage.database.base import Database, Transaction
from bandanna.storage.database.errors import Fenced, StorageFailed

__all__ = ["Database", "Fenced", "StorageFailed", "Transaction", "open_database"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_ALLOWED = "a path, sqlite:///path (sqlite:////path from the root), or postgresql://user@host/database"


def open_database(url: str, *, role: str, schema: str) -> Database:
    """Open the tables of a role; make them in an empty database.

    `url`: a path or sqlite:///path, for an SQLite file; or postgresql://..., where each role has a schema of its own,
    `bandanna_<role>`. `schema`: a script of statements separated by ";", in SQL that both understand, with {blob},
    {serial} (an integer primary key that counts), {bigint} and {real} for types.
    """
    made.checked_role(role)
    if not isinstance(schema, str):
        raise InvalidArgument("schema", schema, "a script")
    scheme = _SCHEME.match(url) if isinstance(url, str) else None
    if scheme is None:
        return _sqlite(url, role, schema)
    if scheme[1] == "sqlite" and url.startswith("sqlite:///"):
        return _sqlite(url.removeprefix("sqlite:///"), role, schema)
    if scheme[1] in ("postgresql", "postgres") and url.startswith(f"{scheme[1]}://"):
        return _postgres(url, role, schema)
    raise InvalidArgument("url", f"{scheme[0]}...", _ALLOWED)  # a password does not belong in a message


def _sqlite(path: str, role: str, schema: str) -> Database:
    from bandanna.storage.database import sqlite

    database = sqlite.SQLiteDatabase(require.path("url", path).absolute())
    try:
        made.make_tables(database, role, schema, types=sqlite.TYPES, tables=sqlite.TABLES)
    except BaseException:
        database.close()
        raise
    return database


def _postgres(url: str, role: str, schema: str) -> Database:
    from bandanna.storage.database import postgres

    database = postgres.PostgresDatabase(url, role=role)
    before = f"create schema if not exists {database.schema}"
    try:
        made.make_tables(database, role, schema, types=postgres.TYPES, tables=postgres.TABLES, before=before)
    except BaseException:
        database.close()
        raise
    return database
