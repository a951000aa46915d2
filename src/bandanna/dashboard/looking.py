"""A look at the roles of a task that is known: how far its batch is, whether they are well, what they count.

Only roles of `known.asks` are called: those whose addresses the operator has given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bandanna.dashboard.asking import Asking, Silent
from bandanna.dashboard.known import Count, Filling, Known, Role
from bandanna.dashboard.telling import counts_of, filling_of, health_of, status_of


async def filling(web: Asking, known: Known) -> Filling | None:
    """Of the running batch; None if its collector does not tell."""
    assert known.task is not None
    url = known.asks.get(known.task.collector)
    if url is None:
        return None
    try:
        return filling_of(await web.get(f"{url}/tasks/{known.id}/open"))
    except Silent:
        return None


async def health(web: Asking, known: Known) -> tuple[Role, ...]:
    """Every role's word about itself."""
    return tuple([await _well(web, known, role) for role in known.roles])


async def _well(web: Asking, known: Known, role: Role) -> Role:
    url = known.asks.get(role.name)
    if url is None:
        return replace(role, state="unnamed")
    try:
        return replace(role, state=health_of(await web.get(f"{url}/healthz")))
    except Silent:
        return replace(role, state="silent")


async def inside(
    web: Asking, known: Known, tokens: Mapping[str, str]
) -> tuple[tuple[Count, ...], tuple[tuple[str, str], ...]]:
    """What is for administrators: metrics and status of the roles whose token we were given."""
    counts: list[Count] = []
    statuses: list[tuple[str, str]] = []
    for role, url in known.asks.items():
        try:
            if role in tokens:
                counts += counts_of(role, await web.get(f"{url}/metrics", token=tokens[role]))
                statuses.append((role, status_of(await web.get(f"{url}/status", token=tokens[role]))))
        except Silent as error:
            statuses.append((role, str(error)))
    return tuple(counts), tuple(statuses)
