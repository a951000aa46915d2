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
from bandanna.tasks.join import check_joins
from bandanna.tasks.sight import guarantee_of_task, record_bytes, sight
from bandanna.wire.canonical import dumps, loads
from bandanna.wire.leaflets import clients

_ODD = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, StopIteration, TypeError,
        ValueError)  # fmt: skip
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
    if not task.content["dealer"] and task.content["keys"]:
        check_joins(task)
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
        "dealer": content["dealer"],
        "operators": {role: _printable(each["operator"]) for role, each in content["joins"].items()},
        "clients": clients(content["device"]),
        "guarantee": content["guarantee"],
        "promise": str(guarantee_of_task(task)),
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
    stated = _weakened(guarantee_of_task(task), said)
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
    if task.content["dealer"]:
        found.append(
            "One machine knew all keys: whoever made the task could be every role. Where roles are in different hands,"
            " let each draw its own: bandanna task draft, then join."
        )
    elif not task.content["keys"]:
        found.append("A draft: its roles have not joined yet, and nobody can serve it.")
    else:
        operators = {role: each["operator"] for role, each in task.content["joins"].items()}
        runs = "; ".join(f"{role}: {_printable(operator)}" for role, operator in operators.items())
        found.append(f"Each role has drawn its own keys. Operators: {runs}.")
        for one, other in (("shuffler", "helper"), ("registrar", "analyzer")):
            if one in operators and operators[one] == operators.get(other):
                found.append(f"{one} and {other} have one operator: against it they are one party.")
    if task.trust in ("shuffle", "concurrent") and task.policy.privacy.noise != "mixer":
        who = "the registrar, the host with its token" + (" or the shuffler" if task.mixers == 1 else "")
        found.append(
            "What is released has the noise of a whole batch, or of all people of an arm where arms are assigned. If"
            f" {who} invents all others of a batch, one person's noise is left, against everybody: see the registrar's"
            " row."
        )
    if task.mixers == 2:
        found += [
            "Two mixers see shares only: they cannot check that counts are within their range, so one client can move"
            " a total anywhere. Clients must be authenticated: the registrar gives tickets to known users only.",
            "One share is uniform whatever the report is, but both mixers together see every report. Run them in"
            " different hands.",
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
