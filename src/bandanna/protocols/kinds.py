"""What a file may say of protocols, by name: their parameters, and the states of their streams."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from bandanna.accounting.budgets import ZCDP, ApproxDP, PureDP, RenyiDP
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.encoding import EVENTS
from bandanna.mechanisms.continual import BLTState, Node, TreeState
from bandanna.protocols.central_continual import CentralContinual
from bandanna.protocols.central_continual import analyzer as central
from bandanna.protocols.central_gaussian import CentralGaussian
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import BatchTree, ConcurrentShuffle, HeldLevels
from bandanna.protocols.concurrent_shuffle import Running as ConcurrentRunning
from bandanna.protocols.local_bits import LocalBits
from bandanna.protocols.local_gaussian import LocalGaussian
from bandanna.protocols.local_unit import LocalUnit
from bandanna.protocols.roles import Held
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_gaussian import ShuffleGaussian
from bandanna.protocols.trust import Privacy
from bandanna.storage.checks import demand
from bandanna.storage.declared import by_name, conforms

PROTOCOLS = EVENTS | by_name(
    Privacy,
    PureDP,
    ApproxDP,
    ZCDP,
    RenyiDP,
    Clear,
    CentralContinual,
    CentralGaussian,
    LocalGaussian,
    LocalBits,
    LocalUnit,
    ShuffleGaussian,
    ShuffleBinomial,
    ConcurrentShuffle,
    BatchTree,
    BinomialNoise,
    central.Running,
    ConcurrentRunning,
    HeldLevels,
    Held,
    BLTState,
    TreeState,
    Node,
)
_LARGEST = 1e150  # of a number in a state: its square is a float


def check_stream(given: Any, fresh: Any, steps: int) -> None:
    """Of the same make as a state before the first step: types, shapes, finite numbers."""
    demand(type(given) is type(fresh) or (conforms(given, float) and type(fresh) is float), "a state of a wrong make")
    if isinstance(given, np.ndarray):
        demand(given.shape == fresh.shape and given.dtype == fresh.dtype, "a state of a wrong shape")
        demand(bool(np.all(np.abs(given) <= _LARGEST)), "a state with numbers that no sum has")  # False for NaN
    elif isinstance(given, tuple):
        demand(len(given) == len(fresh), "a state of a wrong length")
        for part, other in zip(given, fresh, strict=True):
            check_stream(part, other, steps)
    elif isinstance(given, TreeState):
        demand(given.step == steps and len(given.nodes) == steps.bit_count(), "a tree with other nodes")
        for node in given.nodes:
            check_stream(node, Node(exact=fresh.total, rest=fresh.total, estimate=fresh.total), steps)
        check_stream(given.total, fresh.total, steps)
    elif is_dataclass(given):
        demand(getattr(given, "step", steps) == steps, "a stream at another step")
        for field in fields(given):
            check_stream(getattr(given, field.name), getattr(fresh, field.name), steps)
    elif given is not None:
        demand(0 <= given <= _LARGEST, "a state with a count that is none")
