"""A look at the roles of a task that is known: how far its batch is, whether they are well, what they count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bandanna.dashboard.asking import Asking, Silent
from bandanna.dashboard.known import Count, Filling, Known, Role
from bandanna.dashboard.telling import counts_of, filling_of, health_of, status_of


def _url(known: Known, role: str) -> str:
    """The analyzer is asked where it was found, the others where the task says."""
    assert known.task is not None
    return known.url if role == "analyzer" else known.task.url(role)


async def filling(web: Asking, known: Known) -> Filling | None:
    """Of the running batch; None if its collector does not tell."""
    assert known.task is not None
    try:
        return filling_of(await web.get(f"{_url(known, known.task.collector)}/tasks/{known.id}/open"))
    except Silent:
        return None


async def health(web: Asking, known: Known) -> tuple[Role, ...]:
    """Every role's word about itself."""
    return tuple([await _well(web, known, role) for role in known.roles])


async def _well(web: Asking, known: Known, role: Role) -> Role:
    try:
        return replace(role, state=health_of(await web.get(f"{_url(known, role.name)}/healthz")))
    except Silent:
        return replace(role, state="silent")


async def inside(
    web: Asking, known: Known, tokens: Mapping[str, str]
) -> tuple[tuple[Count, ...], tuple[tuple[str, str], ...]]:
    """What is for administrators: metrics, and the status of roles whose token we were given."""
    counts: list[Count] = []
    statuses: list[tuple[str, str]] = []
    for role in known.roles:
        try:
            counts += counts_of(role.name, await web.get(f"{role.url}/metrics"))
            if role.name in tokens:
                statuses.append((role.name, status_of(await web.get(f"{role.url}/status", token=tokens[role.name]))))
        except Silent as error:
            statuses.append((role.name, str(error)))
    return tuple(counts), tuple(statuses)
