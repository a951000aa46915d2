"""Makes and recognises the tables of a party, and opens a database by its URL."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bandanna import validation
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.storage.database.base import Database, Transaction, split_statements

_ROLE = re.compile("[a-z][a-z0-9_]{0,39}", re.ASCII)
VERSION = 1  # of the tables of every role
_ABOUT = """
create table about (role text not null, version {bigint} not null);
create table claim (one {bigint} primary key, generation {bigint} not null, holder text not null);
insert into claim (one, generation, holder) values (1, 0, '')
"""


def check_role(role: str) -> str:
    """Return a role's name, which is also part of a schema's."""
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        raise InvalidArgument("role", role, "at most 40 small letters, digits and underscores, beginning with a letter")
    return role


def make_tables(
    database: Database, role: str, schema: str, *, types: Mapping[str, str], tables: str, before: str = ""
) -> None:
    """Make a role's tables in an empty database, in one transaction; refuse those of another role or version.

    `tables` queries the names of the tables in the database; `before` runs first in a new database.
    """
    script = split_statements(schema, types)  # before anything is changed
    with database.reading() as transaction:
        if _is_made(transaction, database.name, role, tables):
            return
    with database.transaction() as transaction:
        if _is_made(transaction, database.name, role, tables):  # by another process, meanwhile
            return
        for statement in (before, *split_statements(_ABOUT, types), *script):
            if statement:
                transaction.execute(statement)
        transaction.execute("insert into about (role, version) values (?, ?)", role, VERSION)


def _is_made(transaction: Transaction, name: str, role: str, tables: str) -> bool:
    """Return whether the tables of this role exist; False in an empty database."""
    there = {table for (table,) in transaction.execute(tables)}
    if not there:
        return False
    rows = transaction.execute("select role, version from about") if "about" in there else []
    if len(rows) != 1:
        raise BandannaError(f"{name} holds other tables than ours: give another place")
    ((found, version),) = rows
    if found != role:
        raise BandannaError(f"{name} belongs to the role {found!r}, not to {role!r}: give every role its own database")
    if version != VERSION:
        raise BandannaError(
            f"{name} is of version {version}; this program knows {VERSION}: use the program that made it"
        )
    return True


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_ALLOWED = "a path, sqlite:///path (sqlite:////path from the root), or postgresql://user@host/database"


def open_database(url: str, *, role: str, schema: str) -> Database:
    """Open the tables of a role; make them in an empty database.

    Parameters
    ----------
    url
        A path or sqlite:///path, for an SQLite file; or postgresql://..., where each role has a schema of its own,
        `bandanna_<role>`.
    schema
        Statements separated by ";", in SQL that both understand, with {blob}, {serial} (an integer primary key that
        counts), {bigint} and {real} for types.
    """
    check_role(role)
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

    database = sqlite.SQLiteDatabase(validation.path("url", path).absolute())
    try:
        make_tables(database, role, schema, types=sqlite.COLUMN_TYPES, tables=sqlite.SELECT_TABLES)
    except BaseException:
        database.close()
        raise
    return database


def _postgres(url: str, role: str, schema: str) -> Database:
    from bandanna.storage.database import postgres

    database = postgres.PostgresDatabase(url, role=role)
    before = f"create schema if not exists {database.schema}"
    try:
        make_tables(database, role, schema, types=postgres.COLUMN_TYPES, tables=postgres.SELECT_TABLES, before=before)
    except BaseException:
        database.close()
        raise
    return database
