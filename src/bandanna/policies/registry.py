"""Makes every algorithm of the papers by its name."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from bandanna.core.spelling import did_you_mean
from bandanna.errors import InvalidArgument
from bandanna.policies.catalogue import OTHERS as OTHERS  # imports every policy
from bandanna.policies.named import ALGORITHMS as ALGORITHMS

_BUDGET = ("rho", "epsilon", "delta", "alpha", "budget")


def make(name: str, **arguments: Any) -> Any:
    """The algorithm of that name: `make("LinUCB-SDP-Vec", dim=5, horizon=20_000, epsilon=1.0, delta=1e-5)`."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise InvalidArgument("name", name, f"{did_you_mean(name, ALGORITHMS)}one of {', '.join(ALGORITHMS)}")
    own = [each.name for each in fields(ALGORITHMS[name].kind) if each.init and each.name != "privacy"]
    known = (*ALGORITHMS[name].options, *own)
    takes = f"it takes {', '.join(known)}"
    whole = ALGORITHMS[name].whole or "budget" in own
    elsewhere = ("dim",) * ("n_arms" in own) + _BUDGET * whole  # finite arms, budgets: they have checks of their own
    for given in arguments:
        if given not in known and given not in elsewhere:
            hint = did_you_mean(given, (each for each in known if each not in arguments))
            raise InvalidArgument(given, arguments[given], f"{name} has no such argument: {hint}{takes}")
    try:
        return ALGORITHMS[name].make(**arguments)
    except TypeError as error:
        raise _absent(name, arguments, str(error), takes) from None


def _absent(name: str, arguments: dict[str, Any], complaint: str, takes: str) -> InvalidArgument:
    """Python's complaint about keywords that are not there, with those that are."""
    if "missing" in complaint and (absent := re.findall(r"'(\w+)'", complaint)):
        return InvalidArgument(absent[0], None, f"{name} needs {' and '.join(absent)}: {takes}")
    return InvalidArgument("arguments", sorted(arguments), f"those of {name}: {complaint}")
