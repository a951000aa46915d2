"""The arms of an agent or a task whose arms stay: names, or names and features, that suit its policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arm_sets import FixedArms, arms_of
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Policy


def fixed_arms(policy: Policy[Any], arms: Any) -> FixedArms | None:
    """The arms of a policy without contexts: names, of arms without features, or features as `act` takes them."""
    count = getattr(policy, "n_arms", None)
    if count is None:
        if arms is None:
            return None
        ids, features = arms_of(arms, features_of(policy), "arms")
        return FixedArms(ids=_names(ids), features=features)
    names = range(count) if arms is None else require.several("arms", arms, f"{count} names")
    if len(names) != count or len(set(names)) != count:
        raise InvalidArgument("arms", arms, f"{count} names, all different: one for each arm of the policy")
    users = features_of(policy)
    return FixedArms(ids=_names(names), features=np.zeros((count, users)), of_users=users > 0)


def features_of(policy: Policy[Any]) -> int:
    """How many features an arm has."""
    return int(getattr(policy, "dim", 0))


def _names(ids: Sequence[Any]) -> tuple[Any, ...]:
    """Names that a save can hold; NumPy's texts and numbers as Python's."""
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in ids)
    for place, name in enumerate(names):
        if not isinstance(name, str | int | float | tuple):
            raise InvalidArgument(f"arms[{place}]", name, "a text or a number")
    return names
