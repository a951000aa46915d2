"""What a bound may know of a simulated result, as plain values: its setting.

`simulate` notes it of policy and world (`simulation/setting.py`): "policy" (the class), "trust", "epsilon", "delta",
"rho" of the guarantee, "dim" and "n_arms" of the world, and the policy's own numbers. A function `of_...(setting)`
beside the formulas yields those that belong to a policy, each with its arguments but the horizon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Setting = Mapping[str, Any]
Found = Iterator[tuple[Callable[..., Any], dict[str, Any]]]


def rho_of(setting: Setting) -> float:
    """zCDP of the guarantee: stated, or epsilon tanh(epsilon/2) of a pure one; infinite without privacy."""
    epsilon = float(setting["epsilon"]) if is_pure(setting) else math.inf
    pure = epsilon * math.tanh(epsilon / 2)
    return min(float(setting.get("rho", math.inf)), pure)


def is_pure(setting: Setting) -> bool:
    """Whether the guarantee has delta = 0."""
    return bool(setting.get("delta") == 0 and math.isfinite(setting.get("epsilon", math.inf)))
