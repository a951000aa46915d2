"""Which bounds belong to a simulated result: those that its policy's class names, evaluated for its setting."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.policies import catalogue as catalogue  # imports every policy
from bandanna.policies.named import ALGORITHMS
from bandanna.storage.declared import name_of
from bandanna.theory.catalogue import BOUNDS, Curve
from bandanna.theory.settings import Setting


def bounds_for(setting: Setting, horizons: Any) -> list[Curve]:
    """Upper and lower bounds on the regret after `horizons` rounds; none for a policy that no table of ours covers."""
    rounds = np.atleast_1d(np.asarray(horizons, dtype=float))
    named = [entry.kind for entry in ALGORITHMS.values() if name_of(entry.kind) == setting.get("policy")]
    return [
        Curve(bound=BOUNDS[formula.__name__], values=np.asarray(formula(horizon=rounds, **arguments), dtype=float))
        for kind in named[:1]
        for formula, arguments in kind.bounds(setting)
    ]
