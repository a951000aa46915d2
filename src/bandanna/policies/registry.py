"""Every algorithm of the papers by its name; each family lists its own."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import Any

from bandanna.errors import InvalidArgument
from bandanna.policies.concentrated_names import CONCENTRATED
from bandanna.policies.elimination_names import ELIMINATION
from bandanna.policies.glm.names import GENERALISED
from bandanna.policies.linucb_names import LINUCB
from bandanna.policies.named import Algorithm

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm for family in (LINUCB, ELIMINATION, CONCENTRATED, GENERALISED) for algorithm in family
}


def make(name: str, **arguments: Any) -> Any:
    """The algorithm of that name: `make("LinUCB-SDP-Vec", dim=5, horizon=20_000, epsilon=1.0, delta=1e-5)`."""
    if name not in ALGORITHMS:
        raise InvalidArgument("name", name, "one of " + ", ".join(ALGORITHMS))
    try:
        return ALGORITHMS[name].make(**arguments)
    except TypeError as error:
        raise _named_argument(name, arguments, str(error)) from None


def _named_argument(name: str, arguments: dict[str, Any], complaint: str) -> InvalidArgument:
    """Python's complaint about a keyword, with its value and, where they are known, the keywords that there are."""
    kind, options, takes = ALGORITHMS[name].kind, ALGORITHMS[name].options, ""
    if kind is not None and is_dataclass(kind):
        own = [each.name for each in fields(kind) if each.init and each.name != "privacy"]
        takes = f": it takes {', '.join((*options, *own))}"
    if "missing" in complaint and (absent := re.findall(r"'(\w+)'", complaint)):
        return InvalidArgument(absent[0], None, f"{name} needs {' and '.join(absent)}{takes}")
    found = re.search(r"(unexpected|multiple values for) keyword argument '(\w+)'", complaint)
    if found is None or found[2] not in arguments:
        return InvalidArgument("arguments", sorted(arguments), f"those of {name}: {complaint}")
    return InvalidArgument(found[2], arguments[found[2]], f"{name} has no such argument{takes}")
