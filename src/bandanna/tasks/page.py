"""A task on a page, from its document alone: what it is, what it promises, who sees what, what to expect of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from bandanna.accounting.guarantee import Guarantee
from bandanna.errors import BandannaError, Unreadable
from bandanna.policies.registry import known_as
from bandanna.tasks.beginning import first_batches
from bandanna.tasks.document import Task, leaflet_of
from bandanna.tasks.sight import record_bytes, sight
from bandanna.wire.canonical import dumps, loads
from bandanna.wire.leaflets import clients

_ODD = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_LOCAL = ("127.0.0.1", "localhost", "::1")


def facts(task: Task) -> dict[str, Any]:
    """Plain values for JSON; what the document promises is computed again from its policy first."""
    try:
        return _facts(task)
    except BandannaError:
        raise
    except _ODD as error:  # somebody else has written it
        kind = type(error).__name__
        raise Unreadable(f"task {task.id[:12]} has a part that this program does not understand ({kind})") from error


def _facts(task: Task) -> dict[str, Any]:
    check_promise(task)
    batches = first_batches(task.policy, task.arms, mixers=task.mixers, seeded=task.seed is not None, most=1)
    content = task.content
    return {
        "id": task.id,
        "title": _printable(content["title"]),
        **{name: content[name] for name in ("algorithm", "mixers", "grace", "max_age", "close", "test")},
        "trust": task.trust,
        "horizon": task.policy.horizon,
        "participations": task.policy.privacy.participations,
        "first batch": batches[0].slots if batches else 0,
        "record bytes": record_bytes(batches),
        "roles": {role: task.url(role) for role in task.roles},
        "clients": clients(content["device"]),
        "guarantee": content["guarantee"],
        "promise": str(task.policy.guarantee),
        "sight": [each._asdict() for each in sight(task)],
        "expected": content["expected"],
        "expectation": _printable(expectation(task)),
        "schema": content["schema"],
        "notes": notes(task),
    }


def check_promise(task: Task) -> None:
    """Refuse a document that promises something else than its policy keeps, up to the last digits.

    It may promise less: a price that was proven later may be lower than the one that a task was made with.
    """
    if known_as(task.content["algorithm"]).kind is not type(task.policy):
        raise BandannaError(f"task {task.id[:12]} has another policy than the name of its algorithm says")
    said = task.content["guarantee"]
    stated = _weakened(task.policy.guarantee, said)
    kept = loads(dumps(stated.to_dict()))
    if not _close(said, kept) or (said == kept and task.content["promise"] != str(stated)):
        raise BandannaError(f"task {task.id[:12]} promises something else than its policy keeps: do not use it")
    if not _close(task.content["device"], loads(dumps(leaflet_of(task)))):
        raise BandannaError(f"task {task.id[:12]} tells devices something else than its policy does: do not use it")


def _weakened(stated: Guarantee, said: dict[str, Any]) -> Guarantee:
    """A guarantee with those numbers of a document that promise no more; None is infinity.

    Streams once did not say that a user is in a batch once; agents and roles have always held users to it.
    """
    numbers = {name: math.inf if said.get(name) is None else said[name] for name in ("epsilon", "delta", "rho")}
    weaker: dict[str, Any] = {name: n for name, n in numbers.items() if type(n) is float and n >= getattr(stated, name)}
    return replace(stated, batches=stated.batches and said.get("batches") is not False, **weaker)


def _printable(text: str) -> str:
    """Nothing that a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _close(said: Any, kept: Any) -> bool:
    """Equal, but for the last digits of numbers: another machine may round them in another way."""
    if isinstance(said, dict) and isinstance(kept, dict):
        return set(said) == set(kept) and all(_close(said[name], kept[name]) for name in kept)
    if isinstance(said, list) and isinstance(kept, list):
        return len(said) == len(kept) and all(map(_close, said, kept))
    if type(said) is float and type(kept) is float:
        return math.isclose(said, kept, rel_tol=1e-6)
    return type(said) is type(kept) and bool(said == kept)


def notes(task: Task) -> list[str]:
    """What somebody who runs it must know."""
    found = []
    if task.mixers == 2:
        found += [
            "Two mixers see shares only: they cannot check that counts are within their range, so one client can move"
            " a total anywhere. Clients must be authenticated: the registrar gives tickets to known users only.",
            "What is said above of the shuffler itself holds for both mixers together: against one alone a share is"
            " uniform whatever the report is. Run them in different hands.",
        ]
    if task.content["test"]:
        known = ", noise and coins follow from a public seed" if task.seed is not None else ""
        found.append(f"This is a test{known}: it protects nobody.")
    open_ = [role for role in task.roles if _unencrypted(task.url(role))]
    if open_:
        found.append(f"Not encrypted on the way to: {', '.join(open_)}. Use https outside of one machine.")
    return found


def _unencrypted(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in _LOCAL


def expectation(task: Task) -> str:
    """The forecast as a sentence."""
    expected = task.content["expected"]
    if expected is None:
        return "Expected regret: not simulated (no typical world fits, it would take too long, or --no-forecast)."
    regret = f"{expected['regret']:,.0f} +- {expected['stderr']:,.0f}"
    return (
        f"Expected regret: {regret} in {expected['rounds']:,} rounds, where"
        f" random play loses {expected['random play']:,.0f} ({expected['environment']}; {expected['seeds']} seeds)."
    )
