"""Rows of users as files hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bandanna.policies.base import Played


def as_columns(played: Played) -> dict[str, Any]:
    """Rows as a file holds them."""
    return {each.name: value for each in fields(played) if (value := getattr(played, each.name)) is not None}


def from_columns(columns: Mapping[str, Any]) -> Played:
    """The inverse of `as_columns`."""
    return Played(**columns)
