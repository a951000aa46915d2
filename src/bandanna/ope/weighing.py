"""How much everybody in a log weighs for a target, and how much of that is clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument
from bandanna.logs.log import Log
from bandanna.ope.targets import Target, target_of
from bandanna.protocols.trust import Privacy, none

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighed:
    """A log and a target: w = pi/p of everybody, cut at `bound`, which is infinite where nothing is cut.

    safe: weights cannot exceed the bound, by what is public: the log's floor and the target's largest probability.
    """

    log: Log
    target: Target
    bound: float
    safe: bool

    @cached_property
    def raw(self) -> Floats:
        """pi/p, (n,)."""
        log = self.log
        with np.errstate(over="ignore"):  # infinite, and cut: NumPy's warning would tell of somebody
            return np.asarray(self.target.chances[np.arange(len(log)), log.arms] / log.propensities)

    @cached_property
    def weights(self) -> Floats:
        """At most the bound, (n,)."""
        return np.minimum(self.raw, self.bound)

    @cached_property
    def rewards(self) -> Floats:
        """In [0, 1], (n,)."""
        return self.log.scaled_rewards()

    @property
    def people(self) -> int:
        """n."""
        return len(self.log)


def checked_privacy(privacy: Any) -> Privacy:
    """A trust model, or none."""
    if privacy is None:
        return none()
    if not isinstance(privacy, Privacy) or privacy.model == "concurrent":
        allowed = "bd.none(), bd.central(...), bd.shuffle(...) or bd.local(...): one sum over everybody in the log"
        raise InvalidArgument("privacy", getattr(privacy, "model", privacy), allowed)
    return privacy


def weighed(log: Any, target: Any, weight_bound: Any, privacy: Privacy, name: str = "target") -> Weighed:
    """With the bound that was given, or the one that is public."""
    if not isinstance(log, Log):
        raise InvalidArgument("log", type(log).__name__, "a bd.Log: bd.Log.from_frame(...)")
    return bounded(log, target_of(log, target, name), weight_bound, privacy)


def bounded(log: Log, target: Target, weight_bound: Any, privacy: Privacy) -> Weighed:
    """A target of known probabilities."""
    if privacy.noisy:
        log.check_private()
    public = math.inf if log.floor is None else target.largest / log.floor
    if weight_bound is not None:
        bound = require.positive("weight_bound", weight_bound, infinite=not privacy.noisy)
        if not (1e-6 <= bound <= 1e9 or math.isinf(bound)):
            raise InvalidArgument("weight_bound", weight_bound, "a number from 1e-6 to 1e9")
    elif privacy.noisy and math.isinf(public):
        allowed = (
            "a number M at which weights are cut, and to which the noise is in proportion; or give the log its "
            "public floor (floor=..., --floor): then weights are at most 1/floor, and none is cut"
        )
        raise InvalidArgument("weight_bound", None, allowed)
    else:
        bound = public if privacy.noisy else math.inf
    return Weighed(log=log, target=target, bound=bound, safe=bound >= public * (1 - _ROUNDING))
