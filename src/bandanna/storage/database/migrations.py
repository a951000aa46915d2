"""Bringing a database to the version that a program knows, one transaction for each step."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bandanna.errors import BandannaError, InvalidArgument
from bandanna.storage.database.base import Database, Transaction
from bandanna.storage.database.statements import statements

_ROLE = re.compile("[a-z][a-z0-9_]{0,39}", re.ASCII)
_ABOUT = """
create table about (role text not null, version {bigint} not null);
create table claim (one {bigint} primary key, generation {bigint} not null, holder text not null);
insert into claim (one, generation, holder) values (1, 0, '')
"""


def checked_role(role: str) -> str:
    """A role's name, which is also part of a schema's."""
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        raise InvalidArgument("role", role, "at most 40 small letters, digits and underscores, beginning with a letter")
    return role


def migrate(
    database: Database, role: str, migrations: Sequence[str], *, types: Mapping[str, str], tables: str, before: str = ""
) -> None:
    """Apply what is missing; refuse another role's tables and those of a newer program.

    `tables` asks for the names of the tables that are there, `before` is done first in a new database.
    """
    scripts = [statements(script, types) for script in migrations]  # before anything is changed
    with database.reading() as transaction:
        if _version(transaction, database.name, role, len(scripts), tables) == len(scripts):
            return
    while True:
        with database.transaction() as transaction:
            version = _version(transaction, database.name, role, len(scripts), tables)
            if version == len(scripts):
                return
            if version is None:
                for statement in (before, *statements(_ABOUT, types)):
                    if statement:
                        transaction.execute(statement)
                transaction.execute("insert into about (role, version) values (?, 0)", role)
                version = 0
            for statement in scripts[version] if scripts else ():
                transaction.execute(statement)
            transaction.execute("update about set version = ?", min(version + 1, len(scripts)))


def _version(transaction: Transaction, name: str, role: str, known: int, tables: str) -> int | None:
    """Which version is there; None in an empty database."""
    there = {table for (table,) in transaction.execute(tables)}
    if not there:
        return None
    rows = transaction.execute("select role, version from about") if "about" in there else []
    if len(rows) != 1:
        raise BandannaError(f"{name} holds other tables than ours: give another place")
    ((found, version),) = rows
    if found != role:
        raise BandannaError(f"{name} belongs to the role {found!r}, not to {role!r}: give every role its own database")
    if version > known:
        raise BandannaError(
            f"{name} is of version {version}; this program knows {known}: use the newer program that has written it"
        )
    return int(version)
