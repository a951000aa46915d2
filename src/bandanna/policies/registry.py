"""Every algorithm of the papers by its name; each family lists its own."""

from __future__ import annotations

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
        raise InvalidArgument("arguments", sorted(arguments), f"those of {name}: {error}") from None
