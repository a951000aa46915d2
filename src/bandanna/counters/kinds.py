"""Everything that a counter's save may contain, by name, and what it must hold to make one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bandanna.core.domain import Ball, Box, Domain
from bandanna.core.shapes import Bits, SymmetricMatrix
from bandanna.protocols.base import BatchProtocol, StreamProtocol
from bandanna.protocols.central_continual import CentralContinual
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.kinds import PROTOCOLS, check_stream
from bandanna.protocols.local_bits import LocalBits
from bandanna.protocols.opening import local_kinds
from bandanna.protocols.trust import Privacy
from bandanna.storage.checks import check_source, demand, is_hex
from bandanna.storage.declared import by_name, conforms
from bandanna.storage.encoding import Encoding
from bandanna.storage.saves import Saves

ENCODING = Encoding(PROTOCOLS | by_name(Box, Ball, Bits, SymmetricMatrix))
SAVES = Saves(noun="counter", version=1, encoding=ENCODING)
_PLAIN = {
    "name": str, "secret": str, "horizon": int, "privacy": Privacy, "values": Domain, "seeded": bool | None,
    "protocol": StreamProtocol | BatchProtocol, "people": list, "so_far": dict[str, Any],
}  # fmt: skip


def check_save(content: Mapping[str, Any]) -> None:
    """Types, ranges and shapes, and parts that fit together."""
    for name, hint in _PLAIN.items():
        demand(name in content and conforms(content[name], hint), f"{name} is missing or of a wrong type")
    demand(is_hex(content["name"], 32) and is_hex(content["secret"], 64), "name or secret is not one of ours")
    protocol, horizon, values = content["protocol"], content["horizon"], content["values"]
    demand(isinstance(protocol, _expected(content["privacy"], values)), "a protocol of another trust model")
    demand(protocol.domain == values, "a protocol for other values")
    if isinstance(protocol, CentralContinual):
        demand(protocol.factorisation.horizon == horizon, "a stream of another length")
    if isinstance(protocol, ConcurrentShuffle):
        demand(protocol.tree.horizon == horizon, "a tree of another length")
    if not isinstance(protocol, Clear):
        demand(protocol.participations == content["privacy"].participations, "a protocol for other participations")
    check_so_far(content["so_far"], content)
    users = content["so_far"]["users"]
    demand(len(content["people"]) in (0, users), "users of whom some are not named")
    demand(all(is_hex(person, 64) for person in content["people"]), "a user who is none")


def check_so_far(note: Any, content: Mapping[str, Any]) -> None:
    """How far a counter is, in a save or a journal."""
    demand(conforms(note, dict[str, Any]) and set(note) == {"users", "total", "state", "source"}, "no sums so far")
    demand(type(note["users"]) is int and 0 <= note["users"] <= content["horizon"], "a wrong number of users")
    demand(isinstance(note["total"], np.ndarray) and note["total"].shape == (content["values"].dim,), "a wrong sum")
    check_stream(note["total"], np.zeros(content["values"].dim), note["users"])
    protocol = content["protocol"]
    fresh = protocol.begin() if isinstance(protocol, StreamProtocol) else None
    check_stream(note["state"], fresh, note["users"])
    demand((note["source"] is not None) == (content["seeded"] is True), "a generator where none belongs, or none")
    if note["source"] is not None:
        check_source(note["source"])


def _expected(privacy: Privacy, values: Domain) -> type | tuple[type, ...]:
    """The protocol of `models.open_protocol`."""
    if not privacy.noisy:
        return Clear
    if privacy.model == "local":
        bits = isinstance(values, Bits) and privacy.calibration == "tight"
        return LocalBits if bits else local_kinds(privacy)
    return CentralContinual if privacy.model == "central" else ConcurrentShuffle
