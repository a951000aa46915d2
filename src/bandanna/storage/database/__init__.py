"""Tables of a role in SQLite or PostgreSQL: transactions of one writer, durable when they end."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bandanna.core import require
from bandanna.errors import InvalidArgument
from bandanna.storage.database import migrations as steps
from bandanna.storage.database.base import Database, Transaction
from bandanna.storage.database.errors import Fenced, StorageFailed

__all__ = ["Database", "Fenced", "StorageFailed", "Transaction", "open_database"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_ALLOWED = "a path, sqlite:///path (sqlite:////path from the root), or postgresql://user@host/database"


def open_database(url: str, *, role: str, migrations: Sequence[str]) -> Database:
    """Open or make the tables of a role, and bring them to the newest version.

    `url`: a path or sqlite:///path, for an SQLite file; or postgresql://..., where each role has a schema of its own,
    `bandanna_<role>`. Migration i is a script that brings version i to i + 1: statements separated by ";", in SQL that
    both understand, with {blob}, {serial} (an integer primary key that counts), {bigint} and {real} for types.
    """
    steps.checked_role(role)
    if isinstance(migrations, str):
        raise InvalidArgument("migrations", migrations, "a sequence of scripts")
    scheme = _SCHEME.match(url) if isinstance(url, str) else None
    if scheme is None:
        return _sqlite(url, role, migrations)
    if scheme[1] == "sqlite" and url.startswith("sqlite:///"):
        return _sqlite(url.removeprefix("sqlite:///"), role, migrations)
    if scheme[1] in ("postgresql", "postgres") and url.startswith(f"{scheme[1]}://"):
        return _postgres(url, role, migrations)
    raise InvalidArgument("url", f"{scheme[0]}...", _ALLOWED)  # a password does not belong in a message


def _sqlite(path: str, role: str, migrations: Sequence[str]) -> Database:
    from bandanna.storage.database import sqlite

    database = sqlite.SQLiteDatabase(require.path("url", path).absolute())
    try:
        steps.migrate(database, role, migrations, types=sqlite.TYPES, tables=sqlite.TABLES)
    except BaseException:
        database.close()
        raise
    return database


def _postgres(url: str, role: str, migrations: Sequence[str]) -> Database:
    from bandanna.storage.database import postgres

    database = postgres.PostgresDatabase(url, role=role)
    schema = f"create schema if not exists {database.schema}"
    try:
        steps.migrate(database, role, migrations, types=postgres.TYPES, tables=postgres.TABLES, before=schema)
    except BaseException:
        database.close()
        raise
    return database
