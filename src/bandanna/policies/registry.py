"""Makes every algorithm of the papers by its name, and a policy of one's own by its place."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from bandanna.core.spelling import did_you_mean
from bandanna.errors import InvalidArgument
from bandanna.policies.catalogue import OTHERS as OTHERS  # imports every policy
from bandanna.policies.elsewhere import algorithm_at, is_place
from bandanna.policies.named import ALGORITHMS as ALGORITHMS
from bandanna.policies.named import Algorithm

_BUDGET = ("rho", "epsilon", "delta", "alpha", "budget")


def known_as(name: Any) -> Algorithm:
    """The algorithm of that name, or of that place: "module:Class"."""
    if is_place(name):
        return algorithm_at(name)
    if not isinstance(name, str) or name not in ALGORITHMS:
        allowed = f"{did_you_mean(name, ALGORITHMS)}one of {', '.join(ALGORITHMS)}, or module:Class"
        raise InvalidArgument("name", name, allowed)
    return ALGORITHMS[name]


def make(name: str, **arguments: Any) -> Any:
    """The algorithm of that name: `make("LinUCB-SDP-Vec", dim=5, horizon=20_000, epsilon=1.0, delta=1e-5)`.

    Of a policy of one's own, `make("my_module:MyPolicy", trust="shuffle", ...)`.
    """
    entry = known_as(name)
    own = [each.name for each in fields(entry.kind) if each.init and each.name != "privacy"]
    known = (*entry.options, *own, "privacy")
    takes = f"it takes {', '.join(known)}"
    whole = entry.whole or "budget" in own
    elsewhere = ("dim",) * ("n_arms" in own) + _BUDGET * whole  # finite arms, budgets: they have checks of their own
    for given in arguments:
        if given not in known and given not in elsewhere:
            hint = did_you_mean(given, (each for each in known if each not in arguments))
            raise InvalidArgument(given, arguments[given], f"{name} has no such argument: {hint}{takes}")
    try:
        return entry.make(**arguments)
    except TypeError as error:
        raise _absent(name, arguments, str(error), takes) from None


def _absent(name: str, arguments: dict[str, Any], complaint: str, takes: str) -> InvalidArgument:
    """Python's complaint about keywords that are not there, with those that are."""
    if "missing" in complaint and (absent := re.findall(r"'(\w+)'", complaint)):
        return InvalidArgument(absent[0], None, f"{name} needs {' and '.join(absent)}: {takes}")
    return InvalidArgument("arguments", sorted(arguments), f"those of {name}: {complaint}")
