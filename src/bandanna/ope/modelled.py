"""Models of rewards, as doubly robust estimates take them: what every arm is expected to earn from everybody."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.calling import result_of
from bandanna.core.domain import all_finite, reals
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.ope.weighing import Weighed

_ALLOWED = "rewards expected of the arms, (arms,) or (n, arms), a function of contexts to them, or a reward model"


def tables_of(case: Weighed, q: Any) -> tuple[Floats, Floats]:
    """Expected rewards on the scale of [0, 1]: of every arm, (n, K), and of the logged one, (n,)."""
    log = case.log
    low, high = log.reward_range
    if callable(q):
        made = result_of("q", q, log.contexts, _ALLOWED)
    else:
        made = q
    expected = reals("q", made, _ALLOWED)
    if expected.shape not in ((log.n_arms,), (len(log), log.n_arms)):
        raise InvalidStatistic("shape of q", Summary(expected.shape), f"({log.n_arms},) or ({len(log)}, {log.n_arms})")
    all_finite("q", expected)
    scaled = np.broadcast_to((expected - low) / (high - low), (len(log), log.n_arms))
    return scaled, scaled[np.arange(len(log)), log.arms]


def spread_of(q: Any, spread: Any, case: Weighed) -> float:
    """How far from the middle a model may be: as was said; of the same numbers for everybody, as far as they are."""
    if spread is not None:
        half = require.share("spread", spread)
        if half > 0.5:
            raise InvalidArgument("spread", spread, "a number in [0, 1/2]")
        return half
    if not callable(q) and np.ndim(q) == 1:
        low, high = case.log.reward_range
        return float(min(0.5, max(np.max(np.abs((np.asarray(q, dtype=float) - low) / (high - low) - 0.5)), 1e-3)))
    return 0.5
